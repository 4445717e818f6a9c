//! Published definitions in tables.

use bytes::Bytes;
use windlass_model::{BindingNo, Digest, ScheduleNo};

use super::row::{bytes, digest, int, int_if_any, run_if_any, small, small_if_any, text};
use super::{Row, Source, Sql, params, sql};
use crate::codes;
use crate::error::{Error, Result};
use crate::published::{
    BindingRow, NewBinding, PublicationQuery, PublicationRow, ScheduleQuery, ScheduleRow,
};

/// The columns that [`publication`] reads.
macro_rules! publication_columns {
    () => {
        "p.name, p.version, d.digest, p.published_ms, p.retracted_ms "
    };
}

/// Selects the columns that [`publication`] reads; `WHERE` follows.
macro_rules! select_publication {
    ($rest:literal) => {
        sql!(concat!(
            "SELECT ",
            publication_columns!(),
            "FROM publication p CROSS JOIN definition d ON d.no = p.definition ",
            $rest
        ))
    };
}

/// Selects the columns that [`binding`] reads; `WHERE` follows.
macro_rules! select_binding {
    ($rest:literal) => {
        sql!(concat!(
            "SELECT b.no, b.workflow, p.version, d.digest, b.key, b.name, b.hash, b.matches, ",
            "b.node FROM binding b CROSS JOIN publication p ON p.name = b.workflow ",
            "AND p.retracted_ms IS NULL CROSS JOIN definition d ON d.no = p.definition ",
            $rest
        ))
    };
}

/// Selects the columns that [`schedule`] reads.
macro_rules! select_schedule {
    ($and:literal) => {
        sql!(concat!(
            "SELECT s.no, s.workflow, d.digest, s.key, s.spec, s.since_ms, s.next_ms, ",
            "s.last_planned_ms, s.last_run, s.troubles, s.paused_ms ",
            "FROM schedule s CROSS JOIN publication p ",
            "ON p.name = s.workflow AND p.retracted_ms IS NULL ",
            "CROSS JOIN definition d ON d.no = p.definition ",
            "WHERE s.next_ms <= ?1 AND (CAST(?2 AS text) IS NULL OR s.workflow = ?2) ",
            "AND (s.next_ms, s.no) > (?4, ?5)",
            $and,
            " ORDER BY s.next_ms, s.no LIMIT ?3"
        ))
    };
}

/// The number of each binding of a workflow, and the columns that [`new_binding`] reads.
pub(crate) const BINDINGS_OF: Sql =
    sql!("SELECT no, key, name, hash, matches, node FROM binding WHERE workflow = ?1");

/// Reads the binding in the columns from `column` on.
pub(crate) fn new_binding(row: &dyn Row, column: usize) -> Result<NewBinding> {
    Ok(NewBinding {
        key: text(row, column)?,
        name: text(row, column + 1)?,
        hash: digest(row, column + 2)?,
        matches: bytes(row, column + 3)?,
        node: small_if_any(row, column + 4)?,
    })
}

fn publication(row: &dyn Row) -> Result<PublicationRow> {
    Ok(PublicationRow {
        name: text(row, 0)?,
        version: small(row, 1)?,
        definition: digest(row, 2)?,
        published_ms: int(row, 3)?,
        retracted_ms: int_if_any(row, 4)?,
    })
}

fn binding(row: &dyn Row) -> Result<BindingRow> {
    Ok(BindingRow {
        no: BindingNo(int(row, 0)?),
        workflow: text(row, 1)?,
        version: small(row, 2)?,
        definition: digest(row, 3)?,
        binding: new_binding(row, 4)?,
    })
}

fn schedule(row: &dyn Row) -> Result<ScheduleRow> {
    Ok(ScheduleRow {
        no: ScheduleNo(int(row, 0)?),
        workflow: text(row, 1)?,
        definition: digest(row, 2)?,
        key: text(row, 3)?,
        spec: bytes(row, 4)?,
        since_ms: int(row, 5)?,
        next_ms: int(row, 6)?,
        last_planned_ms: int_if_any(row, 7)?,
        last_run: run_if_any(row, 8)?,
        troubles: small(row, 9)?,
        paused_ms: int_if_any(row, 10)?,
    })
}

pub(crate) fn published(source: &impl Source, name: &str) -> Result<Option<PublicationRow>> {
    let sql = select_publication!("WHERE p.name = ?1 AND p.retracted_ms IS NULL");
    source.one(sql, params![name], publication)
}

pub(crate) fn published_as(
    source: &impl Source,
    definition: Digest,
    at_ms: i64,
) -> Result<Option<PublicationRow>> {
    // The joins are in the order of execution.
    let sql = sql!(concat!(
        "SELECT ",
        publication_columns!(),
        "FROM definition d CROSS JOIN publication p ON p.definition = d.no WHERE d.digest = ?1 \
         ORDER BY p.published_ms > ?2, abs(p.published_ms - ?2), p.version DESC LIMIT 1"
    ));
    source.one(sql, params![definition, at_ms], publication)
}

pub(crate) fn publications(
    source: &impl Source,
    query: &PublicationQuery,
) -> Result<Vec<PublicationRow>> {
    let sql = select_publication!(
        "WHERE (CAST(?1 AS text) IS NULL OR p.name = ?1) AND (?2 OR p.retracted_ms IS NULL) \
         AND (CAST(?3 AS text) IS NULL OR p.name > ?3) ORDER BY p.name, p.version DESC LIMIT ?4"
    );
    let (name, after) = (query.name.as_deref(), query.after.as_deref());
    let key = params![name, query.retracted, after, query.limit];
    source.all(sql, key, publication)
}

pub(crate) fn published_text(
    source: &impl Source,
    name: &str,
    version: u32,
) -> Result<Option<Bytes>> {
    let sql = sql!(
        "SELECT t.digest, t.content FROM publication p CROSS JOIN publication_text t ON t.no = p.no \
        WHERE p.name = ?1 AND p.version = ?2"
    );
    source.one(sql, params![name, version], |row| {
        let content = bytes(row, 1)?;
        if Digest::of(&content) == digest(row, 0)? {
            return Ok(content);
        }
        let text = format!("the text of version {version} of {name} is damaged");
        Err(Error::new(codes::CORRUPT, text))
    })
}

pub(crate) fn bindings(source: &impl Source, hash: Digest) -> Result<Vec<BindingRow>> {
    let sql = select_binding!("WHERE b.hash = ?1 ORDER BY b.no");
    source.all(sql, params![hash], binding)
}

pub(crate) fn bindings_of(source: &impl Source, workflow: &str) -> Result<Vec<BindingRow>> {
    let sql = select_binding!("WHERE b.workflow = ?1 ORDER BY b.key");
    source.all(sql, params![workflow], binding)
}

pub(crate) fn schedules(source: &impl Source, query: &ScheduleQuery) -> Result<Vec<ScheduleRow>> {
    // Each case has an index of its own.
    let sql = match (&query.key, query.troubled) {
        (None, None) => select_schedule!(""),
        (None, Some(false)) => select_schedule!(" AND s.troubles = 0"),
        (None, Some(true)) => select_schedule!(" AND s.troubles > 0"),
        (Some(_), None) => select_schedule!(" AND s.key = ?6"),
        (Some(_), Some(false)) => select_schedule!(" AND s.key = ?6 AND s.troubles = 0"),
        (Some(_), Some(true)) => select_schedule!(" AND s.key = ?6 AND s.troubles > 0"),
    };
    let workflow = query.workflow.as_deref();
    let (after_ms, after_no) = query.after.unwrap_or((i64::MIN, ScheduleNo(i64::MIN)));
    let (until_ms, limit) = (query.until_ms, query.limit);
    match query.key.as_deref() {
        None => {
            let key = params![until_ms, workflow, limit, after_ms, after_no.0];
            source.all(sql, key, schedule)
        }
        Some(named) => {
            let key = params![until_ms, workflow, limit, after_ms, after_no.0, named];
            source.all(sql, key, schedule)
        }
    }
}
