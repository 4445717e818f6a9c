//! The rows that remain in the file after deletions, and the size of the file.

use rusqlite::Connection;
use windlass_model::{Payload, TriggerType};

use super::{OnDisk, on_disk};
use crate::conformance::forgetting::full;
use crate::conformance::trees::nothing;
use crate::conformance::world::{DONE, DUE, Member};
use crate::external::Touched;
use crate::retention::{Forget, Sweep, Sweepable, Swept};
use crate::sqlite::{Durability, SqliteOptions, SqliteStore};

fn forget_all(member: &Member, at_ms: i64) {
    for row in member.store.expired(i64::MAX, i64::MAX, 10_000).unwrap() {
        let forget = Forget {
            run: row.no,
            before_ms: i64::MAX,
            rows: 100,
            at_ms,
        };
        while member.write(forget).more {}
    }
    for what in Sweepable::ALL {
        let sweep = Sweep {
            what,
            before_ms: i64::MAX,
            rows: 100,
            at_ms: 0,
        };
        while member.write(sweep).more {}
    }
}

fn small(disk: &OnDisk) -> Member {
    let options = SqliteOptions {
        log_bytes: 1 << 20,
        durability: Durability::Normal,
        ..disk.options()
    };
    Member::of(SqliteStore::open(disk.path(), options).unwrap())
}

/// The number of rows of every table that is about runs.
fn rows(connection: &Connection) -> Vec<(String, i64)> {
    let apart = [
        "member",
        "definition",
        "pins",
        "requirement",
        "touch",
        "sqlite_sequence",
        "own",
        "trace",
    ];
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table'";
    let mut tables = connection.prepare(sql).unwrap();
    let tables = tables.query_map([], |row| row.get::<_, String>(0)).unwrap();
    tables
        .map(Result::unwrap)
        .filter(|table| !apart.contains(&&**table))
        .map(|table| {
            let sql = format!("SELECT count(*) FROM {table}");
            let count = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
            (table, count)
        })
        .collect()
}

#[test]
fn nothing_is_left_of_the_forgotten_in_any_table() {
    let disk = on_disk();
    let member = small(&disk);
    let payload = Payload::json(format!("\"{}\"", "x".repeat(100_000)));
    full(&member, 20, &payload);
    let mut new = member.draft(3);
    new.reserves = vec!["one".into()];
    member.create(new);
    let held = member.claim_all(10);
    assert_eq!(member.commit(member.last(&held[0])), DONE);
    let root = member.born();
    let child = member.bear(member.bearing(&root, nothing)).unwrap();
    let child = member.take(child);
    let id = member.head(root.fence.run).id;
    assert_eq!(member.asked(id, TriggerType::Cancel, 50), Touched::Done);
    assert_eq!(member.commit(member.last(&child)), DUE);
    let mut last = member.last(&root.next());
    last.executions.clear();
    assert_eq!(member.commit(last), DONE);
    let connection = Connection::open(disk.path()).unwrap();
    let before = rows(&connection);
    for table in [
        "run",
        "origin",
        "execution",
        "var",
        "scope",
        "item",
        "journal",
        "blob",
        "tree",
        "ending",
    ] {
        let filled = before
            .iter()
            .any(|(name, count)| name == table && *count > 0);
        assert!(filled, "{table} has something to forget: {before:?}");
    }
    forget_all(&member, 0);
    let left: Vec<_> = rows(&connection)
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .collect();
    assert_eq!(left, []);
}

#[test]
fn the_file_does_not_grow_under_a_steady_load() {
    let disk = on_disk();
    let member = small(&disk);
    let connection = Connection::open(disk.path()).unwrap();
    let pages = || -> i64 {
        connection
            .pragma_query_value(None, "page_count", |row| row.get(0))
            .unwrap()
    };
    let round = |round: i64| {
        for _ in 0..20 {
            let fill = format!("\"{round}{}\"", "x".repeat(70_000));
            full(&member, 5, &Payload::json(fill));
        }
        forget_all(&member, round);
    };
    (0..5).for_each(round);
    let before = pages();
    (5..25).for_each(round);
    assert!(
        pages() <= before + before / 20,
        "{before} pages have become {}",
        pages()
    );
}

#[test]
fn pages_are_given_back_once_the_load_is_over() {
    let disk = on_disk();
    let member = small(&disk);
    let connection = Connection::open(disk.path()).unwrap();
    let pages = || -> i64 {
        connection
            .pragma_query_value(None, "page_count", |row| row.get(0))
            .unwrap()
    };
    for each in 0..200 {
        let fill = format!("\"{each}{}\"", "x".repeat(70_000));
        full(&member, 1, &Payload::json(fill));
    }
    let most = pages();
    for row in member.store.expired(i64::MAX, i64::MAX, 1000).unwrap() {
        let (run, before_ms, rows, at_ms) = (row.no, i64::MAX, 1000, 0);
        member.write(Forget {
            run,
            before_ms,
            rows,
            at_ms,
        });
    }
    let slice = |what| {
        let (before_ms, rows) = (i64::MAX, 40);
        member.write(Sweep {
            what,
            before_ms,
            rows,
            at_ms: 0,
        })
    };
    let swept = Swept {
        count: 40,
        more: true,
    };
    assert_eq!(slice(Sweepable::Blobs), swept);
    assert_eq!(slice(Sweepable::Pages), swept);
    assert_eq!(pages(), most - 40);
    forget_all(&member, 0);
    assert!(
        most > 3000 && pages() < most / 5,
        "{most} pages have become {}",
        pages()
    );
    let sound: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(sound, "ok");
}
