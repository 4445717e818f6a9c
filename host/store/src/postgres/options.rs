//! How a PostgreSQL store is opened.

use std::sync::Arc;

use windlass_model::Clock;
use windlass_model::metrics::Metrics;

/// The settings of a [`super::PostgresStore`].
#[derive(Clone)]
pub struct PostgresOptions {
    /// The schema that the tables are in. Made if it is not there.
    pub schema: String,
    /// Connections for reading at most, opened as they are needed. At least 1.
    pub read_connections: usize,
    /// Connections that write, opened as they are needed: as many as there are lines
    /// ([`Sink::line`](crate::Sink::line)) that are to go on beside each other. At least 1; one
    /// more is for what stands in no line.
    pub write_connections: usize,
    /// Writes that may wait; more make the submitter wait.
    pub queue_writes: usize,
    /// How much the writes that wait may hold, in bytes; more make the submitter wait. One
    /// batch is let in whatever it holds.
    pub queue_bytes: usize,
    /// Writes in one physical transaction at most.
    pub group_writes: usize,
    /// How long a statement may take, in milliseconds.
    pub statement_ms: u64,
    /// How long a write waits for a row that another process holds, in milliseconds.
    pub lock_wait_ms: u64,
    /// How long the server keeps a transaction whose process says nothing, in milliseconds.
    /// A third of the lease, so that a stopped process holds nobody up for longer.
    pub idle_in_transaction_ms: u64,
    /// How long a lost connection is looked for before what waits for it is refused, in
    /// milliseconds.
    pub reconnect_ms: u64,
    /// How long a server that cannot be reached is waited for when the store is opened, in
    /// milliseconds; 0: not at all. A warning says that it is.
    pub patience_ms: u64,
    /// Leases are handed out on its monotonic time; they are kept on the database's clock.
    pub clock: Arc<dyn Clock>,
    /// For tests: its monotonic time is added to the database's clock, so that leases run out
    /// when the test says so.
    pub ahead: Option<Arc<dyn Clock>>,
    /// Where groups of writes are measured.
    pub metrics: Arc<Metrics>,
}

impl PostgresOptions {
    /// The defaults.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            schema: "windlass".to_owned(),
            read_connections: 4,
            write_connections: 1,
            queue_writes: 4096,
            queue_bytes: 64 * 1024 * 1024,
            group_writes: 1024,
            statement_ms: 30_000,
            lock_wait_ms: 10_000,
            idle_in_transaction_ms: 10_000,
            reconnect_ms: 10_000,
            patience_ms: 0,
            clock,
            ahead: None,
            metrics: Arc::default(),
        }
    }
}
