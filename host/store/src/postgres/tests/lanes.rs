//! Writes of several keys, which are carried out in parallel, and barriers between them.

use std::sync::Arc;

use super::{InDatabase, Keyed, in_database};
use crate::conformance::world::{Answers, DONE, Held, Member};
use crate::postgres::{PostgresOptions, PostgresStore};
use crate::write::{Claim, ClaimScope, Commit, Fenced, Flush, Leave};
use crate::{Order, Result, Sink, Store as _, Ticket, Verb as _, Write, Writer as _, Wrote};

const LANES: usize = 4;

fn open(database: &InDatabase) -> Arc<PostgresStore> {
    let options = PostgresOptions {
        write_connections: LANES,
        ..database.options()
    };
    PostgresStore::open(database.url.as_deref().unwrap(), options).unwrap()
}

fn step(member: &Member, held: &Held, seq: u64) -> Write {
    member.chained(held, seq).into()
}

#[test]
fn keyed_writes_are_answered_in_order_despite_barriers() {
    const KEYS: usize = 2 * LANES;
    const RUNS: usize = 3;
    const STEPS: u64 = 60;
    let database = in_database();
    if database.url.is_none() {
        return;
    }
    let store = open(&database);
    let member = Member::of(Arc::<PostgresStore>::clone(&store));
    std::thread::scope(|scope| {
        for no in 0..KEYS {
            let (store, member) = (&store, &member);
            scope.spawn(move || {
                let keyed = Keyed::new(no);
                let mut held: Vec<Held> = (0..RUNS).map(|_| member.born()).collect();
                let mut ticket = 0;
                for seq in 0..STEPS {
                    let writes = held.iter_mut().map(|held| {
                        let write = step(member, held, seq + 2);
                        *held = held.next();
                        ticket += 1;
                        (ticket - 1, write)
                    });
                    keyed.submit(store, writes.collect());
                    if seq % 7 == no as u64 % 7 {
                        store.write(Flush).unwrap();
                    }
                }
                let all = usize::try_from(ticket).unwrap();
                let answers = keyed.answers.wait(all);
                let tickets: Vec<Ticket> = answers.iter().map(|(ticket, _)| *ticket).collect();
                assert_eq!(tickets, (0..ticket).collect::<Vec<_>>());
                for (ticket, answer) in answers {
                    assert_eq!(Commit::answer(answer).unwrap(), DONE, "{ticket}");
                }
                for held in held {
                    let head = member.head(held.fence.run);
                    assert_eq!(head.version.0.cast_unsigned(), STEPS);
                }
            });
        }
    });
    let runs = (KEYS * RUNS) as u64 * STEPS;
    assert_eq!(member.store.counts().unwrap().executions, runs);
}

#[test]
fn a_barrier_comes_after_all_keyed_writes_before_it() {
    const ROUNDS: usize = 60;
    let database = in_database();
    if database.url.is_none() {
        return;
    }
    let store = open(&database);
    let member = Member::of(Arc::<PostgresStore>::clone(&store));
    let all_keyed: Vec<_> = (0..LANES).map(Keyed::new).collect();
    for round in 0..ROUNDS {
        for keyed in &all_keyed {
            // The batches have different sizes, so that the lanes reach the claim at different
            // times.
            let news = (0..=(keyed.key + round) % LANES * 5).map(|_| member.draft(1));
            let creates = (0..).zip(news.map(Write::from));
            keyed.submit(&store, creates.collect());
        }
        let claims = member.claim(10, 1000, 10);
        let expected: usize = (0..LANES).map(|no| (no + round) % LANES * 5 + 1).sum();
        assert_eq!(claims.runs.len(), expected, "in round {round}");
    }
}

#[test]
fn keyed_writes_come_after_a_barrier_before_them() {
    const ROUNDS: usize = 60;
    let database = in_database();
    if database.url.is_none() {
        return;
    }
    let store = open(&database);
    let all_keyed: Vec<_> = (0..LANES).map(Keyed::new).collect();
    for round in 0..ROUNDS {
        let member = Member::of(Arc::<PostgresStore>::clone(&store));
        let held: Vec<Held> = all_keyed.iter().map(|_| member.born()).collect();
        for (keyed, held) in all_keyed.iter().zip(&held) {
            keyed.submit(&store, vec![(1, step(&member, held, 2))]);
        }
        let barrier = Arc::new(Answers::default());
        let sink: Arc<dyn Sink> = Arc::<Answers>::clone(&barrier);
        let incarnation = member.incarnation;
        // The second barrier write joins the barrier of the first.
        store.submit(&sink, vec![(7, Leave { incarnation }.into())]);
        let claim = Claim {
            incarnation,
            now_ms: 10,
            runs: 10,
            triggers: 10,
            bytes: u64::MAX,
            scope: ClaimScope::All,
        };
        store.submit(&sink, vec![(8, claim.into())]);
        for (keyed, held) in all_keyed.iter().zip(&held) {
            keyed.submit(&store, vec![(2, step(&member, &held.next(), 3))]);
        }
        for keyed in &all_keyed {
            let answers = keyed.answers.wait(2);
            assert!(
                matches!(
                    answers[..],
                    [
                        (1, Ok(Wrote::Commit(DONE))),
                        (2, Ok(Wrote::Commit(Err(Fenced))))
                    ]
                ),
                "{answers:?} in round {round}"
            );
        }
        let answers = barrier.wait(2);
        let [(7, Ok(Wrote::Leave(()))), (8, Ok(Wrote::Claim(claims)))] = &answers[..] else {
            panic!("{answers:?} in round {round}")
        };
        assert!(claims.runs.is_empty(), "it is no member any more");
    }
}

/// A sink that closes the store when it receives the answer.
struct Last {
    order: Order,
    store: parking_lot::Mutex<Option<Arc<PostgresStore>>>,
    answers: Answers,
}

impl Sink for Last {
    fn answered(&self, answers: Vec<(Ticket, Result<Wrote>)>) {
        drop(self.store.lock().take());
        self.answers.answered(answers);
    }

    fn order(&self) -> Order {
        self.order
    }
}

#[test]
fn a_store_may_be_closed_by_an_answered_caller() {
    let database = in_database();
    if database.url.is_none() {
        return;
    }
    let keys = [0, LANES - 1].map(Order::Keyed);
    for order in [Order::Barrier, keys[0], keys[1], Order::Unordered] {
        let store = open(&database);
        let all_keyed: Vec<_> = (0..LANES).map(Keyed::new).collect();
        let last = Arc::new(Last {
            order,
            store: parking_lot::Mutex::new(Some(Arc::clone(&store))),
            answers: Answers::default(),
        });
        let sink: Arc<dyn Sink> = Arc::<Last>::clone(&last);
        store.submit(&sink, vec![(1, Flush.into())]);
        for keyed in &all_keyed {
            keyed.submit(&store, vec![(1, Flush.into())]);
        }
        let barrier = Arc::new(Answers::default());
        let sink: Arc<dyn Sink> = Arc::<Answers>::clone(&barrier);
        store.submit(&sink, vec![(1, Flush.into())]);
        drop(store);
        // Each write is answered, whether or not the store was closed before its turn.
        for keyed in &all_keyed {
            assert_eq!(keyed.answers.wait(1).len(), 1);
        }
        assert_eq!((barrier.wait(1).len(), last.answers.wait(1).len()), (1, 1));
    }
}
