//! Dead letters.

use bytes::Bytes;
use rusqlite::{OptionalExtension as _, params};
use windlass_model::{InstanceNo, LetterNo, Seq, TriggerNo, TriggerType};

use super::cache::extras;
use super::{Done, Session};
use crate::columns::stimulus_json;
use crate::letters::{DeadLetterOp, DeadTrigger, LetterBody, Lettered, NewDeadLetter};
use crate::rows::{NewTrigger, bounded};
use crate::sql::stimuli::{letter, select_letter};
use crate::sqlite::values::{json, payload};
use crate::write::Wrote;

/// What holds the blobs of a dead letter, where instances have their numbers.
fn holder(no: i64) -> i64 {
    -2 * no - 1
}

impl Session<'_> {
    pub(super) fn dead_letter(&mut self, op: &DeadLetterOp) -> Done<Wrote> {
        Ok(match op {
            DeadLetterOp::Add(new) => {
                self.bury_letter(new)?;
                Wrote::Done
            }
            DeadLetterOp::Replay { no, trigger, at_ms } => {
                Wrote::Letter(self.replay(*no, *trigger, *at_ms)?)
            }
            DeadLetterOp::Delete { no } => Wrote::Letter(self.delete_letter(no.0)?),
            DeadLetterOp::Purge { before_ms, limit } => {
                let sql = "SELECT no FROM dead_letter WHERE at_ms < ?1 ORDER BY at_ms, no LIMIT ?2";
                let old: Vec<i64> = self
                    .connection
                    .prepare_cached(sql)?
                    .query_map((before_ms, limit), |row| row.get(0))?
                    .collect::<Result<_, _>>()?;
                for no in &old {
                    self.delete_letter(*no)?;
                }
                Wrote::Freed(u32::try_from(old.len()).unwrap_or(u32::MAX))
            }
        })
    }

    pub(super) fn bury_letter(&mut self, new: &NewDeadLetter) -> Done<()> {
        let (mut trigger, mut stimulus) = (None, None);
        match &new.body {
            LetterBody::Trigger(dead) => trigger = Some(dead),
            LetterBody::Stimulus(dead) => stimulus = Some(dead),
        }
        let (input, meta) = payload(stimulus.map(|dead| &dead.input));
        let sql = "INSERT INTO dead_letter (kind, reason, at_ms, failure, instance, seq, trigger, \
            node, priority, payload, detail, stimulus, input, input_meta) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
        self.connection.prepare_cached(sql)?.execute(params![
            new.body.kind() as u8,
            new.reason,
            new.at_ms,
            new.failure.as_ref().and_then(json),
            trigger.map(|dead| dead.instance.0),
            trigger.map(|dead| dead.seq.0.cast_signed()),
            trigger.map(|dead| dead.kind.stored()),
            trigger.and_then(|dead| dead.node),
            trigger.map(|dead| bounded(dead.priority)),
            trigger.and_then(|dead| dead.payload.as_deref()),
            trigger.map(|dead| &dead.detail[..]),
            stimulus.and_then(|dead| stimulus_json(dead)),
            input,
            meta,
        ])?;
        let no = self.connection.last_insert_rowid();
        if let Some(dead) = stimulus {
            self.put_blobs(holder(no), &dead.blobs, new.at_ms)?;
            self.refer(holder(no), &dead.input)?;
        }
        Ok(())
    }

    /// Writes down the resumptions that no step has used, before their rows are removed: of one
    /// row, or of all rows of an instance.
    pub(super) fn bury_unheard(
        &mut self,
        instance: i64,
        row: Option<TriggerNo>,
        at_ms: i64,
    ) -> Done<()> {
        // One row is found by its key, however many the instance has.
        let sql = match row {
            Some(_) => {
                "SELECT seq, node, priority, payload, detail FROM trigger \
                WHERE no = ?2 AND instance = ?1 AND kind = ?3 AND payload IS NOT NULL"
            }
            None => {
                "SELECT seq, node, priority, payload, detail FROM trigger \
                WHERE instance = ?1 AND ?2 IS NULL AND kind = ?3 AND payload IS NOT NULL \
                ORDER BY no"
            }
        };
        let row = row.map(|no| no.0);
        let key = (instance, row, TriggerType::Resume.stored());
        let unheard: Vec<DeadTrigger> = self
            .connection
            .prepare_cached(sql)?
            .query_map(key, |row| {
                Ok(DeadTrigger {
                    instance: InstanceNo(instance),
                    seq: Seq(row.get::<_, i64>(0)?.cast_unsigned()),
                    kind: TriggerType::Resume,
                    node: row.get(1)?,
                    priority: row.get(2)?,
                    payload: row.get::<_, Option<Vec<u8>>>(3)?.map(Bytes::from),
                    detail: Bytes::from(row.get::<_, Vec<u8>>(4)?),
                })
            })?
            .collect::<Result<_, _>>()?;
        for dead in unheard {
            self.bury_letter(&NewDeadLetter::stale(dead, at_ms))?;
        }
        Ok(())
    }

    fn replay(&mut self, no: LetterNo, trigger: TriggerNo, at_ms: i64) -> Done<Lettered> {
        let sql = select_letter!("WHERE l.no = ?1{| FOR UPDATE OF l}").sqlite;
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query([no.0])?;
        let Some(row) = found.next()? else {
            return Ok(Lettered::NotFound);
        };
        let row = letter(row)?;
        drop(found);
        drop(statement);
        if row.replayed_ms.is_some() {
            return Ok(Lettered::Already);
        }
        let done = match &row.letter.body {
            LetterBody::Trigger(dead) => self.replay_trigger(dead, trigger, at_ms)?,
            LetterBody::Stimulus(dead) => {
                let again = crate::stimuli::NewStimulus {
                    at_ms,
                    ..(**dead).clone()
                };
                self.enqueue(&again, None, at_ms)?;
                true
            }
        };
        if !done {
            return Ok(Lettered::Closed);
        }
        self.connection
            .prepare_cached("UPDATE dead_letter SET replayed_ms = ?2 WHERE no = ?1")?
            .execute((no.0, at_ms))?;
        Ok(Lettered::Done)
    }

    /// Writes the row of a dead trigger from outside again. False if nobody would take it.
    fn replay_trigger(&mut self, dead: &DeadTrigger, no: TriggerNo, at_ms: i64) -> Done<bool> {
        let instance = dead.instance.0;
        let open = self
            .head(instance)?
            .is_some_and(|head| !head.status.is_final());
        let Some(old) = dead.seq.outside_no().filter(|_| open) else {
            return Ok(false);
        };
        let again = NewTrigger {
            no,
            seq: Seq::outside(no),
            kind: dead.kind,
            node: dead.node,
            due_ms: at_ms,
            claimed: false,
            attempt: 1,
            detail: dead.detail.clone(),
            payload: dead.payload.clone(),
            priority: dead.priority,
        };
        self.insert_trigger(instance, &again, false)?;
        if again.resumes() {
            self.note_extra(instance, extras::BOOKMARKS)?;
        }
        // Its name is that of the new row.
        self.connection
            .prepare_cached("UPDATE outside SET trigger = ?3 WHERE instance = ?1 AND trigger = ?2")?
            .execute((instance, old.0, no.0))?;
        Ok(true)
    }

    fn delete_letter(&mut self, no: i64) -> Done<Lettered> {
        let sql = "DELETE FROM dead_letter WHERE no = ?1 RETURNING input_meta, at_ms";
        let gone: Option<(Option<String>, i64)> = self
            .connection
            .prepare_cached(sql)?
            .query_row([no], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((meta, at_ms)) = gone else {
            return Ok(Lettered::NotFound);
        };
        if meta.is_some() {
            self.loosen_blobs(holder(no), u64::from(u32::MAX), at_ms)?;
        }
        Ok(Lettered::Done)
    }
}
