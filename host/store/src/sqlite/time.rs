//! The time that leases count on: the same for all processes of a machine.

use std::sync::Arc;

use windlass_model::Clock;

/// The machine's monotonic time, moved on by the clock that was passed in.
///
/// The machine's own time is read once, so that processes agree about zero; from there on
/// the passed clock says how much has gone by, so that tests drive it. It stands still
/// while the machine is suspended and knows nothing of dates.
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
        // Wrapping: a passed clock may begin anywhere, and only differences matter.
        let base_ms = machine_ms.wrapping_sub(passed_ms);
        Self {
            clock,
            base_ms,
            boot: boot(),
        }
    }

    /// Names this run of the machine. Times of another one mean nothing in this.
    pub(super) fn boot(&self) -> &str {
        &self.boot
    }

    /// Now, for the store.
    pub(super) fn now_ms(&self) -> i64 {
        let now_ms = clock_ms(&*self.clock).wrapping_add(self.base_ms);
        i64::try_from(now_ms).unwrap_or(i64::MAX)
    }

    /// Now, on the passed clock.
    pub(super) fn passed_ms(&self) -> u64 {
        clock_ms(&*self.clock)
    }
}

/// Names this run of the machine.
pub(super) fn boot() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.trim().to_owned()
}

fn clock_ms(clock: &dyn Clock) -> u64 {
    u64::try_from(clock.monotonic().as_millis()).unwrap_or(u64::MAX)
}

/// A number that differs between the store objects of a machine.
pub(super) fn nonce() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(std::process::id())
}
