//! The readers of stores in tables, written once for both databases.
//!
//! Each reader is one statement, which sees one moment. The few that need an index which only one
//! database has belong to that backend ([`Tables`]).

use bytes::Bytes;
use windlass_model::{
    BlobRef, Digest, ExecutionNo, Incarnation, Payload, RunId, RunNo, ScopeNo, Seq, Status,
    TriggerId, TriggerNo, Version,
};

use super::row::{
    bytes, check, flag, int, run_unless_gone, small, summed, text, text_if_any, unsigned, variant,
};
use super::rows::{self, select_execution, select_run, select_trigger};
use super::{Moments, Row, Source, Sql, params, sql};
use crate::error::Result;
use crate::external::{DuePlace, DueQuery, ExternalRow, TriggerTarget};
use crate::prefix;
use crate::read::{Backlog, Counts};
use crate::retention::ExpiredRow;
use crate::rows::{
    DefinitionRow, ExecutionRow, JournalRow, MemberRow, PinsRow, RunRow, TriggerRow,
};
use crate::sums::Of;

/// A store whose rows are in tables.
pub(crate) trait InTables {
    type Tables: Tables;

    /// The tables of the store.
    fn tables(&self) -> &Self::Tables;
}

/// The tables of a store.
pub(crate) trait Tables: Source + Moments {
    /// See [`Reader::due`](crate::Reader::due).
    fn due(&self, query: &DueQuery) -> Result<Vec<TriggerRow>>;

    /// See [`Reader::backlog`](crate::Reader::backlog).
    fn backlog(&self, now_ms: i64, limit: u32) -> Result<Backlog>;

    /// See [`Reader::blob_part`](crate::Reader::blob_part).
    fn blob_part(&self, blob: BlobRef, from: u32, limit: u32) -> Result<Option<Bytes>>;
}

/// Reads a journal entry.
pub(crate) fn entry(row: &dyn Row) -> Result<JournalRow> {
    Ok(JournalRow {
        at_ms: int(row, 0)?,
        kind: text(row, 1)?,
        detail: bytes(row, 2)?,
    })
}

/// Reads the payload with its checksum that a statement finds by a key.
fn one_payload(source: &impl Source, sql: Sql, of: Of, key: i64) -> Result<Option<Payload>> {
    let found = source.one(sql, params![key], |row| summed(row, 0, of, [key, 0, 0], ""))?;
    Ok(found.flatten())
}

pub(crate) fn output(source: &impl Source, run: RunNo) -> Result<Option<Payload>> {
    let sql = sql!("SELECT output, output_meta{, output_sum|} FROM run WHERE no = ?1");
    one_payload(source, sql, Of::Output, run.0)
}

pub(crate) fn definition(source: &impl Source, wanted: Digest) -> Result<Option<DefinitionRow>> {
    let sql = sql!("SELECT name, json FROM definition WHERE digest = ?1");
    source.one(sql, params![wanted], |row| {
        Ok(DefinitionRow {
            digest: wanted,
            name: text(row, 0)?,
            json: bytes(row, 1)?,
        })
    })
}

pub(crate) fn pins(source: &impl Source, wanted: Digest) -> Result<Option<PinsRow>> {
    let sql = sql!("SELECT json FROM pins WHERE digest = ?1");
    source.one(sql, params![wanted], |row| {
        Ok(PinsRow {
            digest: wanted,
            json: bytes(row, 0)?,
        })
    })
}

pub(crate) fn run(tables: &impl Source, id: RunId) -> Result<Option<RunRow>> {
    let sql = select_run!("WHERE i.id = ?1");
    tables.one(sql, params![id], |row| rows::run(row))
}

pub(crate) fn run_by_no(tables: &impl Source, no: RunNo) -> Result<Option<RunRow>> {
    let sql = select_run!("WHERE i.no = ?1");
    tables.one(sql, params![no.0], |row| rows::run(row))
}

pub(crate) fn versions(
    tables: &impl Source,
    runs: &[RunNo],
) -> Result<Vec<(RunNo, Version, Status)>> {
    let sql = sql!(
        "SELECT no, version, status FROM run \
         WHERE no {IN (SELECT value FROM json_each(?1))|= ANY(?1)}"
    );
    let runs: Vec<i64> = runs.iter().map(|no| no.0).collect();
    tables.all(sql, params![runs], |row| {
        let (no, version) = (RunNo(int(row, 0)?), Version(int(row, 1)?));
        Ok((no, version, variant(row, 2, Status::from_stored)?))
    })
}

pub(crate) fn runs_by_prefix(
    tables: &impl Source,
    prefix: &str,
    limit: u32,
) -> Result<Vec<RunRow>> {
    let Some((first, last)) = prefix::range(prefix) else {
        return Ok(Vec::new());
    };
    let sql = select_run!("WHERE i.id BETWEEN ?1 AND ?2 ORDER BY i.id LIMIT ?3");
    let key = params![&first[..], &last[..], limit];
    tables.all(sql, key, |row| rows::run(row))
}

pub(crate) fn input(tables: &impl Source, run: RunNo) -> Result<Option<Payload>> {
    let sql = sql!("SELECT input, input_meta{, sum|} FROM origin WHERE run = ?1");
    one_payload(tables, sql, Of::Input, run.0)
}

pub(crate) fn vars(
    tables: &impl Source,
    run: RunNo,
    scope: ScopeNo,
) -> Result<Vec<(String, Payload)>> {
    let sql = sql!(
        "SELECT name, body, meta{, sum|} FROM var WHERE run = ?1 AND scope = ?2 \
        ORDER BY name"
    );
    let (run, scope) = (run.0, scope.0.cast_signed());
    tables.all(sql, params![run, scope], |row| {
        let name = text(row, 0)?;
        let value = summed(row, 1, Of::Var, [run, scope, 0], &name)?;
        Ok((name, value.unwrap_or_else(Payload::null)))
    })
}

pub(crate) fn vars_after(
    tables: &impl Source,
    run: RunNo,
    scope: ScopeNo,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<(String, Payload)>> {
    let sql = sql!(
        "SELECT name, body, meta{, sum|} FROM var WHERE run = ?1 AND scope = ?2 \
        AND (CAST(?3 AS text) IS NULL OR name > ?3) ORDER BY name LIMIT ?4"
    );
    let (run, scope) = (run.0, scope.0.cast_signed());
    tables.all(sql, params![run, scope, after, limit], |row| {
        let name = text(row, 0)?;
        let value = summed(row, 1, Of::Var, [run, scope, 0], &name)?;
        Ok((name, value.unwrap_or_else(Payload::null)))
    })
}

pub(crate) fn var(
    tables: &impl Source,
    run: RunNo,
    scope: ScopeNo,
    name: &str,
) -> Result<Option<Payload>> {
    let sql =
        sql!("SELECT body, meta{, sum|} FROM var WHERE run = ?1 AND scope = ?2 AND name = ?3");
    let (run, scope) = (run.0, scope.0.cast_signed());
    let found = tables.one(sql, params![run, scope, name], |row| {
        let value = summed(row, 0, Of::Var, [run, scope, 0], name)?;
        Ok(value.unwrap_or_else(Payload::null))
    })?;
    Ok(found)
}

pub(crate) fn scopes(tables: &impl Source, run: RunNo) -> Result<Vec<(ScopeNo, Bytes)>> {
    let sql = sql!("SELECT scope, state{, NULL, sum|} FROM scope WHERE run = ?1 ORDER BY scope");
    tables.all(sql, params![run.0], |row| {
        let scope = int(row, 0)?;
        check(row, 1, Of::Scope, [run.0, scope, 0], "")?;
        Ok((ScopeNo(scope.cast_unsigned()), bytes(row, 1)?))
    })
}

pub(crate) fn items(
    tables: &impl Source,
    run: RunNo,
    list: Seq,
    from: u32,
    limit: u32,
) -> Result<Vec<(u32, Payload)>> {
    let sql = sql!(
        "SELECT place, body, meta{, sum|} FROM item WHERE run = ?1 AND list = ?2 \
        AND place >= ?3 ORDER BY place LIMIT ?4"
    );
    let (run, list) = (run.0, list.0.cast_signed());
    let key = params![run, list, from, limit];
    tables.all(sql, key, |row| {
        let place = small(row, 0)?;
        let output = summed(row, 1, Of::Item, [run, list, i64::from(place)], "")?;
        Ok((place, output.unwrap_or_else(Payload::null)))
    })
}

pub(crate) fn execution(tables: &impl Source, no: ExecutionNo) -> Result<Option<ExecutionRow>> {
    let sql = select_execution!("", "FROM execution r WHERE r.no = ?1");
    tables.one(sql, params![no.0], |row| rows::execution(row))
}

pub(crate) fn execution_output(tables: &impl Source, no: ExecutionNo) -> Result<Option<Payload>> {
    let sql = sql!("SELECT output, output_meta{, sum|} FROM execution WHERE no = ?1");
    one_payload(tables, sql, Of::Execution, no.0)
}

pub(crate) fn executions(
    tables: &impl Source,
    run: RunNo,
    before: Option<ExecutionNo>,
    limit: u32,
) -> Result<Vec<ExecutionRow>> {
    // Each record names the previous one.
    let sql = select_execution!(
        "WITH RECURSIVE walk (no, place) AS ( \
            SELECT CASE WHEN CAST(?2 AS bigint) IS NULL \
                THEN (SELECT last_execution FROM run WHERE no = ?1) \
                ELSE (SELECT previous FROM execution WHERE no = ?2 AND run = ?1) END, \
                CAST(1 AS bigint) \
            UNION ALL \
            SELECT r.previous, place + 1 FROM walk CROSS JOIN execution r ON r.no = walk.no \
            WHERE place < ?3) ",
        "FROM walk CROSS JOIN execution r ON r.no = walk.no ORDER BY walk.place LIMIT ?3"
    );
    let key = params![run.0, before.map(|no| no.0), limit];
    tables.all(sql, key, |row| rows::execution(row))
}

pub(crate) fn journal(tables: &impl Source, run: RunNo) -> Result<Vec<JournalRow>> {
    let sql = sql!(
        "SELECT at_ms, kind, detail FROM journal WHERE run = ?1 AND kind <> 'event' \
        ORDER BY version, place"
    );
    tables.all(sql, params![run.0], entry)
}

pub(crate) fn journal_after(
    tables: &impl Source,
    run: RunNo,
    skip: u32,
    limit: u32,
) -> Result<Vec<JournalRow>> {
    let sql = sql!(
        "SELECT at_ms, kind, detail FROM journal WHERE run = ?1 AND kind <> 'event' \
        ORDER BY version, place LIMIT ?3 OFFSET ?2"
    );
    tables.all(sql, params![run.0, skip, limit], entry)
}

pub(crate) fn events(
    tables: &impl Source,
    run: RunNo,
    skip: u32,
    limit: u32,
) -> Result<Vec<JournalRow>> {
    let sql = sql!(
        "SELECT at_ms, kind, detail FROM journal WHERE run = ?1 AND kind = 'event' \
        ORDER BY version, place LIMIT ?3 OFFSET ?2"
    );
    tables.all(sql, params![run.0, skip, limit], entry)
}

pub(crate) fn triggers_after(
    tables: &impl Source,
    run: RunNo,
    after: Option<DuePlace>,
    limit: u32,
) -> Result<Vec<TriggerRow>> {
    let sql = select_trigger!(
        "WHERE run = ?1 AND (due_ms > ?2 OR (due_ms = ?2 AND no > ?3)) \
        ORDER BY due_ms, no LIMIT ?4"
    );
    let (due_ms, no) = after.map_or((i64::MIN, i64::MIN), |after| (after.due_ms, after.no.0));
    tables.all(sql, params![run.0, due_ms, no, limit], |row| {
        rows::trigger(row)
    })
}

pub(crate) fn parked(
    tables: &impl Source,
    after: Option<(RunNo, TriggerNo)>,
    limit: u32,
) -> Result<Vec<TriggerRow>> {
    let sql = select_trigger!("WHERE state = 2 AND (run, no) > (?1, ?2) ORDER BY run, no LIMIT ?3");
    let (run, no) = after.unwrap_or((RunNo(i64::MIN), TriggerNo(i64::MIN)));
    tables.all(sql, params![run.0, no.0, limit], |row| rows::trigger(row))
}

pub(crate) fn park_reason(tables: &impl Source, trigger: TriggerNo) -> Result<Option<String>> {
    let sql = sql!("SELECT reason FROM trigger WHERE no = ?1 AND state = 2");
    let reason = tables.one(sql, params![trigger.0], |row| text_if_any(row, 0))?;
    Ok(reason.flatten())
}

pub(crate) fn triggers(tables: &impl Source, run: RunNo) -> Result<Vec<TriggerRow>> {
    // The sequence numbers of external triggers have the top bit set, which is the sign here.
    let sql = select_trigger!("WHERE run = ?1 ORDER BY seq < 0, seq, no");
    tables.all(sql, params![run.0], |row| rows::trigger(row))
}

pub(crate) fn expired(
    tables: &impl Source,
    before_ms: i64,
    now_ms: i64,
    limit: u32,
) -> Result<Vec<ExpiredRow>> {
    // Each half uses an index of its own, and stops at the limit.
    let sql = sql!(
        "SELECT no, id FROM ( \
        SELECT * FROM (SELECT finished_ms AS at_ms, no, id FROM run \
            WHERE finished_ms IS NOT NULL AND extras & 16 = 0 AND finished_ms < ?1 \
            ORDER BY finished_ms, no LIMIT ?3) AS usual \
        UNION ALL SELECT * FROM (SELECT i.finished_ms, i.no, i.id \
            FROM kept k CROSS JOIN run i ON i.no = k.run \
            WHERE k.until_ms < ?2 AND i.finished_ms IS NOT NULL \
            ORDER BY k.until_ms, k.run LIMIT ?3) AS longer) AS expired \
        ORDER BY at_ms, no LIMIT ?3"
    );
    tables.all(sql, params![before_ms, now_ms, limit], |row| {
        Ok(ExpiredRow {
            no: RunNo(int(row, 0)?),
            // Deletion of a run replaces its id by a shorter value.
            id: run_unless_gone(row, 1)?,
        })
    })
}

pub(crate) fn trigger(tables: &impl Source, target: TriggerTarget) -> Result<Option<TriggerRow>> {
    let (run, seq) = match target {
        TriggerTarget::External(name) => {
            return Ok(external(tables, name)?.and_then(|named| named.row));
        }
        TriggerTarget::Row(run, seq) => (run, seq),
    };
    let sql = select_trigger!("WHERE run = ?1 AND seq = ?2 ORDER BY no LIMIT 1");
    tables.one(sql, params![run.0, seq.0.cast_signed()], |row| {
        rows::trigger(row)
    })
}

pub(crate) fn external(tables: &impl Source, id: TriggerId) -> Result<Option<ExternalRow>> {
    // The run of a tombstone has no external triggers.
    let sql = sql!(
        "SELECT o.trigger, o.run, o.closed, i.id FROM external_trigger o \
        JOIN run i ON i.no = o.run \
        JOIN origin g ON g.run = o.run WHERE o.id = ?1"
    );
    let named = tables.one(sql, params![id], |row| {
        let (trigger, run) = (TriggerNo(int(row, 0)?), RunNo(int(row, 1)?));
        let run_id = run_unless_gone(row, 3)?;
        Ok((trigger, run, flag(row, 2)?, run_id))
    })?;
    let Some((no, run, closed, Some(run_id))) = named else {
        return Ok(None);
    };
    let seq = Seq::external(no);
    let sql = select_trigger!("WHERE no = ?1 AND run = ?2 AND seq = ?3");
    let key = params![no.0, run.0, seq.0.cast_signed()];
    Ok(Some(ExternalRow {
        id,
        run,
        run_id,
        seq,
        row: tables.one(sql, key, |row| rows::trigger(row))?,
        closed,
    }))
}

pub(crate) fn due(tables: &impl Tables, query: &DueQuery) -> Result<Vec<TriggerRow>> {
    tables.due(query)
}

pub(crate) fn blob(tables: &impl Source, blob: BlobRef) -> Result<Option<Bytes>> {
    let sql = sql!("SELECT content{, digest, sum|} FROM blob WHERE digest = ?1");
    tables.one(sql, params![blob.digest], |row| {
        check(row, 0, Of::Blob, [0; 3], "")?;
        bytes(row, 0)
    })
}

pub(crate) fn blob_part(
    tables: &impl Tables,
    blob: BlobRef,
    from: u32,
    limit: u32,
) -> Result<Option<Bytes>> {
    tables.blob_part(blob, from, limit)
}

pub(crate) fn members(tables: &impl Source) -> Result<Vec<MemberRow>> {
    let sql = sql!("SELECT incarnation, name, pid, joined_ms FROM member ORDER BY incarnation");
    tables.all(sql, params![], |row| {
        Ok(MemberRow {
            incarnation: Incarnation(int(row, 0)?),
            name: text(row, 1)?,
            pid: small(row, 2)?,
            joined_ms: int(row, 3)?,
        })
    })
}

pub(crate) fn backlog(tables: &impl Tables, now_ms: i64, limit: u32) -> Result<Backlog> {
    tables.backlog(now_ms, limit)
}

pub(crate) fn counts(tables: &impl Source) -> Result<Counts> {
    let sql = sql!(
        "SELECT (SELECT count(*) FROM run), \
        (SELECT count(*) FROM run WHERE status < 4), \
        (SELECT count(*) FROM trigger), \
        (SELECT count(*) FROM trigger WHERE state = 2), \
        (SELECT count(*) FROM execution), (SELECT count(*) FROM blob), \
        (SELECT count(*) FROM bookmark), \
        (SELECT count(*) FROM stimulus WHERE ready_ms IS NOT NULL), \
        (SELECT count(*) FROM stimulus WHERE expires_ms IS NOT NULL), \
        (SELECT count(*) FROM dead_letter)"
    );
    let counts = tables.one(sql, params![], |row| {
        Ok(Counts {
            runs: unsigned(row, 0)?,
            unfinished: unsigned(row, 1)?,
            triggers: unsigned(row, 2)?,
            parked: unsigned(row, 3)?,
            executions: unsigned(row, 4)?,
            blobs: unsigned(row, 5)?,
            bookmarks: unsigned(row, 6)?,
            queued: unsigned(row, 7)?,
            buffered: unsigned(row, 8)?,
            dead_letters: unsigned(row, 9)?,
        })
    })?;
    Ok(counts.unwrap_or_default())
}
