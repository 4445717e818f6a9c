//! Buffers claimed triggers of runs that are not in this shard.
//!
//! The message about further triggers can arrive before the message that their run was
//! claimed: a process that delivers a stimulus claims runs on its own thread, and an unknown
//! definition is prepared on another thread. Such triggers wait here for their burst. It is also
//! possible that the burst was given back while the claim was in progress: then the store has made
//! the triggers pending again, and they have to be claimed again.

use rustc_hash::FxHashMap;
use windlass_model::{Clock, Epoch, RunNo};
use windlass_store::write::ClaimedRun;

use crate::scheduler::core::Event;
use crate::shared::Intake;

/// Claims that wait for their bursts. They count as in flight.
#[derive(Default)]
pub(super) struct Early {
    claims: FxHashMap<RunNo, Vec<ClaimedRun>>,
    /// The claims at the last check. A claim that is still here at the next check is dropped.
    seen: Vec<(RunNo, Epoch)>,
}

impl Early {
    pub(super) fn add(&mut self, claimed: ClaimedRun) {
        self.claims.entry(claimed.row.no).or_default().push(claimed);
    }

    /// Takes the claims of a burst that is here now. Claims of an earlier burst are void.
    pub(super) fn of(&mut self, no: RunNo, epoch: Epoch, intake: &Intake) -> Vec<ClaimedRun> {
        let mut its = Vec::new();
        for claimed in self.claims.remove(&no).into_iter().flatten() {
            match claimed.row.epoch {
                its_epoch if its_epoch == epoch => its.push(claimed),
                its_epoch if its_epoch > epoch => self.add(claimed),
                _ => intake.release(claimed.count()),
            }
        }
        its
    }

    /// Drops the claims of a burst that was given back, durably: their triggers are pending again.
    pub(super) fn given_back(
        &mut self,
        no: RunNo,
        epoch: Epoch,
        intake: &Intake,
        clock: &dyn Clock,
    ) {
        let its = self.of(no, epoch, intake);
        if its.is_empty() {
            return;
        }
        for claimed in its {
            intake.release(claimed.count());
        }
        intake.scheduler.send(Event::Due(clock.wall_ms()));
    }

    /// Drops the claims that were here at the last check.
    pub(super) fn retry(&mut self, intake: &Intake) {
        let all = self.claims.values().flatten();
        let all: Vec<_> = all.map(|one| (one.row.no, one.row.epoch)).collect();
        for (no, epoch) in std::mem::replace(&mut self.seen, all) {
            for claimed in self.of(no, epoch, intake) {
                intake.release(claimed.count());
            }
        }
    }

    /// Drops all claims: the process owns none of their runs any more.
    pub(super) fn clear(&mut self, intake: &Intake) {
        self.seen.clear();
        for claimed in std::mem::take(&mut self.claims).into_values().flatten() {
            intake.release(claimed.count());
        }
    }
}
