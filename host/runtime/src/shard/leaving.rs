//! Runs that leave the shard before they end.

use windlass_model::{Epoch, RunId, RunNo};
use windlass_store::write::{Fence, Release};

use super::owned::OwnedRun;
use super::shard_state::{ShardState, Then};
use crate::shared::RuntimeShared;
use crate::wait::Ended;

impl ShardState {
    /// Drops a run, if it is still in this burst.
    pub(super) fn drop_owned(
        &mut self,
        no: RunNo,
        epoch: Epoch,
        shared: &RuntimeShared,
    ) -> Option<(RunId, Fence)> {
        self.owned.get(&no).filter(|owned| owned.epoch == epoch)?;
        let owned = self.owned.remove(&no)?;
        let known = (owned.id, owned.fence());
        self.dismiss(owned, shared);
        Some(known)
    }

    /// Cleans up after a run that leaves the shard.
    pub(super) fn dismiss(&mut self, mut owned: OwnedRun, shared: &RuntimeShared) {
        for (seq, held) in &owned.held {
            held.leaves(owned.no, *seq, shared);
        }
        self.unlock(&mut owned);
        shared.listeners.waiters.left(owned.no, owned.id);
        drop(owned);
        shared.intake.offer_room();
    }

    pub(super) fn forget(&mut self, shared: &RuntimeShared) {
        self.owed.clear();
        self.refusals.clear();
        self.ready.clear();
        self.stood_back.clear_ready();
        self.early.clear(&shared.intake);
        for (no, owned) in std::mem::take(&mut self.owned) {
            let id = owned.id;
            self.dismiss(owned, shared);
            shared.listeners.waiters.tell(no, id, &Ended::GivenBack);
        }
    }

    pub(super) fn retry(&mut self) {
        for fence in std::mem::take(&mut self.owed) {
            self.release(fence);
        }
    }

    /// Gives back a run that is not here.
    pub(super) fn release(&mut self, fence: Fence) {
        let burst = (fence.run, fence.epoch);
        self.push(burst, Then::Released(fence), Release { fence });
    }

    pub(super) fn drain(&mut self, shared: &RuntimeShared) {
        self.ready.clear();
        self.stood_back.clear_ready();
        let all: Vec<RunNo> = self.owned.keys().copied().collect();
        for no in all {
            self.give_back_if_idle(no, shared);
        }
        // Steps that wait for room are given back with their runs.
        shared.bursts.call_data.flush();
    }

    /// Gives a run back if none of its executions is in progress here. While draining,
    /// claimed triggers that have not begun do not count.
    pub(super) fn give_back_if_idle(&mut self, no: RunNo, shared: &RuntimeShared) {
        let idle = self.owned.get(&no).is_some_and(|owned| {
            !owned.leaving && !owned.is_running() && owned.unacknowledged == 0
        });
        if idle && let Some(owned) = self.owned.remove(&no) {
            let (id, fence) = (owned.id, owned.fence());
            self.dismiss(owned, shared);
            self.release(fence);
            shared.listeners.waiters.tell(no, id, &Ended::GivenBack);
        }
    }
}
