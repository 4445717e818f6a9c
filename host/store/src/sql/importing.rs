//! Imports a run. The run gets a new number, even if it replaces another one; so the
//! fence of a member that still runs the replaced run no longer holds.

use windlass_model::{RunId, RunNo, Status};

use super::row::{bytes, int_if_any, text, uuid};
use super::transaction::{Done, Head, Transaction, extras};
use super::{hot, lives, params, sql, trees};
use crate::columns::{json, payload};
use crate::rows::{Created, NewTrigger};
use crate::sums::{self, Of};
use crate::transfer::{Import, Imported, above};

/// The run that is replaced.
struct Old {
    no: i64,
    head: Head,
}

pub(crate) async fn import<X: Transaction>(tx: &mut X, import: &Import) -> Done<X, Imported> {
    tx.lock_import(import).await?;
    let old = match place_of(tx, import).await? {
        Ok(old) => old,
        Err(imported) => return Ok(imported),
    };
    let old_no = old.as_ref().map(|old| old.no);
    if let Some(imported) = in_the_way(tx, import, old_no).await? {
        return Ok(imported);
    }
    let mut imported = Imported::New;
    if let Some(old) = old_no {
        displace(tx, old, import).await?;
        let old = RunNo(old);
        imported = Imported::Replaced { old };
    }
    match tx.create(&import.new).await? {
        Ok(Created::New) => {}
        // No conflicting row was found before, so one was added in the meantime.
        _ => return Err(X::moved()),
    }
    write_imported(tx, import, old.as_ref()).await?;
    Ok(imported)
}

/// The run to replace, with its head locked, if there is one, or the reason why it cannot be
/// replaced.
async fn place_of<X: Transaction>(
    tx: &mut X,
    import: &Import,
) -> Done<X, Result<Option<Old>, Imported>> {
    let Some(no) = tx.run_no(import.new.id).await? else {
        return Ok(Ok(None));
    };
    tx.hold(no).await?;
    let Some(head) = tx.head(no).await? else {
        return Err(X::moved());
    };
    let sql = sql!("SELECT parent FROM origin WHERE run = ?1");
    let Some(parent) = tx.one(sql, params![no], |row| int_if_any(row, 0)).await? else {
        return Ok(Err(Imported::Deleted));
    };
    let old = Old { no, head };
    if is_marked(tx, import, &old).await? {
        return Ok(Err(Imported::Already(RunNo(no))));
    }
    if !import.replace {
        return Ok(Err(Imported::Exists));
    }
    if old.head.extras & extras::DOOMED != 0 {
        return Ok(Err(Imported::Deleted));
    }
    // A removed member never returns, and it does not matter whether a member is about to be
    // removed.
    let sql = sql!("SELECT 1 FROM member WHERE incarnation = ?1");
    if let Some(owner) = old.head.owner
        && tx.one(sql, params![owner], |_| Ok(())).await?.is_some()
    {
        return Ok(Err(Imported::Owned));
    }
    if parent.is_some() && !old.head.status.is_final() {
        return Ok(Err(Imported::Child));
    }
    let sql = sql!(
        "SELECT 1 FROM origin o CROSS JOIN run i \
        ON i.no = {o.run|ANY (ARRAY[o.run])} \
        WHERE o.parent = ?1 AND i.status < 4 LIMIT 1"
    );
    if tx.one(sql, params![no], |_| Ok(())).await?.is_some() {
        return Ok(Err(Imported::Children));
    }
    Ok(Ok(Some(old)))
}

/// Whether the same snapshot was imported before. If it is to replace a run, that run
/// must not have changed since.
async fn is_marked<X: Transaction>(tx: &mut X, import: &Import, old: &Old) -> Done<X, bool> {
    let sql = sql!(
        "SELECT kind, detail FROM journal WHERE run = ?1 \
        AND (CAST(?2 AS bigint) IS NULL OR version = ?2) AND kind = ?3"
    );
    let version = import.replace.then_some(old.head.version);
    let entries = tx
        .all(sql, params![old.no, version, &import.mark.kind], |row| {
            Ok((text(row, 0)?, bytes(row, 1)?))
        })
        .await?;
    let mut entries = entries.iter();
    Ok(entries.any(|(kind, detail)| import.is_marked(kind, detail)))
}

/// A conflict of the imported run with other rows of the store.
async fn in_the_way<X: Transaction>(
    tx: &mut X,
    import: &Import,
    old: Option<i64>,
) -> Done<X, Option<Imported>> {
    if let Some(key) = &import.new.exclusive {
        let sql = sql!(
            "SELECT i.id FROM reservation r CROSS JOIN run i \
            ON i.no = {r.run|ANY (ARRAY[r.run])} \
            WHERE r.key = ?1 AND r.run IS DISTINCT FROM ?2 ORDER BY r.run LIMIT 1"
        );
        let by = tx.one(sql, params![key, old], |row| uuid(row, 0)).await?;
        if let Some(by) = by.map(RunId) {
            return Ok(Some(Imported::Reserved { by }));
        }
    }
    for name in &import.names {
        let sql = sql!("SELECT 1 FROM external_trigger WHERE id = ?1 AND run IS DISTINCT FROM ?2");
        let taken = tx.one(sql, params![name.id, old], |_| Ok(())).await?;
        if taken.is_some() {
            return Ok(Some(Imported::Name(name.id)));
        }
    }
    Ok(None)
}

/// Hides the old run: no reader finds it, and no member can commit to it. Rows that wake it or
/// exclude other runs are deleted at once; retention deletes the rest.
async fn displace<X: Transaction>(tx: &mut X, no: i64, import: &Import) -> Done<X, ()> {
    tx.dead_letter_unheard(no, import.at_ms).await?;
    tx.forget_head(no);
    lives::hide(tx, no).await?;
    for sql in [
        hot::CLEAR_TRIGGERS,
        sql!("DELETE FROM bookmark WHERE run = ?1"),
        sql!("DELETE FROM external_trigger WHERE run = ?1"),
        hot::RELEASE_RESERVATIONS,
        hot::UNKEEP,
    ] {
        tx.later(sql, params![no]).await?;
    }
    let sql = sql!(
        "UPDATE run SET status = ?2, owner = NULL, epoch = epoch + 1, \
        finished_ms = ?3, failure = NULL, extras = 0 WHERE no = ?1"
    );
    let cancelled = params![no, Status::Cancelled as u8, import.at_ms];
    tx.later(sql, cancelled).await?;
    trees::pass_on(tx, no, import.new.no.0).await?;
    // Children and dead letters belong to the run and not to its former state: they move to the new
    // run.
    for sql in [
        sql!("UPDATE origin SET parent = ?2 WHERE parent = ?1"),
        sql!("UPDATE dead_letter SET run = ?2 WHERE run = ?1"),
    ] {
        tx.later(sql, params![no, import.new.no.0]).await?;
    }
    Ok(())
}

/// Writes the parts that an imported run has and a new one does not.
async fn write_imported<X: Transaction>(
    tx: &mut X,
    import: &Import,
    old: Option<&Old>,
) -> Done<X, ()> {
    tx.turn().await?;
    let no = import.new.no.0;
    let (epoch, version) = old.map_or((0, 0), |old| (old.head.epoch, old.head.version));
    let version = above(import.version.0, version);
    write_head(tx, import, above(import.epoch.0, epoch), version).await?;
    for payload in import.payloads() {
        tx.refer(no, payload).await?;
    }
    for (scope, name, value) in &import.vars {
        tx.put_var(no, *scope, name, value).await?;
    }
    for (scope, state) in &import.scopes {
        tx.put_scope(no, *scope, Some(state)).await?;
    }
    for item in &import.items {
        tx.put_item(no, item).await?;
    }
    for execution in &import.executions {
        tx.insert_execution(execution).await?;
    }
    for (place, entry) in (0_i64..).zip(&import.journal) {
        lives::insert_journal(tx, no, (0, place), entry).await?;
    }
    lives::insert_journal(tx, no, (version, 0), &import.mark).await?;
    if let Some(until_ms) = import.kept_until_ms() {
        let sql = sql!("INSERT INTO kept (run, until_ms) VALUES (?1, ?2)");
        tx.later(sql, params![no, until_ms]).await?;
    }
    write_names(tx, import).await?;
    tx.add_bookmarks(no, &import.bookmarks, import.at_ms)
        .await?;
    if import.new.triggers.iter().any(NewTrigger::resumes) {
        tx.note_extra(no, extras::BOOKMARKS).await?;
    }
    Ok(())
}

async fn write_head<X: Transaction>(
    tx: &mut X,
    import: &Import,
    epoch: i64,
    version: i64,
) -> Done<X, ()> {
    let no = import.new.no.0;
    let (output, meta) = payload(import.output.as_ref());
    let sql = sql!(
        "UPDATE run SET status = ?2, epoch = ?3, version = ?4, last_execution = ?5, \
        finished_ms = ?6, failure = ?7, output = ?8, \
        output_meta = ?9{, output_sum = ?10, state_sum = ?11|} WHERE no = ?1"
    );
    let mut head = params![
        no,
        import.status as u8,
        epoch,
        version,
        import.executions.last().map(|last| last.no.0),
        import.finished_ms,
        import.failure.as_ref().and_then(json),
        output,
        meta.as_deref(),
    ];
    if X::SUMS {
        let sum = sums::of_payload(Of::Output, [no, 0, 0], "", (output, meta.as_deref()));
        head.push(sum.into());
        head.push(sums::of_state(no, version, &import.new.state).into());
    }
    tx.later(sql, head).await
}

async fn write_names<X: Transaction>(tx: &mut X, import: &Import) -> Done<X, ()> {
    let no = import.new.no.0;
    for name in &import.names {
        let sql = sql!(
            "INSERT INTO external_trigger (id, trigger, run, request, closed) \
            VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING"
        );
        let row = params![name.id, name.trigger.0, no, name.request, name.closed];
        if tx.execute(sql, row).await? == 0 {
            return Err(X::moved());
        }
    }
    if !import.names.is_empty() {
        tx.note_extra(no, extras::EXTERNAL).await?;
    }
    Ok(())
}
