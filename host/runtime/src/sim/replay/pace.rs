//! The time of stores that read real clocks.
//!
//! A lease is measured on the machine's clock or on the database's, and these advance while a test
//! runs. To make this harmless, a millisecond of the history lasts a second here, and the real time
//! that has passed is subtracted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use windlass_model::Clock;

/// The length of a millisecond of the history, in milliseconds.
pub(super) const SCALE: u64 = 1_000;

/// The start of the clock: so far above zero that subtractions never reach zero.
const BASE_MS: u64 = 1 << 40;

/// The clock of all processes of a replay.
pub(super) struct Pace {
    now_ms: AtomicU64,
    /// Whether a store is being opened: it assumes that the machine's clock and this clock are
    /// equal.
    opening: AtomicBool,
    begun: Instant,
}

impl Pace {
    #[expect(
        clippy::disallowed_methods,
        reason = "what has truly gone by is taken off"
    )]
    pub(super) fn new(now_ms: u64) -> Arc<Self> {
        let pace = Self {
            now_ms: AtomicU64::new(0),
            opening: AtomicBool::new(false),
            begun: Instant::now(),
        };
        pace.set(now_ms, false);
        Arc::new(pace)
    }

    /// Sets the clock; with `late`, to slightly later, for writes that have to see the end of that
    /// millisecond.
    pub(super) fn set(&self, now_ms: u64, late: bool) {
        let late_ms = if late { SCALE / 2 } else { 0 };
        let now_ms = now_ms * SCALE + late_ms;
        self.now_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Opens a store that reads the machine's clock once, and uses this clock from then on.
    pub(super) fn while_opening<T>(&self, open: impl FnOnce() -> T) -> T {
        self.opening.store(true, Ordering::Relaxed);
        let opened = open();
        self.opening.store(false, Ordering::Relaxed);
        opened
    }

    fn gone_by(&self) -> Duration {
        self.begun.elapsed()
    }
}

impl Clock for Pace {
    fn wall_ms(&self) -> i64 {
        self.now_ms.load(Ordering::Relaxed).cast_signed()
    }

    fn monotonic(&self) -> Duration {
        if self.opening.load(Ordering::Relaxed) {
            return self.gone_by();
        }
        Duration::from_millis(BASE_MS + self.now_ms.load(Ordering::Relaxed))
    }
}

/// The value to add to a clock that advances by itself.
pub(super) struct Ahead(pub(super) Arc<Pace>);

impl Clock for Ahead {
    fn wall_ms(&self) -> i64 {
        self.0.wall_ms()
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic().saturating_sub(self.0.gone_by())
    }
}
