//! Reads a run as a whole. The caller provides a source whose statements see one moment.

use bytes::Bytes;
use windlass_model::{Payload, RunId, ScopeNo, Seq, TriggerId, TriggerNo};

use super::readers::{Tables, definition, entry, events, output, pins};
use super::row::{
    bytes, check, digest, flag, int, int_if_any, small, summed, text, unsigned, uuid,
};
use super::rows::{self, select_execution, select_run, select_trigger};
use super::stimulus_rows::{bookmark_of, select_bookmark};
use super::{Row, Source, params, sql};
use crate::error::{Error, Result};
use crate::rows::{ExecutionRow, NewBlob};
use crate::sums::Of;
use crate::transfer::{Bounds, Snapshot, TriggerName};
use crate::write::NewItem;

pub(crate) fn snapshot(
    tables: &impl Tables,
    id: RunId,
    bounds: Bounds,
) -> Result<Option<Snapshot>> {
    tables.moment(|moment| at(moment, id, bounds))
}

pub(crate) fn extent(tables: &impl Tables, id: RunId, bounds: Bounds) -> Result<Option<u64>> {
    tables.moment(|moment| {
        let sql = sql!("SELECT no FROM run WHERE id = ?1");
        let Some(no) = moment.one(sql, params![id], |row| int(row, 0))? else {
            return Ok(None);
        };
        let others = size(moment, no)?;
        bounds.admit_bytes(others)?;
        let sql = sql!(
            "WITH RECURSIVE walk (no, place, bytes) AS ( \
                SELECT last_execution, CAST(1 AS bigint), CAST(0 AS bigint) FROM run WHERE no = ?1 \
                UNION ALL \
                SELECT r.previous, place + 1, bytes + coalesce(octet_length(r.output), 0) \
                    + coalesce(octet_length(r.inputs), 0) + coalesce(octet_length(r.event), 0) \
                FROM walk CROSS JOIN execution r ON r.no = walk.no WHERE place <= ?2) \
            SELECT CAST(coalesce(max(bytes), 0) AS bigint) FROM walk WHERE bytes <= ?3"
        );
        let rest = bounds.rest(others);
        let records = moment.one(sql, params![no, bounds.executions, rest], |row| {
            unsigned(row, 0)
        })?;
        Ok(Some(others + records.unwrap_or_default()))
    })
}

/// The run, or an error if it is too large.
fn at(moment: &impl Source, id: RunId, bounds: Bounds) -> Result<Option<Snapshot>> {
    let sql = select_run!("WHERE i.id = ?1");
    let Some(row) = moment.one(sql, params![id], |row| rows::run(row))? else {
        return Ok(None);
    };
    let no = row.no.0;
    let others = size(moment, no)?;
    bounds.admit_bytes(others)?;
    let limited = || params![no, bounds.limit()];
    let (input, keep_ms) = origin(moment, no)?;
    let definition = definition(moment, row.definition)?;
    let definition = definition.ok_or_else(|| Error::corrupt("a run without its definition"))?;
    let pins = pins(moment, row.pins)?;
    let pins = pins.ok_or_else(|| Error::corrupt("a run without its pins"))?;
    let snapshot = Snapshot {
        definition,
        pins,
        input,
        output: output(moment, row.no)?,
        keep_ms,
        vars: moment.all(
            sql!(
                "SELECT scope, name, body, meta{, sum|} FROM var WHERE run = ?1 \
                ORDER BY scope, name LIMIT ?2"
            ),
            limited(),
            |row| var(row, no),
        )?,
        scopes: moment.all(
            sql!(
                "SELECT scope, state{, NULL, sum|} FROM scope WHERE run = ?1 \
                ORDER BY scope LIMIT ?2"
            ),
            limited(),
            |row| scope(row, no),
        )?,
        items: moment.all(
            sql!(
                "SELECT list, place, body, meta{, sum|} FROM item WHERE run = ?1 \
                ORDER BY list, place LIMIT ?2"
            ),
            limited(),
            |row| item(row, no),
        )?,
        triggers: moment.all(
            select_trigger!("WHERE run = ?1 ORDER BY no LIMIT ?2"),
            limited(),
            |row| rows::trigger(row),
        )?,
        executions: executions(moment, no, bounds, others)?,
        journal: moment.all(
            sql!(
                "SELECT at_ms, kind, detail FROM journal WHERE run = ?1 AND kind <> 'event' \
                ORDER BY version, place LIMIT ?2"
            ),
            limited(),
            entry,
        )?,
        events: events(moment, row.no, 0, bounds.limit())?,
        bookmarks: moment.all(
            select_bookmark!("WHERE b.run = ?1 ORDER BY b.no LIMIT ?2"),
            limited(),
            |row| Ok(bookmark_of(row)?.bookmark),
        )?,
        names: moment.all(
            sql!(
                "SELECT id, trigger, request, closed FROM external_trigger WHERE run = ?1 \
                ORDER BY trigger LIMIT ?2"
            ),
            limited(),
            name,
        )?,
        children: children(moment, no, bounds.limit())?,
        blobs: moment.all(
            sql!(
                "SELECT b.digest, b.content FROM blob_ref r CROSS JOIN blob b ON b.no = r.blob \
                WHERE r.run = ?1 ORDER BY b.digest LIMIT ?2"
            ),
            limited(),
            blob,
        )?,
        row,
    };
    snapshot.admitted(bounds).map(Some)
}

/// The size of a run in bytes, without its execution records.
fn size(moment: &impl Source, no: i64) -> Result<u64> {
    let sql = sql!(
        "SELECT CAST(octet_length(i.state) + coalesce(octet_length(i.output), 0) \
        + coalesce((SELECT octet_length(input) FROM origin WHERE run = i.no), 0) \
        + coalesce((SELECT sum(octet_length(detail) + coalesce(octet_length(payload), 0)) \
            FROM trigger WHERE run = i.no), 0) \
        + coalesce((SELECT sum(octet_length(body)) FROM var WHERE run = i.no), 0) \
        + coalesce((SELECT sum(octet_length(state)) FROM scope WHERE run = i.no), 0) \
        + coalesce((SELECT sum(octet_length(body)) FROM item WHERE run = i.no), 0) \
        + coalesce((SELECT sum(octet_length(detail)) FROM journal WHERE run = i.no), 0) \
        + coalesce((SELECT sum(octet_length(matches) + coalesce(octet_length(metadata), 0)) \
            FROM bookmark WHERE run = i.no), 0) \
        + coalesce((SELECT sum(octet_length(b.content)) FROM blob_ref r CROSS JOIN blob b \
            ON b.no = r.blob WHERE r.run = i.no), 0) AS bigint) \
        FROM run i WHERE i.no = ?1"
    );
    let size = moment.one(sql, params![no], |row| unsigned(row, 0))?;
    Ok(size.unwrap_or_default())
}

fn origin(moment: &impl Source, no: i64) -> Result<(Payload, Option<u64>)> {
    let sql = sql!("SELECT keep_ms, input, input_meta{, sum|} FROM origin WHERE run = ?1");
    let origin = moment.one(sql, params![no], |row| {
        let keep_ms = int_if_any(row, 0)?;
        let input = summed(row, 1, Of::Input, [no, 0, 0], "")?;
        Ok((input, keep_ms.map(i64::cast_unsigned)))
    })?;
    let (input, keep_ms) = origin.unwrap_or_default();
    Ok((input.unwrap_or_else(Payload::null), keep_ms))
}

fn var(row: &dyn Row, no: i64) -> Result<(ScopeNo, String, Payload)> {
    let (scope, name) = (int(row, 0)?, text(row, 1)?);
    let value = summed(row, 2, Of::Var, [no, scope, 0], &name)?;
    let value = value.unwrap_or_else(Payload::null);
    Ok((ScopeNo(scope.cast_unsigned()), name, value))
}

fn scope(row: &dyn Row, no: i64) -> Result<(ScopeNo, Bytes)> {
    let scope = int(row, 0)?;
    check(row, 1, Of::Scope, [no, scope, 0], "")?;
    Ok((ScopeNo(scope.cast_unsigned()), bytes(row, 1)?))
}

fn item(row: &dyn Row, no: i64) -> Result<NewItem> {
    let (list, index) = (int(row, 0)?, small(row, 1)?);
    let output = summed(row, 2, Of::Item, [no, list, i64::from(index)], "")?;
    Ok(NewItem {
        list: Seq(list.cast_unsigned()),
        index,
        output: output.unwrap_or_else(Payload::null),
    })
}

/// The newest execution records, up to the bound for all data of the run.
fn executions(
    moment: &impl Source,
    no: i64,
    bounds: Bounds,
    others: u64,
) -> Result<Vec<ExecutionRow>> {
    let sql = select_execution!(
        "WITH RECURSIVE walk (no, place, bytes) AS ( \
            SELECT last_execution, CAST(1 AS bigint), CAST(0 AS bigint) FROM run WHERE no = ?1 \
            UNION ALL \
            SELECT r.previous, place + 1, bytes + coalesce(octet_length(r.output), 0) \
                + coalesce(octet_length(r.inputs), 0) + coalesce(octet_length(r.event), 0) \
            FROM walk CROSS JOIN execution r ON r.no = walk.no WHERE place < ?2) ",
        "FROM walk CROSS JOIN execution r ON r.no = walk.no \
        WHERE walk.bytes + coalesce(octet_length(r.output), 0) \
            + coalesce(octet_length(r.inputs), 0) + coalesce(octet_length(r.event), 0) <= ?3 \
        ORDER BY walk.place LIMIT ?2"
    );
    let rest = bounds.rest(others);
    moment.all(sql, params![no, bounds.executions, rest], |row| {
        rows::execution(row)
    })
}

fn name(row: &dyn Row) -> Result<TriggerName> {
    Ok(TriggerName {
        id: TriggerId(uuid(row, 0)?),
        trigger: TriggerNo(int(row, 1)?),
        request: digest(row, 2)?,
        closed: flag(row, 3)?,
    })
}

fn children(moment: &impl Source, no: i64, limit: u32) -> Result<u32> {
    let sql = sql!(
        "SELECT count(*) FROM (SELECT 1 FROM origin o CROSS JOIN run i \
        ON i.no = o.run WHERE o.parent = ?1 AND i.status < 4 LIMIT ?2) AS open"
    );
    let count = moment.one(sql, params![no, limit], |row| small(row, 0))?;
    Ok(count.unwrap_or_default())
}

fn blob(row: &dyn Row) -> Result<NewBlob> {
    Ok(NewBlob {
        digest: digest(row, 0)?,
        bytes: bytes(row, 1)?,
    })
}
