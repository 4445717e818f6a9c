//! A SQLite file, and a PostgreSQL database.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use windlass_model::Clock;
use windlass_store::{Durability, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore};
use windlass_test_servers::PostgreSql;

use super::ReplayStores;
use super::pace::{Ahead, Pace};

/// A SQLite file in a directory of its own.
pub(super) struct OnDisk {
    directory: TempDir,
    durability: Durability,
}

impl OnDisk {
    pub(super) fn new(durability: Durability) -> Self {
        // A directory in memory serves as well, and flushing it costs nothing.
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() {
            tempfile::tempdir_in(memory).unwrap()
        } else {
            tempfile::tempdir().unwrap()
        };
        Self {
            directory,
            durability,
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join("windlass.db")
    }

    /// The lock files of members that exist.
    pub(super) fn locks(&self) -> Vec<OsString> {
        let files = std::fs::read_dir(self.members()).unwrap();
        files.map(|file| file.unwrap().file_name()).collect()
    }

    /// Makes lock files that no process holds.
    pub(super) fn leave_locks(&self, names: &[OsString]) {
        std::fs::create_dir_all(self.members()).unwrap();
        for name in names {
            std::fs::File::create(self.members().join(name)).unwrap();
        }
    }

    fn members(&self) -> PathBuf {
        self.directory.path().join("windlass.db-members")
    }
}

impl ReplayStores for OnDisk {
    type Handle = SqliteStore;

    fn open(&self, pace: &Arc<Pace>) -> Arc<SqliteStore> {
        let options = SqliteOptions {
            durability: self.durability,
            read_connections: 1,
            ..SqliteOptions::new(Arc::clone(pace) as Arc<dyn Clock>)
        };
        pace.while_opening(|| SqliteStore::open(self.path(), options).unwrap())
    }
}

/// A database in the server that all tests of this process share.
pub(super) struct InDatabase {
    url: String,
}

impl InDatabase {
    /// Whether there is a server. If there is none, the test says so.
    pub(super) fn can_be() -> bool {
        PostgreSql::shared().unwrap().is_some()
    }

    pub(super) fn new() -> Self {
        let server = PostgreSql::shared().unwrap().unwrap();
        let url = server.database().unwrap();
        Self { url }
    }
}

impl ReplayStores for InDatabase {
    type Handle = PostgresStore;

    fn open(&self, pace: &Arc<Pace>) -> Arc<PostgresStore> {
        let options = PostgresOptions {
            ahead: Some(Arc::new(Ahead(Arc::clone(pace)))),
            read_connections: 1,
            ..PostgresOptions::new(Arc::clone(pace) as Arc<dyn Clock>)
        };
        PostgresStore::open(&self.url, options).unwrap()
    }
}
