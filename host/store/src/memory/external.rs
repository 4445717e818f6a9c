//! External triggers and dead letters in memory.

use bytes::Bytes;
use windlass_model::limits::CONTROL_PRIORITY;
use windlass_model::resumption::About;
use windlass_model::{Digest, LetterNo, RunNo, Seq, Token, TriggerNo, TriggerState, TriggerType};

use super::data::Data;
use crate::external::{
    CancelTrigger, Control, Fire, NewExternal, Reschedule, Scheduled, Touched, TriggerTarget,
};
use crate::letters::{
    DeadTrigger, DeleteLetter, LetterBody, LetterRow, Lettered, NewDeadLetter, PurgeLetters,
    ReplayLetter,
};
use crate::rows::{NewTrigger, TriggerRow, bounded, control, following};
use crate::write::Commit;

/// The trigger that an external name stands for.
#[derive(Clone, Copy)]
pub(super) struct Named {
    pub(super) trigger: TriggerNo,
    pub(super) run: RunNo,
    pub(super) request: Digest,
    pub(super) closed: bool,
}

/// The number that stands for a dead letter among the runs that hold blobs.
fn holder(no: LetterNo) -> RunNo {
    RunNo(-2 * no.0 - 1)
}

impl Data {
    pub(super) fn schedule(&mut self, new: &NewExternal) -> crate::Result<Scheduled> {
        if let Some(named) = self.external.get(&new.id) {
            return Ok(if named.request != new.request {
                Scheduled::Conflict
            } else if named.closed {
                Scheduled::Closed
            } else if self.row_of(named).is_some() {
                Scheduled::Already
            } else {
                Scheduled::Finished
            });
        }
        let Some(run) = self.ids.get(&new.run).copied() else {
            return Ok(Scheduled::NoRun);
        };
        if self.is_ended(run) {
            return Ok(Scheduled::Closed);
        }
        self.check_new(false, [new.no], [])?;
        let row = NewTrigger {
            no: new.no,
            seq: Seq::external(new.no),
            kind: new.kind,
            node: new.node,
            due_ms: new.due_ms,
            claimed: false,
            attempt: 1,
            detail: new.detail.clone(),
            payload: new.payload.clone(),
            priority: if new.kind.is_control() {
                CONTROL_PRIORITY
            } else {
                new.priority
            },
        };
        self.insert_trigger(run, &row, false);
        let named = Named {
            trigger: new.no,
            run,
            request: new.request,
            closed: false,
        };
        self.external.insert(new.id, named);
        Ok(Scheduled::New)
    }

    pub(super) fn fire(&mut self, fire: &Fire) -> Touched {
        let waits = |row: &TriggerRow| {
            matches!(row.state, TriggerState::Pending | TriggerState::Parked) && !row.waits()
        };
        if let Ok(row) = self.find_trigger(fire.target)
            && waits(&row)
            && fire.only_due_ms.is_some_and(|due_ms| due_ms != row.due_ms)
        {
            return Touched::AlreadyFinished;
        }
        self.touch(fire.target, |row| {
            row.state = TriggerState::Pending;
            row.due_ms = row.due_ms.min(fire.at_ms);
        })
    }

    pub(super) fn reschedule(&mut self, reschedule: &Reschedule) -> Touched {
        self.touch(reschedule.target, |row| row.due_ms = reschedule.due_ms)
    }

    fn touch(&mut self, target: TriggerTarget, change: impl FnOnce(&mut TriggerRow)) -> Touched {
        match self.find_trigger(target) {
            Err(touched) => touched,
            Ok(row) => match row.state {
                TriggerState::Claimed => Touched::Running,
                TriggerState::Dead => Touched::Dead,
                TriggerState::Pending | TriggerState::Parked if row.waits() => Touched::Waiting,
                TriggerState::Pending | TriggerState::Parked => {
                    self.made_pending += u64::from(row.state == TriggerState::Pending);
                    self.change(row.no, |row| {
                        change(row);
                        row.token = Token(row.token.0 + 1);
                    });
                    Touched::Done
                }
            },
        }
    }

    pub(super) fn cancel_trigger(&mut self, cancel: &CancelTrigger) -> Touched {
        match self.find_trigger(cancel.target) {
            Err(touched) => touched,
            Ok(row) if row.state == TriggerState::Claimed || !row.seq.is_external() => {
                let about = About::Cancel { target: row.seq }.encode();
                self.control_once(row.run, TriggerType::Alter, about, cancel.at_ms);
                Touched::Running
            }
            Ok(row) => {
                self.remove_trigger(row.no);
                Touched::Done
            }
        }
    }

    pub(super) fn control(&mut self, new: &Control) -> crate::Result<Touched> {
        let Some(run) = self.ids.get(&new.run).copied() else {
            return Ok(Touched::NotFound);
        };
        if self.is_ended(run) {
            return Ok(Touched::Closed);
        }
        if let Some(at_ms) = self.control_at(run, new.kind, new.at_ms) {
            self.check_new(false, [new.no], [])?;
            self.insert_control(run, &control(new.no, new.kind, Bytes::new(), at_ms));
        }
        Ok(Touched::Done)
    }

    pub(super) fn cancel_all(&mut self, commit: &Commit) -> bool {
        let mut asked = false;
        for run in &commit.cancels {
            let no = self.ids.get(run).copied();
            if let Some(no) = no.filter(|no| !self.is_ended(*no)) {
                if !self.is_asked_for(no, TriggerType::Cancel, b"") {
                    let row = following(self.own_number(), commit.at_ms);
                    self.insert_control(no, &row);
                }
                asked = true;
            }
        }
        asked
    }

    pub(super) fn close_external(&mut self, run: RunNo) {
        let mut named = std::mem::take(&mut self.external);
        for named in named.values_mut().filter(|named| named.run == run) {
            named.closed |= self.row_of(named).is_some();
        }
        self.external = named;
    }

    fn control_once(&mut self, run: RunNo, kind: TriggerType, detail: Bytes, at_ms: i64) {
        if !self.is_asked_for(run, kind, &detail) {
            let no = self.own_number();
            self.insert_control(run, &control(no, kind, detail, at_ms));
        }
    }

    fn insert_control(&mut self, run: RunNo, row: &NewTrigger) {
        if matches!(row.kind, TriggerType::Cancel | TriggerType::Delete) {
            self.ending.insert(run);
        }
        self.insert_trigger(run, row, false);
    }

    /// The due time of a control request that is made now; none if the same request is pending. Of
    /// the requests to pause and unpause the last one counts, so each gets a later time than the
    /// one before, even if the clocks of the requesters differ.
    fn control_at(&self, run: RunNo, kind: TriggerType, at_ms: i64) -> Option<i64> {
        if !kind.is_pausing() {
            return (!self.is_asked_for(run, kind, b"")).then_some(at_ms);
        }
        let rows = self.triggers_of(run);
        let rows = rows.iter().filter_map(|no| self.triggers.get(no));
        let asked = rows.filter(|row| {
            let asked = matches!(row.state, TriggerState::Pending | TriggerState::Claimed);
            row.kind.is_pausing() && row.seq.is_external() && asked
        });
        match asked.max_by_key(|row| row.due_ms) {
            Some(last) if last.kind == kind => None,
            Some(last) => Some(at_ms.max(last.due_ms.saturating_add(1))),
            None => Some(at_ms),
        }
    }

    fn is_asked_for(&self, run: RunNo, kind: TriggerType, detail: &[u8]) -> bool {
        let rows = self.triggers_of(run);
        let mut rows = rows.iter().filter_map(|no| self.triggers.get(no));
        rows.any(|row| {
            row.kind == kind
                && row.detail == detail
                && row.seq.is_external()
                && row.state == TriggerState::Pending
        })
    }

    pub(super) fn is_ended(&self, run: RunNo) -> bool {
        self.runs
            .get(&run)
            .is_none_or(|run| run.row.status.is_final())
    }

    pub(super) fn row_of(&self, named: &Named) -> Option<&TriggerRow> {
        let row = self.triggers.get(&named.trigger);
        row.filter(|row| row.seq.is_external() && row.run == named.run)
    }

    pub(super) fn row_by_seq(&self, run: RunNo, seq: Seq) -> Option<&TriggerRow> {
        let rows = self.triggers_of(run);
        let mut rows = rows.iter().filter_map(|no| self.triggers.get(no));
        rows.find(|row| row.seq == seq)
    }

    fn find_trigger(&self, target: TriggerTarget) -> Result<TriggerRow, Touched> {
        let (run, seq, gone) = match target {
            TriggerTarget::External(name) => {
                let named = self.external.get(&name).ok_or(Touched::NotFound)?;
                if let Some(row) = self.row_of(named) {
                    return Ok(row.clone());
                }
                let gone = if named.closed {
                    Touched::Closed
                } else {
                    Touched::AlreadyFinished
                };
                (named.run, Seq::external(named.trigger), gone)
            }
            TriggerTarget::Row(run, seq) => {
                if let Some(row) = self.row_by_seq(run, seq) {
                    return Ok(row.clone());
                }
                let known = self.runs.contains_key(&run);
                let gone = if known && self.is_ended(run) {
                    Touched::Closed
                } else {
                    Touched::NotFound
                };
                (run, seq, gone)
            }
        };
        let dead = self.letters.values().any(|row| {
            row.replayed_ms.is_none()
                && matches!(&row.letter.body, LetterBody::Trigger(dead)
                    if dead.run == run && dead.seq == seq)
        });
        Err(if dead { Touched::Dead } else { gone })
    }

    pub(super) fn add_letter(&mut self, new: &NewDeadLetter) {
        self.last_letter += 1;
        let no = LetterNo(self.last_letter);
        let mut letter = new.clone();
        match &mut letter.body {
            LetterBody::Stimulus(dead) => {
                dead.tree = None;
                let blobs = std::mem::take(&mut dead.blobs);
                self.put_blobs(holder(no), &blobs, new.at_ms);
                self.refer(holder(no), &dead.input);
            }
            LetterBody::Trigger(dead) => dead.priority = bounded(dead.priority),
        }
        let row = LetterRow {
            no,
            letter,
            // A reader looks the id up.
            run_id: None,
            replayed_ms: None,
        };
        self.letters.insert(no, row);
    }

    /// Dead-letters a resumption that no step has used, before its row is removed.
    pub(super) fn dead_letter_unheard(&mut self, no: TriggerNo, at_ms: i64) {
        let row = self.triggers.get(&no);
        let unheard = row.filter(|row| row.kind == TriggerType::Resume);
        let dead = unheard.and_then(|row| {
            Some(DeadTrigger {
                run: row.run,
                seq: row.seq,
                kind: row.kind,
                node: row.node,
                priority: row.priority,
                payload: Some(row.payload.clone()?),
                detail: row.detail.clone(),
            })
        });
        if let Some(dead) = dead {
            self.add_letter(&NewDeadLetter::stale(dead, at_ms));
        }
    }

    pub(super) fn replay_letter(&mut self, replay: &ReplayLetter) -> crate::Result<Lettered> {
        let at_ms = replay.at_ms;
        let Some(row) = self.letters.get(&replay.no).cloned() else {
            return Ok(Lettered::NotFound);
        };
        if row.replayed_ms.is_some() {
            return Ok(Lettered::Already);
        }
        match row.letter.body {
            LetterBody::Trigger(dead) => {
                if !self.replay_trigger(dead, replay.trigger, at_ms)? {
                    return Ok(Lettered::Closed);
                }
            }
            LetterBody::Stimulus(mut dead) => {
                dead.at_ms = at_ms;
                self.add_to_queue(&dead, None, at_ms);
            }
        }
        if let Some(row) = self.letters.get_mut(&replay.no) {
            row.replayed_ms = Some(at_ms);
        }
        Ok(Lettered::Done)
    }

    fn replay_trigger(
        &mut self,
        dead: DeadTrigger,
        no: TriggerNo,
        at_ms: i64,
    ) -> crate::Result<bool> {
        let Some(old) = dead.seq.external_no() else {
            return Ok(false);
        };
        if self.is_ended(dead.run) {
            return Ok(false);
        }
        self.check_new(false, [no], [])?;
        let again = NewTrigger {
            no,
            seq: Seq::external(no),
            kind: dead.kind,
            node: dead.node,
            due_ms: at_ms,
            claimed: false,
            attempt: 1,
            detail: dead.detail,
            payload: dead.payload,
            priority: dead.priority,
        };
        self.insert_trigger(dead.run, &again, false);
        let named = self.external.values_mut();
        for named in named.filter(|named| named.trigger == old && named.run == dead.run) {
            named.trigger = no;
        }
        Ok(true)
    }

    pub(super) fn purge_letters(&mut self, purge: &PurgeLetters) -> u32 {
        let letters = self.letters.values();
        let mut old: Vec<_> = letters
            .map(|row| (row.letter.at_ms, row.no))
            .filter(|(at_ms, _)| *at_ms < purge.before_ms)
            .collect();
        old.sort_unstable();
        old.truncate(purge.limit as usize);
        for (_, no) in &old {
            self.delete_letter(&DeleteLetter { no: *no });
        }
        u32::try_from(old.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn delete_letter(&mut self, delete: &DeleteLetter) -> Lettered {
        let no = delete.no;
        match self.letters.remove(&no) {
            None => Lettered::NotFound,
            Some(row) => {
                self.loosen_blobs(holder(no), row.letter.at_ms);
                Lettered::Done
            }
        }
    }
}
