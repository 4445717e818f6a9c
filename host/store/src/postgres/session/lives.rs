//! What is asked of an instance as a whole.

use windlass_model::{InstanceId, InstanceNo, Status, TriggerNo, TriggerType};

use super::{Done, Session, extras, get};
use crate::lives::{LifeOp, Lived, Reopen};
use crate::write::Wrote;

impl Session<'_> {
    pub(super) async fn life(&mut self, op: &LifeOp) -> Done<Wrote> {
        let lived = match op {
            LifeOp::Begin { instance, at_ms } => self.begin_waiting(*instance, *at_ms).await?,
            LifeOp::Delete {
                instance,
                no,
                at_ms,
            } => self.delete(*instance, *no, *at_ms).await?,
            LifeOp::Reopen(reopen) => self.reopen(reopen).await?,
            LifeOp::Clear {
                instance,
                rows,
                at_ms,
            } => self.clear(*instance, *rows, *at_ms).await?,
        };
        Ok(Wrote::Lived(lived))
    }

    async fn begin_waiting(&mut self, instance: InstanceId, at_ms: i64) -> Done<Lived> {
        let Some(no) = self.standing(instance).await? else {
            return Ok(Lived::NotFound);
        };
        if self.is_over(no).await? {
            return Ok(Lived::Ended);
        }
        // What is parked is tried again, and parked again if it has to be.
        let sql = "UPDATE trigger SET state = 0, due_ms = $2, token = token + 1, reason = NULL \
            WHERE instance = $1 AND kind = 0 AND seq >= 0 AND state IN (0, 2) \
            AND due_ms > $2";
        let changed = self.execute(sql, &[&no, &at_ms]).await?;
        self.aftermath.made_pending += changed;
        Ok(if changed == 0 {
            Lived::Already
        } else {
            Lived::Done
        })
    }

    async fn delete(
        &mut self,
        instance: InstanceId,
        control: TriggerNo,
        at_ms: i64,
    ) -> Done<Lived> {
        let Some(no) = self.standing(instance).await? else {
            return Ok(Lived::NotFound);
        };
        if self.is_over(no).await? {
            self.entomb(no).await?;
            let sql = "UPDATE instance SET finished_ms = $2, failure = NULL, output = NULL, \
                output_meta = NULL WHERE no = $1";
            self.later(sql, &[&no, &at_ms]).await?;
            return Ok(Lived::Gone(InstanceNo(no)));
        }
        self.note_extra(no, extras::DOOMED).await?;
        self.control(instance, control, TriggerType::Delete, at_ms)
            .await?;
        Ok(Lived::Done)
    }

    async fn reopen(&mut self, new: &Reopen) -> Done<Lived> {
        let no = new.instance.0;
        // In the order in which whoever creates takes them.
        self.lock_reservations(&new.exclusive, &new.reserves)
            .await?;
        self.hold_heads(&[no]).await?;
        let sql = "SELECT parent FROM origin WHERE instance = $1";
        let Some(origin) = self.one(sql, &[&no]).await? else {
            return Ok(Lived::NotFound);
        };
        let parent: Option<i64> = get(&origin, 0)?;
        let known = self.head(no).await?.is_some_and(|head| {
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
            && let Some(by) = self.reserved_by(key).await?
        {
            return Ok(Lived::Reserved { by });
        }
        if let Some(letter) = new.replays {
            let sql = "UPDATE dead_letter SET replayed_ms = $2 \
                WHERE no = $1 AND replayed_ms IS NULL";
            if self.execute(sql, &[&letter.0, &new.at_ms]).await? == 0 {
                return Ok(Lived::Already);
            }
        }
        self.write_reopened(new).await?;
        Ok(Lived::Done)
    }

    async fn write_reopened(&mut self, new: &Reopen) -> Done<()> {
        let no = new.instance.0;
        let sql = "UPDATE instance SET status = $2, version = version + 1, state = $3, \
            owner = NULL, finished_ms = NULL, failure = NULL, output = NULL, output_meta = NULL \
            WHERE no = $1";
        let status = i16::from(new.status as u8);
        self.later(sql, &[&no, &status, &&*new.state]).await?;
        self.later("DELETE FROM kept WHERE instance = $1", &[&no])
            .await?;
        self.put_blobs(no, &new.blobs, new.at_ms).await?;
        for trigger in &new.triggers {
            self.insert_trigger(no, trigger, false).await?;
        }
        for (scope, state) in &new.scopes {
            self.put_scope(no, *scope, state.as_ref()).await?;
        }
        self.reserve(no, &new.reserves).await?;
        let sql = "INSERT INTO journal (instance, version, place, at_ms, kind, detail) \
            VALUES ($1, $2, 0, $3, $4, $5)";
        let (version, entry) = (new.version.0 + 1, &new.journal);
        let (kind, detail) = (&entry.kind, &*entry.detail);
        self.later(sql, &[&no, &version, &entry.at_ms, kind, &detail])
            .await?;
        Ok(())
    }

    /// From here on nobody finds the instance, though its id stays taken.
    pub(super) async fn entomb(&mut self, no: i64) -> Done<()> {
        for sql in [
            "DELETE FROM origin WHERE instance = $1",
            // What is left of it is kept as long as that of others.
            "DELETE FROM kept WHERE instance = $1",
            "UPDATE instance SET extras = extras & ~16 WHERE no = $1 AND extras & 16 <> 0",
        ] {
            self.later(sql, &[&no]).await?;
        }
        Ok(())
    }

    async fn clear(&mut self, instance: InstanceNo, rows: u32, at_ms: i64) -> Done<Lived> {
        let no = instance.0;
        let Some((true, last_run)) = self.forgettable(no, i64::MIN, i64::MIN).await? else {
            return Ok(Lived::Done);
        };
        let more = self.delete_hanging(no, last_run, rows, at_ms).await?;
        Ok(if more { Lived::More } else { Lived::Done })
    }

    /// The number of an instance that somebody can find, with its head held.
    pub(super) async fn standing(&mut self, instance: InstanceId) -> Done<Option<i64>> {
        let Some(no) = self.instance_no(instance).await? else {
            return Ok(None);
        };
        self.hold_heads(&[no]).await?;
        let sql = "SELECT 1 FROM origin WHERE instance = $1";
        Ok(self.one(sql, &[&no]).await?.map(|_| no))
    }
}
