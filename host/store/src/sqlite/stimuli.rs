//! How bookmarks, stimuli, dead letters and triggers from outside lie in the file, and reading
//! them.

use rusqlite::{Connection, Error as Fault, OptionalExtension as _, Result as Sql, Row};
use uuid::Uuid;
use windlass_model::{
    BookmarkNo, Delivery, Digest, InstanceId, InstanceNo, LetterNo, Payload, Seq, StimulusId,
    StimulusNo, TriggerId, TriggerNo, TriggerType,
};

use super::rows::{self, select_instance, select_trigger};
use super::values::{bytes, digest, read_json, read_payload, some_bytes, unsigned, variant};
use crate::columns::StimulusWire;
use crate::letters::{DeadTrigger, LetterBody, LetterKind, LetterQuery, LetterRow, NewDeadLetter};
use crate::outside::{DueQuery, OutsideRow, TriggerTarget};
use crate::rows::{InstanceRow, TriggerRow};
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

/// The stimulus in the columns from `column` on, without its blobs.
pub(super) fn stimulus(row: &Row<'_>, column: usize) -> Result<NewStimulus, Fault> {
    let instance: Option<[u8; 16]> = row.get(column + 5)?;
    Ok(NewStimulus {
        id: StimulusId(Uuid::from_bytes(row.get(column)?)),
        name: row.get(column + 1)?,
        matches: some_bytes(row, column + 2)?,
        hash: digest(row, column + 3)?,
        correlation: row.get(column + 4)?,
        instance: instance.map(|id| InstanceId(Uuid::from_bytes(id))),
        delivery: variant(row, column + 6, Delivery::from_stored)?,
        ttl_ms: unsigned(row, column + 7)?,
        at_ms: row.get(column + 8)?,
        input: read_payload(row, column + 9)?.unwrap_or_else(Payload::null),
        blobs: Vec::new(),
    })
}

fn queued(row: &Row<'_>) -> Result<QueuedRow, Fault> {
    let cursor: (Option<i64>, Option<i64>) = (row.get(15)?, row.get(16)?);
    Ok(QueuedRow {
        no: StimulusNo(row.get(0)?),
        stimulus: stimulus(row, 1)?,
        source: row.get::<_, Option<i64>>(14)?.map(InstanceNo),
        cursor: cursor.0.zip(cursor.1).map(|(after, until)| Cursor {
            after: BookmarkNo(after),
            until: BookmarkNo(until),
        }),
        attempts: row.get(17)?,
        ready_ms: row.get(13)?,
        last_error: read_json(row, 18)?,
    })
}

fn buffered(row: &Row<'_>) -> Result<BufferedRow, Fault> {
    Ok(BufferedRow {
        no: StimulusNo(row.get(0)?),
        stimulus: stimulus(row, 1)?,
        expires_ms: row.get(12)?,
    })
}

pub(super) fn letter(row: &Row<'_>) -> Result<LetterRow, Fault> {
    let body = match read_json::<StimulusWire>(row, 12)? {
        Some(wire) => {
            let input = read_payload(row, 13)?.unwrap_or_else(Payload::null);
            LetterBody::Stimulus(Box::new(wire.stimulus(input)))
        }
        None => LetterBody::Trigger(DeadTrigger {
            instance: InstanceNo(row.get(5)?),
            seq: Seq(unsigned(row, 6)?),
            kind: variant(row, 7, TriggerType::from_stored)?,
            node: row.get(8)?,
            priority: row.get(9)?,
            payload: bytes(row, 10)?,
            detail: some_bytes(row, 11)?,
        }),
    };
    let instance = match &body {
        LetterBody::Stimulus(dead) => dead.instance,
        LetterBody::Trigger(_) => id(row, 16)?,
    };
    Ok(LetterRow {
        no: LetterNo(row.get(0)?),
        letter: NewDeadLetter {
            reason: row.get(2)?,
            body,
            failure: read_json(row, 4)?,
            at_ms: row.get(3)?,
        },
        instance_id: instance,
        replayed_ms: row.get(15)?,
    })
}

/// An id that may be absent, or that of an instance that is being forgotten.
fn id(row: &Row<'_>, column: usize) -> Result<Option<InstanceId>, Fault> {
    let id = bytes(row, column)?;
    let id = id.and_then(|bytes| Uuid::from_slice(&bytes).ok());
    Ok(id.map(InstanceId))
}

pub(super) fn bookmark(row: &Row<'_>) -> Result<BookmarkRow, Fault> {
    Ok(BookmarkRow {
        no: BookmarkNo(row.get(0)?),
        instance: InstanceNo(row.get(1)?),
        instance_id: InstanceId(Uuid::from_bytes(row.get(2)?)),
        bookmark: NewBookmark {
            first: Seq(unsigned(row, 3)?),
            trigger: TriggerNo(row.get(4)?),
            phase: row.get(5)?,
            name: row.get(6)?,
            hash: digest(row, 7)?,
            matches: some_bytes(row, 8)?,
            correlation: row.get(9)?,
            private: row.get(10)?,
            auto_burn: row.get(11)?,
            metadata: bytes(row, 12)?,
            token: digest(row, 13)?,
            expires_ms: row.get(14)?,
            created_ms: row.get(15)?,
        },
    })
}

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

pub(super) fn bookmarks(c: &Connection, query: &BookmarkQuery) -> Sql<Vec<BookmarkRow>> {
    let sql = if query.instance.is_some() {
        select_bookmark!(
            "WHERE b.instance = ?1 AND (?2 IS NULL OR b.name = ?2) \
             AND (?3 IS NULL OR b.correlation = ?3) AND b.no > ?4 ORDER BY b.no LIMIT ?5"
        )
    } else {
        select_bookmark!(
            "WHERE ?1 IS NULL AND (?2 IS NULL OR b.name = ?2) \
             AND (?3 IS NULL OR b.correlation = ?3) AND b.no > ?4 ORDER BY b.no LIMIT ?5"
        )
    };
    let key = (
        query.instance.map(|no| no.0),
        query.name.as_deref(),
        query.correlation.as_deref(),
        query.after.map_or(0, |no| no.0),
        query.limit,
    );
    c.prepare_cached(sql)?.query_map(key, bookmark)?.collect()
}

pub(super) fn bookmark_by_no(c: &Connection, no: BookmarkNo) -> Sql<Option<BookmarkRow>> {
    c.prepare_cached(select_bookmark!("WHERE b.no = ?1"))?
        .query_row([no.0], bookmark)
        .optional()
}

pub(super) fn bookmark_by_token(c: &Connection, token: Digest) -> Sql<Option<BookmarkRow>> {
    c.prepare_cached(select_bookmark!("WHERE b.token = ?1 ORDER BY b.no LIMIT 1"))?
        .query_row([&token.0[..]], bookmark)
        .optional()
}

pub(super) fn is_heard(c: &Connection, hash: Digest, now_ms: i64) -> Sql<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM binding b CROSS JOIN publication p \
        ON p.name = b.workflow AND p.retracted_ms IS NULL WHERE b.hash = ?1) \
        OR EXISTS (SELECT 1 FROM bookmark WHERE hash = ?1 \
        AND coalesce(expires_ms > ?2, true))";
    c.prepare_cached(sql)?
        .query_row((&hash.0[..], now_ms), |row| row.get(0))
}

pub(super) fn queue(c: &Connection, query: &StimulusQuery) -> Sql<Vec<QueuedRow>> {
    let sql = select_stimulus!(
        "WHERE ready_ms IS NOT NULL AND no > ?1 AND (?2 IS NULL OR ready_ms <= ?2 \
         AND NOT EXISTS (SELECT 1 FROM stimulus AS earlier WHERE earlier.source = stimulus.source \
         AND earlier.no < stimulus.no AND earlier.ready_ms > ?2)) ORDER BY no LIMIT ?3"
    );
    let key = (
        query.after.map_or(0, |no| no.0),
        query.ready_ms,
        query.limit,
    );
    c.prepare_cached(sql)?.query_map(key, queued)?.collect()
}

pub(super) fn buffer(c: &Connection, query: &StimulusQuery) -> Sql<Vec<BufferedRow>> {
    let sql = select_stimulus!("WHERE expires_ms IS NOT NULL AND no > ?1 ORDER BY no LIMIT ?2");
    let key = (query.after.map_or(0, |no| no.0), query.limit);
    c.prepare_cached(sql)?.query_map(key, buffered)?.collect()
}

pub(super) fn letters(c: &Connection, query: &LetterQuery) -> Sql<Vec<LetterRow>> {
    let sql = select_letter!(
        "WHERE (?1 IS NULL OR l.kind = ?1) AND (?2 IS NULL OR l.instance = ?2) AND l.no > ?3 \
         ORDER BY l.no LIMIT ?4"
    );
    let key = (
        query.kind.map(|kind: LetterKind| kind as u8),
        query.instance.map(|no| no.0),
        query.after.map_or(0, |no| no.0),
        query.limit,
    );
    c.prepare_cached(sql)?.query_map(key, letter)?.collect()
}

pub(super) fn letter_by_no(c: &Connection, no: LetterNo) -> Sql<Option<LetterRow>> {
    c.prepare_cached(select_letter!("WHERE l.no = ?1"))?
        .query_row([no.0], letter)
        .optional()
}

pub(super) fn trigger(c: &Connection, target: TriggerTarget) -> Sql<Option<TriggerRow>> {
    match target {
        TriggerTarget::Outside(name) => Ok(outside(c, name)?.and_then(|named| named.row)),
        TriggerTarget::Row(instance, seq) => c
            .prepare_cached(select_trigger!("WHERE instance = ?1 AND seq = ?2"))?
            .query_row((instance.0, seq.0.cast_signed()), rows::trigger)
            .optional(),
    }
}

/// Behind a tombstone there is none.
pub(super) fn outside(c: &Connection, name: TriggerId) -> Sql<Option<OutsideRow>> {
    let sql = "SELECT o.trigger, o.instance, o.closed, i.id FROM outside o \
        JOIN instance i ON i.no = o.instance \
        JOIN origin g ON g.instance = o.instance WHERE o.id = ?1";
    let named = c
        .prepare_cached(sql)?
        .query_row([&name.0.as_bytes()[..]], |row| {
            let (trigger, instance): (i64, i64) = (row.get(0)?, row.get(1)?);
            let closed: bool = row.get(2)?;
            Ok((
                TriggerNo(trigger),
                InstanceNo(instance),
                closed,
                id(row, 3)?,
            ))
        })
        .optional()?;
    let Some((no, instance, closed, Some(instance_id))) = named else {
        return Ok(None);
    };
    let seq = Seq::outside(no);
    let row = c
        .prepare_cached(select_trigger!(
            "WHERE no = ?1 AND instance = ?2 AND seq = ?3"
        ))?
        .query_row((no.0, instance.0, seq.0.cast_signed()), rows::trigger)
        .optional()?;
    Ok(Some(OutsideRow {
        id: name,
        instance,
        instance_id,
        seq,
        row,
        closed,
    }))
}

/// What is pending, of all priorities together.
pub(super) fn due(c: &Connection, query: &DueQuery) -> Sql<Vec<TriggerRow>> {
    let after = query.after.map_or((i64::MIN, i64::MIN, i64::MIN), |place| {
        (place.due_ms, place.instance.0, place.no.0)
    });
    let mut next = c.prepare_cached(
        "SELECT priority FROM trigger INDEXED BY trigger_due WHERE state = 0 \
         AND priority < ?1 ORDER BY priority DESC LIMIT 1",
    )?;
    let mut page = c.prepare_cached(select_trigger!(
        "INDEXED BY trigger_due WHERE state = 0 AND priority = ?1 AND due_ms <= ?2 \
         AND (due_ms, instance, no) > (?3, ?4, ?5) ORDER BY due_ms, instance, no LIMIT ?6"
    ))?;
    let mut found = Vec::new();
    let mut priority = i32::MAX;
    while let Some(lower) = next.query_row([priority], |row| row.get(0)).optional()? {
        priority = lower;
        let key = (
            priority,
            query.until_ms,
            after.0,
            after.1,
            after.2,
            query.limit,
        );
        for row in page.query_map(key, rows::trigger)? {
            found.push(row?);
        }
    }
    found.sort_by_key(|row: &TriggerRow| (row.due_ms, row.instance, row.no));
    found.truncate(query.limit as usize);
    Ok(found)
}

pub(super) fn children(
    c: &Connection,
    parent: InstanceNo,
    after: Option<InstanceNo>,
    limit: u32,
) -> Sql<Vec<InstanceRow>> {
    let sql = select_instance!("WHERE o.parent = ?1 AND i.no > ?2 ORDER BY i.no LIMIT ?3");
    let key = (parent.0, after.map_or(i64::MIN, |no| no.0), limit);
    c.prepare_cached(sql)?
        .query_map(key, rows::instance)?
        .collect()
}

pub(super) fn secret(c: &Connection) -> Sql<[u8; 32]> {
    c.prepare_cached("SELECT secret FROM own")?
        .query_row([], |row| row.get(0))
}
