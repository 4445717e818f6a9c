//! What is asked of an instance as a whole.

use rusqlite::OptionalExtension as _;
use windlass_model::{InstanceId, InstanceNo, Status, TriggerNo, TriggerType};

use super::cache::extras;
use super::{Done, Session};
use crate::lives::{LifeOp, Lived, Reopen};
use crate::sums;
use crate::write::Wrote;

impl Session<'_> {
    pub(super) fn life(&mut self, op: &LifeOp) -> Done<Wrote> {
        let lived = match op {
            LifeOp::Begin { instance, at_ms } => self.begin_waiting(*instance, *at_ms)?,
            LifeOp::Delete {
                instance,
                no,
                at_ms,
            } => self.delete(*instance, *no, *at_ms)?,
            LifeOp::Reopen(reopen) => self.reopen(reopen)?,
            LifeOp::Clear {
                instance,
                rows,
                at_ms,
            } => self.clear(*instance, *rows, *at_ms)?,
        };
        Ok(Wrote::Lived(lived))
    }

    fn begin_waiting(&mut self, instance: InstanceId, at_ms: i64) -> Done<Lived> {
        let Some(no) = self.standing(instance)? else {
            return Ok(Lived::NotFound);
        };
        if self.is_over(no)? {
            return Ok(Lived::Ended);
        }
        // What is parked is tried again, and parked again if it has to be.
        let sql = "UPDATE trigger SET state = 0, due_ms = ?2, token = token + 1, reason = NULL \
            WHERE instance = ?1 AND kind = 0 AND seq >= 0 AND state IN (0, 2) \
            AND due_ms > ?2";
        let changed = self.connection.prepare_cached(sql)?.execute((no, at_ms))?;
        self.made_pending += changed as u64;
        Ok(if changed == 0 {
            Lived::Already
        } else {
            Lived::Done
        })
    }

    fn delete(&mut self, instance: InstanceId, control: TriggerNo, at_ms: i64) -> Done<Lived> {
        let Some(no) = self.standing(instance)? else {
            return Ok(Lived::NotFound);
        };
        if self.is_over(no)? {
            self.entomb(no)?;
            let sql = "UPDATE instance SET finished_ms = ?2, failure = NULL, output = NULL, \
                output_meta = NULL, output_sum = NULL WHERE no = ?1";
            self.connection.prepare_cached(sql)?.execute((no, at_ms))?;
            return Ok(Lived::Gone(InstanceNo(no)));
        }
        self.note_extra(no, extras::DOOMED)?;
        self.control(instance, control, TriggerType::Delete, at_ms)?;
        Ok(Lived::Done)
    }

    fn reopen(&mut self, new: &Reopen) -> Done<Lived> {
        let no = new.instance.0;
        self.write_head(no)?;
        let sql = "SELECT parent FROM origin WHERE instance = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let parent = statement.query_row([no], |row| row.get::<_, Option<i64>>(0));
        let Some(parent) = parent.optional()? else {
            return Ok(Lived::NotFound);
        };
        drop(statement);
        let known = self.head(no)?.is_some_and(|head| {
            let ended = matches!(head.status, Status::Faulted | Status::Cancelled);
            ended && head.version == new.version.0
        });
        if !known {
            return Ok(Lived::Moved);
        }
        if parent.is_some() {
            return Ok(Lived::Reported);
        }
        if let Some(key) = &new.exclusive
            && let Some(by) = self.reserved_by(key)?
        {
            return Ok(Lived::Reserved { by });
        }
        if let Some(letter) = new.replays {
            let sql = "UPDATE dead_letter SET replayed_ms = ?2 \
                WHERE no = ?1 AND replayed_ms IS NULL";
            let key = (letter.0, new.at_ms);
            if self.connection.prepare_cached(sql)?.execute(key)? == 0 {
                return Ok(Lived::Already);
            }
        }
        self.write_reopened(new)?;
        Ok(Lived::Done)
    }

    fn write_reopened(&mut self, new: &Reopen) -> Done<()> {
        let no = new.instance.0;
        self.cache.heads.remove(&no);
        let sql = "UPDATE instance SET status = ?2, version = version + 1, state = ?3, \
            owner = NULL, finished_ms = NULL, failure = NULL, output = NULL, output_meta = NULL, \
            output_sum = NULL, state_sum = ?4 WHERE no = ?1";
        let sum = sums::of_state(no, new.version.0 + 1, &new.state);
        let head = (no, new.status as u8, &*new.state, sum);
        self.connection.prepare_cached(sql)?.execute(head)?;
        self.connection
            .prepare_cached("DELETE FROM kept WHERE instance = ?1")?
            .execute([no])?;
        self.put_blobs(no, &new.blobs, new.at_ms)?;
        for trigger in &new.triggers {
            self.insert_trigger(no, trigger, false)?;
        }
        self.put_scopes(no, &new.scopes)?;
        self.reserve_keys(no, &new.reserves)?;
        self.insert_journal(no, new.version.0 + 1, 0, &new.journal)
    }

    /// From here on nobody finds the instance, though its id stays taken.
    pub(super) fn entomb(&mut self, no: i64) -> Done<()> {
        self.write_head(no)?;
        for sql in [
            "DELETE FROM origin WHERE instance = ?1",
            // What is left of it is kept as long as that of others.
            "DELETE FROM kept WHERE instance = ?1",
            "UPDATE instance SET extras = extras & ~16 WHERE no = ?1 AND extras & 16 <> 0",
        ] {
            self.connection.prepare_cached(sql)?.execute([no])?;
        }
        Ok(())
    }

    fn clear(&mut self, instance: InstanceNo, rows: u32, at_ms: i64) -> Done<Lived> {
        let no = instance.0;
        self.write_head(no)?;
        let Some((true, mut last_run)) = self.to_forget(no, i64::MIN, i64::MIN)? else {
            return Ok(Lived::Done);
        };
        self.cache.heads.remove(&no);
        Ok(if self.delete_hanging(no, &mut last_run, rows, at_ms)? {
            Lived::More
        } else {
            Lived::Done
        })
    }

    /// The number of an instance that somebody can find.
    pub(super) fn standing(&mut self, instance: InstanceId) -> Done<Option<i64>> {
        let Some(no) = self.instance_no(instance)? else {
            return Ok(None);
        };
        let sql = "SELECT 1 FROM origin WHERE instance = ?1";
        let found = self.connection.prepare_cached(sql)?.exists([no])?;
        Ok(found.then_some(no))
    }
}
