//! The triggers whose consumers fail, and how long each waits until it is offered again.
//!
//! A trigger waits a second, then two, then four, up to five minutes, each time up to a quarter
//! less, so that triggers that failed together are not offered together. Failures are counted in
//! memory, per trigger: a trigger that its consumer fails to take delays no other one. A process
//! that takes the run over begins to count again.

use rustc_hash::FxHashMap;
use windlass_model::{RunNo, Seq};

/// The first and the longest wait, in milliseconds; it doubles each time.
const WAIT_MS: (u64, u64) = (1_000, 5 * 60 * 1_000);

/// The limit of triggers that are counted in one shard. The one that failed longest ago is
/// forgotten.
const COUNTED: usize = 4_096;

/// The triggers of one shard whose consumers failed.
#[derive(Default)]
pub(crate) struct Failing {
    triggers: FxHashMap<(RunNo, Seq), Failures>,
    /// The failures in all.
    failures: u64,
}

struct Failures {
    times: u32,
    /// The number of the last one among all failures.
    last: u64,
}

impl Failing {
    /// Counts a failure. Returns how often the consumer has failed to take the trigger, and the
    /// milliseconds until it is offered again. `random` is the same for the same trigger.
    pub(super) fn note(&mut self, trigger: (RunNo, Seq), random: u64) -> (u32, u64) {
        if self.triggers.len() >= COUNTED && !self.triggers.contains_key(&trigger) {
            let oldest = self.triggers.iter().min_by_key(|(_, it)| it.last);
            if let Some(oldest) = oldest.map(|(trigger, _)| *trigger) {
                self.triggers.remove(&oldest);
            }
        }
        self.failures += 1;
        let failures = self.triggers.entry(trigger).or_insert(Failures {
            times: 0,
            last: self.failures,
        });
        failures.times = failures.times.saturating_add(1);
        failures.last = self.failures;
        (failures.times, wait_ms(failures.times, random))
    }

    /// The consumer has decided about the trigger. Returns how often it failed before.
    pub(super) fn over(&mut self, trigger: (RunNo, Seq)) -> Option<u32> {
        if self.triggers.is_empty() {
            return None;
        }
        self.triggers.remove(&trigger).map(|it| it.times)
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

    #[test]
    fn waits_double_up_to_the_longest_and_begin_again_after_a_decision() {
        let mut failing = Failing::default();
        assert_eq!(failing.over(TRIGGER), None);
        for times in 1..=40 {
            let most_ms = (1_000_u64 << (times - 1).min(20)).min(300_000);
            let (counted, wait_ms) = failing.note(TRIGGER, 0x9e37_79b9_7f4a_7c15);
            assert_eq!(counted, times);
            assert!((most_ms * 3 / 4..=most_ms).contains(&wait_ms), "{wait_ms}");
        }
        assert_eq!(failing.over(TRIGGER), Some(40));
        assert_eq!(failing.note(TRIGGER, 0), (1, 1_000));
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
            failing.note(TRIGGER, 0);
            failing.note((RunNo(2), Seq(seq)), 0);
        }
        assert_eq!(failing.triggers.len(), COUNTED);
        assert!(failing.triggers[&TRIGGER].times > 2 * 4_095);
    }
}
