//! How published definitions lie in the file, and how they are read.

use rusqlite::{Connection, Error as Fault, Row};
use uuid::Uuid;
use windlass_model::{BindingNo, Digest, InstanceId, ScheduleNo};

use super::read::{all, one};
use super::values::{digest, some_bytes};
use crate::published::{
    BindingRow, NewBinding, PublicationQuery, PublicationRow, ScheduleQuery, ScheduleRow,
};

macro_rules! select_publication {
    ($rest:literal) => {
        concat!(
            "SELECT p.name, p.version, d.digest, p.published_ms, p.retracted_ms ",
            "FROM publication p CROSS JOIN definition d ON d.no = p.definition ",
            $rest
        )
    };
}

macro_rules! select_binding {
    ($rest:literal) => {
        concat!(
            "SELECT b.no, b.workflow, p.version, d.digest, b.key, b.name, b.hash, b.matches, ",
            "b.node FROM binding b CROSS JOIN publication p ON p.name = b.workflow ",
            "AND p.retracted_ms IS NULL CROSS JOIN definition d ON d.no = p.definition ",
            $rest
        )
    };
}

macro_rules! select_schedule {
    ($and:literal) => {
        concat!(
            "SELECT s.no, s.workflow, d.digest, s.key, s.spec, s.since_ms, s.next_ms, ",
            "s.last_planned_ms, s.last_instance, s.troubles ",
            "FROM schedule s CROSS JOIN publication p ",
            "ON p.name = s.workflow AND p.retracted_ms IS NULL ",
            "CROSS JOIN definition d ON d.no = p.definition ",
            "WHERE s.next_ms <= ?1 AND (?2 IS NULL OR s.workflow = ?2)",
            $and,
            " ORDER BY s.next_ms, s.no LIMIT ?3"
        )
    };
}

/// The number of each binding of a workflow, and what [`new_binding`] reads.
pub(super) const BINDINGS_OF: &str = "SELECT no, key, name, hash, matches, node FROM binding \
    WHERE workflow = ?1";

/// The binding in the columns from `column` on.
pub(super) fn new_binding(row: &Row<'_>, column: usize) -> Result<NewBinding, Fault> {
    Ok(NewBinding {
        key: row.get(column)?,
        name: row.get(column + 1)?,
        hash: digest(row, column + 2)?,
        matches: some_bytes(row, column + 3)?,
        node: row.get(column + 4)?,
    })
}

fn publication(row: &Row<'_>) -> Result<PublicationRow, Fault> {
    Ok(PublicationRow {
        name: row.get(0)?,
        version: row.get(1)?,
        definition: digest(row, 2)?,
        published_ms: row.get(3)?,
        retracted_ms: row.get(4)?,
    })
}

fn binding(row: &Row<'_>) -> Result<BindingRow, Fault> {
    Ok(BindingRow {
        no: BindingNo(row.get(0)?),
        workflow: row.get(1)?,
        version: row.get(2)?,
        definition: digest(row, 3)?,
        binding: new_binding(row, 4)?,
    })
}

fn schedule(row: &Row<'_>) -> Result<ScheduleRow, Fault> {
    let last: Option<[u8; 16]> = row.get(8)?;
    Ok(ScheduleRow {
        no: ScheduleNo(row.get(0)?),
        workflow: row.get(1)?,
        definition: digest(row, 2)?,
        key: row.get(3)?,
        spec: some_bytes(row, 4)?,
        since_ms: row.get(5)?,
        next_ms: row.get(6)?,
        last_planned_ms: row.get(7)?,
        last_instance: last.map(|id| InstanceId(Uuid::from_bytes(id))),
        troubles: row.get(9)?,
    })
}

pub(super) fn published(
    connection: &Connection,
    name: &str,
) -> Result<Option<PublicationRow>, Fault> {
    let sql = select_publication!("WHERE p.name = ?1 AND p.retracted_ms IS NULL");
    one(connection, sql, [name], publication)
}

pub(super) fn publications(
    connection: &Connection,
    query: &PublicationQuery,
) -> Result<Vec<PublicationRow>, Fault> {
    let sql = select_publication!(
        "WHERE (?1 IS NULL OR p.name = ?1) AND (?2 OR p.retracted_ms IS NULL) \
         AND (?3 IS NULL OR p.name > ?3) ORDER BY p.name, p.version DESC LIMIT ?4"
    );
    let name = query.name.as_deref();
    let key = (name, query.retracted, query.after.as_deref(), query.limit);
    all(connection, sql, key, publication)
}

pub(super) fn bindings(connection: &Connection, hash: Digest) -> Result<Vec<BindingRow>, Fault> {
    let sql = select_binding!("WHERE b.hash = ?1 ORDER BY b.no");
    all(connection, sql, [&hash.0[..]], binding)
}

pub(super) fn bindings_of(
    connection: &Connection,
    workflow: &str,
) -> Result<Vec<BindingRow>, Fault> {
    let sql = select_binding!("WHERE b.workflow = ?1 ORDER BY b.key");
    all(connection, sql, [workflow], binding)
}

pub(super) fn schedules(
    connection: &Connection,
    query: &ScheduleQuery,
) -> Result<Vec<ScheduleRow>, Fault> {
    // Each has an index of its own.
    let sql = match query.troubled {
        None => select_schedule!(""),
        Some(false) => select_schedule!(" AND s.troubles = 0"),
        Some(true) => select_schedule!(" AND s.troubles > 0"),
    };
    let key = (query.until_ms, query.workflow.as_deref(), query.limit);
    all(connection, sql, key, schedule)
}
