//! Claims the runs that a delivery of this process starts or resumes, as far as there is room. So
//! no further claim is needed, and the resumed runs continue one transaction sooner.

use windlass_model::{Numbers, RunId};
use windlass_store::codes::UNKNOWN_OUTCOME;
use windlass_store::stimuli::{ClaimFor, Sent};

use crate::error::Error;
use crate::scheduler::core::Event;
use crate::shared::RuntimeShared;

/// The limit of runs that one delivery claims, and of triggers of each. The rest is left to
/// claims, because other processes may have room.
const MOST: u32 = 16;

impl RuntimeShared {
    /// The claimer of a delivery: this process, if it would claim due triggers now.
    pub(crate) fn claim_for(&self, numbers: &Numbers) -> Option<ClaimFor> {
        let room = self.intake.flow.room().min(MOST);
        // A run that is resumed may be large.
        let claims = room > 0
            && !self.intake.states.is_full()
            && !self.intake.begins_nothing()
            && self.intake.own.is_none();
        claims.then(|| ClaimFor {
            incarnation: numbers.incarnation(),
            runs: room,
            triggers: room,
        })
    }

    /// Delivers, and passes on the claimed runs ([`Self::after_delivery`]).
    pub(crate) fn delivered(
        &self,
        numbers: &Numbers,
        deliver: impl FnOnce(Option<ClaimFor>) -> Result<Sent, Error>,
    ) -> Result<Sent, Error> {
        let claim_for = self.claim_for(numbers);
        let sent = deliver(claim_for);
        self.after_delivery(claim_for, sent)
    }

    /// Passes on the runs that a delivery has claimed. Notifies all processes if more triggers are
    /// due. Must be called for every delivery, even if its caller is gone.
    pub(crate) fn after_delivery(
        &self,
        claim_for: Option<ClaimFor>,
        sent: Result<Sent, Error>,
    ) -> Result<Sent, Error> {
        let mut sent = sent.inspect_err(|error| {
            if claim_for.is_some() && error.code() == UNKNOWN_OUTCOME {
                // This process may own runs that it does not know and would never run. It
                // rejoins: a new member owns nothing.
                self.intake.scheduler.send(Event::Lost);
            }
        })?;
        let taken = std::mem::take(&mut sent.taken);
        let mut due = sent.started.iter().chain(&sent.resumed);
        let is_taken = |id: &RunId| taken.iter().any(|taken| taken.row.id == *id);
        let left = !due.all(is_taken);
        if !taken.is_empty() {
            self.intake.scheduler.taken(taken);
        }
        if left {
            self.intake.scheduler.send(Event::Woken);
            self.base.store.notify();
        }
        if sent.more {
            self.listeners.queue.ring();
        }
        Ok(sent)
    }
}
