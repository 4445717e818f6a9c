//! Time for stores that look at clocks of their own.
//!
//! A lease is kept on the machine's clock or on the database's, and those go on while a test
//! runs. So that it does not matter, here a millisecond of the history lasts a second, and what
//! has truly gone by is taken off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use windlass_model::Clock;

/// How long a millisecond of the history lasts, in milliseconds.
pub(super) const SCALE: u64 = 1_000;

/// Where the clock begins: so far from zero that nothing that is taken off reaches it.
const BASE_MS: u64 = 1 << 40;

/// The clock of all processes of a replay.
pub(super) struct Pace {
    now_ms: AtomicU64,
    /// A store is being opened: it takes the machine's time and this clock's for the same.
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

    /// Sets the clock; a bit later than that for what is to see what ends in that millisecond.
    pub(super) fn set(&self, now_ms: u64, late: bool) {
        let late_ms = if late { SCALE / 2 } else { 0 };
        let now_ms = now_ms * SCALE + late_ms;
        self.now_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Opens something that reads the machine's clock once, and goes by this one from there on.
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

/// What has to be added to a clock that goes on by itself.
pub(super) struct Ahead(pub(super) Arc<Pace>);

impl Clock for Ahead {
    fn wall_ms(&self) -> i64 {
        self.0.wall_ms()
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic().saturating_sub(self.0.gone_by())
    }
}
