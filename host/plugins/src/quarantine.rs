//! Gives a plugin that keeps crashing a rest.
//!
//! Crashes in a row put it in quarantine for a second; if the first call afterwards crashes
//! too, for two, then four, up to five minutes. One call that ends well clears it.

use std::time::Duration;

use parking_lot::Mutex;

/// The first rest.
const FIRST: Duration = Duration::from_secs(1);
/// The longest rest.
const LONGEST: Duration = Duration::from_secs(300);

/// How one plugin has crashed of late.
pub(crate) struct Quarantine {
    after: Option<u32>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    crashes: u32,
    rest: Duration,
    until: Duration,
}

impl Quarantine {
    pub(crate) fn new(after: Option<u32>) -> Self {
        Self {
            after,
            state: Mutex::default(),
        }
    }

    /// How long it still rests.
    pub(crate) fn resting(&self, now: Duration) -> Option<Duration> {
        self.state
            .lock()
            .until
            .checked_sub(now)
            .filter(|left| !left.is_zero())
    }

    /// A call ended without a crash.
    pub(crate) fn well(&self) {
        let mut state = self.state.lock();
        if state.crashes > 0 {
            *state = State::default();
        }
    }

    /// A call crashed. Says how long the plugin rests if this begins a rest.
    pub(crate) fn crashed(&self, now: Duration) -> Option<Duration> {
        let after = self.after?;
        let mut state = self.state.lock();
        state.crashes = state.crashes.saturating_add(1);
        // Calls that were under way when the rest began do not make it longer.
        if state.crashes < after || state.until > now {
            return None;
        }
        state.rest = if state.rest.is_zero() {
            FIRST
        } else {
            (state.rest * 2).min(LONGEST)
        };
        state.until = now + state.rest;
        Some(state.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn rests_grow_until_a_call_ends_well() {
        let quarantine = Quarantine::new(Some(2));
        assert_eq!(quarantine.crashed(at(10)), None);
        assert_eq!(quarantine.crashed(at(10)), Some(at(1)));
        assert_eq!(quarantine.resting(at(10)), Some(at(1)));
        assert_eq!(quarantine.resting(at(11)), None);
        assert_eq!(quarantine.crashed(at(11)), Some(at(2)));
        assert_eq!(quarantine.crashed(at(12)), None);
        assert_eq!(quarantine.crashed(at(13)), Some(at(4)));
        quarantine.well();
        assert_eq!(quarantine.resting(at(13)), None);
        assert_eq!(quarantine.crashed(at(20)), None);
    }

    #[test]
    fn it_can_be_switched_off() {
        let quarantine = Quarantine::new(None);
        for _ in 0..100 {
            assert_eq!(quarantine.crashed(at(1)), None);
        }
    }
}
