//! Handles a step that the store refuses.
//!
//! If the store fails (full, busy, out of reach), the write is tried again for as long as that
//! lasts. An error that concerns one step alone does not pass: a value that a column cannot hold, a
//! value that was altered on the disk. Such a step is repeated a limited number of times, since a
//! later write may have repaired the cause. After that, the host asks the store for less:
//!
//! 1. the step fails with class `invalid`, and the workflow decides how to continue;
//! 2. the run is faulted, which writes no value;
//! 3. the trigger is parked;
//! 4. the run stays with this process, which does no more work on it.
//!
//! Refusals are counted in memory, per trigger, so that a step that the store accepts costs
//! nothing. Another process that takes the run over begins to count again: the attempts are
//! bounded for each process, and a run repeats its step for as long as no process lives long enough
//! to reach the end of the list.

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use windlass_model::valid::plain;
use windlass_model::{Class, Failure, RunNo, Seq};
use windlass_store::Error;

use super::outcome::{Ran, Settled};
use super::shard_state::ShardState;
use super::work::Address;
use crate::codes;
use crate::shared::RuntimeShared;

/// The number of refusals before each of these stages.
const TRIES: u32 = 3;

/// The limit of triggers that are counted in one shard. Triggers beyond it count as refused
/// [`TRIES`] times with each refusal.
const COUNTED: usize = 4_096;

/// A trigger without a refusal for this time has left this process: another process owns its
/// run, or the run is deleted.
const FORGOTTEN: Duration = Duration::from_secs(10 * 60);

/// The bytes of the store's message that a failure repeats.
const WORDS: usize = 500;

/// The triggers of one shard whose steps the store has refused.
#[derive(Default)]
pub(crate) struct Refusals {
    counts: FxHashMap<(RunNo, Seq), Refusal>,
}

struct Refusal {
    times: u32,
    /// The latest error of the store.
    error: Error,
    at: Duration,
}

/// The action for a trigger in place of the step that the store refuses.
pub(super) enum Remedy {
    /// The step fails.
    Fail(Failure),
    /// The run is faulted.
    Break(Failure),
    /// The trigger is parked, with this reason.
    Park(String),
}

impl Refusals {
    /// Counts a refusal. Returns whether there is another attempt.
    pub(super) fn note(&mut self, no: RunNo, seq: Seq, error: &Error, now: Duration) -> bool {
        let known = self.counts.contains_key(&(no, seq));
        if !known && self.counts.len() >= COUNTED {
            self.counts
                .retain(|_, refusal| now.saturating_sub(refusal.at) < FORGOTTEN);
        }
        let crowded = !known && self.counts.len() >= COUNTED;
        let refusal = self.counts.entry((no, seq)).or_insert_with(|| Refusal {
            times: 0,
            error: error.clone(),
            at: now,
        });
        refusal.times += if crowded { TRIES } else { 1 };
        refusal.error = error.clone();
        refusal.at = now;
        let left = refusal.times < 4 * TRIES;
        if !left {
            self.counts.remove(&(no, seq));
        }
        left
    }

    /// Forgets a trigger whose step the store has accepted.
    pub(super) fn taken(&mut self, no: RunNo, seq: Seq) {
        if !self.counts.is_empty() {
            self.counts.remove(&(no, seq));
        }
    }

    /// Whether a step of a run was refused.
    pub(super) fn are_of(&self, no: RunNo) -> bool {
        self.counts.keys().any(|(of, _)| *of == no)
    }

    /// The action in place of the step, if the store has refused the step too often.
    fn remedy(&self, no: RunNo, seq: Seq) -> Option<Remedy> {
        if self.counts.is_empty() {
            return None;
        }
        let refusal = self.counts.get(&(no, seq))?;
        Some(match refusal.times / TRIES {
            0 => return None,
            1 => Remedy::Fail(refusal.failure()),
            2 => Remedy::Break(refusal.failure()),
            _ => Remedy::Park(refusal.failure().message),
        })
    }

    pub(crate) fn clear(&mut self) {
        self.counts.clear();
    }
}

impl Refusal {
    fn failure(&self) -> Failure {
        let words = plain(&self.error.message, WORDS);
        let message = format!(
            "the store refuses a read or a write of the step ({}: {words})",
            self.error.code
        );
        Failure::new(Class::Invalid, codes::REFUSED, message)
    }
}

impl ShardState {
    /// Carries out the action for a trigger whose step the store has refused too often. Returns
    /// false if the step itself is to be done.
    pub(super) fn remedied(&mut self, to: Address, shared: &Arc<RuntimeShared>) -> bool {
        let Some(remedy) = self.refusals.remedy(to.run, to.seq) else {
            return false;
        };
        let Some(owned) = self.owned.get(&to.run) else {
            return true;
        };
        let is_external = owned.external(to.seq).is_some();
        let is_timeout = owned.state.timeout == Some(to.seq);
        match remedy {
            Remedy::Park(reason) => self.park(to, reason),
            // An external trigger alone does not fault the run.
            Remedy::Break(failure) if is_external => self.park(to, failure.message),
            Remedy::Fail(failure) if !is_timeout => self.give_up(to, failure, shared),
            Remedy::Fail(failure) | Remedy::Break(failure) => {
                self.settle(to, Settled::Broken(failure), Ran::default(), shared);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{COUNTED, Duration, FORGOTTEN, Refusals, Remedy, TRIES};
    use windlass_model::{RunNo, Seq};
    use windlass_store::{Error, codes};

    const NO: RunNo = RunNo(7);

    fn error() -> Error {
        Error::new(codes::CONTRADICTION, "a write cannot be stored")
    }

    fn step(refusals: &Refusals, seq: Seq) -> &'static str {
        match refusals.remedy(NO, seq) {
            None => "again",
            Some(Remedy::Fail(_)) => "fail",
            Some(Remedy::Break(_)) => "break",
            Some(Remedy::Park(_)) => "park",
        }
    }

    #[test]
    fn less_is_asked_of_the_store_every_three_refusals_until_nothing_is() {
        let mut refusals = Refusals::default();
        let mut steps = Vec::new();
        loop {
            steps.push(step(&refusals, Seq(1)));
            if !refusals.note(NO, Seq(1), &error(), Duration::ZERO) {
                break;
            }
        }
        let expected = ["again", "fail", "break", "park"].map(|step| [step; TRIES as usize]);
        assert_eq!(steps, expected.concat());
        assert_eq!(step(&refusals, Seq(2)), "again");
    }

    #[test]
    fn a_step_that_the_store_takes_is_counted_anew() {
        let mut refusals = Refusals::default();
        for _ in 0..2 {
            refusals.note(NO, Seq(1), &error(), Duration::ZERO);
        }
        refusals.taken(NO, Seq(1));
        refusals.note(NO, Seq(1), &error(), Duration::ZERO);
        assert_eq!(step(&refusals, Seq(1)), "again");
    }

    #[test]
    fn a_crowd_is_not_tried_for_ever() {
        let mut refusals = Refusals::default();
        for seq in 0..=COUNTED as u64 {
            refusals.note(NO, Seq(seq), &error(), Duration::ZERO);
        }
        assert_eq!(step(&refusals, Seq(COUNTED as u64)), "fail");
        refusals.note(NO, Seq(u64::MAX / 4), &error(), FORGOTTEN);
        assert_eq!(refusals.counts.len(), 1);
    }
}
