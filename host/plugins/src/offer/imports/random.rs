//! `windlass:random`.

use crate::bindings::host::windlass::random::random::Host;
use crate::offer::guest::Guest;

/// The most bytes of one call.
const MAX_BYTES: u32 = 64 * 1024;

impl Host for Guest {
    fn bytes(&mut self, length: u32) -> Vec<u8> {
        let mut bytes = vec![0; length.min(MAX_BYTES) as usize];
        // The thread's generator is cryptographic, and seeded by the system.
        rand::fill(bytes.as_mut_slice());
        bytes
    }

    fn number(&mut self) -> u64 {
        rand::random()
    }
}
