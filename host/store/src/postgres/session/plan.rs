//! Occurrences of schedules, and duties, which one member at a time has.

use windlass_model::{Incarnation, InstanceId};

use super::heads::{Params, id};
use super::{Done, Session, get};
use crate::published::{Overlap, Plan, Planned, PutOff};
use crate::rows::cancellation;
use crate::write::Wrote;

impl Session<'_> {
    pub(super) async fn plan(&mut self, plan: &Plan) -> Done<Wrote> {
        let sql = "SELECT last_planned_ms, last_instance FROM schedule WHERE no = $1 FOR UPDATE";
        let Some(row) = self.one(sql, &[&plan.schedule.0]).await? else {
            return Ok(Wrote::Planned(Planned::Stale));
        };
        let (planned_ms, last): (Option<i64>, Option<Vec<u8>>) = (get(&row, 0)?, get(&row, 1)?);
        if planned_ms != plan.expected_last_planned_ms {
            return Ok(Wrote::Planned(Planned::Stale));
        }
        let Some(new) = &plan.create else {
            self.move_on(plan, None).await?;
            return Ok(Wrote::Planned(Planned::Skipped));
        };
        let before = match &last {
            Some(id) => self.unfinished(id).await?,
            None => None,
        };
        match (before, plan.overlap) {
            (Some(_), Overlap::Skip) => {
                self.move_on(plan, None).await?;
                return Ok(Wrote::Planned(Planned::Skipped));
            }
            (Some(_), Overlap::Queue) => {
                let sql = "UPDATE schedule SET next_ms = $2, troubles = 0 WHERE no = $1";
                self.later(sql, &[&plan.schedule.0, &plan.again_ms]).await?;
                return Ok(Wrote::Planned(Planned::Queued));
            }
            _ => {}
        }
        match self.create(new).await? {
            // That it exists means that this very occurrence was started before.
            Wrote::Created | Wrote::Exists(_) | Wrote::Deleted => {}
            Wrote::Reserved { .. } => {
                self.move_on(plan, None).await?;
                return Ok(Wrote::Planned(Planned::Skipped));
            }
            refused => return Ok(refused),
        }
        self.move_on(plan, Some(new.id)).await?;
        if let (Some(no), Overlap::CancelPrevious(trigger)) = (before, plan.overlap)
            && last.as_deref() != Some(id(&new.id))
        {
            self.insert_trigger(no, &cancellation(trigger, plan.at_ms), false)
                .await?;
        }
        Ok(Wrote::Planned(Planned::Created(new.id)))
    }

    async fn move_on(&mut self, plan: &Plan, made: Option<InstanceId>) -> Done<()> {
        let sql = "UPDATE schedule SET last_planned_ms = $2, next_ms = $3, \
            last_instance = coalesce($4, last_instance), \
            troubles = CASE WHEN $5 THEN 0 ELSE troubles END WHERE no = $1";
        let made = made.as_ref().map(id);
        let row = (plan.schedule.0, plan.planned_ms, plan.next_ms);
        // That an occurrence is left out says nothing about whether the next can be made.
        let well = plan.create.is_some();
        self.later(sql, &[&row.0, &row.1, &row.2, &made, &well])
            .await?;
        Ok(())
    }

    pub(super) async fn put_schedule_off(&mut self, put_off: &PutOff) -> Done<Wrote> {
        let sql = "UPDATE schedule SET next_ms = $3, troubles = troubles + 1 \
            WHERE no = $1 AND last_planned_ms IS NOT DISTINCT FROM $2";
        let expected_ms = put_off.expected_last_planned_ms;
        let row: Params<'_> = &[&put_off.schedule.0, &expected_ms, &put_off.again_ms];
        let planned = match self.execute(sql, row).await? {
            0 => Planned::Stale,
            _ => Planned::Queued,
        };
        Ok(Wrote::Planned(planned))
    }

    /// Lets schedules in trouble be tried again at once.
    pub(super) async fn retry_schedules(&mut self) -> Done<()> {
        let sql = "UPDATE schedule SET next_ms = coalesce(last_planned_ms, since_ms) \
            WHERE troubles > 0";
        self.later(sql, &[]).await
    }

    /// The number of an instance that has not ended, with its head held.
    async fn unfinished(&mut self, id: &[u8]) -> Done<Option<i64>> {
        let sql = "SELECT no FROM instance WHERE id = $1";
        let Some(row) = self.one(sql, &[&id]).await? else {
            return Ok(None);
        };
        let no = get(&row, 0)?;
        Ok((!self.is_over(no).await?).then_some(no))
    }

    /// Gives a duty out. That it is free is decided by the row itself, so that of several that
    /// ask at the same moment one gets it.
    pub(super) async fn duty(
        &mut self,
        name: &str,
        incarnation: Incarnation,
        every_ms: Option<u64>,
        at_ms: i64,
    ) -> Done<Wrote> {
        let Some(every_ms) = every_ms else {
            let sql = "UPDATE duty SET at_ms = $3 FROM member m \
                WHERE duty.name = $1 AND duty.incarnation = $2 AND m.incarnation = $2";
            let again = self.execute(sql, &[&name, &incarnation.0, &at_ms]).await?;
            return Ok(Wrote::Duty(again == 1));
        };
        let sql = "INSERT INTO duty (name, incarnation, at_ms) \
            SELECT $1, incarnation, $3 FROM member WHERE incarnation = $2 \
            ON CONFLICT (name) DO UPDATE SET incarnation = excluded.incarnation, \
            at_ms = excluded.at_ms WHERE abs(excluded.at_ms - duty.at_ms) >= $4";
        let every_ms = i64::try_from(every_ms).unwrap_or(i64::MAX);
        let given = self
            .execute(sql, &[&name, &incarnation.0, &at_ms, &every_ms])
            .await?;
        Ok(Wrote::Duty(given == 1))
    }
}
