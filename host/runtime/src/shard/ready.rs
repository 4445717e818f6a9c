//! The executions that a shard begins next.
//!
//! A few stand in the order in which they became ready, which costs nothing. If more are ready, the
//! policy of [`windlass_fair`] decides about the rest: a worker's executions are short, so a few of
//! them delay an urgent one by little, and thousands by much. A few executions that write megabytes
//! delay one by much, too: runs that have made a large write never stand ahead, and their workflows
//! pay for each execution with their turn.

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

/// The size of a write, in bytes, beyond which its run counts as heavy.
pub(super) const HEAVY_BYTES: usize = 128 * 1024;

/// The time for which an execution of a heavy run counts, in microseconds.
const HEAVY_US: u64 = 10_000;

/// The executions to begin next, in order.
#[derive(Default)]
pub(super) struct Ready {
    /// Control triggers: they call no guest and write little, and may end other triggers.
    control: VecDeque<Entry>,
    ahead: VecDeque<Entry>,
    /// Each with the time for which it counts.
    rest: Queue<Arc<str>, (), (Entry, u64)>,
}

impl Ready {
    /// Adds an execution of a run. `now_ms` reads the monotonic clock.
    pub(super) fn push(&mut self, owned: &OwnedRun, seq: Seq, now_ms: impl FnOnce() -> u64) {
        let entry = (owned.no, owned.epoch, seq);
        if seq.is_external() && owned.is_control(seq) {
            return self.control.push_back(entry);
        }
        if !owned.is_heavy && self.rest.is_empty() && self.ahead.len() < AHEAD {
            return self.ahead.push_back(entry);
        }
        let caller = caller(owned.priority(seq), &owned.flow);
        let counts_us = if owned.is_heavy { HEAVY_US } else { 0 };
        self.rest.push(caller, (entry, counts_us), now_ms());
    }

    /// The executions of a run that has become heavy stand ahead no more.
    pub(super) fn set_back(&mut self, owned: &OwnedRun, now_ms: u64) {
        let priority = |seq| owned.priority(seq);
        self.take_back(owned.no, priority, &owned.flow, now_ms);
    }

    fn take_back(
        &mut self,
        no: RunNo,
        priority: impl Fn(Seq) -> i32,
        flow: &Arc<str>,
        now_ms: u64,
    ) {
        let rest = &mut self.rest;
        self.ahead.retain(|entry| {
            let stays = entry.0 != no;
            if !stays {
                rest.push(caller(priority(entry.2), flow), (*entry, HEAVY_US), now_ms);
            }
            stays
        });
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
        let (entry, counts_us) = taken.item;
        self.rest.give_back(&taken.caller.flow, counts_us);
        Some(entry)
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

fn caller(priority: i32, flow: &Arc<str>) -> Caller<Arc<str>, ()> {
    Caller {
        priority,
        flow: Arc::clone(flow),
        lane: (),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_that_write_much_wait_for_those_of_other_workflows() {
        let mut ready = Ready::default();
        let (heavy, light): (Arc<str>, Arc<str>) = (Arc::from("heavy"), Arc::from("light"));
        let entry = |run, seq| (RunNo(run), Epoch(1), Seq(seq));
        ready.ahead.extend((0..4).map(|seq| entry(1, seq)));
        ready.ahead.push_back(entry(2, 0));
        ready.take_back(RunNo(1), |_| 0, &heavy, 0);
        assert_eq!(ready.len(), 5);
        assert_eq!(ready.pop(|| 0), Some(entry(2, 0)));
        assert_eq!(ready.pop(|| 0), Some(entry(1, 0)));
        // From now on, each execution of the other workflow goes first.
        for seq in 1..4 {
            for other in 0..9 {
                let at = entry(2, 10 * seq + other);
                ready.rest.push(caller(0, &light), (at, 0), 0);
            }
        }
        let order: Vec<_> = std::iter::from_fn(|| ready.pop(|| 0)).collect();
        assert_eq!(order.len(), 30);
        let heavy: Vec<_> = order.iter().filter(|entry| entry.0 == RunNo(1)).collect();
        assert_eq!(heavy, order[27..].iter().collect::<Vec<_>>());
    }
}
