//! Dead letters.

use windlass_model::{Seq, TriggerNo};

use super::row::{int, text_if_any};
use super::stimulus_rows::{letter, select_letter};
use super::transaction::{Done, Transaction, extras};
use super::{params, queueing, sql};
use crate::columns::{json, payload, stimulus_json};
use crate::letters::{
    DeadTrigger, DeleteLetter, LetterBody, Lettered, NewDeadLetter, PurgeLetters, ReplayLetter,
};
use crate::rows::{NewTrigger, bounded};
use crate::stimuli::NewStimulus;

/// The number that stands for a dead letter among the runs that hold blobs.
fn holder(no: i64) -> i64 {
    -2 * no - 1
}

/// Writes a dead letter.
pub(crate) async fn add_letter<X: Transaction>(tx: &mut X, new: &NewDeadLetter) -> Done<X, ()> {
    let (mut trigger, mut stimulus) = (None, None);
    match &new.body {
        LetterBody::Trigger(dead) => trigger = Some(dead),
        LetterBody::Stimulus(dead) => stimulus = Some(dead),
    }
    let (input, meta) = payload(stimulus.map(|dead| &dead.input));
    let sql = sql!(
        "INSERT INTO dead_letter (kind, reason, at_ms, failure, run, seq, trigger, \
        node, priority, payload, detail, stimulus, input, input_meta) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) RETURNING no"
    );
    let row = params![
        new.body.kind() as u8,
        &new.reason,
        new.at_ms,
        new.failure.as_ref().and_then(json),
        trigger.map(|dead| dead.run.0),
        trigger.map(|dead| dead.seq.0.cast_signed()),
        trigger.map(|dead| dead.kind.stored()),
        trigger.and_then(|dead| dead.node),
        trigger.map(|dead| bounded(dead.priority)),
        trigger.and_then(|dead| dead.payload.as_ref()),
        trigger.map(|dead| &dead.detail),
        stimulus.and_then(|dead| stimulus_json(dead)),
        input,
        meta,
    ];
    let no = tx.row(sql, row, |row| int(row, 0)).await?;
    if let Some(dead) = stimulus {
        tx.put_blobs(holder(no), &dead.blobs, new.at_ms).await?;
        tx.refer(holder(no), &dead.input).await?;
    }
    Ok(())
}

pub(crate) async fn replay_letter<X: Transaction>(
    tx: &mut X,
    replay: &ReplayLetter,
) -> Done<X, Lettered> {
    let ReplayLetter { no, trigger, at_ms } = *replay;
    let sql = select_letter!("WHERE l.no = ?1{| FOR UPDATE OF l}");
    let Some(row) = tx.one(sql, params![no.0], letter).await? else {
        return Ok(Lettered::NotFound);
    };
    if row.replayed_ms.is_some() {
        return Ok(Lettered::Already);
    }
    let done = match &row.letter.body {
        LetterBody::Trigger(dead) => replay_trigger(tx, dead, trigger, at_ms).await?,
        LetterBody::Stimulus(dead) => {
            let again = NewStimulus {
                at_ms,
                ..(**dead).clone()
            };
            queueing::add(tx, &again, None, at_ms).await?;
            true
        }
    };
    if !done {
        return Ok(Lettered::Closed);
    }
    let sql = sql!("UPDATE dead_letter SET replayed_ms = ?2 WHERE no = ?1");
    tx.later(sql, params![no.0, at_ms]).await?;
    Ok(Lettered::Done)
}

/// Inserts the row of a dead-lettered external trigger or resumption anew. False if its run has
/// ended, or if the dead letter is of another kind.
async fn replay_trigger<X: Transaction>(
    tx: &mut X,
    dead: &DeadTrigger,
    no: TriggerNo,
    at_ms: i64,
) -> Done<X, bool> {
    let run = dead.run.0;
    let Some(old) = dead.seq.external_no() else {
        return Ok(false);
    };
    if tx.is_over(run).await? {
        return Ok(false);
    }
    let again = NewTrigger {
        no,
        seq: Seq::external(no),
        kind: dead.kind,
        node: dead.node,
        due_ms: at_ms,
        claimed: false,
        attempt: 1,
        detail: dead.detail.clone(),
        payload: dead.payload.clone(),
        priority: dead.priority,
    };
    tx.insert_trigger(run, &again).await?;
    if again.resumes() {
        tx.note_extra(run, extras::BOOKMARKS).await?;
    }
    // The external id refers to the new row from now on.
    let sql = sql!("UPDATE external_trigger SET trigger = ?3 WHERE run = ?1 AND trigger = ?2");
    tx.later(sql, params![run, old.0, no.0]).await?;
    Ok(true)
}

pub(crate) async fn delete_letter<X: Transaction>(
    tx: &mut X,
    delete: &DeleteLetter,
) -> Done<X, Lettered> {
    remove(tx, delete.no.0).await
}

async fn remove<X: Transaction>(tx: &mut X, no: i64) -> Done<X, Lettered> {
    let sql = sql!("DELETE FROM dead_letter WHERE no = ?1 RETURNING input_meta, at_ms");
    let gone = tx
        .one(sql, params![no], |row| {
            Ok((text_if_any(row, 0)?, int(row, 1)?))
        })
        .await?;
    let Some((meta, at_ms)) = gone else {
        return Ok(Lettered::NotFound);
    };
    if meta.is_some() {
        tx.loosen_blobs(holder(no), at_ms).await?;
    }
    Ok(Lettered::Done)
}

pub(crate) async fn purge_letters<X: Transaction>(
    tx: &mut X,
    purge: &PurgeLetters,
) -> Done<X, u32> {
    let sql = sql!(
        "SELECT no FROM dead_letter WHERE at_ms < ?1 ORDER BY at_ms, no \
        LIMIT ?2{| FOR UPDATE SKIP LOCKED}"
    );
    let key = params![purge.before_ms, purge.limit];
    let old = tx.all(sql, key, |row| int(row, 0)).await?;
    for no in &old {
        remove(tx, *no).await?;
    }
    Ok(u32::try_from(old.len()).unwrap_or(u32::MAX))
}
