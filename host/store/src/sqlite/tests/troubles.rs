//! Full disks, failed commits, held locks and long-running readers.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::Connection;
use windlass_model::{Class, Delivery, Failure, LogLine, Payload, Token, Version};

use super::{OnDisk, Trouble, on_disk};
use crate::conformance::waiting::stimulus;
use crate::conformance::world::{Answers, DONE, Held, Member, batch, batch_of};
use crate::rows::{Created, NewRun};
use crate::sqlite::{Durability, SqliteOptions, SqliteStore};
use crate::write::{Commit, Fenced, Flush, Leave, Renew};
use crate::{Reader as _, Store, Verb as _, Write, Writer as _, codes};

fn member(disk: &OnDisk, options: SqliteOptions) -> (Arc<SqliteStore>, Member) {
    let store = SqliteStore::open(disk.path(), options).unwrap();
    (Arc::clone(&store), Member::of(store))
}

/// A step that writes this number of bytes.
fn heavy(member: &Member, held: &Held, bytes: usize) -> Commit {
    let mut step = member.chained(held, 2);
    let fill = held.fence.run.0.to_le_bytes().first().copied().unwrap_or(0);
    step.executions[0].output = Some(Payload::json(Bytes::from(vec![fill; bytes])));
    step
}

#[test]
fn failures_and_log_lines_count_as_bytes_that_wait() {
    let disk = on_disk();
    let (_store, member) = member(&disk, disk.options());
    let held = member.born();
    let mut step = heavy(&member, &held, 10);
    let weight = |step: &Commit| Write::from(step.clone()).weight();
    let before = weight(&step);
    let code = windlass_model::Code::new("WL-R001");
    let failure = Failure::new(Class::Permanent, code, "x".repeat(4_000));
    step.executions[0].failure = Some(failure);
    step.executions[0].logs = vec![LogLine {
        level: "info".to_owned(),
        message: "y".repeat(500),
        fields: vec![("z".repeat(20), "z".repeat(30))],
    }];
    assert_eq!(weight(&step) - before, 4_550);
}

#[test]
fn a_full_disk_loses_nothing() {
    let disk = on_disk();
    let bounded = SqliteOptions {
        max_bytes: Some(1 << 20),
        ..disk.options()
    };
    let (store, member) = member(&disk, bounded);
    let chains: Vec<Held> = (0..40).map(|_| member.born()).collect();
    let steps = chains.iter().map(|held| heavy(&member, held, 60_000));
    let answers = batch_of(&*store, steps);
    let mut written = Vec::new();
    let mut refused = Vec::new();
    for (held, answer) in chains.iter().zip(answers) {
        match answer {
            Ok(wrote) => {
                assert_eq!(wrote, DONE);
                written.push(*held);
            }
            Err(error) => {
                assert_eq!(
                    (error.code.clone(), error.transient),
                    (codes::FULL, true),
                    "{error}"
                );
                refused.push(*held);
            }
        }
    }
    assert!(
        written.len() > 5 && refused.len() > 5,
        "some fit and some do not"
    );
    // A small write still fits or is refused; in both cases the store keeps working.
    assert!(store.counts().is_ok());
    store.close();

    let (store, _) = self::member(&disk, disk.options());
    for (chains, version) in [(&written, 1), (&refused, 0)] {
        for held in chains {
            let row = store.run_by_no(held.fence.run).unwrap().unwrap();
            assert_eq!(row.version, Version(version));
            let runs = store.executions(row.no, None, 10).unwrap();
            assert_eq!(runs.len() as i64, version);
        }
    }
}

#[test]
fn a_commit_of_unknown_outcome_is_looked_up() {
    for trouble in [Trouble::Written, Trouble::NotWritten] {
        let disk = on_disk();
        let (store, member) = member(&disk, disk.options());
        let chains: Vec<Held> = (0..4).map(|_| member.born()).collect();
        store.shared.troubles.lock().push(trouble);
        let steps = chains.iter().map(|held| heavy(&member, held, 10));
        let mut writes: Vec<Write> = steps.map(Into::into).collect();
        writes.push(member.draft(1).into());
        let mut stale = member.chained(&chains[0], 2);
        stale.fence.epoch.0 += 1;
        writes.push(stale.into());
        let mut answers = batch(&*store, writes);
        let stale = Commit::answer(answers.pop().unwrap()).unwrap();
        let created = NewRun::answer(answers.pop().unwrap()).unwrap();
        assert_eq!((created, stale), (Ok(Created::New), Err(Fenced)));
        for answer in answers {
            assert_eq!(Commit::answer(answer).unwrap(), DONE, "{trouble:?}");
        }
        for held in &chains {
            assert_eq!(member.head(held.fence.run).version, Version(1));
            assert_eq!(member.commit(member.chained(&held.next(), 3)), DONE);
        }
        assert_eq!(store.counts().unwrap().executions, 8);
    }
}

#[test]
fn each_kind_of_write_survives_an_unknown_outcome() {
    for trouble in [Trouble::Written, Trouble::NotWritten] {
        let disk = on_disk();
        let (store, member) = member(&disk, disk.options());
        let trouble = || store.shared.troubles.lock().push(trouble);
        let no = member.create(member.draft(2));
        trouble();
        let claims = member.claim(10, 10, 1);
        assert_eq!(claims.runs[0].claimed.len(), 1, "a claim");
        let held = member.held(&claims.runs[0].row, &claims.runs[0].claimed[0]);
        trouble();
        assert_eq!(member.mark(&[held]), Ok(()), "a mark");
        trouble();
        let mut silent = member.chained(&held, 2);
        silent.executions.clear();
        assert_eq!(member.commit(silent), DONE, "a step without a record");
        assert_eq!(member.head(no).version, Version(1));
        trouble();
        let other = Member::of(Arc::clone(&store) as Arc<dyn Store>);
        assert_eq!(store.members().unwrap().len(), 2, "a join");
        trouble();
        let incarnation = other.incarnation;
        member.write(Leave { incarnation });
        trouble();
        let incarnation = member.incarnation;
        let renewed = member.write(Renew { incarnation });
        assert!(renewed.is_ok(), "a renewal");
        assert!(store.shared.troubles.lock().is_empty());
    }
}

#[test]
fn a_lock_that_is_held_is_waited_for_and_then_told() {
    let disk = on_disk();
    let (_, member) = member(
        &disk,
        SqliteOptions {
            busy_wait_ms: 200,
            ..disk.options()
        },
    );
    let held = member.born();
    let other = Connection::open(disk.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let step = || member.chained(&held, 2);
    let error = member.store.write(step()).unwrap_err();
    assert_eq!(
        (error.code.clone(), error.transient),
        (codes::BUSY, true),
        "{error}"
    );
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(member.commit(step()), DONE);
}

#[test]
fn the_log_is_bounded_under_a_reader_that_stays() {
    let disk = on_disk();
    let small = SqliteOptions {
        log_bytes: 1 << 20,
        log_bytes_max: 3 << 20,
        ..disk.options()
    };
    let (_, member) = member(&disk, small);
    let log = disk.directory.path().join("windlass.db-wal");
    let length = || std::fs::metadata(&log).unwrap().len();
    let reader = Connection::open(disk.path()).unwrap();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM execution")
        .unwrap();
    let mut held = member.born();
    let mut refused = None;
    for _ in 0..200 {
        match member.store.write(heavy(&member, &held, 60_000)) {
            Ok(wrote) => {
                assert_eq!(wrote, DONE);
                held = held.next();
            }
            Err(error) => refused = Some(error),
        }
    }
    let error = refused.unwrap();
    assert_eq!(
        (error.code.clone(), error.transient),
        (codes::LOG_TOO_LONG, true),
        "{error}"
    );
    assert!(length() < 4 << 20);
    reader.execute_batch("COMMIT").unwrap();
    for _ in 0..200 {
        assert_eq!(member.commit(heavy(&member, &held, 60_000)), DONE);
        held = held.next();
        assert!(length() < 2 << 20);
    }
}

#[test]
fn a_flush_reaches_the_disk_at_every_durability() {
    let disk = on_disk();
    let options = SqliteOptions {
        durability: Durability::Normal,
        ..disk.options()
    };
    let (store, member) = member(&disk, options);
    let held = member.born();
    let touches = || {
        let connection = Connection::open(disk.path()).unwrap();
        connection
            .query_row("SELECT count FROM touch", [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    let before = touches();
    assert_eq!(member.commit(member.chained(&held, 2)), DONE);
    assert_eq!(touches(), before);
    member.write(Flush);
    assert_eq!(touches(), before + 1, "its commit has something to flush");
    assert_eq!(member.commit(member.chained(&held.next(), 3)), DONE);
    store.close();
}

#[test]
fn a_write_without_a_record_is_done_once_after_every_answer_of_the_commit() {
    for trouble in [Trouble::Written, Trouble::NotWritten] {
        let disk = on_disk();
        let (store, member) = member(&disk, disk.options());
        let (no, _) = member.waiting("tick");
        for round in 1..4_u64 {
            let buffered = stimulus("nobody", Delivery::Buffer);
            let queued = stimulus("queued", Delivery::Resume);
            store.shared.troubles.lock().push(trouble);
            assert!(member.send(buffered).buffered);
            store.shared.troubles.lock().push(trouble);
            member.write(queued);
            let counts = store.counts().unwrap();
            assert_eq!(
                (counts.buffered, counts.queued),
                (round, round),
                "{trouble:?}"
            );
        }
        store.shared.troubles.lock().push(trouble);
        assert_eq!(
            member
                .send(stimulus("tick", Delivery::Buffer))
                .resumed
                .len(),
            1
        );
        assert_eq!(member.only_trigger(no).token, Token(2), "{trouble:?}");
        assert!(store.shared.troubles.lock().is_empty());
    }
}

#[test]
fn waiting_writes_are_bounded_by_their_bytes() {
    let disk = on_disk();
    let options = SqliteOptions {
        // Steps may use seven eighths of them.
        queue_bytes: 224_000,
        ..disk.options()
    };
    let (store, member) = member(&disk, options);
    let chains: Vec<Held> = (0..12).map(|_| member.born()).collect();
    // While the lock is held, the writer takes at most the first writes from the queue.
    let other = Connection::open(disk.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (sender, submitted) = std::sync::mpsc::channel();
    let answers = Arc::new(Answers::default());
    let (handed, sink) = (Arc::clone(&store), Arc::clone(&answers));
    std::thread::scope(|scope| {
        let (member, chains) = (&member, &chains);
        scope.spawn(move || {
            let sink: Arc<dyn crate::Sink> = sink;
            for (ticket, held) in (0..).zip(chains) {
                handed.submit(&sink, vec![(ticket, heavy(member, held, 60_000).into())]);
                sender.send(ticket).unwrap();
            }
        });
        // The writer may take the first write at once; four of 60 kB fill the queue; the next
        // submit blocks.
        let mut count = 0;
        while count < 4 {
            submitted.recv().unwrap();
            count += 1;
        }
        while store.shared.queue.waiting_bytes() < 200_000 {
            std::thread::yield_now();
        }
        assert!(store.shared.queue.waiting_bytes() <= 4 * 61_000);
        other.execute_batch("COMMIT").unwrap();
        let answers = answers.wait(chains.len());
        assert!(answers.iter().all(|(_, answer)| answer.is_ok()));
    });
}
