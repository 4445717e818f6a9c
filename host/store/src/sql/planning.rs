//! Occurrences of schedules.

use windlass_model::RunId;

use super::row::{int_if_any, run_if_any};
use super::transaction::{Done, Transaction};
use super::{params, sql};
use crate::published::{
    Overlap, PauseSchedule, Plan, Planned, PutOff, StartSchedule, StartedNow, UnpauseSchedule,
};
use crate::rows::{Created, cancellation};
use crate::write::{Fenced, OrFenced};

pub(crate) async fn plan<X: Transaction>(tx: &mut X, plan: &Plan) -> Done<X, OrFenced<Planned>> {
    let sql = sql!(
        "SELECT last_planned_ms, last_run FROM schedule \
        WHERE no = ?1 AND paused_ms IS NULL{| FOR UPDATE}"
    );
    let row = tx
        .one(sql, params![plan.schedule.0], |row| {
            Ok((int_if_any(row, 0)?, run_if_any(row, 1)?))
        })
        .await?;
    let row = row.filter(|(planned_ms, _)| *planned_ms == plan.expected_last_planned_ms);
    let Some((_, last)) = row else {
        return Ok(Ok(Planned::Stale));
    };
    let Some(new) = &plan.create else {
        move_on(tx, plan, None).await?;
        return Ok(Ok(Planned::Skipped));
    };
    let before = match last {
        Some(id) => unfinished(tx, id).await?,
        None => None,
    };
    match (before, plan.overlap) {
        (Some(_), Overlap::Skip) => {
            move_on(tx, plan, None).await?;
            return Ok(Ok(Planned::Skipped));
        }
        (Some(_), Overlap::Queue) => {
            let sql = sql!("UPDATE schedule SET next_ms = ?2, troubles = 0 WHERE no = ?1");
            tx.later(sql, params![plan.schedule.0, plan.again_ms])
                .await?;
            return Ok(Ok(Planned::Queued));
        }
        _ => {}
    }
    match tx.create(new).await? {
        // An existing run is this same occurrence, started before.
        Ok(Created::New | Created::Exists(_) | Created::Deleted) => {}
        // Only starts of a client or a hook name an edition.
        Ok(Created::Moved) => return Err(X::moved()),
        Ok(Created::Reserved { .. }) => {
            move_on(tx, plan, None).await?;
            return Ok(Ok(Planned::Skipped));
        }
        Err(Fenced) => return Ok(Err(Fenced)),
    }
    move_on(tx, plan, Some(new.id)).await?;
    if let (Some(no), Overlap::CancelPrevious(trigger)) = (before, plan.overlap)
        && last != Some(new.id)
    {
        tx.insert_trigger(no, &cancellation(trigger, plan.at_ms))
            .await?;
    }
    Ok(Ok(Planned::Created(new.id)))
}

async fn move_on<X: Transaction>(tx: &mut X, plan: &Plan, made: Option<RunId>) -> Done<X, ()> {
    let sql = sql!(
        "UPDATE schedule SET last_planned_ms = ?2, next_ms = ?3, \
        last_run = coalesce(?4, last_run), \
        troubles = CASE WHEN ?5 THEN 0 ELSE troubles END WHERE no = ?1"
    );
    // A skipped occurrence does not tell whether the next one can be planned.
    let well = plan.create.is_some();
    let row = params![plan.schedule.0, plan.planned_ms, plan.next_ms, made, well];
    tx.later(sql, row).await
}

pub(crate) async fn put_off<X: Transaction>(tx: &mut X, put_off: &PutOff) -> Done<X, Planned> {
    let sql = sql!(
        "UPDATE schedule SET next_ms = ?3, troubles = troubles + 1 \
        WHERE no = ?1 AND last_planned_ms IS NOT DISTINCT FROM ?2 AND paused_ms IS NULL"
    );
    let expected_ms = put_off.expected_last_planned_ms;
    let row = params![put_off.schedule.0, expected_ms, put_off.again_ms];
    Ok(match tx.execute(sql, row).await? {
        0 => Planned::Stale,
        _ => Planned::Queued,
    })
}

pub(crate) async fn pause_schedule<X: Transaction>(
    tx: &mut X,
    pause: &PauseSchedule,
) -> Done<X, bool> {
    let sql = sql!(
        "UPDATE schedule SET paused_ms = ?2, next_ms = ?3, troubles = 0 \
        WHERE no = ?1 AND paused_ms IS NULL"
    );
    let row = params![pause.schedule.0, pause.at_ms, i64::MAX];
    Ok(tx.execute(sql, row).await? > 0)
}

pub(crate) async fn unpause_schedule<X: Transaction>(
    tx: &mut X,
    unpause: &UnpauseSchedule,
) -> Done<X, bool> {
    let sql = sql!(
        "UPDATE schedule SET paused_ms = NULL, next_ms = ?3, \
        last_planned_ms = coalesce(?4, last_planned_ms) \
        WHERE no = ?1 AND since_ms = ?2 AND paused_ms IS NOT NULL"
    );
    let since_ms = unpause.expected_since_ms;
    let row = params![
        unpause.schedule.0,
        since_ms,
        unpause.next_ms,
        unpause.planned_ms
    ];
    Ok(tx.execute(sql, row).await? > 0)
}

pub(crate) async fn start_schedule<X: Transaction>(
    tx: &mut X,
    start: &StartSchedule,
) -> Done<X, OrFenced<StartedNow>> {
    let sql = sql!("SELECT last_run FROM schedule WHERE no = ?1{| FOR UPDATE}");
    let no = start.schedule.0;
    let row = tx.one(sql, params![no], |row| run_if_any(row, 0)).await?;
    let Some(last) = row else {
        return Ok(Ok(StartedNow::Gone));
    };
    let id = start.create.id;
    let before = match last.filter(|last| *last != id) {
        Some(last) => unfinished(tx, last).await?.map(|no| (last, no)),
        None => None,
    };
    if let (Some((last, _)), Overlap::Skip | Overlap::Queue) = (before, start.overlap) {
        return Ok(Ok(StartedNow::Busy(last)));
    }
    let created = match tx.create(&start.create).await? {
        Ok(created) => created,
        Err(Fenced) => return Ok(Err(Fenced)),
    };
    if created == Created::New {
        let sql = sql!("UPDATE schedule SET last_run = ?2 WHERE no = ?1");
        tx.later(sql, params![no, id]).await?;
        if let (Some((_, before)), Overlap::CancelPrevious(trigger)) = (before, start.overlap) {
            tx.insert_trigger(before, &cancellation(trigger, start.at_ms))
                .await?;
        }
    }
    Ok(Ok(StartedNow::Created(created)))
}

/// Makes schedules in trouble due at once.
pub(crate) async fn retry_schedules<X: Transaction>(tx: &mut X) -> Done<X, ()> {
    let sql = sql!(
        "UPDATE schedule SET next_ms = coalesce(last_planned_ms, since_ms) WHERE troubles > 0"
    );
    tx.later(sql, params![]).await
}

/// The number of a run that has not ended, with its head locked.
async fn unfinished<X: Transaction>(tx: &mut X, id: RunId) -> Done<X, Option<i64>> {
    let Some(no) = tx.run_no(id).await? else {
        return Ok(None);
    };
    Ok((!tx.is_over(no).await?).then_some(no))
}
