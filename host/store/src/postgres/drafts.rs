//! How drafts, sources and requests lie in the tables, and how they are read.

use tokio_postgres::Row;
use windlass_model::UpkeepNo;

use super::pool::ReadPool;
use super::rows::optional_small;
use super::values::{digest, get, params, small, some_bytes, unsigned};
use crate::drafts::{DraftRow, SourceRow, Upkeep, UpkeepRow};
use crate::error::Result;

/// The kinds of requests, as they are stored.
pub(super) const REFRESH_ALL: i16 = 1;
pub(super) const REFRESH: i16 = 2;
pub(super) const RELOAD: i16 = 3;

macro_rules! select_draft {
    ($rest:literal) => {
        concat!(
            "SELECT name, no, content, based_on, saved_ms FROM draft ",
            $rest
        )
    };
}

macro_rules! select_source {
    ($rest:literal) => {
        concat!(
            "SELECT name, workflow, version, definition FROM source ",
            $rest
        )
    };
}

fn draft_of(row: &Row) -> Result<DraftRow> {
    Ok(DraftRow {
        name: get(row, 0)?,
        revision: unsigned(row, 1)?,
        content: some_bytes(row, 2)?,
        based_on: optional_small(row, 3)?,
        saved_ms: get(row, 4)?,
    })
}

fn source_of(row: &Row) -> Result<SourceRow> {
    Ok(SourceRow {
        name: get(row, 0)?,
        workflow: get(row, 1)?,
        version: small(row, 2)?,
        definition: digest(row, 3)?,
    })
}

fn upkeep_of(row: &Row) -> Result<UpkeepRow> {
    let names: Option<&str> = get(row, 2)?;
    let what = match get(row, 1)? {
        REFRESH_ALL => Upkeep::RefreshAll,
        RELOAD => Upkeep::Reload,
        _ => {
            // What cannot be read, nobody has written: everything includes it.
            let names = serde_json::from_str(names.unwrap_or_default());
            names.map_or(Upkeep::RefreshAll, Upkeep::Refresh)
        }
    };
    Ok(UpkeepRow {
        no: UpkeepNo(get(row, 0)?),
        what,
        at_ms: get(row, 3)?,
    })
}

pub(super) fn draft(pool: &ReadPool, name: &str) -> Result<Option<DraftRow>> {
    let row = pool.one(select_draft!("WHERE name = $1"), params![name.to_owned()])?;
    row.as_ref().map(draft_of).transpose()
}

pub(super) fn drafts(pool: &ReadPool, after: Option<&str>, limit: u32) -> Result<Vec<DraftRow>> {
    let sql = select_draft!("WHERE name > $1 ORDER BY name LIMIT $2");
    let key = params![after.unwrap_or_default().to_owned(), i64::from(limit)];
    pool.rows(sql, key)?.iter().map(draft_of).collect()
}

pub(super) fn source(pool: &ReadPool, name: &str) -> Result<Option<SourceRow>> {
    let row = pool.one(select_source!("WHERE name = $1"), params![name.to_owned()])?;
    row.as_ref().map(source_of).transpose()
}

pub(super) fn sources(pool: &ReadPool, after: Option<&str>, limit: u32) -> Result<Vec<SourceRow>> {
    let sql = select_source!("WHERE name > $1 ORDER BY name LIMIT $2");
    let key = params![after.unwrap_or_default().to_owned(), i64::from(limit)];
    pool.rows(sql, key)?.iter().map(source_of).collect()
}

pub(super) fn upkeep(pool: &ReadPool, limit: u32) -> Result<Vec<UpkeepRow>> {
    let sql = "SELECT no, kind, names, at_ms FROM upkeep ORDER BY no LIMIT $1";
    let rows = pool.rows(sql, params![i64::from(limit)])?;
    rows.iter().map(upkeep_of).collect()
}
