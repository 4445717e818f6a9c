//! The lock around a burst, for where ownership in the store is not enough.
//!
//! With a provider of locks besides the store, an instance that was claimed is not touched
//! before its lock `workflow-instance:{id}` is there. Asking for it and giving it back are
//! orders that a shard hands out with its writes, so that no worker waits for them; the
//! [`BurstLocks`](crate::burst_locks::BurstLocks) carries them out. Where no provider is
//! configured nothing of this happens.

use windlass_model::{Epoch, InstanceId, InstanceNo, Seq};

use super::owned::{Outside, OwnedInstance, Stage};
use super::shard_state::ShardState;
use crate::burst_locks::BurstLock;
use crate::scheduler::core::Event;
use crate::shared::RuntimeShared;
use crate::wait::Ended;

/// After how long an instance that was shut out is claimed again, in milliseconds.
const AGAIN_MS: i64 = 100;

/// What stands before the execution of an instance.
pub(crate) enum Guard {
    /// Nothing.
    Open,
    /// A lock that was asked for.
    Asked,
    /// Nothing, because this is held.
    Held(BurstLock),
}

/// What a shard wants of a lock.
pub(crate) enum Order {
    /// The lock of an instance, for a burst.
    Take {
        /// Which.
        no: InstanceNo,
        /// Its name.
        id: InstanceId,
        /// Of which burst.
        epoch: Epoch,
    },
    /// The burst is over.
    Give {
        /// Of which instance.
        no: InstanceNo,
        /// What is held.
        burst_lock: BurstLock,
    },
}

/// What came of asking for a lock.
pub(crate) enum Taken {
    /// The burst may begin.
    Held(BurstLock),
    /// Somebody has it, or nobody can tell.
    Refused,
    /// It was held, and is not any more.
    Lost,
}

impl ShardState {
    /// Asks for the lock of a burst, if it needs one.
    pub(super) fn ask(&mut self, no: InstanceNo, shared: &RuntimeShared) {
        if shared.base.topology.burst_locks().is_none() {
            return;
        }
        if let Some(owned) = self.owned.get_mut(&no) {
            owned.guard = Guard::Asked;
            let (id, epoch) = (owned.id, owned.epoch);
            self.orders.push(Order::Take { no, id, epoch });
        }
    }

    /// Takes the orders that are to be carried out.
    pub(crate) fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// The lock of a burst has come, or not, or went.
    pub(super) fn locked(
        &mut self,
        no: InstanceNo,
        epoch: Epoch,
        taken: Taken,
        shared: &RuntimeShared,
    ) {
        let owned = self.owned.get_mut(&no).filter(|owned| owned.epoch == epoch);
        match (taken, owned) {
            (Taken::Held(burst_lock), Some(owned)) if matches!(owned.guard, Guard::Asked) => {
                owned.guard = Guard::Held(burst_lock);
                for seq in owned.lined_up() {
                    self.make_ready(no, seq, shared);
                }
            }
            // The burst has ended, or was given up, while the lock was on its way.
            (Taken::Held(burst_lock), _) => self.orders.push(Order::Give { no, burst_lock }),
            (Taken::Refused, Some(owned)) if matches!(owned.guard, Guard::Asked) => {
                tracing::debug!(instance = %owned.id, "the lock of a run is not to be had: giving it back");
                self.shut_out(no, epoch, shared);
            }
            (Taken::Lost, Some(owned)) if matches!(owned.guard, Guard::Held(_)) => {
                tracing::warn!(instance = %owned.id, "the lock of a run is lost: interrupting it");
                shared.base.metrics.lease_lost.add(1);
                self.shut_out(no, epoch, shared);
            }
            (Taken::Refused | Taken::Lost, _) => {}
        }
    }

    /// Nothing of an instance may go on here: it is given back, and what its guests still
    /// return is thrown away. What is on its way to the store is decided there.
    pub(super) fn shut_out(&mut self, no: InstanceNo, epoch: Epoch, shared: &RuntimeShared) {
        let Some((_, fence)) = self.drop_hot(no, epoch, shared) else {
            return;
        };
        self.release(fence);
        shared.listeners.waiters.tell(no, &Ended::GivenBack);
        // By then it is given back. Whoever has its lock may need some time yet.
        let again_ms = shared.base.now().wall_ms.saturating_add(AGAIN_MS);
        shared.intake.scheduler.send(Event::Due(again_ms));
    }

    /// A burst is over: its lock goes.
    pub(super) fn unlock(&mut self, owned: &mut OwnedInstance) {
        if let Guard::Held(burst_lock) = std::mem::replace(&mut owned.guard, Guard::Open) {
            self.orders.push(Order::Give {
                no: owned.no,
                burst_lock,
            });
        }
    }
}

impl OwnedInstance {
    /// What is claimed and has not begun, in order.
    fn lined_up(&self) -> Vec<Seq> {
        let ready = self.held.iter();
        let ready = ready.filter(|(_, held)| matches!(held.stage, Stage::Ready));
        let mut places: Vec<_> = ready
            .map(|(seq, held)| place(*seq, held.outside.as_deref()))
            .collect();
        places.sort_unstable();
        places.into_iter().map(|(.., seq)| seq).collect()
    }

    /// Whether it has to wait for its lock.
    pub(super) fn is_shut(&self) -> bool {
        matches!(self.guard, Guard::Asked)
    }
}

/// Where something stands in line: control first, in the order in which it was asked for, of
/// which the numbers of what comes from outside say nothing.
fn place(seq: Seq, outside: Option<&Outside>) -> (bool, i64, Seq) {
    match outside.filter(|outside| outside.kind.is_control()) {
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
        let outside = |kind, due_ms| Outside {
            kind,
            node: None,
            priority: 0,
            detail: Bytes::new(),
            due_ms,
        };
        let pause = (3, outside(TriggerType::Pause, 7));
        let unpause = (2, outside(TriggerType::Unpause, 8));
        let timer = (1, outside(TriggerType::Timer, 1));
        let mut places: Vec<_> = [&timer, &unpause, &pause]
            .map(|(no, outside)| place(Seq::outside(TriggerNo(*no)), Some(outside)))
            .into_iter()
            .chain([place(Seq(9), None)])
            .collect();
        places.sort_unstable();
        let seqs: Vec<Seq> = places.into_iter().map(|(.., seq)| seq).collect();
        let [pause, unpause, timer] = [3, 2, 1].map(|no| Seq::outside(TriggerNo(no)));
        assert_eq!(seqs, [pause, unpause, Seq(9), timer]);
    }
}
