//! Lines that go on beside each other, and what crosses them.

use std::sync::Arc;

use super::{InDatabase, Line, in_database};
use crate::conformance::world::{Answers, Held, Member, is_done, is_fenced};
use crate::postgres::{PostgresOptions, PostgresStore};
use crate::write::{Claim, ClaimScope};
use crate::{Result, Sink, Store as _, Ticket, Write, Wrote};

const LANES: usize = 4;

fn open(database: &InDatabase) -> Arc<PostgresStore> {
    let options = PostgresOptions {
        write_connections: LANES,
        ..database.options()
    };
    PostgresStore::open(database.url.as_deref().unwrap(), options).unwrap()
}

fn step(member: &Member, held: &Held, seq: u64) -> Write {
    Write::Commit(Box::new(member.chained(held, seq)))
}

#[test]
fn lines_are_answered_in_order_whatever_crosses_them() {
    const LINES: usize = 2 * LANES;
    const RUNS: usize = 3;
    const STEPS: u64 = 60;
    let database = in_database();
    if database.url.is_none() {
        return;
    }
    let store = open(&database);
    let member = Member::of(Arc::<PostgresStore>::clone(&store));
    std::thread::scope(|scope| {
        for no in 0..LINES {
            let (store, member) = (&store, &member);
            scope.spawn(move || {
                let line = Line::new(no);
                let mut held: Vec<Held> = (0..RUNS).map(|_| member.born()).collect();
                let mut ticket = 0;
                for seq in 0..STEPS {
                    let writes = held.iter_mut().map(|held| {
                        let write = step(member, held, seq + 2);
                        *held = held.next();
                        ticket += 1;
                        (ticket - 1, write)
                    });
                    line.submit(store, writes.collect());
                    if seq % 7 == no as u64 % 7 {
                        assert!(is_done(&store.write(Write::Flush).unwrap()));
                    }
                }
                let all = usize::try_from(ticket).unwrap();
                let answers = line.answers.wait(all);
                let tickets: Vec<Ticket> = answers.iter().map(|(ticket, _)| *ticket).collect();
                assert_eq!(tickets, (0..ticket).collect::<Vec<_>>());
                for (ticket, answer) in answers {
                    assert!(is_done(answer.as_ref().unwrap()), "{ticket}: {answer:?}");
                }
                for held in held {
                    let head = member.head(held.fence.instance);
                    assert_eq!(head.version.0.cast_unsigned(), STEPS);
                }
            });
        }
    });
    let runs = (LINES * RUNS) as u64 * STEPS;
    assert_eq!(member.store.counts().unwrap().runs, runs);
}

#[test]
fn what_stands_in_no_line_comes_after_all_before_it() {
    const ROUNDS: usize = 60;
    let database = in_database();
    if database.url.is_none() {
        return;
    }
    let store = open(&database);
    let member = Member::of(Arc::<PostgresStore>::clone(&store));
    let lines: Vec<_> = (0..LANES).map(Line::new).collect();
    for round in 0..ROUNDS {
        for line in &lines {
            // Of different sizes, so that the lanes come to the claim at different times.
            let news = (0..=(line.no + round) % LANES * 5).map(|_| member.draft(1));
            let creates = (0..).zip(news.map(|new| Write::Create(Box::new(new))));
            line.submit(&store, creates.collect());
        }
        let claims = member.claim(10, 1000, 10);
        let expected: usize = (0..LANES).map(|no| (no + round) % LANES * 5 + 1).sum();
        assert_eq!(claims.instances.len(), expected, "in round {round}");
    }
}

#[test]
fn what_stands_in_a_line_comes_after_what_stands_in_none_before_it() {
    const ROUNDS: usize = 60;
    let database = in_database();
    if database.url.is_none() {
        return;
    }
    let store = open(&database);
    let lines: Vec<_> = (0..LANES).map(Line::new).collect();
    for round in 0..ROUNDS {
        let member = Member::of(Arc::<PostgresStore>::clone(&store));
        let held: Vec<Held> = lines.iter().map(|_| member.born()).collect();
        for (line, held) in lines.iter().zip(&held) {
            line.submit(&store, vec![(1, step(&member, held, 2))]);
        }
        let none = Arc::new(Answers::default());
        let sink: Arc<dyn Sink> = Arc::<Answers>::clone(&none);
        let incarnation = member.incarnation;
        // The second joins the crossing of the first.
        store.submit(&sink, vec![(7, Write::Leave { incarnation })]);
        let claim = Claim {
            incarnation,
            now_ms: 10,
            instances: 10,
            triggers: 10,
            scope: ClaimScope::All,
        };
        store.submit(&sink, vec![(8, Write::Claim(claim))]);
        for (line, held) in lines.iter().zip(&held) {
            line.submit(&store, vec![(2, step(&member, &held.next(), 3))]);
        }
        for line in &lines {
            let answers = line.answers.wait(2);
            let [(1, Ok(before)), (2, Ok(after))] = &answers[..] else {
                panic!("{answers:?} in round {round}")
            };
            assert!(is_done(before), "{before:?} in round {round}");
            assert!(is_fenced(after), "{after:?} in round {round}");
        }
        let answers = none.wait(2);
        let [(7, Ok(left)), (8, Ok(Wrote::Claimed(claims)))] = &answers[..] else {
            panic!("{answers:?} in round {round}")
        };
        assert!(is_done(left) || matches!(left, Wrote::Freed(_)), "{left:?}");
        assert!(claims.instances.is_empty(), "it is no member any more");
    }
}

/// Closes the store when it is answered.
struct Last {
    line: crate::Line,
    store: parking_lot::Mutex<Option<Arc<PostgresStore>>>,
    answers: Answers,
}

impl Sink for Last {
    fn answered(&self, answers: Vec<(Ticket, Result<Wrote>)>) {
        drop(self.store.lock().take());
        self.answers.answered(answers);
    }

    fn line(&self) -> crate::Line {
        self.line
    }
}

#[test]
fn a_store_may_be_closed_by_whoever_is_answered() {
    let database = in_database();
    if database.url.is_none() {
        return;
    }
    use crate::Line::{All, None, Of};
    for line in [All, Of(0), Of(LANES - 1), None] {
        let store = open(&database);
        let lines: Vec<_> = (0..LANES).map(Line::new).collect();
        let last = Arc::new(Last {
            line,
            store: parking_lot::Mutex::new(Some(Arc::clone(&store))),
            answers: Answers::default(),
        });
        let sink: Arc<dyn Sink> = Arc::<Last>::clone(&last);
        store.submit(&sink, vec![(1, Write::Flush)]);
        for line in &lines {
            line.submit(&store, vec![(1, Write::Flush)]);
        }
        let (none, answers) = (Arc::new(Answers::default()), lines);
        let sink: Arc<dyn Sink> = Arc::<Answers>::clone(&none);
        store.submit(&sink, vec![(1, Write::Flush)]);
        drop(store);
        // Closed or not by the time it was their turn: all are answered.
        for line in &answers {
            assert_eq!(line.answers.wait(1).len(), 1);
        }
        assert_eq!((none.wait(1).len(), last.answers.wait(1).len()), (1, 1));
    }
}
