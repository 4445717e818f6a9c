//! The clock of the simulation: it moves only when the simulation advances it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use windlass_model::Clock;

/// When simulations begin: 2026-01-01T00:00:00Z.
const BEGIN_MS: i64 = 1_767_225_600_000;

/// The clock of the machine that runs all simulated processes.
pub(super) struct SimClock {
    monotonic_ms: AtomicU64,
    /// How far the wall clock is ahead of the monotonic clock.
    offset_ms: AtomicI64,
}

impl SimClock {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            // Not zero: a zero would hide mistakes in differences.
            monotonic_ms: AtomicU64::new(1_000),
            offset_ms: AtomicI64::new(BEGIN_MS),
        })
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.monotonic_ms.load(Ordering::Relaxed)
    }

    pub(super) fn advance(&self, ms: u64) {
        self.monotonic_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Steps the wall clock, as an administrator may.
    pub(super) fn step_wall(&self, by_ms: i64) {
        self.offset_ms.fetch_add(by_ms, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn wall_ms(&self) -> i64 {
        self.offset_ms.load(Ordering::Relaxed) + self.now_ms().cast_signed()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.now_ms())
    }
}

/// A wrong clock, ahead of the true one. The checker has to notice it.
pub(super) struct Ahead(pub(super) Arc<SimClock>, pub(super) i64);

impl Clock for Ahead {
    fn wall_ms(&self) -> i64 {
        self.0.wall_ms() + self.1
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }
}
