//! Occurrences of schedules, and what keeps instances and members out of each other's way.

use rusqlite::OptionalExtension as _;
use uuid::Uuid;
use windlass_model::{Incarnation, InstanceId, InstanceNo};

use super::cache::Filled;
use super::{Done, Session};
use crate::published::{Overlap, Plan, Planned, PutOff};
use crate::rows::{NewInstance, cancellation};
use crate::write::Wrote;

impl Session<'_> {
    pub(super) fn plan(&mut self, plan: &Plan) -> Done<Wrote> {
        let sql = "SELECT last_planned_ms, last_instance FROM schedule WHERE no = ?1";
        let row: Option<(Option<i64>, Option<[u8; 16]>)> = self
            .connection
            .prepare_cached(sql)?
            .query_row([plan.schedule.0], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((_, last)) = row.filter(|(last, _)| *last == plan.expected_last_planned_ms) else {
            return Ok(Wrote::Planned(Planned::Stale));
        };
        let Some(new) = &plan.create else {
            self.move_on(plan, None)?;
            return Ok(Wrote::Planned(Planned::Skipped));
        };
        let before = match last {
            Some(id) => self.unfinished(&id)?,
            None => None,
        };
        match (before, plan.overlap) {
            (Some(_), Overlap::Skip) => {
                self.move_on(plan, None)?;
                return Ok(Wrote::Planned(Planned::Skipped));
            }
            (Some(_), Overlap::Queue) => {
                let sql = "UPDATE schedule SET next_ms = ?2, troubles = 0 WHERE no = ?1";
                let key = (plan.schedule.0, plan.again_ms);
                self.connection.prepare_cached(sql)?.execute(key)?;
                return Ok(Wrote::Planned(Planned::Queued));
            }
            _ => {}
        }
        match self.create(new)? {
            // That it exists means that this very occurrence was started before.
            Wrote::Created | Wrote::Exists(_) | Wrote::Deleted => {}
            Wrote::Reserved { .. } => {
                self.move_on(plan, None)?;
                return Ok(Wrote::Planned(Planned::Skipped));
            }
            refused => return Ok(refused),
        }
        self.move_on(plan, Some(new.id))?;
        if let (Some(no), Overlap::CancelPrevious(trigger)) = (before, plan.overlap)
            && last != Some(*new.id.0.as_bytes())
        {
            self.insert_trigger(no, &cancellation(trigger, plan.at_ms), false)?;
        }
        Ok(Wrote::Planned(Planned::Created(new.id)))
    }

    fn move_on(&self, plan: &Plan, made: Option<InstanceId>) -> Done<()> {
        let sql = "UPDATE schedule SET last_planned_ms = ?2, next_ms = ?3, \
            last_instance = coalesce(?4, last_instance), \
            troubles = CASE WHEN ?5 THEN 0 ELSE troubles END WHERE no = ?1";
        let made = made.as_ref().map(|id| &id.0.as_bytes()[..]);
        // That an occurrence is left out says nothing about whether the next can be made.
        let well = plan.create.is_some();
        let row = (plan.schedule.0, plan.planned_ms, plan.next_ms, made, well);
        self.connection.prepare_cached(sql)?.execute(row)?;
        Ok(())
    }

    pub(super) fn put_schedule_off(&self, put_off: &PutOff) -> Done<Wrote> {
        let sql = "UPDATE schedule SET next_ms = ?3, troubles = troubles + 1 \
            WHERE no = ?1 AND last_planned_ms IS ?2";
        let expected_ms = put_off.expected_last_planned_ms;
        let row = (put_off.schedule.0, expected_ms, put_off.again_ms);
        let changed = self.connection.prepare_cached(sql)?.execute(row)?;
        let planned = if changed == 0 {
            Planned::Stale
        } else {
            Planned::Queued
        };
        Ok(Wrote::Planned(planned))
    }

    /// Lets schedules in trouble be tried again at once.
    pub(super) fn retry_schedules(&self) -> Done<()> {
        let sql = "UPDATE schedule SET next_ms = coalesce(last_planned_ms, since_ms) \
            WHERE troubles > 0";
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    /// The number of an instance that has not ended.
    fn unfinished(&mut self, id: &[u8; 16]) -> Done<Option<i64>> {
        let no: Option<i64> = self
            .connection
            .prepare_cached("SELECT no FROM instance WHERE id = ?1")?
            .query_row([&id[..]], |row| row.get(0))
            .optional()?;
        let Some(no) = no else { return Ok(None) };
        let head = self.head(no)?;
        Ok(head.filter(|head| !head.status.is_final()).map(|_| no))
    }

    /// An instance that reserves this.
    pub(super) fn reserved_by(&self, key: &str) -> Done<Option<InstanceId>> {
        let sql = "SELECT i.id FROM reservation r CROSS JOIN instance i ON i.no = r.instance \
            WHERE r.key = ?1 ORDER BY r.instance LIMIT 1";
        let id: Option<[u8; 16]> = self
            .connection
            .prepare_cached(sql)?
            .query_row([key], |row| row.get(0))
            .optional()?;
        Ok(id.map(|id| InstanceId(Uuid::from_bytes(id))))
    }

    pub(super) fn reserve(&mut self, new: &NewInstance) -> Done<()> {
        self.reserve_keys(new.no.0, &new.reserves)
    }

    pub(super) fn reserve_keys(&mut self, instance: i64, keys: &[String]) -> Done<()> {
        for key in keys {
            self.connection
                .prepare_cached("INSERT OR IGNORE INTO reservation VALUES (?1, ?2)")?
                .execute((key, instance))?;
            self.cache.reservations = Filled::Some;
        }
        Ok(())
    }

    /// Lets go of what an instance has reserved, if it has.
    pub(super) fn release_reservations(&mut self, instance: InstanceNo) -> Done<()> {
        if self.cache.reservations == Filled::Unknown {
            let sql = "SELECT EXISTS (SELECT 1 FROM reservation)";
            self.cache.reservations = self.filled(sql)?;
        }
        if self.cache.reservations == Filled::Some {
            self.connection
                .prepare_cached("DELETE FROM reservation WHERE instance = ?1")?
                .execute([instance.0])?;
        }
        Ok(())
    }

    pub(super) fn duty(
        &mut self,
        name: &str,
        incarnation: Incarnation,
        every_ms: Option<u64>,
        at_ms: i64,
    ) -> Done<Wrote> {
        if !self.is_member(incarnation.0)? {
            return Ok(Wrote::Duty(false));
        }
        let last: Option<(i64, i64)> = self
            .connection
            .prepare_cached("SELECT incarnation, at_ms FROM duty WHERE name = ?1")?
            .query_row([name], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let last = last.map(|(holder, at_ms)| (Incarnation(holder), at_ms));
        if !crate::retention::is_given(last, incarnation, every_ms, at_ms) {
            return Ok(Wrote::Duty(false));
        }
        let sql = "INSERT INTO duty (name, incarnation, at_ms) VALUES (?1, ?2, ?3) \
            ON CONFLICT (name) DO UPDATE SET incarnation = excluded.incarnation, \
            at_ms = excluded.at_ms";
        let row = (name, incarnation.0, at_ms);
        self.connection.prepare_cached(sql)?.execute(row)?;
        Ok(Wrote::Duty(true))
    }
}
