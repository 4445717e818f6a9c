//! Faults: processes die and stop, clocks are stepped, disks are full.

use super::{HOUR_MS, HOURS_MS, Habits, TROUBLED_MS, World};
use crate::sim::dice::Dice;
use crate::sim::poison::Poison;
use crate::sim::process::Process;

impl World {
    pub(super) fn go_wrong(&mut self) {
        let now_ms = self.clock.now_ms();
        if !self.calm && now_ms >= TROUBLED_MS {
            self.calm = true;
            self.habits = Habits {
                crash: 0,
                stop: 0,
                drain: 0,
                clock: 0,
                full: 0,
                meddle: 0,
                locks: 0,
                slowness_ms: self.habits.slowness_ms.min(50),
            };
            self.trouble.lock().unknown = 0;
            if let Some(server) = &self.locks {
                server.lock().down = false;
            }
            // The clock is set right, so that no wait lasts for hours.
            self.clock.step_wall(-std::mem::take(&mut self.stepped_ms));
        }
        if now_ms >= self.full_until_ms {
            self.trouble.lock().full = false;
        }
        if !std::mem::take(&mut self.something_happened) {
            return;
        }
        let happens = |dice: &mut Dice, habit: u64| habit > 0 && dice.once_in(habit);
        let at = self.dice.place(self.slots.len());
        let by_chance = self.poison.as_mut().is_some_and(Poison::by_chance);
        if happens(&mut self.dice, self.habits.crash) || by_chance {
            self.crash(at);
        }
        if happens(&mut self.dice, self.habits.stop)
            && let Some(process) = &mut self.slots[at].process
        {
            let for_ms = *self.dice.pick(&[1_000, 15_000, 29_000, 40_000, 100_000]);
            process.stopped_until_ms.get_or_insert(now_ms + for_ms);
            self.report.stops += 1;
        }
        if happens(&mut self.dice, self.habits.drain)
            && let Some(process) = &mut self.slots[at].process
            && process.draining.is_none()
        {
            process.drain(now_ms + self.dice.below(30_000));
            self.report.drains += 1;
        }
        if happens(&mut self.dice, self.habits.clock) {
            let by_ms = *self.dice.pick(&[-HOUR_MS, HOUR_MS, -1_500, 1_500]);
            // The error is bounded, so that no wait outlasts the patience once the clock is right
            // again.
            let far = (self.stepped_ms + by_ms).abs() > HOURS_MS;
            let by_ms = if far { -by_ms } else { by_ms };
            self.clock.step_wall(by_ms);
            self.stepped_ms += by_ms;
            self.report.steps_of_clock += 1;
        }
        if let Some(server) = &self.locks
            && happens(&mut self.dice, self.habits.locks)
        {
            let mut server = server.lock();
            if self.dice.once_in(3) {
                server.empty();
            } else {
                server.down = !server.down;
            }
            self.report.troubles_of_locks += 1;
        }
        if happens(&mut self.dice, self.habits.full) {
            self.full_until_ms = now_ms + self.dice.between(1, 20_000);
            self.trouble.lock().full = true;
        }
    }

    /// Kills a process: some of its submitted writes may still be carried out, and their answers
    /// are lost.
    pub(super) fn crash(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        let Some(process) = slot.process.take() else {
            return;
        };
        let (waiting, _) = process.store.deferred();
        process.store.carry_on(self.dice.place(waiting + 1));
        process.close();
        self.checker.lock().ends(process.life);
        slot.begins_ms = self.clock.now_ms() + self.dice.below(20_000);
        self.report.crashes += 1;
        self.hear_no_more(&process);
    }

    /// Requests the runs again that a dead process was asked for.
    pub(super) fn hear_no_more(&mut self, process: &Process) {
        let now_ms = self.clock.now_ms();
        for birth in &process.births {
            if let Some(asked) = self.requests.get_mut(&birth.id) {
                asked.at_ms = Some(now_ms + self.dice.below(5_000));
            }
        }
    }
}
