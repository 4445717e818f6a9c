//! The small verbs of an owner: mark, park, unpark.

use super::planning::retry_schedules;
use super::transaction::{Done, Transaction};
use super::{hot, params, sql};
use crate::write::{Fenced, Mark, OrFenced, Park, Unpark};

/// Fenced, unless the one row that the fence names was changed.
fn fenced(changed: u64) -> OrFenced<()> {
    match changed {
        1 => Ok(()),
        _ => Err(Fenced),
    }
}

/// Marks the suspects of a group. Triggers that are not claimed by these tokens any more are left
/// out.
pub(crate) async fn mark<X: Transaction>(tx: &mut X, mark: &Mark) -> Done<X, OrFenced<()>> {
    let member = tx.one(hot::MEMBER, params![mark.incarnation.0], |_| Ok(()));
    if member.await?.is_none() {
        return Ok(Err(Fenced));
    }
    let sql = sql!(
        "UPDATE trigger SET suspicion = -suspicion \
        WHERE no = ?1 AND token = ?2 AND state = 1 AND suspicion >= 1 AND suspicion <= 2048"
    );
    // Rows of triggers are locked by number.
    let mut group = mark.triggers.clone();
    group.sort_unstable_by_key(|trigger| trigger.no);
    for trigger in group {
        tx.later(sql, params![trigger.no.0, trigger.token.0])
            .await?;
    }
    Ok(Ok(()))
}

/// Draws the conclusion from the death of a member with a group of suspects: each of them is one of
/// that many from now on. A suspect that was alone is guilty, unless other work ran beside it, and
/// this is the first time: then all of that work is suspect, too.
pub(crate) async fn conclude<X: Transaction>(tx: &mut X, dead: i64) -> Done<X, ()> {
    let sql = sql!(
        "WITH held AS MATERIALIZED (SELECT t.no, t.suspicion \
            FROM run i CROSS JOIN trigger t ON t.run = i.no \
            WHERE i.owner = ?1 AND t.state = 1 AND t.kind NOT BETWEEN 10 AND 14), \
        found AS MATERIALIZED (SELECT count(*) FILTER (WHERE suspicion < 0) AS marked, \
            count(*) FILTER (WHERE suspicion = 0) AS beside, \
            max(suspicion) FILTER (WHERE suspicion < 0) AS last FROM held), \
        rule AS MATERIALIZED (SELECT CASE WHEN marked > 1 THEN marked \
                WHEN last = -2048 OR beside = 0 THEN 32767 \
                WHEN last = -1 THEN 2048 ELSE 1 END AS then_among, \
            marked = 1 AND last <> -2048 AS spreads FROM found WHERE marked > 0) \
        UPDATE trigger SET deliveries = trigger.deliveries + 1, \
            suspicion = CASE WHEN held.suspicion < 0 THEN rule.then_among ELSE 1024 END \
        FROM held, rule \
        WHERE trigger.no = held.no AND (held.suspicion < 0 OR held.suspicion = 0 AND rule.spreads)"
    );
    tx.later(sql, params![dead]).await
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
        suspicion = abs(suspicion), reason = ?4 \
        WHERE no = ?1 AND token = ?2 AND run = ?3 AND state = 1"
    );
    // PostgreSQL's text cannot contain NUL.
    let reason = reason.replace('\0', "\u{fffd}");
    let key = params![trigger.no.0, trigger.token.0, fence.run.0, reason];
    Ok(fenced(tx.execute(sql, key).await?))
}

/// Unparks the triggers of a run. True if there were any.
pub(crate) async fn unpark_of<X: Transaction>(tx: &mut X, run: i64) -> Done<X, bool> {
    let sql = sql!("UPDATE trigger SET state = 0, reason = NULL WHERE run = ?1 AND state = 2");
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
