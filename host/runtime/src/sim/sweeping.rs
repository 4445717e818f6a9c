//! Forgets what is over, as the thread does that is there for it.

use std::sync::Arc;

use windlass_model::{Clock, Incarnation};
use windlass_store::{MemoryStore, Store as _};

use crate::retention::{Options, Sweeper};

/// How long a run is kept after it has ended, in milliseconds.
pub(super) const KEEP_MS: u64 = 20_000;

/// How often what is over is looked for, in milliseconds.
const EVERY_MS: u64 = 6_000;

/// What sweeps.
pub(super) struct Sweeping {
    sweeper: Sweeper,
    /// A handle of its own: a sweeper waits for what it writes.
    store: Arc<MemoryStore>,
    /// When it looks next, on the monotonic clock.
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

    /// One round, if it is this member's turn. A store that is in trouble is asked again.
    pub(super) fn round(&mut self, incarnation: Incarnation, now_ms: u64) {
        let _ = self.sweeper.round(incarnation, &|| false);
        self.next_ms = now_ms + EVERY_MS;
    }

    /// Its process is no more.
    pub(super) fn end(&self) {
        self.store.close();
    }
}
