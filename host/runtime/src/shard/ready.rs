//! The executions that a shard begins next.
//!
//! A few stand in the order in which they became ready, which costs nothing. If more are ready, the
//! policy of [`windlass_fair`] decides about the rest: a worker's executions are short, so a few of
//! them delay an urgent one by little, and thousands by much.

use std::collections::VecDeque;
use std::sync::Arc;

use windlass_fair::{Caller, Queue};
use windlass_model::{Epoch, RunNo, Seq};

use super::owned::OwnedRun;

/// The most executions that stand in the order in which they became ready.
const AHEAD: usize = 32;

/// An execution that may begin, with its burst. A later burst has to queue it again, because the run
/// may wait for its lock, or the trigger for its group of suspects.
pub(super) type Entry = (RunNo, Epoch, Seq);

/// The executions to begin next, in order.
#[derive(Default)]
pub(super) struct Ready {
    /// Control triggers: they call no guest and write little, and may end other triggers.
    control: VecDeque<Entry>,
    ahead: VecDeque<Entry>,
    rest: Queue<Arc<str>, (), Entry>,
}

impl Ready {
    /// Adds an execution of a run. `now_ms` reads the monotonic clock.
    pub(super) fn push(&mut self, owned: &OwnedRun, seq: Seq, now_ms: impl FnOnce() -> u64) {
        let entry = (owned.no, owned.epoch, seq);
        if seq.is_external() && owned.is_control(seq) {
            return self.control.push_back(entry);
        }
        if self.rest.is_empty() && self.ahead.len() < AHEAD {
            return self.ahead.push_back(entry);
        }
        let caller = Caller {
            priority: owned.priority(seq),
            flow: Arc::clone(&owned.flow),
            lane: (),
        };
        self.rest.push(caller, entry, now_ms());
    }

    /// Takes the control trigger that goes next, which is before all executions.
    pub(super) fn pop_control(&mut self) -> Option<Entry> {
        self.control.pop_front()
    }

    /// Takes the execution that goes next, besides control triggers. `now_ms` reads the monotonic clock.
    pub(super) fn pop(&mut self, now_ms: impl FnOnce() -> u64) -> Option<Entry> {
        if let Some(entry) = self.ahead.pop_front() {
            return Some(entry);
        }
        if self.rest.is_empty() {
            return None;
        }
        let taken = self.rest.take(now_ms(), |_, ()| true, |_| false)?;
        // A worker executes one after the other, so no workflow holds a place for long.
        self.rest.give_back(&taken.caller.flow, 0);
        Some(taken.item)
    }

    /// Whether no control trigger is ready.
    pub(super) fn has_no_control(&self) -> bool {
        self.control.is_empty()
    }

    /// Whether no execution is ready, besides control triggers.
    pub(super) fn is_empty(&self) -> bool {
        self.ahead.is_empty() && self.rest.is_empty()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.control.len() + self.ahead.len() + self.rest.len()
    }

    /// Removes all.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
