//! Verbs on a run as a whole.

use windlass_model::{RunId, RunNo, Status, TriggerNo, TriggerType};

use super::row::int_if_any;
use super::transaction::{Done, Transaction, extras};
use super::{Sql, external, hot, params, sql, trees};
use crate::columns::payload;
use crate::external::Control;
use crate::lives::{LifeOp, Lived, Reopen};
use crate::rows::JournalRow;
use crate::sums::{self, Of};

pub(crate) async fn life<X: Transaction>(tx: &mut X, op: &LifeOp) -> Done<X, Lived> {
    match op {
        LifeOp::Begin { run, at_ms } => begin_waiting(tx, *run, *at_ms).await,
        LifeOp::Delete { run, no, at_ms } => delete(tx, *run, *no, *at_ms).await,
        LifeOp::Reopen(new) => reopen(tx, new).await,
    }
}

async fn begin_waiting<X: Transaction>(tx: &mut X, run: RunId, at_ms: i64) -> Done<X, Lived> {
    let Some(no) = standing(tx, run).await? else {
        return Ok(Lived::NotFound);
    };
    if tx.is_over(no).await? {
        return Ok(Lived::Ended);
    }
    // Parked triggers are tried again, and parked again if necessary.
    let sql = sql!(
        "UPDATE trigger SET state = 0, due_ms = ?2, token = token + 1, reason = NULL \
        WHERE run = ?1 AND kind = 0 AND seq >= 0 AND state IN (0, 2) AND due_ms > ?2"
    );
    let changed = tx.execute(sql, params![no, at_ms]).await?;
    tx.made_pending(changed);
    Ok(match changed {
        0 => Lived::Already,
        _ => Lived::Done,
    })
}

async fn delete<X: Transaction>(
    tx: &mut X,
    run: RunId,
    control: TriggerNo,
    at_ms: i64,
) -> Done<X, Lived> {
    let Some(no) = standing(tx, run).await? else {
        return Ok(Lived::NotFound);
    };
    if tx.is_over(no).await? {
        entomb(tx, no).await?;
        let sql = sql!(
            "UPDATE run SET finished_ms = ?2, failure = NULL, output = NULL, \
            output_meta = NULL{, output_sum = NULL|} WHERE no = ?1"
        );
        tx.later(sql, params![no, at_ms]).await?;
        return Ok(Lived::Gone(RunNo(no)));
    }
    tx.note_extra(no, extras::DOOMED).await?;
    let control = Control {
        run,
        no: control,
        kind: TriggerType::Delete,
        at_ms,
    };
    external::control(tx, &control).await?;
    Ok(Lived::Done)
}

async fn reopen<X: Transaction>(tx: &mut X, new: &Reopen) -> Done<X, Lived> {
    let no = new.run.0;
    // In the same order as a create.
    tx.lock_reservations(&new.exclusive, &new.reserves).await?;
    tx.hold(no).await?;
    let sql = sql!("SELECT parent FROM origin WHERE run = ?1");
    let Some(parent) = tx.one(sql, params![no], |row| int_if_any(row, 0)).await? else {
        return Ok(Lived::NotFound);
    };
    let known = tx.head(no).await?.is_some_and(|head| {
        let ended = matches!(head.status, Status::Faulted | Status::Cancelled);
        ended && head.version == new.version.0
    });
    if !known {
        return Ok(Lived::Moved);
    }
    if parent.is_some() {
        return Ok(Lived::Reported);
    }
    if let Some(key) = &new.exclusive
        && let Some(by) = tx.reserved_by(key).await?
    {
        return Ok(Lived::Reserved { by });
    }
    if let Some(letter) = new.replays {
        let sql =
            sql!("UPDATE dead_letter SET replayed_ms = ?2 WHERE no = ?1 AND replayed_ms IS NULL");
        if tx.execute(sql, params![letter.0, new.at_ms]).await? == 0 {
            return Ok(Lived::Already);
        }
    }
    write_reopened(tx, new).await?;
    Ok(Lived::Done)
}

async fn write_reopened<X: Transaction>(tx: &mut X, new: &Reopen) -> Done<X, ()> {
    let (no, version) = (new.run.0, new.version.0 + 1);
    if let Some((definition, pins)) = &new.documents {
        let definition = tx.definition_of(definition).await?;
        let pins = tx.pins_of(pins).await?;
        let sql = sql!("UPDATE run SET definition = ?2, pins = ?3 WHERE no = ?1");
        tx.later(sql, params![no, definition, pins]).await?;
    }
    if let Some(new) = &new.input {
        let (input, meta) = payload(Some(new));
        let sql = sql!("UPDATE origin SET input = ?2, input_meta = ?3{, sum = ?4|} WHERE run = ?1");
        let mut row = params![no, input, meta.clone()];
        if X::SUMS {
            let sum = sums::of_payload(Of::Input, [no, 0, 0], "", (input, meta.as_deref()));
            row.push(sum.into());
        }
        tx.later(sql, row).await?;
    }
    tx.forget_head(no);
    let sql = sql!(
        "UPDATE run SET status = ?2, version = version + 1, state = ?3, owner = NULL, \
        finished_ms = NULL, failure = NULL, output = NULL, \
        output_meta = NULL{, output_sum = NULL, state_sum = ?4|} WHERE no = ?1"
    );
    let mut head = params![no, new.status as u8, &new.state];
    if X::SUMS {
        head.push(sums::of_state(no, version, &new.state).into());
    }
    tx.later(sql, head).await?;
    tx.later(hot::UNKEEP, params![no]).await?;
    trees::unend(tx, no).await?;
    tx.put_blobs(no, &new.blobs, new.at_ms).await?;
    for trigger in &new.triggers {
        tx.insert_trigger(no, trigger).await?;
    }
    for (scope, state) in &new.scopes {
        tx.put_scope(no, *scope, state.as_ref()).await?;
    }
    tx.reserve(no, &new.reserves).await?;
    for (place, entry) in (0_i64..).zip(&new.journal) {
        insert_journal(tx, no, (version, place), entry).await?;
    }
    Ok(())
}

/// Writes a journal entry at a version, with a position among the entries of that version.
pub(crate) async fn insert_journal<X: Transaction>(
    tx: &mut X,
    no: i64,
    (version, place): (i64, i64),
    entry: &JournalRow,
) -> Done<X, ()> {
    let row = params![no, version, place, entry.at_ms, &entry.kind, &entry.detail];
    tx.later(hot::INSERT_JOURNAL, row).await
}

/// Deletes the rows that find a run by its tags, each by its key. The origin names them.
const CLEAR_TAGS: Sql = sql!(
    "DELETE FROM run_tag WHERE (name, value, created_ms, run) IN ( \
        SELECT t.key, t.value, o.created_ms, o.run FROM origin o \
        CROSS JOIN {json_each(o.tags)|json_each_text(CAST(o.tags AS json))} t ON 1 = 1 \
        WHERE o.run = ?1)"
);

/// Hides the run from all readers, so that no reader finds a partly deleted one. The id
/// becomes free, because the column gets a value that is not an id.
pub(crate) async fn hide<X: Transaction>(tx: &mut X, no: i64) -> Done<X, ()> {
    trees::leave(tx, no).await?;
    for sql in [
        CLEAR_TAGS,
        sql!("DELETE FROM origin WHERE run = ?1"),
        sql!(
            "UPDATE run SET \
            id = {CAST(|convert_to(}'being forgotten: ' || no{ AS BLOB)|, 'UTF8')}, \
            output = NULL, output_meta = NULL{, output_sum = NULL|} WHERE no = ?1"
        ),
    ] {
        tx.later(sql, params![no]).await?;
    }
    Ok(())
}

/// Turns the run into a tombstone: no reader finds it, but its id stays reserved.
pub(crate) async fn entomb<X: Transaction>(tx: &mut X, no: i64) -> Done<X, ()> {
    tx.hold(no).await?;
    trees::leave(tx, no).await?;
    for sql in [
        CLEAR_TAGS,
        sql!("DELETE FROM origin WHERE run = ?1"),
        // The tombstone is kept for the default retention time.
        hot::UNKEEP,
        sql!("UPDATE run SET extras = extras & ~16 WHERE no = ?1 AND extras & 16 <> 0"),
    ] {
        tx.later(sql, params![no]).await?;
    }
    Ok(())
}

/// The number of a run that readers find, with its head locked.
pub(crate) async fn standing<X: Transaction>(tx: &mut X, run: RunId) -> Done<X, Option<i64>> {
    let Some(no) = tx.run_no(run).await? else {
        return Ok(None);
    };
    tx.hold(no).await?;
    let sql = sql!("SELECT 1 FROM origin WHERE run = ?1");
    let found = tx.one(sql, params![no], |_| Ok(())).await?;
    Ok(found.map(|()| no))
}
