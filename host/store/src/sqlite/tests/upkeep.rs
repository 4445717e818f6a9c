//! Checks, copies and migrations of a whole file.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use windlass_model::{Delivery, Payload};

use super::{OnDisk, on_disk};
use crate::Reader as _;
use crate::conformance::publishing::{draft, publish};
use crate::conformance::waiting::stimulus;
use crate::conformance::world::{DONE, DUE, Member};
use crate::rows::Parent;
use crate::sqlite::SqliteStore;
use crate::write::Commit;

/// A consistent store with a row of each kind, whose process has ended.
fn furnished() -> OnDisk {
    let disk = on_disk();
    let member = Member::join(&disk);
    let mut tagged = member.draft(2);
    tagged.tags = [("customer".to_owned(), "acme".to_owned())].into();
    member.create(tagged);
    let held = member.born();
    let mut step = member.chained(&held, 2);
    step.executions[0].output = Some(Payload::json(vec![b'1'; 100_000]));
    assert_eq!(member.commit(step), DONE);
    member.waiting("paid");
    let over = member.born();
    assert_eq!(member.commit(member.last(&over)), DONE);
    let parent = member.born();
    let mut child = member.draft(1);
    child.reserves = vec!["key".into()];
    child.parent = Some(Parent {
        run: parent.fence.run,
        id: member.head(parent.fence.run).id,
        trigger: parent.trigger.no,
        seq: windlass_model::Seq(1),
        depth: 1,
        root: parent.fence.run,
        flow: "w".into(),
        undoes: false,
    });
    let step = Commit {
        children: vec![child],
        triggers: vec![member.trigger(2)],
        ..member.step(&parent)
    };
    assert_eq!(member.commit(step), DUE);
    assert!(member.send(stimulus("early", Delivery::Buffer)).buffered);
    publish(&member, draft("flow"));
    member.die();
    disk
}

fn broken(disk: &OnDisk) -> Vec<String> {
    let findings = SqliteStore::check(disk.path()).unwrap();
    assert!(
        findings
            .iter()
            .all(|finding| finding.count as usize >= finding.examples.len())
    );
    findings.into_iter().map(|finding| finding.rule).collect()
}

#[test]
fn a_store_that_is_as_it_has_to_be_has_no_findings() {
    assert_eq!(broken(&furnished()), Vec::<String>::new());
    let open = furnished();
    let _store = open.store();
    assert_eq!(
        broken(&open),
        Vec::<String>::new(),
        "beside a process that works on it"
    );
}

/// Damages a store, and checks the findings.
#[track_caller]
fn check(sql: &str, rules: &[&str]) {
    let disk = furnished();
    let connection = Connection::open(disk.path()).unwrap();
    connection.execute_batch(sql).unwrap();
    drop(connection);
    assert_eq!(broken(&disk), rules, "{sql}");
}

#[test]
fn contradictions_in_the_tables_are_found() {
    check(
        "UPDATE run SET owner = NULL",
        &["a claimed trigger belongs to a run that has an owner"],
    );
    check(
        "DELETE FROM trigger WHERE run = (SELECT max(run) FROM trigger)",
        &["a run that has not ended has a trigger"],
    );
    check(
        "UPDATE run SET owner = 1 WHERE status >= 4",
        &["a run that has ended has no owner and no trigger"],
    );
    check(
        "DELETE FROM pins",
        &["a run has an origin, a definition and pins"],
    );
    check(
        "UPDATE trigger SET seq = 1",
        &["a trigger of the engine is there once"],
    );
    check(
        "DELETE FROM execution",
        &["the newest record of a run is there"],
    );
    check(
        "INSERT INTO var (run, scope, name) VALUES (1, 0, 'v'); INSERT INTO trigger (no, run, seq, \
            kind, due_ms, state, token, attempt, deliveries, suspicion, detail) \
            VALUES (1, 1, 1, 1, 1, 0, 0, 1, 0, 0, x'')",
        &["a trigger belongs to a run", "a row of a run has its run"],
    );
    for sql in [
        "DELETE FROM run_tag",
        "UPDATE origin SET tags = NULL",
        "UPDATE run_tag SET created_ms = created_ms + 1",
    ] {
        check(sql, &["a run is found by its tags"]);
    }
    check(
        "UPDATE bookmark SET trigger = 1",
        &["a bookmark names a row of its run"],
    );
    check(
        "UPDATE stimulus SET ready_ms = 1",
        &["a stimulus waits either in the queue or for its bookmark"],
    );
    check(
        "DELETE FROM blob",
        &["a row that another row refers to exists"],
    );
    check(
        "UPDATE publication SET retracted_ms = 1",
        &["a start of a workflow belongs to its published version"],
    );
    check(
        "UPDATE blob SET content = x'00'; UPDATE definition SET json = x'7b7d'",
        &[
            "content has the digest that names it",
            "a value has the checksum with which it was written",
        ],
    );
}

#[test]
fn objects_that_the_layout_does_not_have_are_found() {
    let objects = ["the database has the tables and indexes of its layout alone"];
    for sql in [
        "CREATE TRIGGER t AFTER INSERT ON execution BEGIN DELETE FROM execution; END",
        "CREATE TEMP TABLE x (a); CREATE VIEW \"v\nw\" AS SELECT 1",
        "CREATE TABLE mine (a)",
        "CREATE INDEX mine ON execution (no)",
        "ALTER TABLE blob RENAME TO blobs; CREATE VIEW blob AS SELECT * FROM blobs",
        "DROP INDEX blob_loose_since",
        "ALTER TABLE execution ADD COLUMN mine INTEGER",
    ] {
        check(sql, &objects);
    }
    check("ANALYZE", &[]);
}

#[test]
fn a_damaged_file_is_found() {
    let disk = furnished();
    let connection = Connection::open(disk.path()).unwrap();
    connection
        .execute_batch(
            "PRAGMA writable_schema = ON; \
            UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema \
            WHERE name = 'pins') WHERE name = 'blob_loose_since'; PRAGMA writable_schema = OFF;",
        )
        .unwrap();
    drop(connection);
    match SqliteStore::check(disk.path()) {
        Ok(findings) => assert_eq!(findings[0].rule, "the file is whole", "{findings:?}"),
        Err(error) => assert_eq!(error.code.to_string(), "WL-S004", "{error}"),
    }
}

#[test]
fn a_copy_is_a_whole_store_while_others_write() {
    let disk = furnished();
    let copies = on_disk();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let member = Member::join(&disk);
            while !done.load(Ordering::SeqCst) {
                let held = member.born();
                assert_eq!(member.commit(member.chained(&held, 2)), DONE);
            }
        });
        for number in 0..10 {
            let copy = copies.directory.path().join(format!("{number}.db"));
            SqliteStore::backup(disk.path(), &copy).unwrap();
            assert_eq!(SqliteStore::check(&copy).unwrap(), []);
        }
        done.store(true, Ordering::SeqCst);
    });
    let copy = copies.directory.path().join("9.db");
    let store = SqliteStore::open(&copy, disk.options()).unwrap();
    assert!(store.counts().unwrap().runs > 0, "it can be worked on");
    let names: Vec<_> = std::fs::read_dir(copies.directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("unfinished"))
        .collect();
    assert_eq!(names, Vec::<String>::new(), "nothing half is left");
}

#[test]
fn a_copy_takes_no_place_of_another_file() {
    let disk = furnished();
    let other = disk.directory.path().join("mine.txt");
    std::fs::write(&other, "mine").unwrap();
    let refused = SqliteStore::backup(disk.path(), &other).unwrap_err();
    assert_eq!(refused.code.to_string(), "WL-S019");
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "mine");
    let nowhere = Path::new("/nowhere/at/all.db");
    assert!(SqliteStore::backup(disk.path(), nowhere).is_err());
    let none = disk.directory.path().join("none.db");
    assert!(SqliteStore::backup(&none, disk.directory.path().join("new.db")).is_err());
    assert!(!none.exists());
}
