//! Makes a provider from settings: the one place that names all providers.

use std::sync::Arc;

use crate::in_process::InProcess;
use crate::parts::Parts;
use crate::provider::{Error, LockProvider};
use crate::retry::{Policy, Retrying};
use crate::{file, sqlite};

/// The provider and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settings {
    /// Locks that only this process sees.
    InProcess,
    /// Lock files in a directory.
    File(file::Options),
    /// Leases in a SQLite file.
    Sqlite(sqlite::Options),
    /// Leases in a PostgreSQL database.
    #[cfg(feature = "postgres")]
    Postgres(crate::postgres::Options),
    /// Leases in Redis.
    #[cfg(feature = "redis")]
    Redis(crate::redis::Options),
}

/// Makes the provider that the settings name, with [`Retrying`] around those that have a backend.
///
/// Does not connect to a server before the first lock is requested. Blocks for a moment if files
/// have to be opened.
///
/// # Errors
///
/// The settings are wrong, or a file cannot be opened.
pub fn open(settings: &Settings, parts: Parts) -> Result<Arc<dyn LockProvider>, Error> {
    Ok(Arc::new(Retrying::new(
        open_bare(settings, parts.clone())?,
        Policy::default(),
        parts,
    )))
}

/// As [`open`], without retries.
pub(crate) fn open_bare(settings: &Settings, parts: Parts) -> Result<Arc<dyn LockProvider>, Error> {
    match settings {
        Settings::InProcess => Ok(Arc::new(InProcess::new(parts))),
        Settings::File(options) => Ok(Arc::new(file::Files::open(options, parts)?)),
        Settings::Sqlite(options) => sqlite::open(options, parts),
        #[cfg(feature = "postgres")]
        Settings::Postgres(options) => crate::postgres::open(options, parts),
        #[cfg(feature = "redis")]
        Settings::Redis(options) => crate::redis::open(options, parts),
    }
}
