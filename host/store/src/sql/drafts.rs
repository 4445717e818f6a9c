//! How drafts, sources and requests lie in the tables, and how they are read.

use windlass_model::UpkeepNo;

use super::row::{bytes, digest, int, small, small_if_any, text, text_if_any, unsigned};
use super::{Row, Source, params, sql};
use crate::drafts::{DraftRow, SourceRow, Upkeep, UpkeepRow};
use crate::error::Result;

/// The kinds of requests, as they are stored.
pub(crate) const REFRESH_ALL: i16 = 1;
pub(crate) const REFRESH: i16 = 2;
pub(crate) const RELOAD: i16 = 3;

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
            // What cannot be read, nobody has written: everything includes it.
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
