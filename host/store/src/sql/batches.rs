//! Batches in a table.

use windlass_model::BatchNo;

use super::row::{bytes, int, int_if_any, unsigned};
use super::transaction::{Done, Transaction};
use super::{Row, Source, params, sql};
use crate::batches::{AddBatch, BatchQuery, BatchRow, KEPT, MoveBatch, WORKING};
use crate::error::Result;
use crate::write::{Fenced, OrFenced};

macro_rules! select_batch {
    ($rest:literal) => {
        sql!(concat!(
            "SELECT no, what, progress, revision, created_ms, ended_ms FROM batch ",
            $rest
        ))
    };
}

fn batch_of(row: &dyn Row) -> Result<BatchRow> {
    Ok(BatchRow {
        no: BatchNo(int(row, 0)?),
        what: bytes(row, 1)?,
        progress: bytes(row, 2)?,
        revision: unsigned(row, 3)?,
        created_ms: int(row, 4)?,
        ended_ms: int_if_any(row, 5)?,
    })
}

pub(crate) fn batch(source: &impl Source, no: BatchNo) -> Result<Option<BatchRow>> {
    source.one(select_batch!("WHERE no = ?1"), params![no.0], batch_of)
}

pub(crate) fn batches(source: &impl Source, query: &BatchQuery) -> Result<Vec<BatchRow>> {
    let sql = match query.working {
        true => select_batch!("WHERE ended_ms IS NULL AND no < ?1 ORDER BY no LIMIT ?2"),
        false => select_batch!("WHERE no < ?1 ORDER BY no DESC LIMIT ?2"),
    };
    let before = query.before.map_or(i64::MAX, |no| no.0);
    source.all(sql, params![before, query.limit], batch_of)
}

pub(crate) async fn add_batch<X: Transaction>(
    tx: &mut X,
    new: &AddBatch,
) -> Done<X, OrFenced<BatchNo>> {
    new.check()?;
    // Writers that add at the same time count one after the other.
    let sql = "SELECT pg_advisory_xact_lock(hashtext('batch'), hashtext($1))";
    tx.lock(sql, params!["add"]).await?;
    let sql = sql!("SELECT count(*) FROM batch WHERE ended_ms IS NULL");
    if tx.row(sql, params![], |row| int(row, 0)).await? >= i64::from(WORKING) {
        return Ok(Err(Fenced));
    }
    let sql = sql!(
        "INSERT INTO batch (what, progress, revision, created_ms) VALUES (?1, ?2, 0, ?3) \
        RETURNING no"
    );
    let row = params![&new.what, &new.progress, new.at_ms];
    let no = tx.row(sql, row, |row| int(row, 0)).await?;
    let sql = sql!("DELETE FROM batch WHERE no <= ?1 AND ended_ms IS NOT NULL");
    tx.later(sql, params![no - KEPT]).await?;
    Ok(Ok(BatchNo(no)))
}

pub(crate) async fn move_batch<X: Transaction>(
    tx: &mut X,
    change: &MoveBatch,
) -> Done<X, OrFenced<()>> {
    change.check()?;
    let sql = sql!(
        "UPDATE batch SET progress = ?3, revision = revision + 1, ended_ms = ?4 \
        WHERE no = ?1 AND revision = ?2 AND ended_ms IS NULL"
    );
    let ended_ms = change.ends.then_some(change.at_ms);
    let (no, revision) = (change.no.0, change.revision.cast_signed());
    let row = params![no, revision, &change.progress, ended_ms];
    Ok(match tx.execute(sql, row).await? {
        0 => Err(Fenced),
        _ => Ok(()),
    })
}
