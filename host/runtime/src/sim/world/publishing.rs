//! Publishes and retracts workflows, and sends the stimuli that start them.

use serde_json::json;
use windlass_model::Clock as _;
use windlass_model::stimulus::Delivery;

use super::World;
use crate::operations;
use crate::sim::dice::Dice;
use crate::sim::graphs::ALL;
use crate::sim::starters::{START, STARTS};

/// A user that publishes workflows, in some simulations.
pub(super) struct Publisher {
    dice: Dice,
    /// The monotonic time of the next action.
    at_ms: u64,
    /// Whether everything is retracted for good.
    through: bool,
}

impl Publisher {
    /// Uses its own random numbers, so that simulations without it stay the same.
    pub(super) fn new(seed: u64) -> Option<Self> {
        let mut dice = Dice(seed ^ 0x7075_626c_6973_6865);
        let at_ms = 1_000 + dice.below(10_000);
        dice.once_in(4).then_some(Self {
            dice,
            at_ms,
            through: false,
        })
    }
}

impl World {
    /// Publishes, retracts or starts a workflow.
    pub(super) fn publish(&mut self) {
        let (now_ms, wall_ms) = (self.clock.now_ms(), self.clock.wall_ms());
        let calm = self.calm;
        let store = std::sync::Arc::clone(&self.client);
        let retract =
            |name: &str| operations::retract_if(&*store, wall_ms, name, |_| true).unwrap();
        let Some(publisher) = &mut self.publisher else {
            return;
        };
        if publisher.through || (now_ms < publisher.at_ms && !calm) {
            return;
        }
        publisher.at_ms = now_ms + publisher.dice.between(200, 15_000);
        let version = publisher.dice.pick(&ALL.published);
        let definition = (*version.definition).clone();
        if calm {
            publisher.through = true;
            for version in &ALL.published {
                retract(&version.definition.name);
            }
            return;
        }
        match publisher.dice.below(8) {
            0 => drop(retract(&definition.name)),
            1..5 => {
                operations::publish(&*store, &ALL.host, wall_ms, definition).unwrap();
            }
            _ => {
                let about = json!(publisher.dice.below(STARTS));
                self.send(START, about, None, Delivery::StartAndResume);
            }
        }
        self.report.published += 1;
    }

    /// The monotonic time of the next action.
    pub(super) fn next_publish_ms(&self) -> Option<u64> {
        let publisher = self.publisher.as_ref().filter(|one| !one.through)?;
        Some(publisher.at_ms)
    }
}
