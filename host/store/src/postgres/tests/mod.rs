//! The conformance suite on a real server, and tests of PostgreSQL's own features.
//!
//! Where PostgreSQL is neither installed nor required, the tests print a message and pass.

mod agreeing;
mod bloat;
mod encrypted;
mod lanes;
mod local;
mod opening;
mod pipeline;
pub(super) mod plans;
mod racing;
pub(super) mod trips;
pub(super) mod troubles;
mod upkeep;

use std::sync::Arc;

use windlass_model::Clock;
use windlass_test_servers::PostgreSql;

use super::{PostgresOptions, PostgresStore};
use crate::conformance::world::Answers;
use crate::conformance::{Harness, TestClock};
use crate::{Order, Result, Sink, Store, Ticket, Verb, Write, Wrote};

/// A database of its own on the server that all tests of this process share.
struct InDatabase {
    clock: Arc<TestClock>,
    /// None if there is no server.
    url: Option<String>,
}

fn in_database() -> InDatabase {
    let server = PostgreSql::shared().unwrap();
    InDatabase {
        clock: Arc::default(),
        url: server.map(|server| server.database().unwrap()),
    }
}

impl InDatabase {
    fn options(&self) -> PostgresOptions {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        PostgresOptions {
            ahead: Some(Arc::clone(&clock)),
            read_connections: 2,
            ..PostgresOptions::new(clock)
        }
    }

    /// The server's output for a statement in this database.
    fn ask(&self, sql: &str) -> String {
        let server = PostgreSql::shared().unwrap().unwrap();
        server
            .execute_in(self.url.as_deref().unwrap(), sql)
            .unwrap()
    }

    fn store(&self) -> Arc<PostgresStore> {
        PostgresStore::open(self.url.as_deref().unwrap(), self.options()).unwrap()
    }
}

impl Harness for InDatabase {
    fn open(&self) -> Arc<dyn Store> {
        self.store()
    }

    fn clock(&self) -> &TestClock {
        &self.clock
    }

    fn is_there(&self) -> bool {
        self.url.is_some()
    }
}

/// A sink whose writes have a key.
struct Keyed {
    key: usize,
    answers: Answers,
}

impl Sink for Keyed {
    fn answered(&self, answers: Vec<(Ticket, Result<Wrote>)>) {
        self.answers.answered(answers);
    }

    fn order(&self) -> Order {
        Order::Keyed(self.key)
    }
}

impl Keyed {
    fn new(key: usize) -> Arc<Self> {
        Arc::new(Self {
            key,
            answers: Answers::default(),
        })
    }

    /// Submits writes without waiting.
    fn submit(self: &Arc<Self>, store: &PostgresStore, writes: Vec<(Ticket, Write)>) {
        let sink: Arc<dyn Sink> = Arc::<Self>::clone(self);
        store.submit(&sink, writes);
    }

    /// Submits one verb and waits for its answer.
    fn write<V: Verb>(self: &Arc<Self>, store: &PostgresStore, verb: V) -> Result<V::Answer> {
        self.submit(store, vec![(0, verb.into())]);
        let (_, answer) = self.answers.wait(1).pop().unwrap();
        V::answer(answer)
    }
}

crate::conformance!(in_database);
