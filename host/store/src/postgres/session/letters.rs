//! Dead letters.

use windlass_model::{LetterNo, Seq, TriggerNo};

use super::{Done, Session, extras, get};
use crate::columns::stimulus_json;
use crate::columns::{json, payload};
use crate::letters::{DeadLetterOp, DeadTrigger, LetterBody, Lettered, NewDeadLetter};
use crate::rows::{NewTrigger, bounded};
use crate::sql::stimuli::{letter, select_letter};
use crate::stimuli::NewStimulus;
use crate::write::Wrote;

/// Writes dead letters of resumptions; to be followed by where these are (`t`).
macro_rules! stale_letters {
    ($at_ms:literal) => {
        concat!(
            "INSERT INTO dead_letter (kind, reason, at_ms, instance, seq, trigger, node, priority, ",
            "payload, detail) SELECT 1, 'stale', ",
            $at_ms,
            ", t.instance, t.seq, t.kind, t.node, t.priority, t.payload, t.detail "
        )
    };
}

/// Writes down what nobody has heard: resumptions of instances that end, of all that their
/// owners have not named. With the instances and when they end.
pub(super) const UNHEARD: &str = concat!(
    stale_letters!("u.at_ms"),
    "FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS u (instance, at_ms, place) ",
    "JOIN trigger t ON t.instance = ANY (ARRAY[u.instance]) ",
    "WHERE t.kind = 8 AND t.payload IS NOT NULL ORDER BY u.place, t.no"
);

/// What holds the blobs of a dead letter, where instances have their numbers.
fn holder(no: i64) -> i64 {
    -2 * no - 1
}

impl Session<'_> {
    pub(super) async fn dead_letter(&mut self, op: &DeadLetterOp) -> Done<Wrote> {
        Ok(match op {
            DeadLetterOp::Add(new) => {
                self.bury_letter(new).await?;
                Wrote::Done
            }
            DeadLetterOp::Replay { no, trigger, at_ms } => {
                Wrote::Letter(self.replay(*no, *trigger, *at_ms).await?)
            }
            DeadLetterOp::Delete { no } => Wrote::Letter(self.delete_letter(no.0).await?),
            DeadLetterOp::Purge { before_ms, limit } => {
                let sql = "SELECT no FROM dead_letter WHERE at_ms < $1 ORDER BY at_ms, no \
                    LIMIT $2 FOR UPDATE SKIP LOCKED";
                let old = self.rows(sql, &[before_ms, &i64::from(*limit)]).await?;
                for row in &old {
                    self.delete_letter(get(row, 0)?).await?;
                }
                Wrote::Freed(u32::try_from(old.len()).unwrap_or(u32::MAX))
            }
        })
    }

    pub(super) async fn bury_letter(&mut self, new: &NewDeadLetter) -> Done<()> {
        let (mut trigger, mut stimulus) = (None, None);
        match &new.body {
            LetterBody::Trigger(dead) => trigger = Some(dead),
            LetterBody::Stimulus(dead) => stimulus = Some(dead),
        }
        let (input, meta) = payload(stimulus.map(|dead| &dead.input));
        let sql = "INSERT INTO dead_letter (kind, reason, at_ms, failure, instance, seq, trigger, \
            node, priority, payload, detail, stimulus, input, input_meta) \
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) RETURNING no";
        let row = self
            .row(
                sql,
                &[
                    &(new.body.kind() as i16),
                    &new.reason,
                    &new.at_ms,
                    &new.failure.as_ref().and_then(json),
                    &trigger.map(|dead| dead.instance.0),
                    &trigger.map(|dead| dead.seq.0.cast_signed()),
                    &trigger.map(|dead| i64::from(dead.kind.stored())),
                    &trigger.and_then(|dead| dead.node).map(i64::from),
                    &trigger.map(|dead| bounded(dead.priority)),
                    &trigger.and_then(|dead| dead.payload.as_deref()),
                    &trigger.map(|dead| &dead.detail[..]),
                    &stimulus.and_then(|dead| stimulus_json(dead)),
                    &input,
                    &meta,
                ],
            )
            .await?;
        let no: i64 = get(&row, 0)?;
        if let Some(dead) = stimulus {
            self.put_blobs(holder(no), &dead.blobs, new.at_ms).await?;
            self.refer(holder(no), &dead.input).await?;
        }
        Ok(())
    }

    /// Writes down the resumption of one row that no step has used, before the row is removed.
    pub(super) async fn bury_unused(
        &mut self,
        instance: i64,
        row: TriggerNo,
        at_ms: i64,
    ) -> Done<()> {
        let sql = concat!(
            stale_letters!("$3"),
            "FROM trigger t WHERE t.instance = $1 AND t.no = $2 ",
            "AND t.kind = 8 AND t.payload IS NOT NULL"
        );
        self.later(sql, &[&instance, &row.0, &at_ms]).await
    }

    /// Writes down the resumptions that no step has used, of an instance that is about to end.
    pub(super) async fn bury_unheard(&mut self, instance: i64, at_ms: i64) -> Done<()> {
        self.later(UNHEARD, &[&[instance].as_slice(), &[at_ms].as_slice()])
            .await
    }

    async fn replay(&mut self, no: LetterNo, trigger: TriggerNo, at_ms: i64) -> Done<Lettered> {
        let sql = select_letter!("WHERE l.no = ?1{| FOR UPDATE OF l}").postgres;
        let Some(row) = self.one(sql, &[&no.0]).await? else {
            return Ok(Lettered::NotFound);
        };
        let row = letter(&row)?;
        if row.replayed_ms.is_some() {
            return Ok(Lettered::Already);
        }
        let done = match &row.letter.body {
            LetterBody::Trigger(dead) => self.replay_trigger(dead, trigger, at_ms).await?,
            LetterBody::Stimulus(dead) => {
                let again = NewStimulus {
                    at_ms,
                    ..(**dead).clone()
                };
                self.enqueue(&again, None, at_ms).await?;
                true
            }
        };
        if !done {
            return Ok(Lettered::Closed);
        }
        let sql = "UPDATE dead_letter SET replayed_ms = $2 WHERE no = $1";
        self.later(sql, &[&no.0, &at_ms]).await?;
        Ok(Lettered::Done)
    }

    /// Writes the row of a dead trigger from outside again. False if nobody would take it.
    async fn replay_trigger(
        &mut self,
        dead: &DeadTrigger,
        no: TriggerNo,
        at_ms: i64,
    ) -> Done<bool> {
        let instance = dead.instance.0;
        let Some(old) = dead.seq.outside_no() else {
            return Ok(false);
        };
        if self.is_over(instance).await? {
            return Ok(false);
        }
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
        self.insert_trigger(instance, &again, false).await?;
        if again.resumes() {
            self.note_extra(instance, extras::BOOKMARKS).await?;
        }
        // Its name is that of the new row.
        let sql = "UPDATE outside SET trigger = $3 WHERE instance = $1 AND trigger = $2";
        self.later(sql, &[&instance, &old.0, &no.0]).await?;
        Ok(true)
    }

    async fn delete_letter(&mut self, no: i64) -> Done<Lettered> {
        let sql = "DELETE FROM dead_letter WHERE no = $1 RETURNING input_meta, at_ms";
        let Some(row) = self.one(sql, &[&no]).await? else {
            return Ok(Lettered::NotFound);
        };
        let (meta, at_ms): (Option<String>, i64) = (get(&row, 0)?, get(&row, 1)?);
        if meta.is_some() {
            self.loosen_blobs(holder(no), i64::from(u32::MAX), at_ms)
                .await?;
        }
        Ok(Lettered::Done)
    }
}
