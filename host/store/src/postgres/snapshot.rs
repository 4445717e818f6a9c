//! Reading an instance as a whole, in one transaction.

use tokio_postgres::Row;
use windlass_model::{InstanceId, Payload, ScopeNo, Seq, TriggerId, TriggerNo};

use super::pool::ReadPool;
use super::rows::{self, select_instance, select_trigger};
use super::stimuli::{self, select_bookmark};
use super::values::{
    Param, digest, get, params, read_payload, small, some_bytes, some_payload, unsigned, uuid,
};
use crate::error::Result;
use crate::rows::{DefinitionRow, JournalRow, NewBlob, PinsRow};
use crate::transfer::{Bounds, Snapshot, TriggerName};
use crate::write::NewItem;

/// How many bytes an instance holds, besides its run records.
const BYTES: &str = "SELECT (octet_length(i.state) + coalesce(octet_length(i.output), 0) \
    + coalesce((SELECT octet_length(input) FROM origin WHERE instance = i.no), 0) \
    + coalesce((SELECT sum(octet_length(detail) + coalesce(octet_length(payload), 0)) \
        FROM trigger WHERE instance = i.no), 0) \
    + coalesce((SELECT sum(octet_length(body)) FROM var WHERE instance = i.no), 0) \
    + coalesce((SELECT sum(octet_length(state)) FROM scope WHERE instance = i.no), 0) \
    + coalesce((SELECT sum(octet_length(body)) FROM item WHERE instance = i.no), 0) \
    + coalesce((SELECT sum(octet_length(detail)) FROM journal WHERE instance = i.no), 0) \
    + coalesce((SELECT sum(octet_length(matches) + coalesce(octet_length(metadata), 0)) \
        FROM bookmark WHERE instance = i.no), 0) \
    + coalesce((SELECT sum(octet_length(b.content)) FROM blob_ref r JOIN blob b \
        ON b.no = r.blob WHERE r.instance = i.no), 0))::bigint \
    FROM instance i WHERE i.id = $1";

const ORIGIN: &str = "SELECT o.input, o.input_meta, o.keep_ms, i.output, i.output_meta, \
    d.name, d.json, p.json FROM instance i JOIN origin o ON o.instance = i.no \
    JOIN definition d ON d.no = i.definition JOIN pins p ON p.no = i.pins WHERE i.id = $1";
const VARS: &str = "SELECT scope, name, body, meta FROM var \
    WHERE instance = (SELECT no FROM instance WHERE id = $1) ORDER BY scope, name LIMIT $2";
const SCOPES: &str = "SELECT scope, state FROM scope \
    WHERE instance = (SELECT no FROM instance WHERE id = $1) ORDER BY scope LIMIT $2";
const ITEMS: &str = "SELECT list, place, body, meta FROM item \
    WHERE instance = (SELECT no FROM instance WHERE id = $1) ORDER BY list, place LIMIT $2";
const JOURNAL: &str = "SELECT at_ms, kind, detail FROM journal \
    WHERE instance = (SELECT no FROM instance WHERE id = $1) ORDER BY version, place LIMIT $2";
const NAMES: &str = "SELECT id, trigger, request, closed FROM outside \
    WHERE instance = (SELECT no FROM instance WHERE id = $1) ORDER BY trigger LIMIT $2";
const CHILDREN: &str = "SELECT count(*) FROM (SELECT 1 FROM origin o JOIN instance i \
    ON i.no = o.instance WHERE o.parent = (SELECT no FROM instance WHERE id = $1) \
    AND i.status < 4 LIMIT $2) AS open";
const BLOBS: &str = "SELECT b.digest, b.content FROM blob_ref r JOIN blob b ON b.no = r.blob \
    WHERE r.instance = (SELECT no FROM instance WHERE id = $1) ORDER BY b.digest LIMIT $2";
/// The newest records, as many as are allowed.
const RUNS: &str = "WITH RECURSIVE walk (no, place, bytes) AS ( \
        SELECT last_run, 1::bigint, 0::bigint FROM instance WHERE id = $1 \
        UNION ALL \
        SELECT r.previous, place + 1, bytes + coalesce(octet_length(r.output), 0) \
        FROM walk JOIN run r ON r.no = walk.no WHERE place < $2) \
    SELECT r.no, r.instance, r.previous, r.seq, r.first, r.node, r.kind, r.attempt, \
        r.status, r.started_ms, r.took_us, r.failure, r.logs, r.skipped, r.output, \
        r.output_meta \
    FROM walk JOIN run r ON r.no = walk.no \
    WHERE walk.bytes + coalesce(octet_length(r.output), 0) <= $3 \
    ORDER BY walk.place LIMIT $2";

/// One moment of an instance, unless it is too large.
pub(super) fn snapshot(
    pool: &ReadPool,
    id: InstanceId,
    bounds: Bounds,
) -> Result<Option<Snapshot>> {
    let id = || Box::new(id.0.as_bytes().to_vec()) as Param;
    let limit = || Box::new(i64::from(bounds.limit())) as Param;
    let bytes = i64::try_from(bounds.bytes).unwrap_or(i64::MAX);
    let limited = |sql| (sql, vec![id(), limit()]);
    let mut runs = params![i64::from(bounds.runs), bytes];
    runs.insert(0, id());
    let fits = move |rows: &[Row]| {
        let bytes = rows.first().map(bytes_of);
        bytes.is_some_and(|bytes| bytes.is_ok_and(|bytes| bounds.admit_bytes(bytes).is_ok()))
    };
    let statements = vec![
        (BYTES, vec![id()]),
        (select_instance!("WHERE i.id = $1"), vec![id()]),
        (ORIGIN, vec![id()]),
        limited(VARS),
        limited(SCOPES),
        limited(ITEMS),
        limited(select_trigger!(
            "WHERE instance = (SELECT no FROM instance WHERE id = $1) ORDER BY no LIMIT $2"
        )),
        (RUNS, runs),
        limited(JOURNAL),
        limited(select_bookmark!("WHERE i.id = $1 ORDER BY b.no LIMIT $2")),
        limited(NAMES),
        limited(CHILDREN),
        limited(BLOBS),
    ];
    let read = pool.moment(statements, fits)?;
    let mut parts = read.iter().map(Vec::as_slice);
    let mut next = || parts.next().unwrap_or_default();
    if let Some(row) = next().first() {
        bounds.admit_bytes(bytes_of(row)?)?;
    }
    // One that is deleted has an id, and nothing else.
    let (Some(head), Some(origin)) = (next().first(), next().first()) else {
        return Ok(None);
    };
    let row = rows::instance(head)?;
    let keep_ms: Option<i64> = get(origin, 2)?;
    let snapshot = Snapshot {
        definition: DefinitionRow {
            digest: row.definition,
            name: get(origin, 5)?,
            json: some_bytes(origin, 6)?,
        },
        pins: PinsRow {
            digest: row.pins,
            json: some_bytes(origin, 7)?,
        },
        row,
        input: some_payload(origin, 0)?,
        output: read_payload(origin, 3)?,
        keep_ms: keep_ms.map(i64::cast_unsigned),
        vars: each(next(), var)?,
        scopes: each(next(), |row| {
            Ok((ScopeNo(unsigned(row, 0)?), some_bytes(row, 1)?))
        })?,
        items: each(next(), item)?,
        triggers: each(next(), rows::trigger)?,
        runs: each(next(), rows::run)?,
        journal: each(next(), entry)?,
        bookmarks: each(next(), |row| Ok(stimuli::bookmark(row)?.bookmark))?,
        names: each(next(), name)?,
        children: match next().first() {
            Some(row) => small(row, 0)?,
            None => 0,
        },
        blobs: each(next(), |row| {
            let (digest, bytes) = (digest(row, 0)?, some_bytes(row, 1)?);
            Ok(NewBlob { digest, bytes })
        })?,
    };
    snapshot.admitted(bounds).map(Some)
}

fn each<T>(rows: &[Row], read: impl FnMut(&Row) -> Result<T>) -> Result<Vec<T>> {
    rows.iter().map(read).collect()
}

fn bytes_of(row: &Row) -> Result<u64> {
    get::<i64>(row, 0).map(i64::cast_unsigned)
}

fn var(row: &Row) -> Result<(ScopeNo, String, Payload)> {
    Ok((
        ScopeNo(unsigned(row, 0)?),
        get(row, 1)?,
        some_payload(row, 2)?,
    ))
}

fn item(row: &Row) -> Result<NewItem> {
    Ok(NewItem {
        list: Seq(unsigned(row, 0)?),
        index: small(row, 1)?,
        output: some_payload(row, 2)?,
    })
}

fn entry(row: &Row) -> Result<JournalRow> {
    Ok(JournalRow {
        at_ms: get(row, 0)?,
        kind: get(row, 1)?,
        detail: some_bytes(row, 2)?,
    })
}

fn name(row: &Row) -> Result<TriggerName> {
    Ok(TriggerName {
        id: TriggerId(uuid(row, 0)?),
        trigger: TriggerNo(get(row, 1)?),
        request: digest(row, 2)?,
        closed: get(row, 3)?,
    })
}
