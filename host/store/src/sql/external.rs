//! External triggers: schedule, fire, reschedule, cancel, control.
//!
//! Each verb locks the head of the run before it writes a row, so that the run does not
//! end in the meantime and leave the row behind.

use bytes::Bytes;
use windlass_model::limits::CONTROL_PRIORITY;
use windlass_model::resumption::About;
use windlass_model::{Digest, RunNo, Seq, TriggerId, TriggerNo, TriggerState, TriggerType};

use super::row::{digest, flag, int, variant};
use super::rows::{select_trigger, trigger};
use super::transaction::{Done, Transaction, extras};
use super::{hot, lives, params, sql, trees};
use crate::external::{
    CancelTrigger, Control, Fire, NewExternal, PAUSING, Reschedule, Scheduled, Touched,
    TriggerTarget,
};
use crate::rows::{self, NewTrigger, TriggerRow};
use crate::write::Commit;

/// The trigger that an external id stands for.
struct Named {
    trigger: TriggerNo,
    run: RunNo,
    request: Digest,
    closed: bool,
}

pub(crate) async fn schedule<X: Transaction>(tx: &mut X, new: &NewExternal) -> Done<X, Scheduled> {
    if let Some(named) = named(tx, new.id).await? {
        return scheduled_before(tx, &named, new).await;
    }
    let Some(run) = tx.run_no(new.run).await? else {
        return Ok(Scheduled::NoRun);
    };
    if tx.is_over(run).await? {
        return Ok(Scheduled::Closed);
    }
    let sql = sql!(
        "INSERT INTO external_trigger (id, trigger, run, request, closed) \
        VALUES (?1, ?2, ?3, ?4, false) ON CONFLICT (id) DO NOTHING"
    );
    let row = params![new.id, new.no.0, run, new.request];
    if tx.execute(sql, row).await? == 0 {
        // Another connection has written the same id.
        return match named(tx, new.id).await? {
            Some(named) => scheduled_before(tx, &named, new).await,
            None => Ok(Scheduled::Conflict),
        };
    }
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
    tx.insert_trigger(run, &row).await?;
    tx.note_extra(run, extras::EXTERNAL).await?;
    Ok(Scheduled::New)
}

async fn scheduled_before<X: Transaction>(
    tx: &mut X,
    named: &Named,
    new: &NewExternal,
) -> Done<X, Scheduled> {
    Ok(if named.request != new.request {
        Scheduled::Conflict
    } else if named.closed {
        Scheduled::Closed
    } else if row_of(tx, named).await?.is_some() {
        Scheduled::Already
    } else {
        Scheduled::Finished
    })
}

pub(crate) async fn fire<X: Transaction>(tx: &mut X, fire: &Fire) -> Done<X, Touched> {
    Ok(match touchable(tx, fire.target).await? {
        Err(touched) => touched,
        Ok(row) if fire.only_due_ms.is_some_and(|due_ms| due_ms != row.due_ms) => {
            Touched::AlreadyFinished
        }
        Ok(row) => {
            // A parked trigger is tried again, and parked again if necessary.
            let sql = sql!(
                "UPDATE trigger SET state = 0, due_ms = {min|least}(due_ms, ?2), \
                token = token + 1, reason = NULL WHERE no = ?1"
            );
            let changed = tx.execute(sql, params![row.no.0, fire.at_ms]).await?;
            tx.made_pending(changed);
            Touched::Done
        }
    })
}

pub(crate) async fn reschedule<X: Transaction>(
    tx: &mut X,
    reschedule: &Reschedule,
) -> Done<X, Touched> {
    Ok(match touchable(tx, reschedule.target).await? {
        Err(touched) => touched,
        Ok(row) => {
            let sql = sql!("UPDATE trigger SET due_ms = ?2, token = token + 1 WHERE no = ?1");
            let changed = tx
                .execute(sql, params![row.no.0, reschedule.due_ms])
                .await?;
            tx.made_pending(changed);
            Touched::Done
        }
    })
}

pub(crate) async fn cancel_trigger<X: Transaction>(
    tx: &mut X,
    cancel: &CancelTrigger,
) -> Done<X, Touched> {
    Ok(match find(tx, cancel.target).await? {
        Err(touched) => touched,
        Ok(row) if row.state == TriggerState::Claimed || !row.seq.is_external() => {
            let about = About::Cancel { target: row.seq };
            let kind = TriggerType::Alter;
            control_once(tx, row.run.0, kind, &about.encode(), cancel.at_ms).await?;
            Touched::Running
        }
        Ok(row) => {
            let key = params![row.no.0, row.run.0];
            tx.later(hot::REMOVE_TRIGGER, key).await?;
            Touched::Done
        }
    })
}

pub(crate) async fn control<X: Transaction>(tx: &mut X, control: &Control) -> Done<X, Touched> {
    let (no, kind, at_ms) = (control.no, control.kind, control.at_ms);
    Ok(match lives::standing(tx, control.run).await? {
        None => Touched::NotFound,
        Some(run) if tx.is_over(run).await? => Touched::Closed,
        Some(run) => {
            if let Some(at_ms) = control_at(tx, run, kind, at_ms).await? {
                insert_control(tx, run, no, kind, &Bytes::new(), at_ms).await?;
            }
            Touched::Done
        }
    })
}

/// Writes cancel requests for the children that a step names. True if one of them has not ended.
pub(crate) async fn cancel_all<X: Transaction>(tx: &mut X, commit: &Commit) -> Done<X, bool> {
    let mut asked = false;
    for run in &commit.cancels {
        let Some(no) = tx.run_no(*run).await? else {
            continue;
        };
        if !tx.is_over(no).await? {
            if !is_asked_for(tx, no, TriggerType::Cancel, &Bytes::new()).await? {
                let row = rows::following(tx.own_number().await?, commit.at_ms);
                insert_row(tx, no, &row).await?;
            }
            asked = true;
        }
    }
    Ok(asked)
}

/// Closes the external triggers that have not run.
pub(crate) async fn close<X: Transaction>(tx: &mut X, run: i64) -> Done<X, ()> {
    let sql = sql!(
        "UPDATE external_trigger SET closed = true WHERE run = ?1 \
        AND trigger {IN (|= ANY (ARRAY(}\
        SELECT no FROM trigger WHERE run = ?1 AND seq < 0{)|))}"
    );
    tx.later(sql, params![run]).await
}

async fn control_once<X: Transaction>(
    tx: &mut X,
    run: i64,
    kind: TriggerType,
    detail: &Bytes,
    at_ms: i64,
) -> Done<X, ()> {
    if is_asked_for(tx, run, kind, detail).await? {
        return Ok(());
    }
    let no = tx.own_number().await?;
    insert_control(tx, run, no, kind, detail, at_ms).await
}

/// The due time of a control request that is made now; none if the same request is pending. Of the
/// requests to pause and unpause the last one counts, so each gets a later time than the one
/// before, even if the clocks of the hosts differ.
async fn control_at<X: Transaction>(
    tx: &mut X,
    run: i64,
    kind: TriggerType,
    at_ms: i64,
) -> Done<X, Option<i64>> {
    if !kind.is_pausing() {
        let asked = is_asked_for(tx, run, kind, &Bytes::new()).await?;
        return Ok((!asked).then_some(at_ms));
    }
    let sql = sql!(
        "SELECT kind, due_ms FROM trigger WHERE run = ?1 AND kind IN (?2, ?3) \
        AND seq < 0 AND state IN (0, 1) ORDER BY due_ms DESC LIMIT 1"
    );
    let last = tx
        .one(sql, params![run, PAUSING.0, PAUSING.1], |row| {
            let last = variant(row, 0, TriggerType::from_stored)?;
            Ok((last, int(row, 1)?))
        })
        .await?;
    Ok(match last {
        Some((last, _)) if last == kind => None,
        Some((_, due_ms)) => Some(at_ms.max(due_ms.saturating_add(1))),
        None => Some(at_ms),
    })
}

/// Whether such a request is pending.
async fn is_asked_for<X: Transaction>(
    tx: &mut X,
    run: i64,
    kind: TriggerType,
    detail: &Bytes,
) -> Done<X, bool> {
    let sql = sql!(
        "SELECT 1 FROM trigger WHERE run = ?1 AND kind = ?2 AND detail = ?3 \
        AND seq < 0 AND state = 0 LIMIT 1"
    );
    let key = params![run, kind.stored(), detail];
    Ok(tx.one(sql, key, |_| Ok(())).await?.is_some())
}

async fn insert_control<X: Transaction>(
    tx: &mut X,
    run: i64,
    no: TriggerNo,
    kind: TriggerType,
    detail: &Bytes,
    at_ms: i64,
) -> Done<X, ()> {
    let row = rows::control(no, kind, detail.clone(), at_ms);
    insert_row(tx, run, &row).await
}

async fn insert_row<X: Transaction>(tx: &mut X, run: i64, row: &NewTrigger) -> Done<X, ()> {
    if matches!(row.kind, TriggerType::Cancel | TriggerType::Delete) {
        trees::end(tx, run).await?;
    }
    tx.insert_trigger(run, row).await
}

async fn named<X: Transaction>(tx: &mut X, name: TriggerId) -> Done<X, Option<Named>> {
    let sql = sql!("SELECT trigger, run, request, closed FROM external_trigger WHERE id = ?1");
    tx.one(sql, params![name], |row| {
        Ok(Named {
            trigger: TriggerNo(int(row, 0)?),
            run: RunNo(int(row, 1)?),
            request: digest(row, 2)?,
            closed: flag(row, 3)?,
        })
    })
    .await
}

/// The row of an external id, unless a successor has replaced it.
async fn row_of<X: Transaction>(tx: &mut X, named: &Named) -> Done<X, Option<TriggerRow>> {
    let sql = select_trigger!("WHERE no = ?1 AND run = ?2 AND seq < 0{| FOR UPDATE}");
    let key = params![named.trigger.0, named.run.0];
    tx.one(sql, key, |row| trigger(row)).await
}

/// A row that can be rescheduled: neither claimed, nor waiting for a stimulus or a child.
async fn touchable<X: Transaction>(
    tx: &mut X,
    target: TriggerTarget,
) -> Done<X, Result<TriggerRow, Touched>> {
    let row = match find(tx, target).await? {
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

/// The row of a target, with the head of its run locked.
async fn find<X: Transaction>(
    tx: &mut X,
    target: TriggerTarget,
) -> Done<X, Result<TriggerRow, Touched>> {
    let (run, seq, gone) = match target {
        TriggerTarget::External(name) => {
            let Some(before) = named(tx, name).await? else {
                return Ok(Err(Touched::NotFound));
            };
            tx.hold(before.run.0).await?;
            // The trigger may have finished before the head was locked.
            let named = named(tx, name).await?.unwrap_or(before);
            if let Some(row) = row_of(tx, &named).await? {
                return Ok(Ok(row));
            }
            let gone = if named.closed {
                Touched::Closed
            } else {
                Touched::AlreadyFinished
            };
            (named.run, Seq::external(named.trigger), gone)
        }
        TriggerTarget::Row(run, seq) => {
            let head = tx.head(run.0).await?;
            let sql =
                select_trigger!("WHERE run = ?1 AND seq = ?2 ORDER BY no LIMIT 1{| FOR UPDATE}");
            let key = params![run.0, seq.0.cast_signed()];
            if let Some(row) = tx.one(sql, key, |row| trigger(row)).await? {
                return Ok(Ok(row));
            }
            let gone = match head {
                Some(head) if head.status.is_final() => Touched::Closed,
                _ => Touched::NotFound,
            };
            (run, seq, gone)
        }
    };
    let sql = sql!(
        "SELECT 1 FROM dead_letter WHERE run = ?1 AND seq = ?2 \
        AND replayed_ms IS NULL LIMIT 1"
    );
    let key = params![run.0, seq.0.cast_signed()];
    let dead = tx.one(sql, key, |_| Ok(())).await?.is_some();
    Ok(Err(if dead { Touched::Dead } else { gone }))
}
