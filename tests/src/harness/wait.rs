//! Waiting for a condition, with a bound.

use std::time::Duration;

use windlass_model::Clock as _;
use windlass_runtime::SystemClock;

/// How long any wait may take before a test fails. Far longer than the slowest machine needs: a
/// test that reaches it has found a hang.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// The time between two checks.
const LOOK: Duration = Duration::from_millis(2);

/// Waits until the condition holds.
///
/// # Panics
///
/// If it does not within [`PATIENCE`].
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    until_some(what, || holds().then_some(()));
}

/// As [`until`], with another bound, for work that takes minutes.
///
/// # Panics
///
/// If the condition does not hold within this time.
pub fn until_within(time: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let held = within(time, || holds().then_some(()));
    assert!(
        held.is_some(),
        "waited {} s in vain until {what}",
        time.as_secs()
    );
}

/// Waits until there is a value.
///
/// # Panics
///
/// If there is none within [`PATIENCE`].
pub fn until_some<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    match within(PATIENCE, look) {
        Some(found) => found,
        None => panic!("waited {} s in vain until {what}", PATIENCE.as_secs()),
    }
}

/// Polls until there is a value or the time is over.
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

/// Lets time pass, for random moments.
pub(super) fn pass(time: Duration) {
    within(time, || None::<()>);
}
