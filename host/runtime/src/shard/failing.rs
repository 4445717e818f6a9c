//! The triggers whose consumers fail, and how long each waits until it is offered again.
//!
//! A trigger waits a second, then two, then four, up to five minutes, each time up to a quarter
//! less, so that triggers that failed together are not offered together. Failures are counted in
//! memory, per trigger: a trigger that its consumer fails to take delays no other one. A process
//! that takes the run over begins to count again. When a consumer is loaded, which may be the
//! repaired one, the triggers become due at once.

use std::time::Duration;

use rustc_hash::FxHashMap;
use windlass_model::{Epoch, RunNo, Seq};
use windlass_store::external::{Fire, Touched, TriggerTarget};

use super::shard_state::{ShardState, Then};
use crate::scheduler::core::Event;
use crate::shared::RuntimeShared;

/// The first and the longest wait, in milliseconds; it doubles each time.
const WAIT_MS: (u64, u64) = (1_000, 5 * 60 * 1_000);

/// The limit of triggers that are counted in one shard. The one that failed longest ago is
/// forgotten.
const COUNTED: usize = 4_096;

/// The triggers of one shard whose consumers failed, by the first number of each.
#[derive(Default)]
pub(crate) struct Failing {
    triggers: FxHashMap<(RunNo, Seq), Failures>,
    /// The failures in all.
    failures: u64,
}

struct Failures {
    times: u32,
    /// The trigger that is due again: one of the engine has another number each time.
    seq: Seq,
    /// When the trigger is due again, in epoch milliseconds.
    due_ms: i64,
    /// The number of the last one among all failures.
    last: u64,
}

impl Failing {
    /// Counts a failure. Returns how often the consumer has failed to take the trigger, and the
    /// milliseconds until it is offered again. `random` is the same for the same trigger; `due_ms`
    /// gives the time in epoch milliseconds after this wait.
    pub(super) fn note(
        &mut self,
        trigger: (RunNo, Seq),
        random: u64,
        due_ms: impl FnOnce(Duration) -> i64,
    ) -> Offer {
        if self.triggers.len() >= COUNTED && !self.triggers.contains_key(&trigger) {
            let oldest = self.triggers.iter().min_by_key(|(_, it)| it.last);
            if let Some(oldest) = oldest.map(|(trigger, _)| *trigger) {
                self.triggers.remove(&oldest);
            }
        }
        self.failures += 1;
        let failures = self.triggers.entry(trigger).or_insert(Failures {
            times: 0,
            seq: trigger.1,
            due_ms: 0,
            last: self.failures,
        });
        failures.times = failures.times.saturating_add(1);
        failures.last = self.failures;
        let wait_ms = wait_ms(failures.times, random);
        failures.due_ms = due_ms(Duration::from_millis(wait_ms));
        Offer {
            failures: failures.times,
            wait_ms,
            due_ms: failures.due_ms,
        }
    }

    /// A trigger goes on with this number.
    pub(super) fn goes_on(&mut self, trigger: (RunNo, Seq), seq: Seq) {
        if let Some(failures) = self.triggers.get_mut(&trigger) {
            failures.seq = seq;
        }
    }

    /// Forgets all triggers, and returns them with the times at which they are due.
    fn take(&mut self) -> Vec<((RunNo, Seq), i64)> {
        let triggers = self.triggers.drain();
        triggers
            .map(|((run, _), it)| ((run, it.seq), it.due_ms))
            .collect()
    }

    /// The consumer has decided about the trigger. Returns how often it failed before.
    pub(super) fn over(&mut self, trigger: (RunNo, Seq)) -> Option<u32> {
        if self.triggers.is_empty() {
            return None;
        }
        self.triggers.remove(&trigger).map(|it| it.times)
    }
}

/// When a trigger is offered again that a consumer has failed to take.
pub(super) struct Offer {
    /// How often it has failed.
    pub(super) failures: u32,
    /// How long the trigger waits, in milliseconds.
    pub(super) wait_ms: u64,
    /// When it is due, in epoch milliseconds.
    pub(super) due_ms: i64,
}

impl ShardState {
    /// Makes the triggers due that consumers failed to take: there is another consumer. A call of the
    /// old one that is in progress, and fails, counts as the first failure.
    pub(super) fn offer_again(&mut self, shared: &RuntimeShared) {
        let at_ms = shared.base.clock.wall_ms();
        for ((run, seq), due_ms) in self.failing.take() {
            let fire = Fire {
                target: TriggerTarget::Row(run, seq),
                at_ms,
                only_due_ms: Some(due_ms),
            };
            // The write that puts the trigger off comes before this one.
            self.push((run, Epoch(0)), Then::Fired, fire);
        }
    }
}

/// Continues after a trigger has become due.
pub(super) fn fired(answer: windlass_store::Result<Touched>, shared: &RuntimeShared) {
    match answer {
        Ok(Touched::Done) => shared.intake.scheduler.send(Event::Due(i64::MIN)),
        // It has been run, cancelled or claimed since.
        Ok(_) => {}
        Err(error) => {
            let code = &error.code;
            tracing::warn!(%code, %error, "a trigger that a consumer failed to take waits until it is due");
        }
    }
}

/// The wait after so many failures.
fn wait_ms(times: u32, random: u64) -> u64 {
    let (first_ms, most_ms) = WAIT_MS;
    let doublings = times.saturating_sub(1).min(20);
    let wait_ms = (first_ms << doublings).min(most_ms);
    // Another part of the number each time.
    wait_ms - random.rotate_left(times) % (wait_ms / 4 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIGGER: (RunNo, Seq) = (RunNo(1), Seq(1));

    fn due_ms(wait: Duration) -> i64 {
        i64::try_from(wait.as_millis()).unwrap()
    }

    #[test]
    fn waits_double_up_to_the_longest_and_begin_again_after_a_decision() {
        let mut failing = Failing::default();
        assert_eq!(failing.over(TRIGGER), None);
        for times in 1..=40 {
            let most_ms = (1_000_u64 << (times - 1).min(20)).min(300_000);
            let offer = failing.note(TRIGGER, 0x9e37_79b9_7f4a_7c15, due_ms);
            assert_eq!(offer.failures, times);
            let wait_ms = offer.wait_ms;
            assert!((most_ms * 3 / 4..=most_ms).contains(&wait_ms), "{wait_ms}");
            assert_eq!(offer.due_ms, wait_ms.cast_signed());
        }
        assert_eq!(failing.over(TRIGGER), Some(40));
        assert_eq!(failing.note(TRIGGER, 0, due_ms).wait_ms, 1_000);
        assert_eq!(failing.take(), [(TRIGGER, 1_000)]);
        assert_eq!(failing.note(TRIGGER, 0, due_ms).failures, 1);
    }

    #[test]
    fn triggers_that_failed_together_are_not_offered_together() {
        let waits: std::collections::BTreeSet<u64> = (0..100_u64)
            .map(|random| wait_ms(4, random.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect();
        assert!(waits.len() > 90, "{waits:?}");
        assert!(waits.last().unwrap() - waits.first().unwrap() > 1_500);
    }

    #[test]
    fn the_triggers_that_are_counted_are_bounded() {
        let mut failing = Failing::default();
        for seq in 0..2 * COUNTED as u64 {
            failing.note(TRIGGER, 0, due_ms);
            failing.note((RunNo(2), Seq(seq)), 0, due_ms);
        }
        assert_eq!(failing.triggers.len(), COUNTED);
        assert!(failing.triggers[&TRIGGER].times > 2 * 4_095);
    }
}
