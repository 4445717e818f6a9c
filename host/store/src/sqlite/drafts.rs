//! How drafts, sources and requests lie in the file, and how they are read.

use rusqlite::{Connection, Error as Fault, Row};
use windlass_model::UpkeepNo;

use super::read::{all, one};
use super::values::{digest, some_bytes};
use crate::drafts::{DraftRow, SourceRow, Upkeep, UpkeepRow};

/// The kinds of requests, as they are stored.
pub(super) const REFRESH_ALL: u8 = 1;
pub(super) const REFRESH: u8 = 2;
pub(super) const RELOAD: u8 = 3;

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

fn draft_of(row: &Row<'_>) -> Result<DraftRow, Fault> {
    Ok(DraftRow {
        name: row.get(0)?,
        revision: row.get::<_, i64>(1)?.cast_unsigned(),
        content: some_bytes(row, 2)?,
        based_on: row.get(3)?,
        saved_ms: row.get(4)?,
    })
}

fn source_of(row: &Row<'_>) -> Result<SourceRow, Fault> {
    Ok(SourceRow {
        name: row.get(0)?,
        workflow: row.get(1)?,
        version: row.get(2)?,
        definition: digest(row, 3)?,
    })
}

fn upkeep_of(row: &Row<'_>) -> Result<UpkeepRow, Fault> {
    let names: Option<String> = row.get(2)?;
    let what = match row.get(1)? {
        REFRESH_ALL => Upkeep::RefreshAll,
        RELOAD => Upkeep::Reload,
        _ => {
            let names = names.as_deref().unwrap_or_default();
            // What cannot be read, nobody has written: everything includes it.
            serde_json::from_str(names).map_or(Upkeep::RefreshAll, Upkeep::Refresh)
        }
    };
    Ok(UpkeepRow {
        no: UpkeepNo(row.get(0)?),
        what,
        at_ms: row.get(3)?,
    })
}

pub(super) fn draft(connection: &Connection, name: &str) -> Result<Option<DraftRow>, Fault> {
    one(
        connection,
        select_draft!("WHERE name = ?1"),
        [name],
        draft_of,
    )
}

pub(super) fn drafts(
    connection: &Connection,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<DraftRow>, Fault> {
    let sql = select_draft!("WHERE name > ?1 ORDER BY name LIMIT ?2");
    all(
        connection,
        sql,
        (after.unwrap_or_default(), limit),
        draft_of,
    )
}

pub(super) fn source(connection: &Connection, name: &str) -> Result<Option<SourceRow>, Fault> {
    one(
        connection,
        select_source!("WHERE name = ?1"),
        [name],
        source_of,
    )
}

pub(super) fn sources(
    connection: &Connection,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<SourceRow>, Fault> {
    let sql = select_source!("WHERE name > ?1 ORDER BY name LIMIT ?2");
    all(
        connection,
        sql,
        (after.unwrap_or_default(), limit),
        source_of,
    )
}

pub(super) fn upkeep(connection: &Connection, limit: u32) -> Result<Vec<UpkeepRow>, Fault> {
    let sql = "SELECT no, kind, names, at_ms FROM upkeep ORDER BY no LIMIT ?1";
    all(connection, sql, [limit], upkeep_of)
}
