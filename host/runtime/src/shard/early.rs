//! What was claimed of instances that are not here.
//!
//! Word of further triggers can overtake the word that their instance was taken: whoever delivers
//! takes instances in a thread of his own, and what is not known of a definition is looked up
//! aside. Such triggers wait here for their burst. Or the burst was given back while the claim
//! was on its way: then the store has made them pending again, and they are to be claimed anew.

use rustc_hash::FxHashMap;
use windlass_model::{Clock, Epoch, InstanceNo};
use windlass_store::write::ClaimedInstance;

use crate::scheduler::core::Event;
use crate::shared::Intake;

/// Claims that wait for their bursts. They count as in flight.
#[derive(Default)]
pub(super) struct Early {
    claims: FxHashMap<InstanceNo, Vec<ClaimedInstance>>,
    /// Those that were there at the last look: if they are at the next one, nobody comes.
    seen: Vec<(InstanceNo, Epoch)>,
}

impl Early {
    pub(super) fn add(&mut self, claimed: ClaimedInstance) {
        self.claims.entry(claimed.row.no).or_default().push(claimed);
    }

    /// Takes what waits for a burst that is here now. What is of an earlier one is void.
    pub(super) fn of(
        &mut self,
        no: InstanceNo,
        epoch: Epoch,
        intake: &Intake,
    ) -> Vec<ClaimedInstance> {
        let mut its = Vec::new();
        for claimed in self.claims.remove(&no).into_iter().flatten() {
            match claimed.row.epoch {
                its_epoch if its_epoch == epoch => its.push(claimed),
                its_epoch if its_epoch > epoch => self.add(claimed),
                _ => intake.landed(claimed.count()),
            }
        }
        its
    }

    /// A burst was given back, durably: what was claimed of it is pending again.
    pub(super) fn given_back(
        &mut self,
        no: InstanceNo,
        epoch: Epoch,
        intake: &Intake,
        clock: &dyn Clock,
    ) {
        let its = self.of(no, epoch, intake);
        if its.is_empty() {
            return;
        }
        for claimed in its {
            intake.landed(claimed.count());
        }
        intake.scheduler.send(Event::Due(clock.wall_ms()));
    }

    /// Drops what was here at the last look already.
    pub(super) fn retry(&mut self, intake: &Intake) {
        let all = self.claims.values().flatten();
        let all: Vec<_> = all.map(|one| (one.row.no, one.row.epoch)).collect();
        for (no, epoch) in std::mem::replace(&mut self.seen, all) {
            for claimed in self.of(no, epoch, intake) {
                intake.landed(claimed.count());
            }
        }
    }

    /// Drops all: the process holds nothing of it any more.
    pub(super) fn clear(&mut self, intake: &Intake) {
        self.seen.clear();
        for claimed in std::mem::take(&mut self.claims).into_values().flatten() {
            intake.landed(claimed.count());
        }
    }
}
