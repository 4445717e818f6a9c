//! Bookmarks and their stimuli, committed over different connections at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use windlass_model::{Delivery, Status, TriggerState};

use super::in_database;
use crate::conformance::Harness as _;
use crate::conformance::waiting::stimulus;
use crate::conformance::world::{DONE, Held, Member, batch_of};
use crate::stimuli::NewStimulus;
use crate::write::Commit;

/// Stores on each side, each with connections of its own, like separate processes.
const SIDES: usize = 4;

/// The name and correlation of a race.
type About = fn(&Held) -> (String, Option<String>);

/// Races bookmarks against stimuli with these names and correlations, `races` for each store. Each
/// stimulus must meet its bookmark exactly once.
fn check(races: usize, about: About) {
    let database = in_database();
    if !database.is_there() {
        return;
    }
    let waiters: Vec<Member> = (0..SIDES).map(|_| Member::join(&database)).collect();
    let senders: Vec<Member> = (0..SIDES).map(|_| Member::join(&database)).collect();
    let held: Vec<Vec<Held>> = waiters
        .iter()
        .map(|waiter| (0..races).map(|_| waiter.born()).collect())
        .collect();
    let barrier = Barrier::new(2 * SIDES);
    let resumed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for (waiter, held) in waiters.iter().zip(&held) {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                for held in held {
                    let (name, correlation) = about(held);
                    let mut bookmark = waiter.bookmark(held, &name);
                    bookmark.correlation = correlation;
                    let step = waiter.suspending(held, vec![bookmark]);
                    let wrote = waiter.commit(step);
                    assert!(wrote.is_ok(), "{wrote:?}");
                }
            });
        }
        for (place, sender) in senders.iter().enumerate() {
            let (barrier, held, resumed) = (&barrier, &held, &resumed);
            scope.spawn(move || {
                barrier.wait();
                for round in 0..races {
                    // Each thread sends to all waiting runs in turn, at about the same
                    // position.
                    let held = &held[(place + round) % SIDES][round];
                    let (name, correlation) = about(held);
                    let sent = sender.send(NewStimulus {
                        correlation,
                        ..stimulus(&name, Delivery::Buffer)
                    });
                    assert_eq!(sent.resumed.len() + usize::from(sent.buffered), 1);
                    resumed.fetch_add(sent.resumed.len(), Ordering::Relaxed);
                }
            });
        }
    });
    for (waiter, held) in waiters.iter().zip(&held) {
        for held in held {
            let row = waiter.only_trigger(held.fence.run);
            assert!(row.payload.is_some(), "none is lost: {row:?}");
            let expected = (TriggerState::Pending, 2);
            assert_eq!(
                (row.state, row.token.0),
                expected,
                "none is doubled: {row:?}"
            );
        }
    }
    let counts = waiters[0].store.counts().unwrap();
    assert_eq!((counts.bookmarks, counts.buffered), (0, 0));
    let all = SIDES * races;
    let resumed = resumed.into_inner();
    eprintln!(
        "{all} races: {resumed} stimuli were late, {} early",
        all - resumed
    );
}

/// Takes half a minute: thousands of transactions race on a server that
/// other tests share.
#[test]
fn stimuli_of_many_names_meet_their_bookmarks_once() {
    check(500, |held| (held.fence.run.to_string(), None));
}

/// Takes up to half a minute, as the test above.
#[test]
fn stimuli_of_one_name_meet_their_bookmarks_once() {
    // The transactions take the lock of one hash in turn, and each holds it until it is durable.
    check(100, |held| {
        ("one".to_owned(), Some(held.fence.run.to_string()))
    });
}

/// A member looks at due triggers. Before it locks their runs, another member claims one and
/// leaves a waiting trigger in the same row. The waiting trigger must not be claimed.
#[test]
fn a_run_that_began_to_wait_since_it_was_seen_is_not_claimed() {
    let database = in_database();
    if !database.is_there() {
        return;
    }
    for paused in [false, true] {
        let store = database.store();
        let (slow, quick) = (Member::of(Arc::clone(&store) as _), Member::join(&database));
        let no = slow.create(slow.draft(1));
        let has_it = move || {
            let held = quick.claim_all(100)[0];
            let status = match paused {
                true => Status::Paused,
                false => Status::Suspended,
            };
            let step = Commit {
                status,
                ..quick.suspending(&held, vec![quick.bookmark(&held, "paid")])
            };
            assert_eq!(quick.commit(step), DONE);
        };
        // A connection's thread must not wait for an answer, so another thread does.
        let has_it = || std::thread::spawn(has_it).join().unwrap();
        *store.shared.between.lock() = Some(Box::new(has_it));
        let claims = slow.claim(100, 10, 10);
        assert!(claims.runs.is_empty(), "{claims:?}");
        let row = slow.only_trigger(no);
        assert_eq!((row.state, row.due_ms), (TriggerState::Pending, i64::MAX));
        assert_eq!(slow.head(no).owner, None);
        let claims = slow.claim(100, 10, 10);
        assert!(claims.runs.is_empty() && !claims.more, "{claims:?}");
        let sent = slow.send(stimulus("paid", Delivery::Resume));
        assert_eq!(sent.resumed.len(), 1);
    }
}

/// A transaction that locks several runs locks them in the order of their numbers, whether
/// they are resumed or end.
#[test]
fn a_batch_and_a_broadcast_never_wait_for_each_other() {
    let database = in_database();
    if !database.is_there() {
        return;
    }
    let (runs, sender) = (Member::join(&database), Member::join(&database));
    for _ in 0..300 {
        let [ends, goes_on] = [(); 2].map(|()| {
            let held = runs.born();
            let bookmarks = vec![runs.bookmark(&held, "go")];
            let step = Commit {
                bookmarks,
                ..runs.chained(&held, 2)
            };
            assert_eq!(runs.commit(step), DONE);
            held.next()
        });
        let commits = [runs.chained(&goes_on, 3), runs.last(&ends)];
        std::thread::scope(|scope| {
            scope.spawn(|| sender.send(stimulus("go", Delivery::Resume)));
            for answer in batch_of(&*runs.store, commits) {
                assert_eq!(answer.unwrap(), DONE);
            }
        });
        assert_eq!(runs.commit(runs.last(&goes_on.next())), DONE);
    }
    runs.store.close();
    sender.store.close();
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(database.ask(deadlocks).trim(), "0");
}
