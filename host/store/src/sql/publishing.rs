//! Published versions, and the index of their triggers.
//!
//! In PostgreSQL each publication and retraction holds the advisory lock of the workflow's name. So
//! of several processes that publish the same definition, the first one writes it and the others
//! find it unchanged.

use windlass_model::{Digest, failpoint};

use super::row::{int, small, text};
use super::transaction::{Done, Transaction};
use super::{drafts, params, published, sql};
use crate::published::{NewBinding, NewPublication, NewSchedule, Published, Retract, has_moved};
use crate::write::{Fenced, OrFenced};

/// The published version of a workflow, with the number of its row.
pub(crate) struct Current {
    no: i64,
    pub(crate) version: u32,
    definition: i64,
}

/// Waits for other transactions that publish or retract the workflow.
pub(crate) async fn lock_workflow<X: Transaction>(tx: &mut X, name: &str) -> Done<X, ()> {
    let sql = "SELECT pg_advisory_xact_lock(hashtext('publication'), hashtext($1))";
    tx.lock(sql, params![name]).await
}

pub(crate) async fn publish<X: Transaction>(
    tx: &mut X,
    new: &NewPublication,
) -> Done<X, OrFenced<Published>> {
    new.check()?;
    let name = &new.definition.name;
    lock_workflow(tx, name).await?;
    let current = current(tx, name).await?;
    let version = current.as_ref().map(|current| current.version);
    let moved = has_moved(new.only, version);
    if moved || !drafts::take(tx, name, new.draft).await? {
        return Ok(Err(Fenced));
    }
    let definition = tx.definition_of(&new.definition).await?;
    let same = current
        .as_ref()
        .filter(|current| current.definition == definition);
    let (no, version, unchanged) = match same {
        Some(current) => (current.no, current.version, true),
        None => {
            let (no, version) = succeed(tx, name, current.as_ref(), definition, new.at_ms).await?;
            (no, version, false)
        }
    };
    if let Some(text) = &new.text {
        let sql = sql!(
            "INSERT INTO publication_text (no, digest, content) VALUES (?1, ?2, ?3) \
            ON CONFLICT (no) DO UPDATE SET digest = excluded.digest, content = excluded.content"
        );
        tx.later(sql, params![no, Digest::of(text), text]).await?;
    }
    index(tx, name, &new.bindings).await?;
    schedule_all(tx, name, &new.schedules, new.at_ms).await?;
    if let Some(source) = &new.source {
        drafts::note_source(tx, source, &new.definition, version).await?;
    }
    Ok(Ok(Published { version, unchanged }))
}

pub(crate) async fn retract<X: Transaction>(
    tx: &mut X,
    retract: &Retract,
) -> Done<X, OrFenced<Option<u32>>> {
    let name = &retract.name;
    lock_workflow(tx, name).await?;
    let current = current(tx, name).await?;
    let version = current.as_ref().map(|current| current.version);
    if has_moved(retract.only, version) {
        return Ok(Err(Fenced));
    }
    if let Some(current) = current {
        take_back(tx, name, &current, retract.at_ms).await?;
    }
    Ok(Ok(version))
}

/// Retracts the published version of a workflow. The lock of the workflow is held.
pub(crate) async fn take_back<X: Transaction>(
    tx: &mut X,
    name: &str,
    current: &Current,
    at_ms: i64,
) -> Done<X, ()> {
    retire(tx, current, at_ms).await?;
    for sql in [
        sql!("DELETE FROM binding WHERE workflow = ?1"),
        sql!("DELETE FROM schedule WHERE workflow = ?1"),
    ] {
        tx.later(sql, params![name]).await?;
    }
    Ok(())
}

pub(crate) async fn current<X: Transaction>(tx: &mut X, name: &str) -> Done<X, Option<Current>> {
    let sql = sql!(
        "SELECT no, version, definition FROM publication \
        WHERE name = ?1 AND retracted_ms IS NULL"
    );
    tx.one(sql, params![name], |row| {
        Ok(Current {
            no: int(row, 0)?,
            version: small(row, 1)?,
            definition: int(row, 2)?,
        })
    })
    .await
}

async fn retire<X: Transaction>(tx: &mut X, current: &Current, at_ms: i64) -> Done<X, ()> {
    tx.republishes();
    let sql = sql!("UPDATE publication SET retracted_ms = ?2 WHERE no = ?1");
    tx.later(sql, params![current.no, at_ms]).await
}

/// Replaces the current version by another one. Returns the number of its row and its version.
async fn succeed<X: Transaction>(
    tx: &mut X,
    name: &str,
    current: Option<&Current>,
    definition: i64,
    at_ms: i64,
) -> Done<X, (i64, u32)> {
    if let Some(current) = current {
        retire(tx, current, at_ms).await?;
    }
    failpoint::pass("publish");
    tx.republishes();
    let sql = sql!(
        "INSERT INTO publication (name, version, definition, published_ms) \
        VALUES (?1, 1 + (SELECT coalesce(max(version), 0) FROM publication \
        WHERE name = ?1), ?2, ?3) RETURNING no, version"
    );
    tx.row(sql, params![name, definition, at_ms], |row| {
        Ok((int(row, 0)?, small(row, 1)?))
    })
    .await
}

/// Updates the trigger index of a workflow, and keeps the unchanged rows.
async fn index<X: Transaction>(tx: &mut X, workflow: &str, wanted: &[NewBinding]) -> Done<X, ()> {
    let known = tx
        .all(published::BINDINGS_OF, params![workflow], |row| {
            Ok((int(row, 0)?, published::new_binding(row, 1)?))
        })
        .await?;
    for (no, _) in known.iter().filter(|(_, row)| !wanted.contains(row)) {
        tx.republishes();
        let sql = sql!("DELETE FROM binding WHERE no = ?1");
        tx.later(sql, params![*no]).await?;
    }
    for new in wanted {
        if known.iter().any(|(_, row)| row == new) {
            continue;
        }
        tx.republishes();
        let sql = sql!(
            "INSERT INTO binding (workflow, key, name, hash, matches, node) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
        );
        let row = params![
            workflow,
            &new.key,
            &new.name,
            new.hash,
            &new.matches,
            new.node
        ];
        tx.later(sql, row).await?;
    }
    Ok(())
}

/// Updates the schedules of a workflow. Existing schedules keep their planned occurrences, so that
/// a new version does not repeat one.
async fn schedule_all<X: Transaction>(
    tx: &mut X,
    workflow: &str,
    wanted: &[NewSchedule],
    at_ms: i64,
) -> Done<X, ()> {
    let sql = sql!("SELECT no, key FROM schedule WHERE workflow = ?1");
    let known = tx
        .all(sql, params![workflow], |row| {
            Ok((int(row, 0)?, text(row, 1)?))
        })
        .await?;
    for (no, key) in &known {
        if !wanted.iter().any(|new| new.key == *key) {
            let sql = sql!("DELETE FROM schedule WHERE no = ?1");
            tx.later(sql, params![*no]).await?;
        }
    }
    for new in wanted {
        let sql = if known.iter().any(|(_, key)| *key == new.key) {
            sql!(
                "UPDATE schedule SET spec = ?3, troubles = 0, \
                since_ms = CASE WHEN spec <> ?3 THEN ?4 ELSE since_ms END, \
                next_ms = CASE WHEN paused_ms IS NOT NULL THEN next_ms \
                WHEN spec <> ?3 THEN ?5 ELSE ?4 END \
                WHERE workflow = ?1 AND key = ?2 AND (spec <> ?3 OR troubles > 0)"
            )
        } else {
            sql!(
                "INSERT INTO schedule (workflow, key, spec, since_ms, next_ms) \
                VALUES (?1, ?2, ?3, ?4, ?5)"
            )
        };
        let row = params![workflow, &new.key, &new.spec, at_ms, new.next_ms];
        tx.later(sql, row).await?;
    }
    Ok(())
}
