//! The suite, on a real file, and what only SQLite does.

use std::sync::Arc;

use tempfile::TempDir;
use windlass_model::Clock;

use super::{SqliteOptions, SqliteStore};
use crate::Store;
use crate::conformance::{Harness, TestClock};

struct OnDisk {
    clock: Arc<TestClock>,
    directory: TempDir,
}

fn on_disk() -> OnDisk {
    OnDisk {
        clock: Arc::default(),
        directory: TempDir::new().unwrap(),
    }
}

impl OnDisk {
    fn options(&self) -> SqliteOptions {
        SqliteOptions::new(Arc::clone(&self.clock) as Arc<dyn Clock>)
    }

    fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("windlass.db")
    }

    fn store(&self) -> Arc<SqliteStore> {
        SqliteStore::open(self.path(), self.options()).unwrap()
    }
}

impl Harness for OnDisk {
    fn open(&self) -> Arc<dyn Store> {
        self.store()
    }

    fn clock(&self) -> &TestClock {
        &self.clock
    }
}

crate::conformance!(on_disk);
