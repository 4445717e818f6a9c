//! How published definitions lie in the tables, and how they are read.

use tokio_postgres::Row;
use windlass_model::{BindingNo, Digest, ScheduleNo};

use super::pool::ReadPool;
use super::rows::optional_small;
use super::stimuli::uuid_if_any;
use super::values::{digest, get, params, small, some_bytes};
use crate::error::Result;
use crate::published::{
    BindingRow, NewBinding, PublicationQuery, PublicationRow, ScheduleQuery, ScheduleRow,
};

/// Selects what [`publication`] reads; to be followed by `WHERE`.
macro_rules! select_publication {
    ($rest:literal) => {
        concat!(
            "SELECT p.name, p.version, d.digest, p.published_ms, p.retracted_ms ",
            "FROM publication p JOIN definition d ON d.no = p.definition ",
            $rest
        )
    };
}

/// Selects what [`binding`] reads; to be followed by `WHERE`.
macro_rules! select_binding {
    ($rest:literal) => {
        concat!(
            "SELECT b.no, b.workflow, p.version, d.digest, b.key, b.name, b.hash, b.matches, ",
            "b.node FROM binding b JOIN publication p ON p.name = b.workflow ",
            "AND p.retracted_ms IS NULL JOIN definition d ON d.no = p.definition ",
            $rest
        )
    };
}

/// Selects what [`schedule`] reads.
macro_rules! select_schedule {
    ($and:literal) => {
        concat!(
            "SELECT s.no, s.workflow, d.digest, s.key, s.spec, s.since_ms, s.next_ms, ",
            "s.last_planned_ms, s.last_instance, s.troubles FROM schedule s ",
            "JOIN publication p ON p.name = s.workflow AND p.retracted_ms IS NULL ",
            "JOIN definition d ON d.no = p.definition ",
            "WHERE s.next_ms <= $1 AND ($2::text IS NULL OR s.workflow = $2)",
            $and,
            " ORDER BY s.next_ms, s.no LIMIT $3"
        )
    };
}

/// The number of each binding of a workflow, and what [`new_binding`] reads.
pub(super) const BINDINGS_OF: &str = "SELECT no, key, name, hash, matches, node FROM binding \
    WHERE workflow = $1";

/// The binding in the columns from `column` on.
pub(super) fn new_binding(row: &Row, column: usize) -> Result<NewBinding> {
    Ok(NewBinding {
        key: get(row, column)?,
        name: get(row, column + 1)?,
        hash: digest(row, column + 2)?,
        matches: some_bytes(row, column + 3)?,
        node: optional_small(row, column + 4)?,
    })
}

fn publication(row: &Row) -> Result<PublicationRow> {
    Ok(PublicationRow {
        name: get(row, 0)?,
        version: small(row, 1)?,
        definition: digest(row, 2)?,
        published_ms: get(row, 3)?,
        retracted_ms: get(row, 4)?,
    })
}

fn binding(row: &Row) -> Result<BindingRow> {
    Ok(BindingRow {
        no: BindingNo(get(row, 0)?),
        workflow: get(row, 1)?,
        version: small(row, 2)?,
        definition: digest(row, 3)?,
        binding: new_binding(row, 4)?,
    })
}

fn schedule(row: &Row) -> Result<ScheduleRow> {
    Ok(ScheduleRow {
        no: ScheduleNo(get(row, 0)?),
        workflow: get(row, 1)?,
        definition: digest(row, 2)?,
        key: get(row, 3)?,
        spec: some_bytes(row, 4)?,
        since_ms: get(row, 5)?,
        next_ms: get(row, 6)?,
        last_planned_ms: get(row, 7)?,
        last_instance: uuid_if_any(row, 8)?,
        troubles: small(row, 9)?,
    })
}

pub(super) fn published(pool: &ReadPool, name: &str) -> Result<Option<PublicationRow>> {
    let sql = select_publication!("WHERE p.name = $1 AND p.retracted_ms IS NULL");
    let row = pool.one(sql, params![name.to_owned()])?;
    row.as_ref().map(publication).transpose()
}

pub(super) fn publications(
    pool: &ReadPool,
    query: &PublicationQuery,
) -> Result<Vec<PublicationRow>> {
    let sql = select_publication!(
        "WHERE ($1::text IS NULL OR p.name = $1) AND ($2 OR p.retracted_ms IS NULL) \
         AND ($3::text IS NULL OR p.name > $3) ORDER BY p.name, p.version DESC LIMIT $4"
    );
    let key = params![
        query.name.clone(),
        query.retracted,
        query.after.clone(),
        i64::from(query.limit),
    ];
    pool.rows(sql, key)?.iter().map(publication).collect()
}

pub(super) fn bindings(pool: &ReadPool, hash: Digest) -> Result<Vec<BindingRow>> {
    let sql = select_binding!("WHERE b.hash = $1 ORDER BY b.no");
    let rows = pool.rows(sql, params![hash.0.to_vec()])?;
    rows.iter().map(binding).collect()
}

pub(super) fn bindings_of(pool: &ReadPool, workflow: &str) -> Result<Vec<BindingRow>> {
    let sql = select_binding!("WHERE b.workflow = $1 ORDER BY b.key");
    let rows = pool.rows(sql, params![workflow.to_owned()])?;
    rows.iter().map(binding).collect()
}

pub(super) fn schedules(pool: &ReadPool, query: &ScheduleQuery) -> Result<Vec<ScheduleRow>> {
    // Each has an index of its own.
    let sql = match query.troubled {
        None => select_schedule!(""),
        Some(false) => select_schedule!(" AND s.troubles = 0"),
        Some(true) => select_schedule!(" AND s.troubles > 0"),
    };
    let key = params![
        query.until_ms,
        query.workflow.clone(),
        i64::from(query.limit)
    ];
    pool.rows(sql, key)?.iter().map(schedule).collect()
}
