//! The same histories on SQLite and PostgreSQL give the same answers and the same rows.

use std::sync::Arc;

use tempfile::TempDir;
use windlass_model::Clock;

use super::in_database;
use crate::conformance::history::random_histories_agree;
use crate::conformance::{Harness, TestClock};
use crate::{SqliteOptions, SqliteStore, Store};

struct OnDisk {
    clock: Arc<TestClock>,
    directory: TempDir,
}

impl Harness for OnDisk {
    fn open(&self) -> Arc<dyn Store> {
        let options = SqliteOptions::new(Arc::clone(&self.clock) as Arc<dyn Clock>);
        SqliteStore::open(self.directory.path().join("windlass.db"), options).unwrap()
    }

    fn clock(&self) -> &TestClock {
        &self.clock
    }
}

/// Takes up to a minute: each operation of 48 histories is a transaction in two databases, and each
/// history begins with a new store.
#[test]
fn random_histories_are_those_of_sqlite() {
    let database = in_database();
    if database.is_there() {
        let sqlite = OnDisk {
            clock: Arc::default(),
            directory: TempDir::new().unwrap(),
        };
        random_histories_agree(&database, &sqlite);
    }
}
