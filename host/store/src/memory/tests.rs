//! The conformance suite on the memory store, and tests of its own features.

use std::sync::Arc;

use super::{Fault, MemoryStore};
use crate::conformance::{Harness, TestClock};
use crate::write::{Flush, NewMember, Unpark};
use crate::{Store, Write, Writer, Wrote, codes};

struct InMemory {
    clock: Arc<TestClock>,
    store: Arc<MemoryStore>,
}

fn in_memory() -> InMemory {
    let clock = Arc::new(TestClock::default());
    let store = MemoryStore::new(Arc::clone(&clock) as Arc<dyn windlass_model::Clock>);
    InMemory { clock, store }
}

impl Harness for InMemory {
    fn is_memory(&self) -> bool {
        true
    }

    fn open(&self) -> Arc<dyn Store> {
        self.store.another()
    }

    fn clock(&self) -> &TestClock {
        &self.clock
    }
}

crate::conformance!(in_memory);

#[test]
fn faults_happen_as_the_hook_says() {
    let store = in_memory().store;
    let faults = [Fault::Full, Fault::UnknownNotWritten, Fault::UnknownWritten];
    let mut coming = faults.into_iter();
    store.set_faults(Some(Box::new(move |_| coming.next())));
    let join = || {
        store.write(NewMember {
            name: "case".into(),
            lease_ms: 1,
            joined_ms: 0,
        })
    };
    let wanted = [
        (codes::FULL, 0),
        (codes::UNKNOWN_OUTCOME, 0),
        (codes::UNKNOWN_OUTCOME, 1),
    ];
    for (code, members) in wanted {
        assert_eq!(join().unwrap_err().code, code);
        assert_eq!(crate::Reader::members(&*store).unwrap().len(), members);
    }
    assert!(join().is_ok());
}

#[test]
fn deferred_writes_wait_for_their_turn_and_their_answers_too() {
    #[derive(Default)]
    struct Heard(parking_lot::Mutex<Vec<crate::Ticket>>);
    impl crate::Sink for Heard {
        fn answered(&self, answers: Vec<(crate::Ticket, crate::Result<Wrote>)>) {
            let tickets = answers.into_iter().map(|(ticket, _)| ticket);
            self.0.lock().extend(tickets);
        }
    }
    let store = in_memory().store;
    store.defer();
    let heard = Arc::new(Heard::default());
    let sink: Arc<dyn crate::Sink> = Arc::<Heard>::clone(&heard);
    store.submit(
        &sink,
        (1..=3)
            .map(|ticket| (ticket, Write::Unpark(Unpark)))
            .collect(),
    );
    assert_eq!(store.deferred(), (3, 0));
    store.carry_on(1);
    assert_eq!(store.deferred(), (2, 1));
    store.write(Flush).unwrap();
    assert_eq!((store.deferred(), heard.0.lock().len()), ((0, 3), 0));
    store.deliver(2);
    assert_eq!(*heard.0.lock(), [1, 2]);
}
