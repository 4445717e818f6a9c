//! Triggers from outside: schedule, fire, reschedule, cancel, control.
//!
//! Whatever writes a row of an instance holds the head of that first, so that the instance does
//! not end meanwhile and leave the row behind.

use bytes::Bytes;
use windlass_model::limits::CONTROL_PRIORITY;
use windlass_model::resumption::About;
use windlass_model::{
    InstanceId, InstanceNo, Seq, TriggerId, TriggerNo, TriggerState, TriggerType,
};

use super::{Done, Session, extras, get};
use crate::outside::{NewOutside, PAUSING, Scheduled, Touched, TriggerTarget};
use crate::rows::{NewTrigger, TriggerRow};
use crate::sql::rows::{self, select_trigger};
use crate::write::{Commit, Wrote};

/// What a name from outside stands for.
struct Named {
    trigger: TriggerNo,
    instance: InstanceNo,
    request: Vec<u8>,
    closed: bool,
}

impl Session<'_> {
    pub(super) async fn schedule(&mut self, new: &NewOutside) -> Done<Wrote> {
        Ok(Wrote::Scheduled(self.schedule_new(new).await?))
    }

    async fn schedule_new(&mut self, new: &NewOutside) -> Done<Scheduled> {
        if let Some(named) = self.named(new.id).await? {
            return self.scheduled_before(&named, new).await;
        }
        let Some(instance) = self.instance_no(new.instance).await? else {
            return Ok(Scheduled::NoInstance);
        };
        if self.is_over(instance).await? {
            return Ok(Scheduled::Closed);
        }
        let sql = "INSERT INTO outside (id, trigger, instance, request, closed) \
            VALUES ($1, $2, $3, $4, false) ON CONFLICT (id) DO NOTHING";
        let request = &new.request.0[..];
        let key = (&new.id.0.as_bytes()[..], new.no.0);
        let inserted = self
            .execute(sql, &[&key.0, &key.1, &instance, &request])
            .await?;
        if inserted == 0 {
            // Somebody else was faster, over another connection.
            return match self.named(new.id).await? {
                Some(named) => self.scheduled_before(&named, new).await,
                None => Ok(Scheduled::Conflict),
            };
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
        self.insert_trigger(instance, &row, false).await?;
        self.note_extra(instance, extras::OUTSIDE).await?;
        Ok(Scheduled::New)
    }

    async fn scheduled_before(&mut self, named: &Named, new: &NewOutside) -> Done<Scheduled> {
        Ok(if named.request != new.request.0 {
            Scheduled::Conflict
        } else if named.closed {
            Scheduled::Closed
        } else if self.row_of(named).await?.is_some() {
            Scheduled::Already
        } else {
            Scheduled::Finished
        })
    }

    pub(super) async fn fire(&mut self, target: TriggerTarget, at_ms: i64) -> Done<Wrote> {
        let touched = match self.touchable(target).await? {
            Err(touched) => touched,
            Ok(row) => {
                // What was parked is tried again, and parked again if it has to be.
                let sql = "UPDATE trigger SET state = 0, due_ms = least(due_ms, $2), \
                    token = token + 1, reason = NULL WHERE no = $1";
                self.aftermath.made_pending += self.execute(sql, &[&row.no.0, &at_ms]).await?;
                Touched::Done
            }
        };
        Ok(Wrote::Touched(touched))
    }

    pub(super) async fn reschedule(&mut self, target: TriggerTarget, due_ms: i64) -> Done<Wrote> {
        let touched = match self.touchable(target).await? {
            Err(touched) => touched,
            Ok(row) => {
                let sql = "UPDATE trigger SET due_ms = $2, token = token + 1 WHERE no = $1";
                self.aftermath.made_pending += self.execute(sql, &[&row.no.0, &due_ms]).await?;
                Touched::Done
            }
        };
        Ok(Wrote::Touched(touched))
    }

    pub(super) async fn cancel_trigger(
        &mut self,
        target: TriggerTarget,
        at_ms: i64,
    ) -> Done<Wrote> {
        let touched = match self.find_trigger(target).await? {
            Err(touched) => touched,
            Ok(row) if row.state == TriggerState::Claimed || !row.seq.is_outside() => {
                let about = About::Cancel { target: row.seq };
                let kind = TriggerType::Alter;
                self.control_once(row.instance.0, kind, &about.encode(), at_ms)
                    .await?;
                Touched::Running
            }
            Ok(row) => {
                let sql = "DELETE FROM trigger WHERE no = $1 AND instance = $2";
                self.later(sql, &[&row.no.0, &row.instance.0]).await?;
                Touched::Done
            }
        };
        Ok(Wrote::Touched(touched))
    }

    pub(super) async fn control(
        &mut self,
        instance: InstanceId,
        no: TriggerNo,
        kind: TriggerType,
        at_ms: i64,
    ) -> Done<Wrote> {
        let touched = match self.standing(instance).await? {
            None => Touched::NotFound,
            Some(instance) if self.is_over(instance).await? => Touched::Closed,
            Some(instance) => {
                if let Some(at_ms) = self.control_at(instance, kind, at_ms).await? {
                    self.insert_control(instance, no, kind, &Bytes::new(), at_ms)
                        .await?;
                }
                Touched::Done
            }
        };
        Ok(Wrote::Touched(touched))
    }

    /// Asks children to be cancelled. True if there was somebody to ask.
    pub(super) async fn cancel_all(&mut self, commit: &Commit) -> Done<bool> {
        let mut asked = false;
        for instance in &commit.cancels {
            let Some(no) = self.instance_no(*instance).await? else {
                continue;
            };
            if !self.is_over(no).await? {
                let kind = TriggerType::Cancel;
                self.control_once(no, kind, &Bytes::new(), commit.at_ms)
                    .await?;
                asked = true;
            }
        }
        Ok(asked)
    }

    /// Closes what was named from outside and has not come to its turn.
    pub(super) async fn close_outside(&mut self, instance: i64) -> Done<()> {
        let sql = "UPDATE outside SET closed = true WHERE instance = $1 AND trigger = ANY (ARRAY( \
            SELECT no FROM trigger WHERE instance = $1 AND seq < 0))";
        self.later(sql, &[&instance]).await?;
        Ok(())
    }

    async fn control_once(
        &mut self,
        instance: i64,
        kind: TriggerType,
        detail: &Bytes,
        at_ms: i64,
    ) -> Done<()> {
        if self.is_asked_for(instance, kind, detail).await? {
            return Ok(());
        }
        let no = self.own_number().await?;
        self.insert_control(instance, no, kind, detail, at_ms).await
    }

    /// When a request that somebody makes now is due; none if it has been made. Of pausing and
    /// going on the last one counts, so that each comes after the one before, whoever's clock
    /// was asked.
    async fn control_at(
        &mut self,
        instance: i64,
        kind: TriggerType,
        at_ms: i64,
    ) -> Done<Option<i64>> {
        if !kind.is_pausing() {
            let asked = self.is_asked_for(instance, kind, b"").await?;
            return Ok((!asked).then_some(at_ms));
        }
        let sql = "SELECT kind, due_ms FROM trigger WHERE instance = $1 AND kind IN ($2, $3) \
            AND seq < 0 AND state IN (0, 1) ORDER BY due_ms DESC LIMIT 1";
        let (pause, unpause) = (i16::from(PAUSING.0), i16::from(PAUSING.1));
        let Some(row) = self.one(sql, &[&instance, &pause, &unpause]).await? else {
            return Ok(Some(at_ms));
        };
        let (last, due_ms): (i16, i64) = (get(&row, 0)?, get(&row, 1)?);
        let again = last == i16::from(kind.stored());
        Ok((!again).then(|| at_ms.max(due_ms.saturating_add(1))))
    }

    /// Whether there is such a request that nobody has come to yet.
    async fn is_asked_for(
        &mut self,
        instance: i64,
        kind: TriggerType,
        detail: &[u8],
    ) -> Done<bool> {
        let sql = "SELECT 1 FROM trigger WHERE instance = $1 AND kind = $2 AND detail = $3 \
            AND seq < 0 AND state = 0 LIMIT 1";
        let kind = i16::from(kind.stored());
        let found = self.one(sql, &[&instance, &kind, &detail]).await?;
        Ok(found.is_some())
    }

    async fn insert_control(
        &mut self,
        instance: i64,
        no: TriggerNo,
        kind: TriggerType,
        detail: &Bytes,
        at_ms: i64,
    ) -> Done<()> {
        let row = crate::rows::control(no, kind, detail.clone(), at_ms);
        self.insert_trigger(instance, &row, false).await
    }

    async fn named(&mut self, name: TriggerId) -> Done<Option<Named>> {
        let sql = "SELECT trigger, instance, request, closed FROM outside WHERE id = $1";
        let Some(row) = self.one(sql, &[&&name.0.as_bytes()[..]]).await? else {
            return Ok(None);
        };
        Ok(Some(Named {
            trigger: TriggerNo(get(&row, 0)?),
            instance: InstanceNo(get(&row, 1)?),
            request: get(&row, 2)?,
            closed: get(&row, 3)?,
        }))
    }

    /// The row that a name stands for, unless a successor has taken its place. It is this
    /// transaction's then.
    async fn row_of(&mut self, named: &Named) -> Done<Option<TriggerRow>> {
        let sql =
            select_trigger!("WHERE no = ?1 AND instance = ?2 AND seq < 0 FOR UPDATE").postgres;
        let row = self
            .one(sql, &[&named.trigger.0, &named.instance.0])
            .await?;
        Ok(row.map(|row| rows::trigger(&row)).transpose()?)
    }

    /// A row that can be moved: neither claimed, nor waiting for a stimulus or a child.
    async fn touchable(&mut self, target: TriggerTarget) -> Done<Result<TriggerRow, Touched>> {
        let row = match self.find_trigger(target).await? {
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

    /// The row of a target, with the head of its instance held.
    async fn find_trigger(&mut self, target: TriggerTarget) -> Done<Result<TriggerRow, Touched>> {
        let (instance, seq, gone) = match target {
            TriggerTarget::Outside(name) => {
                let Some(named) = self.named(name).await? else {
                    return Ok(Err(Touched::NotFound));
                };
                self.hold_heads(&[named.instance.0]).await?;
                // What it stands for may have ended until then.
                let named = self.named(name).await?.unwrap_or(named);
                if let Some(row) = self.row_of(&named).await? {
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
                let head = self.head(instance.0).await?;
                let sql = select_trigger!(
                    "WHERE instance = ?1 AND seq = ?2 ORDER BY no LIMIT 1 FOR UPDATE"
                )
                .postgres;
                let key = (instance.0, seq.0.cast_signed());
                if let Some(row) = self.one(sql, &[&key.0, &key.1]).await? {
                    return Ok(Ok(rows::trigger(&row)?));
                }
                let gone = match head {
                    Some(head) if head.status.is_final() => Touched::Closed,
                    _ => Touched::NotFound,
                };
                (instance, seq, gone)
            }
        };
        let sql = "SELECT 1 FROM dead_letter WHERE instance = $1 AND seq = $2 \
            AND replayed_ms IS NULL LIMIT 1";
        let key = (instance.0, seq.0.cast_signed());
        let dead = self.one(sql, &[&key.0, &key.1]).await?.is_some();
        Ok(Err(if dead { Touched::Dead } else { gone }))
    }
}
