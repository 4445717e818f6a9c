//! Trees of runs: a root and its descendants, which are counted as they are born. Descendants are
//! children, and runs that a stimulus of a run of the tree has started.
//!
//! The row of the tree is locked until the transaction ends, so the count is exact although several
//! hosts create descendants of one root at the same time.

use super::row::int;
use super::transaction::{Done, Transaction};
use super::{letters, params, sql};
use crate::children::Unborn;
use crate::rows::{Created, NewRun, Parent, SenderTree, TreeBound};
use crate::stimuli::{Send, Sent};
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
        uncount(tx, parent.root.0, 1).await?;
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
    let counted = count(tx, parent.root.0, commit.tree, 1).await?;
    Ok(counted.err().map(|born| Unborn::Bound { born }))
}

/// Counts so many new descendants of a root, all or none. If there is no room for them, the error is
/// the number of descendants that the root has had.
async fn count<X: Transaction>(
    tx: &mut X,
    root: i64,
    bound: TreeBound,
    new: u32,
) -> Done<X, Result<(), i64>> {
    let sql = sql!(
        "INSERT INTO tree (root, born, bound) \
        SELECT CAST(?1 AS bigint), CAST(?4 AS bigint), CAST(?2 AS bigint) \
        WHERE {min|least}(CAST(?2 AS bigint), CAST(?3 AS bigint)) >= CAST(?4 AS bigint) \
        ON CONFLICT (root) DO UPDATE SET born = tree.born + CAST(?4 AS bigint) \
        WHERE tree.born + CAST(?4 AS bigint) <= {min|least}(tree.bound, CAST(?3 AS bigint))"
    );
    let key = params![root, bound.workflow, bound.host, new];
    if tx.execute(sql, key).await? > 0 {
        return Ok(Ok(()));
    }
    let sql = sql!("SELECT born FROM tree WHERE root = ?1");
    let born = tx.one(sql, params![root], |row| int(row, 0)).await?;
    Ok(Err(born.unwrap_or_default()))
}

/// Takes back the count of descendants that were not created.
async fn uncount<X: Transaction>(tx: &mut X, root: i64, unborn: u32) -> Done<X, ()> {
    let sql = sql!("UPDATE tree SET born = born - CAST(?2 AS bigint) WHERE root = ?1");
    tx.later(sql, params![root, unborn]).await
}

/// Creates the runs that a stimulus starts. If a run has sent it, they are counted in the tree of
/// that run first; if the tree has no room for them, none is created, and a dead letter has the
/// stimulus. Returns the runs whose triggers may be due.
pub(crate) async fn start<'s, X: Transaction>(
    tx: &mut X,
    send: &'s Send,
    sent: &mut Sent,
) -> Done<X, Vec<&'s NewRun>> {
    let new = u32::try_from(send.starts.len()).unwrap_or(u32::MAX);
    let tree = send.stimulus.tree.filter(|_| new > 0);
    if let Some(SenderTree { root, workflow }) = tree {
        let bound = TreeBound {
            workflow,
            host: send.descendants,
        };
        if let Err(born) = count(tx, root.0, bound, new).await? {
            letters::add_letter(tx, &send.refused(born)).await?;
            sent.refused = true;
            return Ok(Vec::new());
        }
    }
    let mut due = Vec::with_capacity(send.starts.len());
    for (_, new) in &send.starts {
        let created = tx.create(new).await?;
        due.extend(sent.note(new, &created).then_some(new));
    }
    let unborn = new.saturating_sub(u32::try_from(due.len()).unwrap_or(u32::MAX));
    if let (Some(tree), 1..) = (tree, unborn) {
        uncount(tx, tree.root.0, unborn).await?;
    }
    Ok(due)
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
        SELECT (SELECT o.parent FROM origin o WHERE o.run = up.no AND o.depth > 0) \
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
