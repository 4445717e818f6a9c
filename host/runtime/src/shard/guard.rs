//! The lock around a burst, for stores whose ownership is not enough.
//!
//! With a lock provider besides the store, a claimed run is not touched before its lock
//! `workflow-instance:{id}` is held. A shard returns its requests and releases of locks together
//! with its writes, so that no worker waits for a lock; the
//! [`BurstLocks`](crate::burst_locks::BurstLocks) carries them out. Without a configured provider
//! this module does nothing.

use windlass_model::{Epoch, RunId, RunNo, Seq};

use super::owned::{External, OwnedRun, Stage};
use super::shard_state::ShardState;
use crate::burst_locks::BurstLock;
use crate::scheduler::core::Event;
use crate::shared::RuntimeShared;
use crate::wait::Ended;

/// The delay before a run is claimed again whose lock could not be held, in milliseconds.
const AGAIN_MS: i64 = 100;

/// The condition under which a run may execute.
pub(crate) enum Guard {
    /// No condition.
    Open,
    /// The lock was requested, and the run waits for it.
    Asked,
    /// This lock is held, so the run may execute.
    Held(BurstLock),
}

/// A lock operation that a shard orders.
pub(crate) enum Order {
    /// Take the lock of a run for a burst.
    Take {
        /// The run.
        no: RunNo,
        /// Its id.
        id: RunId,
        /// The burst.
        epoch: Epoch,
    },
    /// Release the lock of a burst that is over.
    Give {
        /// The run.
        no: RunNo,
        /// The lock.
        burst_lock: BurstLock,
    },
}

/// The result of a lock request.
pub(crate) enum Taken {
    /// The lock is held, and the burst may begin.
    Held(BurstLock),
    /// Another process has the lock, or the provider fails.
    Refused,
    /// The lock was held and is lost.
    Lost,
}

impl ShardState {
    /// Requests the lock of a burst, if it needs one.
    pub(super) fn ask(&mut self, no: RunNo, shared: &RuntimeShared) {
        if shared.base.topology.burst_locks().is_none() {
            return;
        }
        if let Some(owned) = self.owned.get_mut(&no) {
            owned.guard = Guard::Asked;
            let (id, epoch) = (owned.id, owned.epoch);
            self.orders.push(Order::Take { no, id, epoch });
        }
    }

    /// Takes the pending orders.
    pub(crate) fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// Processes the result of a lock request, or the loss of a lock.
    pub(super) fn locked(&mut self, no: RunNo, epoch: Epoch, taken: Taken, shared: &RuntimeShared) {
        let owned = self.owned.get_mut(&no).filter(|owned| owned.epoch == epoch);
        match (taken, owned) {
            (Taken::Held(burst_lock), Some(owned)) if matches!(owned.guard, Guard::Asked) => {
                owned.guard = Guard::Held(burst_lock);
                for seq in owned.lined_up() {
                    self.make_ready(no, seq, shared);
                }
            }
            // The burst has ended, or was given up, while the request was in progress.
            (Taken::Held(burst_lock), _) => self.orders.push(Order::Give { no, burst_lock }),
            (Taken::Refused, Some(owned)) if matches!(owned.guard, Guard::Asked) => {
                tracing::debug!(run = %owned.id, "the lock of a run is not to be had: giving it back");
                self.shut_out(no, epoch, shared);
            }
            (Taken::Lost, Some(owned)) if matches!(owned.guard, Guard::Held(_)) => {
                tracing::warn!(run = %owned.id, "the lock of a run is lost: interrupting it");
                shared.base.metrics.lease_lost.add(1);
                self.shut_out(no, epoch, shared);
            }
            (Taken::Refused | Taken::Lost, _) => {}
        }
    }

    /// Stops a run here: it is given back, and later results of its guests are dropped. The
    /// store decides about commits that are in progress.
    pub(super) fn shut_out(&mut self, no: RunNo, epoch: Epoch, shared: &RuntimeShared) {
        let Some((id, fence)) = self.drop_owned(no, epoch, shared) else {
            return;
        };
        self.release(fence);
        shared.listeners.waiters.tell(no, id, &Ended::GivenBack);
        // The run is given back by then. The holder of its lock may need more time.
        let again_ms = shared.base.now().wall_ms.saturating_add(AGAIN_MS);
        shared.intake.scheduler.send(Event::Due(again_ms));
    }

    /// Releases the lock of a burst that is over.
    pub(super) fn unlock(&mut self, owned: &mut OwnedRun) {
        if let Guard::Held(burst_lock) = std::mem::replace(&mut owned.guard, Guard::Open) {
            self.orders.push(Order::Give {
                no: owned.no,
                burst_lock,
            });
        }
    }
}

impl OwnedRun {
    /// The claimed triggers that have not begun, in order.
    fn lined_up(&self) -> Vec<Seq> {
        let ready = self.held.iter();
        let ready = ready.filter(|(_, held)| matches!(held.stage, Stage::Ready));
        let mut places: Vec<_> = ready
            .map(|(seq, held)| place(*seq, held.external.as_deref()))
            .collect();
        places.sort_unstable();
        places.into_iter().map(|(.., seq)| seq).collect()
    }

    /// Whether the run waits for its lock.
    pub(super) fn is_shut(&self) -> bool {
        matches!(self.guard, Guard::Asked)
    }
}

/// The sort key of a trigger. Control triggers come first, in the order of their requests. Sequence
/// numbers of external triggers do not tell that order.
fn place(seq: Seq, external: Option<&External>) -> (bool, i64, Seq) {
    match external.filter(|external| external.kind.is_control()) {
        Some(control) => (false, control.due_ms, seq),
        None => (true, 0, seq),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use windlass_model::{TriggerNo, TriggerType};

    use super::*;

    #[test]
    fn control_stands_in_line_as_it_was_asked_for() {
        let external = |kind, due_ms| External {
            kind,
            node: None,
            priority: 0,
            detail: Bytes::new(),
            due_ms,
        };
        let pause = (3, external(TriggerType::Pause, 7));
        let unpause = (2, external(TriggerType::Unpause, 8));
        let timer = (1, external(TriggerType::Timer, 1));
        let mut places: Vec<_> = [&timer, &unpause, &pause]
            .map(|(no, external)| place(Seq::external(TriggerNo(*no)), Some(external)))
            .into_iter()
            .chain([place(Seq(9), None)])
            .collect();
        places.sort_unstable();
        let seqs: Vec<Seq> = places.into_iter().map(|(.., seq)| seq).collect();
        let [pause, unpause, timer] = [3, 2, 1].map(|no| Seq::external(TriggerNo(no)));
        assert_eq!(seqs, [pause, unpause, Seq(9), timer]);
    }
}
