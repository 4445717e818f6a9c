//! The suite, on a real server, and what only PostgreSQL does.
//!
//! Where PostgreSQL is neither installed nor required, the tests say so and do nothing.

mod agreeing;
mod bloat;
mod encrypted;
mod opening;
mod racing;
pub(super) mod troubles;
mod upkeep;

use std::sync::Arc;

use windlass_model::Clock;
use windlass_test_servers::PostgreSql;

use super::{PostgresOptions, PostgresStore};
use crate::Store;
use crate::conformance::{Harness, TestClock};

/// A database of its own in the server that all tests of this process share.
struct InDatabase {
    clock: Arc<TestClock>,
    /// None where there is no server.
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

crate::conformance!(in_database);
