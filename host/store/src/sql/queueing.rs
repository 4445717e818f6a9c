//! Waiting stimuli: in the queue, or buffered for a later bookmark.

use windlass_model::{Failure, RunNo};

use super::row::{int, text_if_any};
use super::stimulus_rows::{select_stimulus, stimulus};
use super::transaction::{Done, Transaction};
use super::{Param, Sql, letters, params, sql};
use crate::columns::{json, payload};
use crate::letters::{LetterBody, NewDeadLetter};
use crate::stimuli::{Expire, NewStimulus, QueueOp};
use crate::write::{Fenced, OrFenced};

/// The number that stands for a waiting stimulus among the runs that hold blobs.
pub(crate) fn holder(no: i64) -> i64 {
    -2 * no
}

pub(crate) async fn queue<X: Transaction>(tx: &mut X, op: &QueueOp) -> Done<X, OrFenced<()>> {
    let done = match op {
        QueueOp::Delay {
            no,
            ready_ms,
            error,
        } => {
            let sql = sql!(
                "UPDATE stimulus SET ready_ms = ?2, attempts = attempts + 1, last_error = ?3 \
                WHERE no = ?1 AND ready_ms IS NOT NULL"
            );
            let row = params![no.0, *ready_ms, json(error)];
            tx.execute(sql, row).await? == 1
        }
        QueueOp::Fail { no, error, at_ms } => {
            let sql = select_stimulus!("WHERE no = ?1 AND ready_ms IS NOT NULL{| FOR UPDATE}");
            kill(tx, (sql, params![no.0]), "failed", Some(error), *at_ms).await? == 1
        }
        QueueOp::Delete { no } => {
            let sql = sql!("SELECT at_ms FROM stimulus WHERE no = ?1 AND ready_ms IS NOT NULL");
            delete(tx, no.0, sql).await?
        }
        QueueOp::Unbuffer { no } => {
            let sql = sql!("SELECT at_ms FROM stimulus WHERE no = ?1 AND expires_ms IS NOT NULL");
            delete(tx, no.0, sql).await?
        }
    };
    Ok(if done { Ok(()) } else { Err(Fenced) })
}

/// Dead-letters stimuli that have waited too long. A stimulus that another process has locked is
/// skipped.
pub(crate) async fn expire<X: Transaction>(tx: &mut X, expire: &Expire) -> Done<X, u32> {
    let (limit, now_ms) = (expire.limit, expire.now_ms);
    let sql = select_stimulus!(
        "{INDEXED BY stimulus_at |}WHERE ready_ms IS NOT NULL AND at_ms < ?1 \
         ORDER BY at_ms, no LIMIT ?2{| FOR UPDATE SKIP LOCKED}"
    );
    let key = params![expire.queued_before_ms, limit];
    let queued = kill(tx, (sql, key), "expired", None, now_ms).await?;
    let sql = select_stimulus!(
        "{INDEXED BY stimulus_expires |}WHERE expires_ms <= ?1 \
         ORDER BY expires_ms, no LIMIT ?2{| FOR UPDATE SKIP LOCKED}"
    );
    let key = params![now_ms, limit];
    let buffered = kill(tx, (sql, key), "expired", None, now_ms).await?;
    Ok(queued + buffered)
}

/// Dead-letters waiting stimuli.
async fn kill<X: Transaction>(
    tx: &mut X,
    (sql, key): (Sql, Vec<Param>),
    reason: &str,
    error: Option<&Failure>,
    at_ms: i64,
) -> Done<X, u32> {
    let found = tx
        .all(sql, key, |row| Ok((int(row, 0)?, stimulus(row, 1)?)))
        .await?;
    let count = u32::try_from(found.len()).unwrap_or(u32::MAX);
    for (no, dead) in found {
        let letter = NewDeadLetter {
            reason: reason.to_owned(),
            body: LetterBody::Stimulus(Box::new(dead)),
            failure: error.cloned(),
            at_ms,
        };
        letters::add_letter(tx, &letter).await?;
        remove(tx, no, at_ms).await?;
    }
    Ok(count)
}

async fn delete<X: Transaction>(tx: &mut X, no: i64, waits: Sql) -> Done<X, bool> {
    let Some(at_ms) = tx.one(waits, params![no], |row| int(row, 0)).await? else {
        return Ok(false);
    };
    remove(tx, no, at_ms).await?;
    Ok(true)
}

/// Removes a waiting stimulus.
pub(crate) async fn remove<X: Transaction>(tx: &mut X, no: i64, at_ms: i64) -> Done<X, ()> {
    let sql = sql!("DELETE FROM stimulus WHERE no = ?1 RETURNING input_meta");
    let meta = tx.one(sql, params![no], |row| text_if_any(row, 0)).await?;
    if meta.flatten().is_some() {
        tx.loosen_blobs(holder(no), at_ms).await?;
    }
    Ok(())
}

pub(crate) async fn enqueue<X: Transaction>(tx: &mut X, new: &NewStimulus) -> Done<X, ()> {
    add(tx, new, None, new.at_ms).await.map(drop)
}

/// Adds a stimulus to the queue.
pub(crate) async fn add<X: Transaction>(
    tx: &mut X,
    new: &NewStimulus,
    source: Option<RunNo>,
    ready_ms: i64,
) -> Done<X, i64> {
    insert(tx, new, None, Some(ready_ms), source).await
}

/// Buffers a stimulus for a bookmark that is written before this time.
pub(crate) async fn keep<X: Transaction>(
    tx: &mut X,
    new: &NewStimulus,
    expires_ms: i64,
) -> Done<X, i64> {
    insert(tx, new, Some(expires_ms), None, None).await
}

async fn insert<X: Transaction>(
    tx: &mut X,
    new: &NewStimulus,
    expires_ms: Option<i64>,
    ready_ms: Option<i64>,
    source: Option<RunNo>,
) -> Done<X, i64> {
    let (input, meta) = payload(Some(&new.input));
    let sql = sql!(
        "INSERT INTO stimulus (id, name, matches, hash, correlation, run, \
        delivery, ttl_ms, at_ms, input, input_meta, expires_ms, ready_ms, source, root, bound, trace, attempts) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, 0) RETURNING no"
    );
    let row = params![
        &new.id.0.as_bytes()[..],
        &new.name,
        &new.matches,
        new.hash,
        new.correlation.as_deref(),
        new.run,
        new.delivery as u8,
        new.ttl_ms.cast_signed(),
        new.at_ms,
        input,
        meta,
        expires_ms,
        ready_ms,
        source.map(|no| no.0),
        new.tree.map(|tree| tree.root.0),
        new.tree.map(|tree| tree.workflow),
        new.trace.clone(),
    ];
    let no = tx.row(sql, row, |row| int(row, 0)).await?;
    tx.put_blobs(holder(no), &new.blobs, new.at_ms).await?;
    tx.refer(holder(no), &new.input).await?;
    Ok(no)
}
