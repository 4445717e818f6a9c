//! Verbs on a run as a whole, in memory.

use windlass_model::{RunId, RunNo, Status, TriggerNo, TriggerState, TriggerType};

use super::data::Data;
use crate::error::Result;
use crate::external::Control;
use crate::lives::{LifeOp, Lived, Reopen};

impl Data {
    pub(super) fn life(&mut self, op: &LifeOp) -> Result<Lived> {
        match op {
            LifeOp::Begin { run, at_ms } => Ok(self.begin_waiting(*run, *at_ms)),
            LifeOp::Delete { run, no, at_ms } => self.delete(*run, *no, *at_ms),
            LifeOp::Reopen(reopen) => self.reopen(reopen),
        }
    }

    fn begin_waiting(&mut self, run: RunId, at_ms: i64) -> Lived {
        let Some(no) = self.ids.get(&run).copied() else {
            return Lived::NotFound;
        };
        if self.is_ended(no) {
            return Lived::Ended;
        }
        let mut begun = false;
        for trigger in self.triggers_of(no) {
            self.change(trigger, |row| {
                let starts = row.kind == TriggerType::Start && !row.seq.is_external();
                let free = matches!(row.state, TriggerState::Pending | TriggerState::Parked);
                if starts && free && row.due_ms > at_ms {
                    row.state = TriggerState::Pending;
                    row.due_ms = at_ms;
                    row.token.0 += 1;
                    begun = true;
                }
            });
        }
        if !begun {
            return Lived::Already;
        }
        self.made_pending += 1;
        Lived::Done
    }

    fn delete(&mut self, run: RunId, control: TriggerNo, at_ms: i64) -> Result<Lived> {
        let Some(no) = self.ids.get(&run).copied() else {
            return Ok(Lived::NotFound);
        };
        if self.is_ended(no) {
            self.entomb(no, at_ms);
            return Ok(Lived::Gone(no));
        }
        self.control(&Control {
            run,
            no: control,
            kind: TriggerType::Delete,
            at_ms,
        })?;
        self.doomed.insert(no);
        Ok(Lived::Done)
    }

    fn reopen(&mut self, new: &Reopen) -> Result<Lived> {
        let no = new.run;
        let Some(run) = self.runs.get(&no) else {
            return Ok(Lived::NotFound);
        };
        let row = &run.row;
        let ended = matches!(row.status, Status::Faulted | Status::Cancelled);
        if !ended || row.version != new.version {
            return Ok(Lived::Moved);
        }
        if row.parent.is_some() {
            return Ok(Lived::Reported);
        }
        if let Some(key) = &new.exclusive
            && let Some(by) = self.reserved_by(key)
        {
            return Ok(Lived::Reserved { by });
        }
        self.check_new(false, new.triggers.iter().map(|trigger| trigger.no), [])?;
        if let Some(letter) = new.replays {
            let row = self.letters.get_mut(&letter);
            match row.filter(|row| row.replayed_ms.is_none()) {
                Some(row) => row.replayed_ms = Some(new.at_ms),
                None => return Ok(Lived::Already),
            }
        }
        if let Some((definition, pins)) = &new.documents {
            self.keep_definition(definition);
            self.pins
                .entry(pins.digest)
                .or_insert_with(|| (**pins).clone());
            if let Some(run) = self.runs.get_mut(&no) {
                run.row.definition = definition.digest;
                run.row.pins = pins.digest;
            }
        }
        self.ending.remove(&no);
        self.put_blobs(no, &new.blobs, new.at_ms);
        for trigger in &new.triggers {
            self.insert_trigger(no, trigger, false);
        }
        let reserves = new.reserves.iter().map(|key| (key.clone(), no));
        self.reservations.extend(reserves);
        if let Some(run) = self.runs.get_mut(&no) {
            let row = &mut run.row;
            row.status = new.status;
            row.version.0 += 1;
            row.state = new.state.clone();
            (row.owner, row.finished_ms, row.failure) = (None, None, None);
            run.output = None;
            if let Some(input) = &new.input {
                run.input = input.clone();
            }
            run.journal.extend(new.journal.iter().cloned());
            for (scope, state) in &new.scopes {
                match state {
                    Some(state) => drop(run.scopes.insert(*scope, state.clone())),
                    None => drop(run.scopes.remove(scope)),
                }
            }
        }
        Ok(Lived::Done)
    }

    /// Turns the run into a tombstone: no reader finds it, but its id stays reserved.
    pub(super) fn entomb(&mut self, no: RunNo, at_ms: i64) {
        self.doomed.remove(&no);
        if let Some(id) = self.remove_run(no, at_ms) {
            self.tombstones.insert(id, (no, at_ms));
        }
    }
}
