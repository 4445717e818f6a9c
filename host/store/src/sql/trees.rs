//! Trees of runs: a root and its descendants, which are counted as they are born.
//!
//! The row of the tree is locked until the transaction ends, so the count is exact although several
//! hosts create children of one root at the same time.

use super::row::int;
use super::transaction::{Done, Transaction};
use super::{params, sql};
use crate::children::Unborn;
use crate::rows::{Created, NewRun, Parent};
use crate::write::Commit;

/// Creates a child of a step, after counting it in the tree of its root. Returns the reason if it
/// cannot be created.
pub(crate) async fn create<X: Transaction>(
    tx: &mut X,
    commit: &Commit,
    child: &NewRun,
) -> Done<X, Option<Unborn>> {
    if let Some(parent) = &child.parent
        && let Some(why) = charge(tx, commit, parent).await?
    {
        return Ok(Some(why));
    }
    if matches!(tx.create(child).await?, Ok(Created::New)) {
        return Ok(None);
    }
    if let Some(parent) = &child.parent {
        let sql = sql!("UPDATE tree SET born = born - 1 WHERE root = ?1");
        tx.later(sql, params![parent.root.0]).await?;
    }
    Ok(Some(Unborn::Taken))
}

async fn charge<X: Transaction>(
    tx: &mut X,
    commit: &Commit,
    parent: &Parent,
) -> Done<X, Option<Unborn>> {
    if !parent.undoes && is_ending(tx, parent).await? {
        return Ok(Some(Unborn::Ending));
    }
    let sql = sql!(
        "INSERT INTO tree (root, born, bound) SELECT CAST(?1 AS bigint), 1, CAST(?2 AS bigint) \
        WHERE {min|least}(CAST(?2 AS bigint), CAST(?3 AS bigint)) > 0 \
        ON CONFLICT (root) DO UPDATE SET born = tree.born + 1 \
        WHERE tree.born < {min|least}(tree.bound, CAST(?3 AS bigint))"
    );
    let key = params![parent.root.0, commit.tree.workflow, commit.tree.host];
    if tx.execute(sql, key).await? > 0 {
        return Ok(None);
    }
    let sql = sql!("SELECT born FROM tree WHERE root = ?1");
    let born = tx
        .one(sql, params![parent.root.0], |row| int(row, 0))
        .await?;
    let born = born.unwrap_or_default();
    Ok(Some(Unborn::Bound { born }))
}

/// Notes that a run was asked to end.
pub(crate) async fn end<X: Transaction>(tx: &mut X, run: i64) -> Done<X, ()> {
    let sql = sql!("INSERT INTO ending (run) VALUES (?1) ON CONFLICT DO NOTHING");
    tx.later(sql, params![run]).await
}

/// Removes the note, because the run begins again or has gone.
pub(crate) async fn unend<X: Transaction>(tx: &mut X, run: i64) -> Done<X, ()> {
    let sql = sql!("DELETE FROM ending WHERE run = ?1");
    tx.later(sql, params![run]).await
}

/// Whether the parent or a run above it was asked to end. Above a child that undoes a node the
/// search stops: such a child outlives the runs above it.
async fn is_ending<X: Transaction>(tx: &mut X, parent: &Parent) -> Done<X, bool> {
    let sql = sql!(
        "WITH RECURSIVE up (no) AS (SELECT CAST(?1 AS bigint) UNION ALL \
        SELECT (SELECT o.parent FROM origin o WHERE o.run = up.no AND NOT o.undoes) \
        FROM up WHERE up.no IS NOT NULL) \
        SELECT 1 FROM up WHERE (SELECT 1 FROM ending e WHERE e.run = up.no) IS NOT NULL LIMIT 1"
    );
    let found = tx.one(sql, params![parent.run.0], |_| Ok(())).await?;
    Ok(found.is_some())
}

/// Removes the notes about a run, and the row of the tree of which it is the last one. Called before
/// the run's origin is deleted.
pub(crate) async fn leave<X: Transaction>(tx: &mut X, run: i64) -> Done<X, ()> {
    let sql = sql!(
        "DELETE FROM tree WHERE root {IN (|= ANY (ARRAY(}\
        SELECT coalesce(root, run) FROM origin WHERE run = ?1{)|))} \
        AND NOT EXISTS (SELECT 1 FROM origin o WHERE o.root = tree.root AND o.run <> ?1) \
        AND NOT EXISTS (SELECT 1 FROM origin o WHERE o.run = tree.root AND o.run <> ?1)"
    );
    tx.later(sql, params![run]).await?;
    unend(tx, run).await
}

/// Gives the descendants of a run to the run that replaces it.
pub(crate) async fn pass_on<X: Transaction>(tx: &mut X, from: i64, to: i64) -> Done<X, ()> {
    for sql in [
        sql!("UPDATE tree SET root = ?2 WHERE root = ?1"),
        sql!("UPDATE origin SET root = ?2 WHERE root = ?1"),
    ] {
        tx.later(sql, params![from, to]).await?;
    }
    Ok(())
}
