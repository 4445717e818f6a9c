//! Several processes on one store, and the provider of their locks.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Millis;

/// Whether several processes share the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Cluster {
    /// Whether this process is one of several `serve` on one store. Set it for all of them.
    pub(crate) enabled: bool,
    /// Take part although the store or the locks reach no further than this machine. Set it only if
    /// all processes run on this machine.
    pub(crate) allow_local_locks: bool,
}

/// The provider of the locks in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Locks {
    /// The provider of the locks. `store`: the database of the store.
    pub(crate) provider: LockBackend,
    /// The lock server: `redis://HOST:PORT` or `postgres://USER@HOST/DATABASE`. Default for
    /// `postgres`: the store's.
    pub(crate) url: Option<String>,
    /// The directory in which `file` keeps its lock files and `sqlite` its database: the same for
    /// all processes. Default: `locks` beside a store that is a file, `.windlass/locks` otherwise.
    pub(crate) directory: Option<PathBuf>,
    /// How long a lock of `sqlite`, `postgres` or `redis` is held without a renewal. At least 1s.
    pub(crate) lease: Millis,
}

/// The provider of locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LockBackend {
    /// The database of the store.
    #[default]
    Store,
    /// This process, without other processes.
    InProcess,
    /// Files that processes on one machine lock.
    File,
    /// A SQLite database that processes on one machine share.
    Sqlite,
    /// A PostgreSQL server.
    Postgres,
    /// A Redis server.
    Redis,
}

impl Default for Locks {
    fn default() -> Self {
        Self {
            provider: LockBackend::Store,
            url: None,
            directory: None,
            lease: Millis(30_000),
        }
    }
}
