//! The options of a PostgreSQL store.

use std::path::PathBuf;
use std::sync::Arc;

use windlass_model::Clock;
use windlass_model::metrics::Metrics;

use super::shared::clock_ms;
use crate::sql::layout::Steps;

/// The settings of a [`super::PostgresStore`].
#[derive(Clone)]
pub struct PostgresOptions {
    /// The schema of the tables. Created if it is missing.
    pub schema: String,
    /// The maximum number of connections for reading, opened on demand. At least 1.
    pub read_connections: usize,
    /// Connections that write, opened on demand: as many as there are keys
    /// ([`Sink::order`](crate::Sink::order)) whose writes run in parallel. At least 1; one more is
    /// for unordered writes.
    pub write_connections: usize,
    /// The number of writes that may wait; more block the submitter.
    pub queue_writes: usize,
    /// The number of bytes in writes that may wait; more block the submitter. One batch is accepted
    /// at any size.
    pub queue_bytes: usize,
    /// The maximum number of writes in one physical transaction.
    pub group_writes: usize,
    /// The time-out of a statement, in milliseconds.
    pub statement_ms: u64,
    /// How long a write waits for a row that another process has locked, in milliseconds.
    pub lock_wait_ms: u64,
    /// How long the server keeps an idle transaction open, in milliseconds. Set to a third of the
    /// lease, so that a stopped process does not delay the others for longer.
    pub idle_in_transaction_ms: u64,
    /// How long the store tries to reconnect before it refuses waiting requests, in milliseconds.
    pub reconnect_ms: u64,
    /// How long opening waits for a server that cannot be reached, in milliseconds; 0: it does not
    /// wait. A warning says that the store waits.
    pub patience_ms: u64,
    /// Whether opening a store of an older layout migrates it; otherwise opening is refused.
    pub migrates: bool,
    /// The directory of the files by whose locks the processes of this user on one machine notice
    /// the death of another one at once. None: they wait for the end of its lease.
    pub members: Option<PathBuf>,
    /// The monotonic clock of this process's leases; the store keeps leases on the database's
    /// clock.
    pub clock: Arc<dyn Clock>,
    /// For tests: its monotonic time is added to the database's clock, so that a test decides when
    /// leases expire.
    pub ahead: Option<Arc<dyn Clock>>,
    /// Receives measurements of groups of writes.
    pub metrics: Arc<Metrics>,
    /// For tests: the steps of a later version.
    #[cfg(test)]
    pub(crate) further: &'static [crate::sql::layout::Step],
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
            migrates: true,
            members: None,
            clock,
            ahead: None,
            metrics: Arc::default(),
            #[cfg(test)]
            further: &[],
        }
    }

    /// The offset from the database's clock, in milliseconds: 0 except in tests.
    pub(super) fn ahead_ms(&self) -> i64 {
        let ahead = self.ahead.as_ref();
        ahead.map_or(0, |clock| clock_ms(&**clock).cast_signed())
    }

    /// The steps of the layout.
    pub(super) fn steps(&self) -> Steps {
        #[cfg(test)]
        return Steps::postgres(self.further);
        #[cfg(not(test))]
        Steps::postgres(&[])
    }
}
