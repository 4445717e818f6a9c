//! Triggers that kill the host whenever it calls a guest for them, and hosts that die without such a
//! cause.

use std::collections::BTreeMap;

use windlass_model::{RunNo, Seq};

use super::dice::Dice;
use super::guests::Calling;

/// The most hosts that die of one trigger, out of thousands that are claimed together.
const MOST_DEATHS: u32 = 14;

/// The most deaths without a cause. After one more, a trigger may be lost that caused none.
const CHANCE_DEATHS: u32 = 2;

/// How long a call of another trigger takes at least, at most, in milliseconds. Calls of poisonous
/// triggers end much earlier, with the host.
const SLOW_MS: u64 = 500;

/// The causes of the deaths of hosts in one simulation.
pub(super) struct Poison {
    dice: Dice,
    /// The number of calls so far.
    calls: u64,
    /// The numbers of the calls whose triggers become poisonous.
    chosen: Vec<u64>,
    /// The poisonous triggers, and how many hosts have died of each.
    deaths: BTreeMap<(RunNo, Seq), u32>,
    /// How many hosts may still die without a cause.
    chances: u32,
}

impl Poison {
    /// None, one or two poisonous triggers. Without one, hosts die by chance.
    pub(super) fn new(mut dice: Dice) -> Self {
        let count = dice.below(3);
        let most = *dice.pick(&[4, 30, 120]);
        Self {
            calls: 0,
            chosen: (0..count).map(|_| dice.below(most)).collect(),
            deaths: BTreeMap::new(),
            chances: if count == 0 { CHANCE_DEATHS } else { 0 },
            dice,
        }
    }

    /// Decides what becomes of a call that has begun.
    pub(super) fn meet(&mut self, calling: &mut Calling, now_ms: u64) {
        let trigger = (calling.to.run, calling.to.seq);
        if self.chosen.contains(&self.calls) {
            self.deaths.entry(trigger).or_default();
        }
        self.calls += 1;
        if self.is_poisonous(trigger) {
            calling.kill_at(now_ms + self.dice.below(3));
        } else {
            calling.wait_until(now_ms + self.dice.below(SLOW_MS));
        }
    }

    /// Whether a trigger kills hosts.
    pub(super) fn is_poisonous(&self, trigger: (RunNo, Seq)) -> bool {
        self.deaths.contains_key(&trigger)
    }

    /// Counts a death of a host of this trigger.
    ///
    /// # Errors
    ///
    /// Too many hosts have died of it.
    pub(super) fn killed(&mut self, trigger: (RunNo, Seq)) -> Result<(), String> {
        let deaths = self.deaths.entry(trigger).or_default();
        *deaths += 1;
        if *deaths <= MOST_DEATHS {
            return Ok(());
        }
        let (run, seq) = trigger;
        Err(format!("{deaths} hosts died of trigger {seq} of {run}"))
    }

    /// Whether a host dies now without a cause.
    pub(super) fn by_chance(&mut self) -> bool {
        let dies = self.chances > 0 && self.dice.once_in(60);
        self.chances -= u32::from(dies);
        dies
    }

    /// How many hosts have died of triggers.
    pub(super) fn deaths(&self) -> u64 {
        self.deaths.values().map(|deaths| u64::from(*deaths)).sum()
    }
}
