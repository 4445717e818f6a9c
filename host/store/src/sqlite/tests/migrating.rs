//! Files with older layouts, whose rows must be found after the migration, and programs of two
//! versions on one file.

use std::sync::Arc;

use rusqlite::Connection;
use uuid::Uuid;
use windlass_model::{Digest, Payload, RunId, RunNo, ScopeNo, Status, TriggerState};

use super::{OnDisk, on_disk};
use crate::conformance::upgrading::{Versions, upgrading};
use crate::conformance::world::{DONE, Member};
use crate::sql::layout::{Step, Steps};
use crate::sqlite::session::statements::{DUE, PRIORITY};
use crate::sqlite::{SqliteOptions, SqliteStore, locks};
use crate::{Reader as _, Result, Store, codes};

/// A run with three triggers, in the first layout: one is pending, one is claimed by a
/// process that no longer exists, and one is parked.
const FIRST: &str = "
    INSERT INTO definition VALUES (1, zeroblob(32), 'old', x'7b7d');
    INSERT INTO pins VALUES (1, zeroblob(32), x'7b7d');
    INSERT INTO instance (no, id, definition, pins, status, owner, epoch, version, state)
        VALUES (5, x'00000000000000000000000000000007', 1, 1, 1, 3, 2, 1, x'00');
    INSERT INTO origin VALUES (5, zeroblob(32), 'order', 1, x'7b7d', NULL);
    INSERT INTO var VALUES (5, 'v', x'31', NULL);
    INSERT INTO trigger VALUES
        (6, 5, 1, 1, 3, 10, 0, 0, 1, 0, 0, x'00', NULL),
        (7, 5, 2, 1, 3, 20, 1, 1, 1, 0, 0, x'00', NULL),
        (8, 5, 3, 1, 3, 30, 2, 1, 1, 0, 0, x'00', 'no plugin');
";

#[test]
fn a_file_of_the_first_layout_is_brought_up_to_date() {
    let disk = on_disk();
    let connection = Connection::open(disk.path()).unwrap();
    connection
        .execute_batch(include_str!("../schema.sql"))
        .unwrap();
    connection.execute_batch(FIRST).unwrap();
    connection.pragma_update(None, "user_version", 1).unwrap();
    drop(connection);
    let store = disk.store();
    let member = Member::of(store.clone());
    let no = RunNo(5);
    let row = store.run_by_no(no).unwrap().unwrap();
    assert_eq!(
        (row.id, row.status, row.parent, row.definition),
        (
            RunId(Uuid::from_u128(7)),
            Status::Running,
            None,
            Digest([0; 32])
        )
    );
    let vars = store.vars(no, ScopeNo::ROOT).unwrap();
    assert_eq!(vars, [("v".to_owned(), Payload::json("1"))]);
    let triggers = store.triggers(no).unwrap();
    assert!(
        triggers
            .iter()
            .all(|row| row.payload.is_none() && row.priority == 0)
    );
    assert_eq!(triggers[2].state, TriggerState::Parked);
    assert_eq!(member.reap(10), 1);
    let held = member.claim_all(20);
    assert_eq!(held.len(), 2);
    assert_eq!(member.commit(member.last(&held[0])), DONE);
    assert_eq!(store.counts().unwrap().triggers, 0);
    assert_ne!(store.secret().unwrap(), [0; 32]);
    let other = on_disk();
    assert_ne!(
        other.store().secret().unwrap(),
        store.secret().unwrap(),
        "every store has a secret of its own"
    );
}

impl Versions for OnDisk {
    fn open_as(&self, further: &'static [Step]) -> Result<Arc<dyn Store>> {
        let options = SqliteOptions {
            further,
            ..self.options()
        };
        Ok(SqliteStore::open(self.path(), options)?)
    }

    fn open_unmigrated(&self, further: &'static [Step]) -> Result<Arc<dyn Store>> {
        let options = SqliteOptions {
            further,
            migrates: false,
            ..self.options()
        };
        Ok(SqliteStore::open(self.path(), options)?)
    }

    fn layouts(&self) -> (i64, i64) {
        let connection = Connection::open(self.path()).unwrap();
        let found = connection.pragma_query_value(None, "user_version", |row| row.get(0));
        let demanded = connection.query_row("SELECT layout FROM requirement", [], |row| row.get(0));
        (found.unwrap(), demanded.unwrap())
    }
}

upgrading!(on_disk);

#[test]
fn a_living_member_that_has_noted_no_version_keeps_the_checksums_out() {
    let disk = on_disk();
    let connection = Connection::open(disk.path()).unwrap();
    for (number, step) in Steps::sqlite(&[]).after(0).take(8) {
        connection.execute_batch(step.sql).unwrap();
        connection
            .pragma_update(None, "user_version", number)
            .unwrap();
    }
    let member = "INSERT INTO member VALUES (7, 'of-4335c46', 99, 'boot', 1, 1, 1)";
    connection.execute_batch(member).unwrap();
    drop(connection);
    std::fs::create_dir(locks::directory(&disk.path())).unwrap();
    let lock = locks::join(&disk.path(), 7).unwrap();
    let refused = disk.open_as(&[]).err().unwrap();
    assert_eq!(refused.code, codes::MEMBERS_BEHIND);
    let named = "member 7 (of-4335c46, process 99, Windlass of an earlier layout)";
    assert!(refused.message.contains(named), "{refused}");
    assert_eq!(SqliteStore::layout(disk.path()).unwrap().found, 8);
    drop(lock);
    Member::of(disk.open_as(&[]).unwrap()).born();
}

#[test]
fn the_due_are_found_in_their_index_alone() {
    let disk = on_disk();
    disk.store();
    let connection = Connection::open(disk.path()).unwrap();
    let plan = |sql: &str| {
        let mut statement = connection
            .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
            .unwrap();
        let numbers = statement.parameter_count();
        let key = rusqlite::params_from_iter(vec![0; numbers]);
        let rows = statement.query_map(key, |row| row.get::<_, String>(3));
        rows.unwrap().collect::<Result<Vec<_>, _>>().unwrap()
    };
    for (sql, condition) in [
        (DUE, "(priority=? AND (due_ms,instance)>(?,?) AND due_ms<?)"),
        (PRIORITY.sqlite, "(priority<?)"),
    ] {
        let plan = plan(sql);
        assert_eq!(plan.len(), 1, "nothing is sorted: {plan:?}");
        let found = format!("SEARCH trigger USING COVERING INDEX trigger_due {condition}");
        assert_eq!(plan[0], found);
    }
}
