//! Several processes on one store: whether there are, and who gives out the locks.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Millis;

/// Whether several processes share the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Cluster {
    /// Whether this process is one of several `serve` on one store. All of them say so.
    pub(crate) enabled: bool,
    /// Take part although the store or the locks reach no further than this machine. Only where
    /// all processes run on it.
    pub(crate) allow_local_locks: bool,
}

/// Who gives out the locks in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Locks {
    /// Who gives out the locks. `store`: the database that the store is in.
    pub(crate) provider: LockBackend,
    /// Where the server is: `redis://HOST:PORT` or `postgres://USER@HOST/DATABASE`. Default for
    /// `postgres`: the store's.
    pub(crate) url: Option<String>,
    /// Where `file` keeps its lock files and `sqlite` its database: the same for all processes.
    /// Default: `locks` beside a store that is a file, `.windlass/locks` otherwise.
    pub(crate) directory: Option<PathBuf>,
    /// How long a lock of `sqlite`, `postgres` or `redis` holds without being renewed. At
    /// least 1s.
    pub(crate) lease: Millis,
}

/// Who gives out locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LockBackend {
    /// The database that the store is in.
    #[default]
    Store,
    /// This process, for itself alone.
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
