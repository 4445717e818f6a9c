//! The clock of leases: the same for all processes of a machine.

use std::sync::Arc;

use windlass_model::Clock;

use crate::boot::boot;

/// The machine's monotonic time, advanced by the given clock.
///
/// The machine's clock is read once, so that all processes agree about zero; from there on the
/// given clock measures the time, so that tests control it. The time does not advance while the
/// machine is suspended, and is independent of dates.
pub(super) struct MachineTime {
    clock: Arc<dyn Clock>,
    base_ms: u64,
    boot: String,
}

impl MachineTime {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let machine = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let machine_ms = machine.tv_sec.unsigned_abs() * 1000
            + u64::try_from(machine.tv_nsec).unwrap_or(0) / 1_000_000;
        let passed_ms = clock_ms(&*clock);
        // Wraps: a given clock may begin at any value, and only differences matter.
        let base_ms = machine_ms.wrapping_sub(passed_ms);
        Self {
            clock,
            base_ms,
            boot: boot(),
        }
    }

    /// Identifies this boot of the machine. Times of another boot are not comparable.
    pub(super) fn boot(&self) -> &str {
        &self.boot
    }

    /// The current time in the store's unit.
    pub(super) fn now_ms(&self) -> i64 {
        let now_ms = clock_ms(&*self.clock).wrapping_add(self.base_ms);
        i64::try_from(now_ms).unwrap_or(i64::MAX)
    }

    /// The current time on the given clock.
    pub(super) fn passed_ms(&self) -> u64 {
        clock_ms(&*self.clock)
    }
}

fn clock_ms(clock: &dyn Clock) -> u64 {
    u64::try_from(clock.monotonic().as_millis()).unwrap_or(u64::MAX)
}

/// A number that differs between all store objects of a machine.
pub(super) fn nonce() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(std::process::id())
}
