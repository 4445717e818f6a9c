//! The small verbs of an owner: mark, park, unpark.

use super::planning::retry_schedules;
use super::transaction::{Done, Transaction};
use super::{params, sql};
use crate::write::{Fenced, Mark, OrFenced, Park, Unpark};

/// Fenced, unless the one row that the fence names was changed.
fn fenced(changed: u64) -> OrFenced<()> {
    match changed {
        1 => Ok(()),
        _ => Err(Fenced),
    }
}

pub(crate) async fn mark<X: Transaction>(tx: &mut X, mark: &Mark) -> Done<X, OrFenced<()>> {
    let Mark { fence, trigger } = mark;
    if !tx.holds(fence).await? {
        return Ok(Err(Fenced));
    }
    let sql = sql!(
        "UPDATE trigger SET suspicion = 2 \
        WHERE no = ?1 AND token = ?2 AND instance = ?3 AND state = 1"
    );
    let key = params![trigger.no.0, trigger.token.0, fence.run.0];
    Ok(fenced(tx.execute(sql, key).await?))
}

pub(crate) async fn park<X: Transaction>(tx: &mut X, park: &Park) -> Done<X, OrFenced<()>> {
    let Park {
        fence,
        trigger,
        reason,
    } = park;
    if !tx.holds(fence).await? {
        return Ok(Err(Fenced));
    }
    let sql = sql!(
        "UPDATE trigger SET state = 2, \
        suspicion = {min(suspicion, 1)|least(suspicion, 1::smallint)}, reason = ?4 \
        WHERE no = ?1 AND token = ?2 AND instance = ?3 AND state = 1"
    );
    // PostgreSQL's text cannot contain NUL.
    let reason = reason.replace('\0', "\u{fffd}");
    let key = params![trigger.no.0, trigger.token.0, fence.run.0, reason];
    Ok(fenced(tx.execute(sql, key).await?))
}

/// Unparks the triggers of a run. True if there were any.
pub(crate) async fn unpark_of<X: Transaction>(tx: &mut X, run: i64) -> Done<X, bool> {
    let sql = sql!("UPDATE trigger SET state = 0, reason = NULL WHERE instance = ?1 AND state = 2");
    let changed = tx.execute(sql, params![run]).await?;
    tx.made_pending(changed);
    Ok(changed > 0)
}

pub(crate) async fn unpark<X: Transaction>(tx: &mut X, _: &Unpark) -> Done<X, u32> {
    retry_schedules(tx).await?;
    let sql = sql!("UPDATE trigger SET state = 0, reason = NULL WHERE state = 2");
    let changed = tx.execute(sql, params![]).await?;
    tx.made_pending(changed);
    Ok(u32::try_from(changed).unwrap_or(u32::MAX))
}
