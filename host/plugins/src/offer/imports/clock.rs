//! `windlass:clock`.

use crate::bindings::host::windlass::clock::clock::Host;
use crate::offer::guest::Guest;

impl Host for Guest {
    fn now(&mut self) -> u64 {
        u64::try_from(self.offer.clock.wall_ms()).unwrap_or_default()
    }

    fn monotonic_ns(&mut self) -> u64 {
        u64::try_from(self.offer.clock.monotonic().as_nanos()).unwrap_or(u64::MAX)
    }
}
