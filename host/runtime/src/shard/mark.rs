//! Since when a shard's driving thread has been inside a guest.
//!
//! The thread and the watch both change it, and a thread that was relieved may come back from
//! its guest long after its successor has entered another. So nobody ever takes away a mark
//! but the one that he put there or looked at: a shard whose mark is wiped while its driver is
//! in a guest would never be relieved, and stand still for as long as that guest.

use std::sync::atomic::{AtomicU64, Ordering};

/// The mark of one shard.
#[derive(Debug, Default)]
pub(crate) struct GuestMark(AtomicU64);

/// The mark that a thread has put there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since(u64);

impl GuestMark {
    /// The driving thread enters a guest, at this millisecond of the monotonic clock.
    pub(crate) fn enter(&self, now_ms: u64) -> Since {
        // Zero stands for no mark.
        let since = now_ms.max(1);
        self.0.store(since, Ordering::Release);
        Since(since)
    }

    /// A thread has left the guest that it entered then. If it was relieved meanwhile, the
    /// mark is another thread's, and stays.
    pub(crate) fn leave(&self, since: Since) {
        let _ = self
            .0
            .compare_exchange(since.0, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// The mark, if the driving thread has been in one guest for longer than this.
    pub(crate) fn beyond(&self, patience_ms: u64, now_ms: u64) -> Option<Since> {
        let since = self.0.load(Ordering::Acquire);
        (since != 0 && now_ms.saturating_sub(since) > patience_ms).then_some(Since(since))
    }

    /// Takes the mark away in order to relieve its thread. Answers false if that thread has
    /// left the guest since the watch looked: then it is not to be relieved.
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
