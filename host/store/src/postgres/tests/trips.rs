//! The number of round trips to the server of each verb that is carried out alone, including its
//! deferred statements, without its COMMIT.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;

use super::plans::once;
use super::{InDatabase, in_database};
use crate::conformance::{Harness, TestClock};
use crate::lives::LifeOp;
use crate::postgres::PostgresStore;
use crate::postgres::shared::PostgresShared;
use crate::{Store, Write, Wrote};

thread_local! {
    /// The round trips of the write that this thread carries out.
    static TRIPS: Cell<u64> = const { Cell::new(0) };
}

/// The maximum number of round trips, by the names of the verb and of its answer.
pub(in crate::postgres) type Trips = BTreeMap<String, u64>;

/// Counts one round trip.
pub(in crate::postgres) fn count() {
    TRIPS.set(TRIPS.get() + 1);
}

/// Resets the counter.
pub(in crate::postgres) fn begin() {
    TRIPS.set(0);
}

/// Records the number of round trips of a verb.
pub(in crate::postgres) fn note(shared: &PostgresShared, write: &Write, wrote: &Wrote) {
    let mut verb = names(write);
    verb.truncate(2);
    verb.dedup();
    if let Write::Life(LifeOp::Reopen(new)) = write
        && new.documents.is_some()
    {
        verb.push("documents".to_owned());
    }
    let answer = names(wrote);
    let answer: Vec<&str> = answer.iter().map(String::as_str).collect();
    let answer = match answer[..] {
        [_, "Ok" | "Err", name, ..] if name.starts_with(char::is_alphabetic) => name,
        [_, "", ..] => "()",
        [_, name, ..] => name,
        _ => panic!("{wrote:?}"),
    };
    let verb = format!("{} -> {answer}", verb.join(" "));
    let mut known = shared.trips.lock();
    let most = known.entry(verb).or_default();
    *most = TRIPS.get().max(*most);
}

/// The names of a variant and of the variants inside it.
fn names(value: &dyn std::fmt::Debug) -> Vec<String> {
    let text = format!("{value:?}");
    let mut names = Vec::new();
    for part in text.split('(') {
        let end = part.find(|letter: char| !letter.is_alphanumeric());
        let name = part.get(..end.unwrap_or(part.len())).unwrap_or_default();
        names.push(name.to_owned());
        if end.is_some() {
            break;
        }
    }
    names
}

/// Verbs whose round trips depend on the number of rows or on concurrent transactions.
const OTHERS: &[&str] = &[
    "Claim", "Commit", "Create", "Enqueue", "Expire", "Forget", "Import", "Join", "Leave", "Queue",
    "Reap", "Renew", "Resume", "Send", "Sweep",
];

/// A database whose round trips are collected when the case ends.
struct Counted {
    database: InDatabase,
    stores: Mutex<Vec<Arc<PostgresStore>>>,
}

impl Harness for Counted {
    fn open(&self) -> Arc<dyn Store> {
        let store = self.database.store();
        self.stores.lock().push(Arc::clone(&store));
        store
    }

    fn clock(&self) -> &TestClock {
        self.database.clock()
    }

    fn is_there(&self) -> bool {
        self.database.is_there()
    }
}

/// Takes up to a minute: all cases of the conformance suite run once more, on PostgreSQL.
#[test]
fn no_verb_takes_more_round_trips_than_it_did() {
    let mut most = Trips::new();
    for (_, case) in once() {
        let counted = Counted {
            database: in_database(),
            stores: Mutex::default(),
        };
        if !counted.is_there() {
            return;
        }
        case(&counted);
        for store in counted.stores.lock().drain(..) {
            for (verb, trips) in store.shared.trips.lock().iter() {
                let known = most.entry(verb.clone()).or_default();
                *known = (*known).max(*trips);
            }
        }
    }
    most.retain(|verb, _| !OTHERS.iter().any(|other| verb.starts_with(other)));
    let mut found = String::new();
    for (verb, trips) in most {
        writeln!(found, "{trips} {verb}").unwrap();
    }
    let golden = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/postgres/tests/round_trips.txt"
    );
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(golden, &found).unwrap();
    }
    assert_eq!(found, include_str!("round_trips.txt"));
}
