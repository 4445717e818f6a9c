//! Waiting for a condition, with a bound.

use std::time::Duration;

use windlass_model::Clock as _;
use windlass_runtime::SystemClock;

/// How long anything may take before a test gives up on it. Far beyond what the slowest
/// machine needs: a test that runs into it has found something that hangs.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(2);

/// Waits until the condition holds.
///
/// # Panics
///
/// If it does not within [`PATIENCE`].
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    until_some(what, || holds().then_some(()));
}

/// Waits until there is something.
///
/// # Panics
///
/// If there is nothing within [`PATIENCE`].
pub fn until_some<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    match within(PATIENCE, look) {
        Some(found) => found,
        None => panic!("waited {} s in vain until {what}", PATIENCE.as_secs()),
    }
}

/// Looks until there is something or the time is over.
pub(super) fn within<T>(time: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let clock = SystemClock::new();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if clock.monotonic() > time {
            return None;
        }
        std::thread::park_timeout(LOOK);
    }
}

/// Lets time pass, for moments that are meant to be random.
pub(super) fn pass(time: Duration) {
    within(time, || None::<()>);
}
