//! The conformance suite on a real file, and tests of SQLite's own features.

mod altered;
mod crashing;
mod damage;
mod forgetting;
mod listing;
mod marking;
mod migrating;
mod mutating;
mod opening;
mod sharing;
mod tearing;
mod troubles;
mod upkeep;

use std::sync::Arc;

use rusqlite::{Connection, ffi};
use tempfile::TempDir;
use windlass_model::Clock;

pub(super) use self::mutating::{Watched, watch};
use super::shared::SqliteShared;
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
        SqliteOptions {
            mark_at_once: true,
            ..SqliteOptions::new(Arc::clone(&self.clock) as Arc<dyn Clock>)
        }
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

/// The same store, with every bound as tight as possible.
struct Cramped(OnDisk);

impl Harness for Cramped {
    fn open(&self) -> Arc<dyn Store> {
        let options = SqliteOptions {
            queue_writes: 2,
            group_writes: 2,
            read_connections: 1,
            ..self.0.options()
        };
        SqliteStore::open(self.0.path(), options).unwrap()
    }

    fn clock(&self) -> &TestClock {
        self.0.clock()
    }
}

#[test]
fn tight_bounds_change_nothing() {
    for case in [
        "large_batches_are_answered_in_order",
        "many_submitters_are_all_answered",
        "neighbours_of_the_refused_go_on",
        "random_histories_agree_with_the_model",
        "threads_never_claim_the_same",
    ] {
        crate::conformance::check(case, &Cramped(on_disk()));
    }
}

/// A fault of a commit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trouble {
    /// The group is in the file, but SQLite reports a failure.
    Written,
    /// The group is not in the file, and SQLite reports a failure.
    NotWritten,
}

/// Injects the fault that a test has ordered.
pub(super) fn make_trouble(shared: &SqliteShared, connection: &Connection) -> rusqlite::Result<()> {
    let mut troubles = shared.troubles.lock();
    let sql = match troubles.pop() {
        None => return Ok(()),
        Some(Trouble::Written) => "COMMIT",
        Some(Trouble::NotWritten) => "ROLLBACK",
    };
    connection.execute_batch(sql)?;
    Err(rusqlite::Error::SqliteFailure(
        ffi::Error::new(ffi::SQLITE_IOERR),
        None,
    ))
}
