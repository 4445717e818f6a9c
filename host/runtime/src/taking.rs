//! A process that delivers something takes what comes of it itself, as far as it has room: so that
//! nobody has to look for that, and what waited goes on one transaction sooner.

use windlass_model::{InstanceId, Numbers};
use windlass_store::codes::UNKNOWN_OUTCOME;
use windlass_store::stimuli::{ClaimFor, Sent};

use crate::error::Error;
use crate::scheduler::core::Event;
use crate::shared::RuntimeShared;

/// So much of what one delivery resumes is taken at most, in instances and in triggers of each.
/// The rest is for whoever claims it: there may be others.
const MOST: u32 = 16;

impl RuntimeShared {
    /// Who takes what is delivered now: this process, if it would claim what is due.
    fn claim_for(&self, numbers: &Numbers) -> Option<ClaimFor> {
        let room = self.intake.flow.room().min(MOST);
        let claims = room > 0 && !self.intake.begins_nothing() && self.intake.own.is_none();
        claims.then(|| ClaimFor {
            incarnation: numbers.incarnation(),
            instances: room,
            triggers: room,
        })
    }

    /// Delivers something. Hands over what was taken, and tells everybody if there is more that
    /// is due.
    pub(crate) fn delivered(
        &self,
        numbers: &Numbers,
        deliver: impl FnOnce(Option<ClaimFor>) -> Result<Sent, Error>,
    ) -> Result<Sent, Error> {
        let claim_for = self.claim_for(numbers);
        let mut sent = deliver(claim_for).inspect_err(|error| {
            if claim_for.is_some() && error.code() == UNKNOWN_OUTCOME {
                // This process may hold what it knows nothing of, and would never run. As a new
                // member it holds nothing.
                self.intake.scheduler.send(Event::Lost);
            }
        })?;
        let taken = std::mem::take(&mut sent.taken);
        let mut due = sent.started.iter().chain(&sent.resumed);
        let is_taken = |id: &InstanceId| taken.iter().any(|taken| taken.row.id == *id);
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
