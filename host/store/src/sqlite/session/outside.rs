//! Triggers from outside: schedule, fire, reschedule, cancel, control.

use bytes::Bytes;
use rusqlite::OptionalExtension as _;
use windlass_model::limits::CONTROL_PRIORITY;
use windlass_model::resumption::About;
use windlass_model::{
    InstanceId, InstanceNo, Seq, TriggerId, TriggerNo, TriggerState, TriggerType,
};

use super::cache::extras;
use super::{Done, Session};
use crate::outside::{NewOutside, PAUSING, Scheduled, Touched, TriggerTarget};
use crate::rows::{NewTrigger, TriggerRow};
use crate::sql::rows::{self, select_trigger};
use crate::write::{Commit, Wrote};

/// What a name from outside stands for.
struct Named {
    trigger: TriggerNo,
    instance: InstanceNo,
    request: [u8; 32],
    closed: bool,
}

impl Session<'_> {
    pub(super) fn schedule(&mut self, new: &NewOutside) -> Done<Wrote> {
        Ok(Wrote::Scheduled(self.schedule_new(new)?))
    }

    fn schedule_new(&mut self, new: &NewOutside) -> Done<Scheduled> {
        if let Some(named) = self.named(new.id)? {
            return Ok(if named.request != new.request.0 {
                Scheduled::Conflict
            } else if named.closed {
                Scheduled::Closed
            } else if self.row_of(&named)?.is_some() {
                Scheduled::Already
            } else {
                Scheduled::Finished
            });
        }
        let Some(instance) = self.instance_no(new.instance)? else {
            return Ok(Scheduled::NoInstance);
        };
        if self.is_over(instance)? {
            return Ok(Scheduled::Closed);
        }
        let row = NewTrigger {
            no: new.no,
            seq: Seq::outside(new.no),
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
        self.insert_trigger(instance, &row, false)?;
        let sql = "INSERT INTO outside (id, trigger, instance, request) VALUES (?1, ?2, ?3, ?4)";
        self.connection.prepare_cached(sql)?.execute((
            &new.id.0.as_bytes()[..],
            new.no.0,
            instance,
            &new.request.0[..],
        ))?;
        self.note_extra(instance, extras::OUTSIDE)?;
        Ok(Scheduled::New)
    }

    pub(super) fn fire(&mut self, target: TriggerTarget, at_ms: i64) -> Done<Wrote> {
        let touched = match self.touchable(target)? {
            Err(touched) => touched,
            Ok(row) => {
                // What was parked is tried again, and parked again if it has to be.
                let sql = "UPDATE trigger SET state = 0, due_ms = min(due_ms, ?2), \
                    token = token + 1, reason = NULL WHERE no = ?1";
                let key = (row.no.0, at_ms);
                self.connection.prepare_cached(sql)?.execute(key)?;
                self.made_pending += 1;
                Touched::Done
            }
        };
        Ok(Wrote::Touched(touched))
    }

    pub(super) fn reschedule(&mut self, target: TriggerTarget, due_ms: i64) -> Done<Wrote> {
        let touched = match self.touchable(target)? {
            Err(touched) => touched,
            Ok(row) => {
                let sql = "UPDATE trigger SET due_ms = ?2, token = token + 1 WHERE no = ?1";
                let key = (row.no.0, due_ms);
                self.connection.prepare_cached(sql)?.execute(key)?;
                self.made_pending += 1;
                Touched::Done
            }
        };
        Ok(Wrote::Touched(touched))
    }

    pub(super) fn cancel_trigger(&mut self, target: TriggerTarget, at_ms: i64) -> Done<Wrote> {
        let touched = match self.find_trigger(target)? {
            Err(touched) => touched,
            Ok(row) if row.state == TriggerState::Claimed || !row.seq.is_outside() => {
                let about = About::Cancel { target: row.seq };
                let kind = TriggerType::Alter;
                self.control_once(row.instance.0, kind, &about.encode(), at_ms)?;
                Touched::Running
            }
            Ok(row) => {
                let key = (row.no.0, row.instance.0);
                self.statements.remove_trigger.execute(key)?;
                Touched::Done
            }
        };
        Ok(Wrote::Touched(touched))
    }

    pub(super) fn control(
        &mut self,
        instance: InstanceId,
        no: TriggerNo,
        kind: TriggerType,
        at_ms: i64,
    ) -> Done<Wrote> {
        let touched = match self.standing(instance)? {
            None => Touched::NotFound,
            Some(instance) if self.is_over(instance)? => Touched::Closed,
            Some(instance) => {
                if let Some(at_ms) = self.control_at(instance, kind, at_ms)? {
                    self.insert_control(instance, no, kind, &Bytes::new(), at_ms)?;
                }
                Touched::Done
            }
        };
        Ok(Wrote::Touched(touched))
    }

    /// Asks children to be cancelled. True if there was somebody to ask.
    pub(super) fn cancel_all(&mut self, commit: &Commit) -> Done<bool> {
        let mut asked = false;
        for instance in &commit.cancels {
            let Some(no) = self.instance_no(*instance)? else {
                continue;
            };
            if !self.is_over(no)? {
                let kind = TriggerType::Cancel;
                self.control_once(no, kind, &Bytes::new(), commit.at_ms)?;
                asked = true;
            }
        }
        Ok(asked)
    }

    /// Closes what was named from outside and has not come to its turn.
    pub(super) fn close_outside(&mut self, instance: i64) -> Done<()> {
        let sql = "UPDATE outside SET closed = 1 WHERE instance = ?1 AND trigger IN \
            (SELECT no FROM trigger WHERE instance = ?1 AND seq < 0)";
        self.connection.prepare_cached(sql)?.execute([instance])?;
        Ok(())
    }

    fn control_once(
        &mut self,
        instance: i64,
        kind: TriggerType,
        detail: &Bytes,
        at_ms: i64,
    ) -> Done<()> {
        if self.is_asked_for(instance, kind, detail)? {
            return Ok(());
        }
        let no = self.own_number()?;
        self.insert_control(instance, no, kind, detail, at_ms)
    }

    /// When a request that somebody makes now is due; none if it has been made. Of pausing and
    /// going on the last one counts, so that each comes after the one before, whoever's clock
    /// was asked.
    fn control_at(&self, instance: i64, kind: TriggerType, at_ms: i64) -> Done<Option<i64>> {
        if !kind.is_pausing() {
            let asked = self.is_asked_for(instance, kind, b"")?;
            return Ok((!asked).then_some(at_ms));
        }
        let sql = "SELECT kind, due_ms FROM trigger WHERE instance = ?1 AND kind IN (?2, ?3) \
            AND seq < 0 AND state IN (0, 1) ORDER BY due_ms DESC LIMIT 1";
        let last: Option<(u8, i64)> = self
            .connection
            .prepare_cached(sql)?
            .query_row((instance, PAUSING.0, PAUSING.1), |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        Ok(match last {
            Some((last, _)) if last == kind.stored() => None,
            Some((_, due_ms)) => Some(at_ms.max(due_ms.saturating_add(1))),
            None => Some(at_ms),
        })
    }

    /// Whether there is such a request that nobody has come to yet.
    fn is_asked_for(&self, instance: i64, kind: TriggerType, detail: &[u8]) -> Done<bool> {
        let sql = "SELECT 1 FROM trigger WHERE instance = ?1 AND kind = ?2 AND detail = ?3 \
            AND seq < 0 AND state = 0";
        let key = (instance, kind.stored(), detail);
        Ok(self.connection.prepare_cached(sql)?.exists(key)?)
    }

    fn insert_control(
        &mut self,
        instance: i64,
        no: TriggerNo,
        kind: TriggerType,
        detail: &Bytes,
        at_ms: i64,
    ) -> Done<()> {
        let row = crate::rows::control(no, kind, detail.clone(), at_ms);
        self.insert_trigger(instance, &row, false)
    }

    pub(super) fn is_over(&mut self, instance: i64) -> Done<bool> {
        Ok(self
            .head(instance)?
            .is_none_or(|head| head.status.is_final()))
    }

    fn named(&self, name: TriggerId) -> Done<Option<Named>> {
        let sql = "SELECT trigger, instance, request, closed FROM outside WHERE id = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let named = statement.query_row([&name.0.as_bytes()[..]], |row| {
            Ok(Named {
                trigger: TriggerNo(row.get(0)?),
                instance: InstanceNo(row.get(1)?),
                request: row.get(2)?,
                closed: row.get(3)?,
            })
        });
        Ok(named.optional()?)
    }

    /// The row that a name stands for, unless a successor has taken its place.
    fn row_of(&mut self, named: &Named) -> Done<Option<TriggerRow>> {
        let found = self
            .statements
            .trigger
            .query_row([named.trigger.0], |row| Ok(rows::trigger(row)))
            .optional()?
            .transpose()?;
        Ok(found.filter(|row| row.seq.is_outside() && row.instance == named.instance))
    }

    /// A row that can be moved: neither claimed, nor waiting for a stimulus or a child.
    fn touchable(&mut self, target: TriggerTarget) -> Done<Result<TriggerRow, Touched>> {
        let row = match self.find_trigger(target)? {
            Err(touched) => return Ok(Err(touched)),
            Ok(row) => row,
        };
        Ok(match row.state {
            TriggerState::Claimed => Err(Touched::Running),
            TriggerState::Dead => Err(Touched::Dead),
            TriggerState::Pending | TriggerState::Parked if row.waits() => Err(Touched::Waiting),
            TriggerState::Pending | TriggerState::Parked => Ok(row),
        })
    }

    fn find_trigger(&mut self, target: TriggerTarget) -> Done<Result<TriggerRow, Touched>> {
        let (instance, seq, gone) = match target {
            TriggerTarget::Outside(name) => {
                let Some(named) = self.named(name)? else {
                    return Ok(Err(Touched::NotFound));
                };
                if let Some(row) = self.row_of(&named)? {
                    return Ok(Ok(row));
                }
                let gone = if named.closed {
                    Touched::Closed
                } else {
                    Touched::AlreadyFinished
                };
                (named.instance, Seq::outside(named.trigger), gone)
            }
            TriggerTarget::Row(instance, seq) => {
                let sql = select_trigger!("WHERE instance = ?1 AND seq = ?2").sqlite;
                let key = (instance.0, seq.0.cast_signed());
                let found = self
                    .connection
                    .prepare_cached(sql)?
                    .query_row(key, |row| Ok(rows::trigger(row)))
                    .optional()?
                    .transpose()?;
                if let Some(row) = found {
                    return Ok(Ok(row));
                }
                let gone = match self.head(instance.0)? {
                    Some(head) if head.status.is_final() => Touched::Closed,
                    _ => Touched::NotFound,
                };
                (instance, seq, gone)
            }
        };
        let sql = "SELECT 1 FROM dead_letter WHERE instance = ?1 AND seq = ?2 \
            AND replayed_ms IS NULL";
        let key = (instance.0, seq.0.cast_signed());
        let dead = self.connection.prepare_cached(sql)?.exists(key)?;
        Ok(Err(if dead { Touched::Dead } else { gone }))
    }

    /// The name of an instance, by its number.
    pub(super) fn instance_id(&self, instance: i64) -> Done<Option<InstanceId>> {
        let sql = "SELECT id FROM instance WHERE no = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let found = statement.query_row([instance], |row| {
            Ok(InstanceId(uuid::Uuid::from_bytes(row.get(0)?)))
        });
        Ok(found.optional()?)
    }
}
