//! The time since which a shard's driving thread has been inside a guest.
//!
//! The thread and the watch both change the mark, and a relieved thread may return from its guest
//! long after its successor has entered another. So each of them removes only the mark that it has
//! set or read. Otherwise a shard could lose its mark while its driver is in a guest, and would not
//! be relieved before that guest returns.

use std::sync::atomic::{AtomicU64, Ordering};

/// The mark of one shard.
#[derive(Debug, Default)]
pub(crate) struct GuestMark(AtomicU64);

/// A mark that a thread has set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since(u64);

impl GuestMark {
    /// Sets the mark: the driving thread enters a guest at this millisecond of the monotonic clock.
    pub(crate) fn enter(&self, now_ms: u64) -> Since {
        // Zero means that there is no mark.
        let since = now_ms.max(1);
        self.0.store(since, Ordering::Release);
        Since(since)
    }

    /// Removes the mark of a thread that has left its guest. If the thread was relieved meanwhile,
    /// the mark belongs to another thread and stays.
    pub(crate) fn leave(&self, since: Since) {
        let _ = self
            .0
            .compare_exchange(since.0, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// The mark, if the driving thread has been in one guest for longer than `patience_ms`.
    pub(crate) fn beyond(&self, patience_ms: u64, now_ms: u64) -> Option<Since> {
        let since = self.0.load(Ordering::Acquire);
        (since != 0 && now_ms.saturating_sub(since) > patience_ms).then_some(Since(since))
    }

    /// Removes the mark in order to relieve its thread. Returns false if that thread has left the
    /// guest since the watch read the mark: then the thread must not be relieved.
    pub(crate) fn relieve(&self, since: Since) -> bool {
        self.0
            .compare_exchange(since.0, 0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Whether the driving thread is in a guest.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::GuestMark;

    #[test]
    fn a_relieved_thread_leaves_the_mark_of_its_successor_alone() {
        let mark = GuestMark::default();
        let first = mark.enter(100);
        assert!(mark.relieve(mark.beyond(20, 130).unwrap()));
        let second = mark.enter(131);
        mark.leave(first);
        assert_eq!(mark.beyond(20, 160), Some(second));
    }

    #[test]
    fn a_thread_that_has_left_its_guest_is_not_relieved() {
        let mark = GuestMark::default();
        let since = mark.enter(100);
        let seen = mark.beyond(20, 130).unwrap();
        mark.leave(since);
        assert!(!mark.relieve(seen));
        mark.enter(131);
        assert!(!mark.relieve(seen));
        assert!(mark.is_set());
    }

    #[test]
    fn a_guest_entered_at_the_beginning_of_time_counts() {
        let mark = GuestMark::default();
        mark.enter(0);
        assert!(mark.is_set());
        assert!(mark.beyond(20, 30).is_some());
    }
}
