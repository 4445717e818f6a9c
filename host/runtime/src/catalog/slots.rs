//! Bounds how many large definitions are prepared at once: reading and compiling one takes many
//! times the memory of its file, besides the result.

use parking_lot::{Condvar, Mutex};

/// Definitions over this size, in bytes of canonical JSON, are large.
const LARGE_BYTES: usize = 64 * 1024;

/// The places for large definitions.
#[derive(Debug)]
pub(super) struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Slot<'a>(&'a Slots);

impl Default for Slots {
    /// One place for two cores, so that other work has the others.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::new((cores / 2).max(1))
    }
}

impl Slots {
    fn new(places: usize) -> Self {
        Self {
            free: Mutex::new(places),
            freed: Condvar::new(),
        }
    }

    /// Waits for a place for a large definition; a small one needs none. Blocks.
    pub(super) fn enter(&self, bytes: usize) -> Option<Slot<'_>> {
        if bytes <= LARGE_BYTES {
            return None;
        }
        let mut free = self.free.lock();
        self.freed.wait_while(&mut free, |free| *free == 0);
        *free -= 1;
        Some(Slot(self))
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn few_large_definitions_are_prepared_at_once_and_small_ones_do_not_wait() {
        let slots = Slots::new(2);
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _slot = slots.enter(LARGE_BYTES + 1);
                        let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!((1..=2).contains(&most.into_inner()));
        let _all = (slots.enter(usize::MAX), slots.enter(usize::MAX));
        assert!(slots.enter(LARGE_BYTES).is_none());
    }
}
