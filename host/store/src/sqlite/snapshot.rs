//! Reading an instance as a whole, in one transaction.

use rusqlite::{Connection, Result as Sql, Row};
use uuid::Uuid;
use windlass_model::{Digest, InstanceId, Payload, RunNo, ScopeNo, Seq, TriggerId, TriggerNo};

use super::read::{all, one};
use super::rows::{self, select_instance, select_run, select_trigger};
use super::stimuli::{self, select_bookmark};
use super::sums::{self, Of};
use super::values::{digest, read_summed, some_bytes, unsigned};
use crate::error::Result;
use crate::rows::{DefinitionRow, JournalRow, NewBlob, PinsRow, RunRow};
use crate::transfer::{Bounds, Snapshot, TriggerName};
use crate::write::NewItem;

/// How many bytes an instance holds, besides its run records.
const BYTES: &str = "SELECT length(i.state) + coalesce(length(i.output), 0) \
    + coalesce((SELECT length(input) FROM origin WHERE instance = ?1), 0) \
    + (SELECT coalesce(sum(length(detail) + coalesce(length(payload), 0)), 0) \
        FROM trigger WHERE instance = ?1) \
    + (SELECT coalesce(sum(coalesce(length(body), 0)), 0) FROM var WHERE instance = ?1) \
    + (SELECT coalesce(sum(length(state)), 0) FROM scope WHERE instance = ?1) \
    + (SELECT coalesce(sum(coalesce(length(body), 0)), 0) FROM item WHERE instance = ?1) \
    + (SELECT coalesce(sum(length(detail)), 0) FROM journal WHERE instance = ?1) \
    + (SELECT coalesce(sum(length(matches) + coalesce(length(metadata), 0)), 0) \
        FROM bookmark WHERE instance = ?1) \
    + (SELECT coalesce(sum(length(b.content)), 0) FROM blob_ref r CROSS JOIN blob b \
        ON b.no = r.blob WHERE r.instance = ?1) \
    FROM instance i WHERE i.no = ?1";

/// One moment of an instance, unless it is too large.
pub(super) fn snapshot(
    c: &Connection,
    id: InstanceId,
    bounds: Bounds,
) -> Sql<Option<Result<Snapshot>>> {
    // It is rolled back when it goes, which is all that a reader's transaction needs.
    let moment = c.unchecked_transaction()?;
    let sql = select_instance!("WHERE i.id = ?1");
    let Some(row) = one(&moment, sql, [&id.0.as_bytes()[..]], rows::instance)? else {
        return Ok(None);
    };
    let no = row.no.0;
    let bytes = one(&moment, BYTES, [no], |row| unsigned(row, 0))?.unwrap_or_default();
    if let Err(error) = bounds.admit_bytes(bytes) {
        return Ok(Some(Err(error)));
    }
    let (input, keep_ms) = origin(&moment, no)?;
    let limit = bounds.limit();
    let snapshot = Snapshot {
        definition: definition(&moment, row.definition)?,
        pins: pins(&moment, row.pins)?,
        input,
        output: output(&moment, no)?,
        keep_ms,
        vars: vars(&moment, no, limit)?,
        scopes: scopes(&moment, no, limit)?,
        items: items(&moment, no, limit)?,
        triggers: all(
            &moment,
            select_trigger!("WHERE instance = ?1 ORDER BY no LIMIT ?2"),
            (no, limit),
            rows::trigger,
        )?,
        runs: runs(&moment, row.last_run, bounds)?,
        journal: journal(&moment, no, limit)?,
        bookmarks: bookmarks(&moment, no, limit)?,
        names: names(&moment, no, limit)?,
        children: children(&moment, no, limit)?,
        blobs: blobs(&moment, no, limit)?,
        row,
    };
    Ok(Some(snapshot.admitted(bounds)))
}

fn origin(c: &Connection, no: i64) -> Sql<(Payload, Option<u64>)> {
    let sql = "SELECT input, input_meta, sum, keep_ms FROM origin WHERE instance = ?1";
    let origin = one(c, sql, [no], |row| {
        let keep_ms: Option<i64> = row.get(3)?;
        let input = read_summed(row, 0, Of::Input, [no, 0, 0], "")?;
        Ok((input, keep_ms.map(i64::cast_unsigned)))
    })?;
    let (input, keep_ms) = origin.unwrap_or_default();
    Ok((input.unwrap_or_else(Payload::null), keep_ms))
}

fn output(c: &Connection, no: i64) -> Sql<Option<Payload>> {
    let sql = "SELECT output, output_meta, output_sum FROM instance WHERE no = ?1";
    let of = |row: &Row<'_>| read_summed(row, 0, Of::Output, [no, 0, 0], "");
    Ok(one(c, sql, [no], of)?.flatten())
}

fn definition(c: &Connection, wanted: Digest) -> Sql<DefinitionRow> {
    let sql = "SELECT name, json FROM definition WHERE digest = ?1";
    c.prepare_cached(sql)?.query_row([&wanted.0[..]], |row| {
        Ok(DefinitionRow {
            digest: wanted,
            name: row.get(0)?,
            json: some_bytes(row, 1)?,
        })
    })
}

fn pins(c: &Connection, wanted: Digest) -> Sql<PinsRow> {
    let sql = "SELECT json FROM pins WHERE digest = ?1";
    c.prepare_cached(sql)?.query_row([&wanted.0[..]], |row| {
        let (digest, json) = (wanted, some_bytes(row, 0)?);
        Ok(PinsRow { digest, json })
    })
}

fn vars(c: &Connection, no: i64, limit: u32) -> Sql<Vec<(ScopeNo, String, Payload)>> {
    let sql = "SELECT scope, name, body, meta, sum FROM var WHERE instance = ?1 \
        ORDER BY scope, name LIMIT ?2";
    all(c, sql, (no, limit), |row| {
        let (scope, name): (i64, String) = (row.get(0)?, row.get(1)?);
        let value = read_summed(row, 2, Of::Var, [no, scope, 0], &name)?;
        let value = value.unwrap_or_else(Payload::null);
        Ok((ScopeNo(scope.cast_unsigned()), name, value))
    })
}

fn scopes(c: &Connection, no: i64, limit: u32) -> Sql<Vec<(ScopeNo, bytes::Bytes)>> {
    let sql =
        "SELECT scope, state, NULL, sum FROM scope WHERE instance = ?1 ORDER BY scope LIMIT ?2";
    all(c, sql, (no, limit), |row| {
        let scope: i64 = row.get(0)?;
        sums::check(row, 1, Of::Scope, [no, scope, 0], "")?;
        Ok((ScopeNo(scope.cast_unsigned()), some_bytes(row, 1)?))
    })
}

fn items(c: &Connection, no: i64, limit: u32) -> Sql<Vec<NewItem>> {
    let sql = "SELECT list, place, body, meta, sum FROM item WHERE instance = ?1 \
        ORDER BY list, place LIMIT ?2";
    all(c, sql, (no, limit), |row| {
        let (list, index): (i64, u32) = (row.get(0)?, row.get(1)?);
        let output = read_summed(row, 2, Of::Item, [no, list, i64::from(index)], "")?;
        Ok(NewItem {
            list: Seq(list.cast_unsigned()),
            index,
            output: output.unwrap_or_else(Payload::null),
        })
    })
}

/// The newest records, as many as are allowed.
fn runs(c: &Connection, last: Option<RunNo>, bounds: Bounds) -> Sql<Vec<RunRow>> {
    let (mut next, mut found, mut left) = (last, Vec::new(), bounds.bytes);
    while let Some(no) = next.filter(|_| found.len() < bounds.runs as usize) {
        let Some(run) = one(c, select_run!("WHERE no = ?1"), [no.0], rows::run)? else {
            break;
        };
        let output = run.output.as_ref().and_then(Payload::inline);
        let bytes = output.map_or(0, |bytes| bytes.len() as u64);
        if bytes > left {
            break;
        }
        left -= bytes;
        next = run.previous;
        found.push(run);
    }
    Ok(found)
}

fn journal(c: &Connection, no: i64, limit: u32) -> Sql<Vec<JournalRow>> {
    let sql = "SELECT at_ms, kind, detail FROM journal WHERE instance = ?1 \
        ORDER BY version, place LIMIT ?2";
    all(c, sql, (no, limit), |row| {
        let (at_ms, kind) = (row.get(0)?, row.get(1)?);
        Ok(JournalRow {
            at_ms,
            kind,
            detail: some_bytes(row, 2)?,
        })
    })
}

fn bookmarks(c: &Connection, no: i64, limit: u32) -> Sql<Vec<crate::stimuli::NewBookmark>> {
    let sql = select_bookmark!("WHERE b.instance = ?1 ORDER BY b.no LIMIT ?2");
    let found = all(c, sql, (no, limit), stimuli::bookmark)?;
    Ok(found.into_iter().map(|row| row.bookmark).collect())
}

fn names(c: &Connection, no: i64, limit: u32) -> Sql<Vec<TriggerName>> {
    let sql = "SELECT id, trigger, request, closed FROM outside WHERE instance = ?1 \
        ORDER BY trigger LIMIT ?2";
    all(c, sql, (no, limit), |row| {
        Ok(TriggerName {
            id: TriggerId(Uuid::from_bytes(row.get(0)?)),
            trigger: TriggerNo(row.get(1)?),
            request: digest(row, 2)?,
            closed: row.get(3)?,
        })
    })
}

fn children(c: &Connection, no: i64, limit: u32) -> Sql<u32> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM origin o CROSS JOIN instance i \
        ON i.no = o.instance WHERE o.parent = ?1 AND i.status < 4 LIMIT ?2)";
    c.prepare_cached(sql)?
        .query_row((no, limit), |row| row.get(0))
}

fn blobs(c: &Connection, no: i64, limit: u32) -> Sql<Vec<NewBlob>> {
    let sql = "SELECT b.digest, b.content FROM blob_ref r CROSS JOIN blob b ON b.no = r.blob \
        WHERE r.instance = ?1 ORDER BY b.digest LIMIT ?2";
    all(c, sql, (no, limit), |row| {
        let (digest, bytes) = (digest(row, 0)?, some_bytes(row, 1)?);
        Ok(NewBlob { digest, bytes })
    })
}
