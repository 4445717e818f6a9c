//! How bookmarks, stimuli, dead letters and triggers from outside lie in the tables, and reading
//! them.

use tokio_postgres::Row;
use windlass_model::{
    BookmarkNo, Delivery, Digest, InstanceId, InstanceNo, LetterNo, Seq, StimulusId, StimulusNo,
    TriggerId, TriggerNo, TriggerType,
};

use super::pool::ReadPool;
use super::rows::{self, optional_small, select_trigger};
use super::values::{
    bytes, digest, get, params, read_json, small, some_bytes, some_payload, unsigned, uuid, variant,
};
use crate::columns::StimulusWire;
use crate::error::{Error, Result};
use crate::letters::{DeadTrigger, LetterBody, LetterQuery, LetterRow, NewDeadLetter};
use crate::outside::{DueQuery, OutsideRow, TriggerTarget};
use crate::rows::TriggerRow;
use crate::stimuli::{
    BookmarkQuery, BookmarkRow, BufferedRow, Cursor, NewBookmark, NewStimulus, QueuedRow,
    StimulusQuery,
};

/// Selects a number and what [`stimulus`] reads; to be followed by the rest.
macro_rules! select_stimulus {
    ($rest:literal) => {
        concat!(
            "SELECT no, id, name, matches, hash, correlation, instance, delivery, ttl_ms, at_ms, ",
            "input, input_meta, expires_ms, ready_ms, source, after_no, until_no, attempts, ",
            "last_error FROM stimulus ",
            $rest
        )
    };
}
pub(super) use select_stimulus;

/// Selects what [`letter`] reads; to be followed by the rest.
macro_rules! select_letter {
    ($rest:literal) => {
        concat!(
            "SELECT l.no, l.kind, l.reason, l.at_ms, l.failure, l.instance, l.seq, l.trigger, ",
            "l.node, l.priority, l.payload, l.detail, l.stimulus, l.input, l.input_meta, ",
            "l.replayed_ms, i.id FROM dead_letter l LEFT JOIN (origin o JOIN instance i ",
            // Without an origin it is deleted, or being forgotten.
            "ON i.no = o.instance) ON o.instance = l.instance ",
            $rest
        )
    };
}
pub(super) use select_letter;

/// Selects what [`bookmark`] reads; to be followed by the rest.
macro_rules! select_bookmark {
    ($rest:literal) => {
        concat!(
            "SELECT b.no, b.instance, i.id, b.first, b.trigger, b.phase, b.name, b.hash, ",
            "b.matches, b.correlation, b.private, b.auto_burn, b.metadata, b.token, ",
            "b.expires_ms, b.created_ms FROM bookmark b JOIN instance i ON i.no = b.instance ",
            $rest
        )
    };
}
pub(super) use select_bookmark;

/// The stimulus in the columns from `column` on, without its blobs.
pub(super) fn stimulus(row: &Row, column: usize) -> Result<NewStimulus> {
    let instance = match get::<Option<&[u8]>>(row, column + 5)? {
        Some(_) => Some(InstanceId(uuid(row, column + 5)?)),
        None => None,
    };
    Ok(NewStimulus {
        id: StimulusId(uuid(row, column)?),
        name: get(row, column + 1)?,
        matches: some_bytes(row, column + 2)?,
        hash: digest(row, column + 3)?,
        correlation: get(row, column + 4)?,
        instance,
        delivery: variant(row, column + 6, Delivery::from_stored)?,
        ttl_ms: unsigned(row, column + 7)?,
        at_ms: get(row, column + 8)?,
        input: some_payload(row, column + 9)?,
        blobs: Vec::new(),
    })
}

fn queued(row: &Row) -> Result<QueuedRow> {
    let cursor: (Option<i64>, Option<i64>) = (get(row, 15)?, get(row, 16)?);
    Ok(QueuedRow {
        no: StimulusNo(get(row, 0)?),
        stimulus: stimulus(row, 1)?,
        source: get::<Option<i64>>(row, 14)?.map(InstanceNo),
        cursor: cursor.0.zip(cursor.1).map(|(after, until)| Cursor {
            after: BookmarkNo(after),
            until: BookmarkNo(until),
        }),
        attempts: small(row, 17)?,
        ready_ms: get(row, 13)?,
        last_error: read_json(row, 18)?,
    })
}

fn buffered(row: &Row) -> Result<BufferedRow> {
    Ok(BufferedRow {
        no: StimulusNo(get(row, 0)?),
        stimulus: stimulus(row, 1)?,
        expires_ms: get(row, 12)?,
    })
}

pub(super) fn letter(row: &Row) -> Result<LetterRow> {
    let body = match read_json::<StimulusWire>(row, 12)? {
        Some(wire) => LetterBody::Stimulus(Box::new(wire.stimulus(some_payload(row, 13)?))),
        None => LetterBody::Trigger(DeadTrigger {
            instance: InstanceNo(get(row, 5)?),
            seq: Seq(unsigned(row, 6)?),
            kind: u8::try_from(get::<i64>(row, 7)?)
                .ok()
                .and_then(TriggerType::from_stored)
                .ok_or_else(|| Error::corrupt("a type of trigger that means nothing"))?,
            node: optional_small(row, 8)?,
            priority: get(row, 9)?,
            payload: bytes(row, 10)?,
            detail: some_bytes(row, 11)?,
        }),
    };
    let instance = match &body {
        LetterBody::Stimulus(dead) => dead.instance,
        // That of an instance that is being forgotten is none any more.
        LetterBody::Trigger(_) => uuid_if_any(row, 16)?,
    };
    Ok(LetterRow {
        no: LetterNo(get(row, 0)?),
        letter: NewDeadLetter {
            reason: get(row, 2)?,
            body,
            failure: read_json(row, 4)?,
            at_ms: get(row, 3)?,
        },
        instance_id: instance,
        replayed_ms: get(row, 15)?,
    })
}

/// An id that may be absent, or that of an instance that is being forgotten.
pub(super) fn uuid_if_any(row: &Row, column: usize) -> Result<Option<InstanceId>> {
    let id: Option<&[u8]> = get(row, column)?;
    Ok(id
        .and_then(|bytes| uuid::Uuid::from_slice(bytes).ok())
        .map(InstanceId))
}

pub(super) fn bookmark(row: &Row) -> Result<BookmarkRow> {
    Ok(BookmarkRow {
        no: BookmarkNo(get(row, 0)?),
        instance: InstanceNo(get(row, 1)?),
        instance_id: InstanceId(uuid(row, 2)?),
        bookmark: NewBookmark {
            first: Seq(unsigned(row, 3)?),
            trigger: TriggerNo(get(row, 4)?),
            phase: small(row, 5)?,
            name: get(row, 6)?,
            hash: digest(row, 7)?,
            matches: some_bytes(row, 8)?,
            correlation: get(row, 9)?,
            private: get(row, 10)?,
            auto_burn: get(row, 11)?,
            metadata: bytes(row, 12)?,
            token: digest(row, 13)?,
            expires_ms: get(row, 14)?,
            created_ms: get(row, 15)?,
        },
    })
}

pub(super) fn bookmarks(pool: &ReadPool, query: &BookmarkQuery) -> Result<Vec<BookmarkRow>> {
    let sql = select_bookmark!(
        "WHERE ($1::bigint IS NULL OR b.instance = $1) AND ($2::text IS NULL OR b.name = $2) \
         AND ($3::text IS NULL OR b.correlation = $3) AND b.no > $4 ORDER BY b.no LIMIT $5"
    );
    let key = params![
        query.instance.map(|no| no.0),
        query.name.clone(),
        query.correlation.clone(),
        query.after.map_or(0, |no| no.0),
        i64::from(query.limit),
    ];
    pool.rows(sql, key)?.iter().map(bookmark).collect()
}

pub(super) fn bookmark_by_no(pool: &ReadPool, no: BookmarkNo) -> Result<Option<BookmarkRow>> {
    let row = pool.one(select_bookmark!("WHERE b.no = $1"), params![no.0])?;
    row.as_ref().map(bookmark).transpose()
}

pub(super) fn bookmark_by_token(pool: &ReadPool, token: Digest) -> Result<Option<BookmarkRow>> {
    let sql = select_bookmark!("WHERE b.token = $1 ORDER BY b.no LIMIT 1");
    let row = pool.one(sql, params![token.0.to_vec()])?;
    row.as_ref().map(bookmark).transpose()
}

pub(super) fn is_heard(pool: &ReadPool, hash: Digest, now_ms: i64) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM binding b JOIN publication p \
        ON p.name = b.workflow AND p.retracted_ms IS NULL WHERE b.hash = $1) \
        OR EXISTS (SELECT 1 FROM bookmark WHERE hash = $1 \
        AND coalesce(expires_ms > $2, true))";
    let row = pool.one(sql, params![hash.0.to_vec(), now_ms])?;
    row.map_or(Ok(false), |row| get(&row, 0))
}

pub(super) fn queue(pool: &ReadPool, query: &StimulusQuery) -> Result<Vec<QueuedRow>> {
    let sql = select_stimulus!(
        "WHERE ready_ms IS NOT NULL AND no > $1 AND ($2::bigint IS NULL OR ready_ms <= $2 \
         AND NOT EXISTS (SELECT 1 FROM stimulus AS earlier WHERE earlier.source = stimulus.source \
         AND earlier.no < stimulus.no AND earlier.ready_ms > $2)) \
         ORDER BY no LIMIT $3"
    );
    let after = query.after.map_or(0, |no| no.0);
    let key = params![after, query.ready_ms, i64::from(query.limit)];
    pool.rows(sql, key)?.iter().map(queued).collect()
}

pub(super) fn buffer(pool: &ReadPool, query: &StimulusQuery) -> Result<Vec<BufferedRow>> {
    let sql = select_stimulus!("WHERE expires_ms IS NOT NULL AND no > $1 ORDER BY no LIMIT $2");
    let key = params![query.after.map_or(0, |no| no.0), i64::from(query.limit)];
    pool.rows(sql, key)?.iter().map(buffered).collect()
}

pub(super) fn letters(pool: &ReadPool, query: &LetterQuery) -> Result<Vec<LetterRow>> {
    let sql = select_letter!(
        "WHERE ($1::smallint IS NULL OR l.kind = $1) AND ($2::bigint IS NULL OR l.instance = $2) \
         AND l.no > $3 ORDER BY l.no LIMIT $4"
    );
    let key = params![
        query.kind.map(|kind| i16::from(kind as u8)),
        query.instance.map(|no| no.0),
        query.after.map_or(0, |no| no.0),
        i64::from(query.limit),
    ];
    pool.rows(sql, key)?.iter().map(letter).collect()
}

pub(super) fn letter_by_no(pool: &ReadPool, no: LetterNo) -> Result<Option<LetterRow>> {
    let row = pool.one(select_letter!("WHERE l.no = $1"), params![no.0])?;
    row.as_ref().map(letter).transpose()
}

pub(super) fn trigger(pool: &ReadPool, target: TriggerTarget) -> Result<Option<TriggerRow>> {
    match target {
        TriggerTarget::Outside(name) => Ok(outside(pool, name)?.and_then(|named| named.row)),
        TriggerTarget::Row(instance, seq) => {
            let sql = select_trigger!("WHERE instance = $1 AND seq = $2 ORDER BY no LIMIT 1");
            let row = pool.one(sql, params![instance.0, seq.0.cast_signed()])?;
            row.as_ref().map(rows::trigger).transpose()
        }
    }
}

/// Behind a tombstone there is none.
pub(super) fn outside(pool: &ReadPool, name: TriggerId) -> Result<Option<OutsideRow>> {
    let sql = "SELECT o.trigger, o.instance, o.closed, i.id FROM outside o \
        JOIN instance i ON i.no = o.instance \
        JOIN origin g ON g.instance = o.instance WHERE o.id = $1";
    let Some(named) = pool.one(sql, params![name.0.as_bytes().to_vec()])? else {
        return Ok(None);
    };
    let (no, instance) = (TriggerNo(get(&named, 0)?), InstanceNo(get(&named, 1)?));
    let Some(instance_id) = uuid_if_any(&named, 3)? else {
        return Ok(None);
    };
    let seq = Seq::outside(no);
    let sql = select_trigger!("WHERE no = $1 AND instance = $2 AND seq = $3");
    let row = pool.one(sql, params![no.0, instance.0, seq.0.cast_signed()])?;
    Ok(Some(OutsideRow {
        id: name,
        instance,
        instance_id,
        seq,
        row: row.as_ref().map(rows::trigger).transpose()?,
        closed: get(&named, 2)?,
    }))
}

/// What is pending, of all priorities together: a page of each that there is.
pub(super) fn due(pool: &ReadPool, query: &DueQuery) -> Result<Vec<TriggerRow>> {
    let sql = "WITH RECURSIVE ranks (rank) AS ( \
            (SELECT rank FROM trigger WHERE wake_ms IS NOT NULL ORDER BY rank DESC LIMIT 1) \
            UNION ALL \
            SELECT (SELECT t.rank FROM trigger t WHERE t.wake_ms IS NOT NULL \
                AND t.rank < ranks.rank ORDER BY t.rank DESC LIMIT 1) \
            FROM ranks WHERE ranks.rank IS NOT NULL) \
        SELECT d.no, d.instance, d.seq, d.kind, d.node, d.due_ms, d.state, d.token, d.attempt, \
            d.deliveries, d.suspicion, d.detail, d.payload, d.priority \
        FROM ranks CROSS JOIN LATERAL (SELECT * FROM trigger t WHERE t.wake_ms IS NOT NULL \
            AND t.rank = ranks.rank AND t.wake_ms <= $1 \
            AND (t.wake_ms, t.instance, t.no) > ($2, $3, $4) \
            ORDER BY t.wake_ms, t.instance, t.no LIMIT $5) AS d \
        ORDER BY d.due_ms, d.instance, d.no LIMIT $5";
    let after = query.after.map_or((i64::MIN, i64::MIN, i64::MIN), |place| {
        (place.due_ms, place.instance.0, place.no.0)
    });
    let limit = i64::from(query.limit);
    let key = params![query.until_ms, after.0, after.1, after.2, limit];
    pool.rows(sql, key)?.iter().map(rows::trigger).collect()
}

pub(super) fn secret(pool: &ReadPool) -> Result<[u8; 32]> {
    let row = pool.one("SELECT secret FROM own", params![])?;
    let row = row.ok_or_else(|| Error::corrupt("no secret"))?;
    Ok(digest(&row, 0)?.0)
}
