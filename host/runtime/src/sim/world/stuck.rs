//! The message about a run that does not end.

use windlass_model::Clock as _;
use windlass_store::Reader as _;

use super::World;
use crate::sim::locks::Errands;

impl World {
    pub(super) fn stuck(&self) -> String {
        let mut text = format!(
            "it does not end: at {} ms, after {} moves",
            self.clock.now_ms(),
            self.report.moves
        );
        for no in self.checker.lock().open() {
            let row = self.root.run_by_no(no).unwrap().unwrap();
            let rows = self.root.triggers(no).unwrap();
            let state = |row: &windlass_store::rows::TriggerRow| {
                let left = row.due_ms - self.clock.wall_ms();
                format!(
                    "{} {:?} in {left} ms, {:?}",
                    row.seq, row.state, row.suspicion
                )
            };
            let rows: Vec<String> = rows.iter().map(state).collect();
            let (owner, epoch) = (row.owner, row.epoch);
            text += &format!("\ninstance {no} of {owner:?} in epoch {epoch}: {rows:?}");
        }
        for slot in &self.slots {
            if let Some(process) = &slot.process {
                let (waiting, unheard) = process.store.deferred();
                let in_flight = process.parts.shared.intake.flow.in_flight();
                text += &format!(
                    "\nprocess {} ({}): {} calls, {waiting} writes, {unheard} answers, {in_flight} in flight, stopped {:?}, draining {:?}, busy {}",
                    process.life,
                    process.incarnation(),
                    process.calls.len(),
                    process.stopped_until_ms,
                    process.draining,
                    (0..self.workers).any(|shard| process.is_busy(shard)),
                );
                text += &process
                    .errands
                    .as_ref()
                    .map_or_else(String::new, Errands::about);
            }
        }
        for (id, asked) in &self.requests {
            if !asked.acknowledged {
                text += &format!("\nrun {id} is not acknowledged, asked {:?}", asked.at_ms);
            }
        }
        text
    }
}
