//! Deletes old runs, in place of the retention thread.

use std::sync::Arc;

use windlass_model::{Clock, Incarnation};
use windlass_store::{MemoryStore, Store as _};

use crate::retention::{Options, Sweeper};

/// How long a run is kept after it has ended, in milliseconds.
pub(super) const KEEP_MS: u64 = 20_000;

/// The interval between rounds, in milliseconds.
const EVERY_MS: u64 = 6_000;

/// The retention of one process.
pub(super) struct Sweeping {
    sweeper: Sweeper,
    /// The sweeper's own handle: a sweeper waits for its writes.
    store: Arc<MemoryStore>,
    /// The monotonic time of the next round.
    pub(super) next_ms: u64,
}

impl Sweeping {
    pub(super) fn new(
        store: Arc<MemoryStore>,
        clock: Arc<dyn Clock>,
        keep_ms: u64,
        now_ms: u64,
    ) -> Self {
        let options = Options {
            keep_ms,
            every_ms: EVERY_MS,
            grace_ms: KEEP_MS / 2,
            ..Options::default()
        };
        Self {
            sweeper: Sweeper::new(Arc::clone(&store) as _, clock, options),
            store,
            next_ms: now_ms + EVERY_MS,
        }
    }

    /// Does one round, if this member has the duty. If the store fails, the next round tries again.
    pub(super) fn round(&mut self, incarnation: Incarnation, now_ms: u64) {
        let _ = self.sweeper.round(incarnation, &|| false);
        self.next_ms = now_ms + EVERY_MS;
    }

    /// Ends with its process.
    pub(super) fn end(&self) {
        self.store.close();
    }
}
