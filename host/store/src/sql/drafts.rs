//! Drafts, sources and upkeep requests in tables.

use windlass_model::UpkeepNo;

use super::publishing::{current, lock_workflow, take_back};
use super::row::{bytes, digest, int, small, small_if_any, text, text_if_any, unsigned};
use super::transaction::{Done, Transaction};
use super::{Row, Source, params, sql};
use crate::drafts::{
    DiscardDraft, DraftRow, DropSource, NewDraft, RequestUpkeep, SourceRow, UPKEEP_ROWS, Upkeep,
    UpkeepDone, UpkeepRow,
};
use crate::error::Result;
use crate::rows::DefinitionRow;
use crate::write::{Fenced, OrFenced};

/// The kinds of requests, as they are stored.
const REFRESH_ALL: i16 = 1;
const REFRESH: i16 = 2;
const RELOAD: i16 = 3;

macro_rules! select_draft {
    ($rest:literal) => {
        sql!(concat!(
            "SELECT name, no, content, based_on, saved_ms FROM draft ",
            $rest
        ))
    };
}

macro_rules! select_source {
    ($rest:literal) => {
        sql!(concat!(
            "SELECT name, workflow, version, definition FROM source ",
            $rest
        ))
    };
}

fn draft_of(row: &dyn Row) -> Result<DraftRow> {
    Ok(DraftRow {
        name: text(row, 0)?,
        revision: unsigned(row, 1)?,
        content: bytes(row, 2)?,
        based_on: small_if_any(row, 3)?,
        saved_ms: int(row, 4)?,
    })
}

fn source_of(row: &dyn Row) -> Result<SourceRow> {
    Ok(SourceRow {
        name: text(row, 0)?,
        workflow: text(row, 1)?,
        version: small(row, 2)?,
        definition: digest(row, 3)?,
    })
}

fn upkeep_of(row: &dyn Row) -> Result<UpkeepRow> {
    let names = text_if_any(row, 2)?;
    let kind = i16::try_from(int(row, 1)?).unwrap_or_default();
    let what = match kind {
        REFRESH_ALL => Upkeep::RefreshAll,
        RELOAD => Upkeep::Reload,
        _ => {
            // A request with unreadable names was not written by this program. Refreshing
            // everything includes it.
            let names = serde_json::from_str(names.as_deref().unwrap_or_default());
            names.map_or(Upkeep::RefreshAll, Upkeep::Refresh)
        }
    };
    Ok(UpkeepRow {
        no: UpkeepNo(int(row, 0)?),
        what,
        at_ms: int(row, 3)?,
    })
}

pub(crate) fn draft(source: &impl Source, name: &str) -> Result<Option<DraftRow>> {
    source.one(select_draft!("WHERE name = ?1"), params![name], draft_of)
}

pub(crate) fn drafts(
    source: &impl Source,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<DraftRow>> {
    let sql = select_draft!("WHERE name > ?1 ORDER BY name LIMIT ?2");
    source.all(sql, params![after.unwrap_or_default(), limit], draft_of)
}

pub(crate) fn source(source: &impl Source, name: &str) -> Result<Option<SourceRow>> {
    source.one(select_source!("WHERE name = ?1"), params![name], source_of)
}

pub(crate) fn sources(
    source: &impl Source,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<SourceRow>> {
    let sql = select_source!("WHERE name > ?1 ORDER BY name LIMIT ?2");
    source.all(sql, params![after.unwrap_or_default(), limit], source_of)
}

pub(crate) fn upkeep(source: &impl Source, limit: u32) -> Result<Vec<UpkeepRow>> {
    let sql = sql!("SELECT no, kind, names, at_ms FROM upkeep ORDER BY no LIMIT ?1");
    source.all(sql, params![limit], upkeep_of)
}

pub(crate) async fn save_draft<X: Transaction>(
    tx: &mut X,
    new: &NewDraft,
) -> Done<X, OrFenced<u64>> {
    new.check()?;
    lock_workflow(tx, &new.name).await?;
    if let Some(expected) = new.expected
        && expected != revision(tx, &new.name).await?
    {
        return Ok(Err(Fenced));
    }
    let sql = sql!("DELETE FROM draft WHERE name = ?1");
    tx.later(sql, params![&new.name]).await?;
    let sql = sql!(
        "INSERT INTO draft (name, based_on, saved_ms, content) VALUES (?1, ?2, ?3, ?4) \
        RETURNING no"
    );
    let row = params![&new.name, new.based_on, new.at_ms, &new.content];
    Ok(Ok(tx.row(sql, row, |row| unsigned(row, 0)).await?))
}

pub(crate) async fn discard_draft<X: Transaction>(
    tx: &mut X,
    draft: &DiscardDraft,
) -> Done<X, OrFenced<()>> {
    let gone = remove(tx, &draft.name, draft.revision).await?;
    Ok(if gone { Ok(()) } else { Err(Fenced) })
}

/// Removes a draft, or only this revision of it. False if there is none.
async fn remove<X: Transaction>(tx: &mut X, name: &str, revision: Option<u64>) -> Done<X, bool> {
    let sql = sql!("DELETE FROM draft WHERE name = ?1 AND (CAST(?2 AS bigint) IS NULL OR no = ?2)");
    let key = params![name, revision.map(u64::cast_signed)];
    Ok(tx.execute(sql, key).await? == 1)
}

/// Removes the draft that a version was made from. False if the draft has another revision.
pub(crate) async fn take<X: Transaction>(
    tx: &mut X,
    name: &str,
    revision: Option<u64>,
) -> Done<X, bool> {
    Ok(match revision {
        None => true,
        revision => remove(tx, name, revision).await?,
    })
}

/// The revision of a draft; 0 if there is none.
async fn revision<X: Transaction>(tx: &mut X, name: &str) -> Done<X, u64> {
    let sql = sql!("SELECT no FROM draft WHERE name = ?1{| FOR UPDATE}");
    let no = tx.one(sql, params![name], |row| unsigned(row, 0)).await?;
    Ok(no.unwrap_or_default())
}

pub(crate) async fn note_source<X: Transaction>(
    tx: &mut X,
    source: &str,
    definition: &DefinitionRow,
    version: u32,
) -> Done<X, ()> {
    let sql = sql!(
        "INSERT INTO source (name, workflow, version, definition) VALUES (?1, ?2, ?3, ?4) \
        ON CONFLICT (name) DO UPDATE SET workflow = excluded.workflow, \
        version = excluded.version, definition = excluded.definition"
    );
    let row = params![source, &definition.name, version, definition.digest];
    tx.later(sql, row).await
}

pub(crate) async fn drop_source<X: Transaction>(
    tx: &mut X,
    drop: &DropSource,
) -> Done<X, Option<u32>> {
    let sql = sql!("DELETE FROM source WHERE name = ?1 RETURNING workflow, version");
    let gone = tx
        .one(sql, params![&drop.name], |row| {
            Ok((text(row, 0)?, small(row, 1)?))
        })
        .await?;
    let Some((workflow, version)) = gone.filter(|_| drop.retract) else {
        return Ok(None);
    };
    lock_workflow(tx, &workflow).await?;
    let sql = sql!("SELECT 1 FROM source WHERE workflow = ?1 AND version = ?2 LIMIT 1");
    let elsewhere = tx.one(sql, params![&workflow, version], |_| Ok(())).await?;
    let current = current(tx, &workflow).await?;
    let current = current.filter(|current| current.version == version);
    let Some(current) = current.filter(|_| elsewhere.is_none()) else {
        return Ok(None);
    };
    take_back(tx, &workflow, &current, drop.at_ms).await?;
    Ok(Some(version))
}

pub(crate) async fn request_upkeep<X: Transaction>(
    tx: &mut X,
    new: &RequestUpkeep,
) -> Done<X, UpkeepNo> {
    let what = &new.what;
    what.check()?;
    let (kind, names) = match what {
        Upkeep::Refresh(_) if refreshes(tx).await? >= i64::from(UPKEEP_ROWS) => (REFRESH_ALL, None),
        Upkeep::Refresh(names) => (REFRESH, serde_json::to_string(names).ok()),
        Upkeep::RefreshAll => (REFRESH_ALL, None),
        Upkeep::Reload => (RELOAD, None),
    };
    // The new request includes the deleted ones.
    let sql = sql!("DELETE FROM upkeep WHERE kind = ?1 AND ?1 <> ?2 OR kind = ?2 AND ?1 = ?3");
    tx.later(sql, params![kind, REFRESH, REFRESH_ALL]).await?;
    let sql = sql!("INSERT INTO upkeep (kind, names, at_ms) VALUES (?1, ?2, ?3) RETURNING no");
    let no = tx.row(sql, params![kind, names, new.at_ms], |row| int(row, 0));
    Ok(UpkeepNo(no.await?))
}

pub(crate) async fn upkeep_done<X: Transaction>(tx: &mut X, done: &UpkeepDone) -> Done<X, ()> {
    let numbers: Vec<i64> = done.0.iter().map(|no| no.0).collect();
    let sql = sql!("DELETE FROM upkeep WHERE no {IN (SELECT value FROM json_each(?1))|= ANY(?1)}");
    tx.later(sql, params![numbers]).await
}

async fn refreshes<X: Transaction>(tx: &mut X) -> Done<X, i64> {
    let sql = sql!("SELECT count(*) FROM upkeep WHERE kind = ?1");
    tx.row(sql, params![REFRESH], |row| int(row, 0)).await
}
