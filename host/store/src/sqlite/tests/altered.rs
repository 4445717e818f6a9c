//! Values that were changed behind the store's back are detected, and only their own run or
//! row is affected.

use std::sync::Arc;

use rusqlite::Connection;
use windlass_model::{Body, Payload, RunNo, ScopeNo};

use super::{OnDisk, on_disk};
use crate::conformance::world::{DONE, Held, Member};
use crate::sqlite::SqliteStore;
use crate::{Error, Reader as _, Store, codes};

/// A store of two runs with every kind of row that has a checksum.
fn filled() -> (OnDisk, Arc<SqliteStore>, Member, [Held; 2]) {
    let disk = on_disk();
    let store = disk.store();
    let member = Member::of(Arc::clone(&store) as Arc<dyn Store>);
    let held = [0, 1].map(|_| {
        let held = member.born();
        let mut step = member.chained(&held, 2);
        let large = Payload::json(bytes::Bytes::from(vec![b'7'; 100_000]));
        step.vars = vec![
            (ScopeNo::ROOT, "small".to_owned(), Payload::json("1")),
            (ScopeNo::ROOT, "large".to_owned(), large),
        ];
        step.scopes = vec![(ScopeNo(3), Some(bytes::Bytes::from_static(b"scope")))];
        step.executions[0].output = Some(Payload::json("{\"out\":1}"));
        assert_eq!(member.commit(step), DONE);
        held.next()
    });
    (disk, store, member, held)
}

fn behind_its_back(disk: &OnDisk, sql: &str) {
    let connection = Connection::open(disk.path()).unwrap();
    connection.execute_batch(sql).unwrap();
}

fn findings(disk: &OnDisk) -> Vec<String> {
    let findings = SqliteStore::check(disk.path()).unwrap();
    findings
        .into_iter()
        .flat_map(|finding| finding.examples)
        .collect()
}

fn large_of(store: &SqliteStore, no: RunNo) -> Result<(), Error> {
    let vars = store.vars(no, ScopeNo::ROOT)?;
    for (_, value) in vars {
        if let Body::Blob(blob) = value.body {
            store.blob(blob)?;
        }
    }
    Ok(())
}

#[test]
fn an_unaltered_store_has_no_findings() {
    let (disk, store, member, held) = filled();
    assert_eq!(findings(&disk), [""; 0]);
    let last = member.last(&held[0]);
    assert_eq!(member.commit(last), DONE);
    assert_eq!(findings(&disk), [""; 0]);
    store.close();
    assert_eq!(findings(&disk), [""; 0]);
}

#[test]
fn altered_rows_are_found_by_reading_and_by_the_check() {
    type Read = fn(&SqliteStore, RunNo) -> Result<(), Error>;
    let damages: [(&str, &str, Read); 5] = [
        (
            "UPDATE origin SET input = x'32' WHERE run = ",
            "the input of run",
            |store, no| store.input(no).map(drop),
        ),
        (
            "UPDATE var SET body = x'32' WHERE name = 'small' AND run = ",
            "the variable `small`",
            |store, no| store.vars(no, ScopeNo::ROOT).map(drop),
        ),
        (
            "UPDATE scope SET state = x'00' WHERE run = ",
            "the state of scope 3",
            |store, no| store.scopes(no).map(drop),
        ),
        (
            "UPDATE execution SET output = x'7b7d' WHERE run = ",
            "the output of record",
            |store, no| store.executions(no, None, 10).map(drop),
        ),
        (
            "UPDATE blob SET content = zeroblob(100000) WHERE 0 < ",
            "a large value",
            large_of,
        ),
    ];
    for (sql, told, read) in damages {
        let (disk, store, _member, [first, second]) = filled();
        let no = first.fence.run;
        behind_its_back(&disk, &format!("{sql}{}", no.0));
        let error = read(&store, no).unwrap_err();
        assert_eq!(error.code, codes::ALTERED, "{sql}: {error}");
        assert!(error.message.contains(told), "{error}");
        assert!(findings(&disk).iter().any(|line| line.contains(told)));
        if told != "a large value" {
            read(&store, second.fence.run).unwrap();
        }
        // One altered value does not make the store as a whole unhealthy.
        store.probe().unwrap();
    }
}

#[test]
fn rows_that_changed_places_are_noticed() {
    let (disk, store, _member, [first, second]) = filled();
    let (one, two) = (first.fence.run, second.fence.run);
    behind_its_back(
        &disk,
        &format!(
            "UPDATE execution SET (output, sum) = (SELECT output, sum FROM execution WHERE run = {}) \
             WHERE run = {}",
            one.0, two.0
        ),
    );
    assert_eq!(
        store.executions(two, None, 10).unwrap_err().code,
        codes::ALTERED
    );
    store.executions(one, None, 10).unwrap();
}

#[test]
fn a_run_with_an_altered_state_is_claimed_as_unsound_and_others_as_sound() {
    let (disk, _store, member, [first, second]) = filled();
    member.die();
    let altered = first.fence.run;
    let sql = format!("UPDATE run SET state = x'ff' WHERE no = {}", altered.0);
    behind_its_back(&disk, &sql);
    assert!(
        findings(&disk)
            .iter()
            .any(|line| line.contains("the state of run"))
    );
    let next = Member::of(disk.store() as Arc<dyn Store>);
    assert_eq!(next.reap(10), 2);
    let claims = next.claim(i64::MAX, 10, 10);
    let sound = |no: RunNo| {
        let claimed = claims.runs.iter().find(|one| one.row.no == no);
        claimed.unwrap().row.sound
    };
    assert!(!sound(altered) && sound(second.fence.run));
}

#[test]
fn content_without_its_checksum_is_noticed() {
    let (disk, store, _member, [first, _]) = filled();
    behind_its_back(&disk, "UPDATE execution SET sum = NULL");
    let error = store.executions(first.fence.run, None, 10).unwrap_err();
    assert_eq!(error.code, codes::ALTERED, "{error}");
    assert_ne!(findings(&disk), [""; 0]);
}
