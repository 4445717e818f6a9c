//! Bookmarks, stimuli and dead letters in tables.

use windlass_model::{
    BookmarkNo, Delivery, Digest, LetterNo, RunId, RunNo, Seq, StimulusId, StimulusNo, TriggerNo,
    TriggerType,
};

use super::row::{
    bytes, bytes_if_any, digest, flag, int, int_if_any, json_if_any, payload, run_if_any,
    run_unless_gone, short, small, small_if_any, text, text_if_any, trace_if_any, unsigned, uuid,
    variant,
};
use super::{Row, Source, params, sql};
use crate::columns::StimulusWire;
use crate::error::Result;
use crate::letters::{DeadTrigger, LetterBody, LetterQuery, LetterRow, NewDeadLetter};
use crate::rows::SenderTree;
use crate::stimuli::{
    BookmarkQuery, BookmarkRow, BufferedRow, Cursor, NewBookmark, NewStimulus, QueuedRow,
    StimulusQuery,
};

/// Selects a number and the columns that [`stimulus`] reads; the rest follows.
macro_rules! select_stimulus {
    ($rest:literal) => {
        $crate::sql::sql!(concat!(
            "SELECT no, id, name, matches, hash, correlation, run, delivery, ttl_ms, ",
            "at_ms, input, input_meta, expires_ms, ready_ms, source, after_no, until_no, ",
            "attempts, last_error, root, bound, trace FROM stimulus ",
            $rest
        ))
    };
}
pub(crate) use select_stimulus;

/// Selects the columns that [`letter`] reads; the rest follows.
macro_rules! select_letter {
    ($rest:literal) => {
        $crate::sql::sql!(concat!(
            "SELECT l.no, l.kind, l.reason, l.at_ms, l.failure, l.run, l.seq, ",
            "l.trigger, l.node, l.priority, l.payload, l.detail, l.stimulus, l.input, ",
            "l.input_meta, l.replayed_ms, i.id ",
            // A run without an origin is deleted, or being deleted.
            "FROM dead_letter l LEFT JOIN (origin o JOIN run i ON i.no = o.run) ",
            "ON o.run = l.run ",
            $rest
        ))
    };
}
pub(crate) use select_letter;

/// Selects the columns that [`bookmark`] reads; the rest follows.
macro_rules! select_bookmark {
    ($rest:literal) => {
        $crate::sql::sql!(concat!(
            "SELECT b.no, b.run, i.id, b.first, b.trigger, b.phase, b.name, b.hash, ",
            "b.matches, b.correlation, b.private, b.auto_burn, b.metadata, b.token, ",
            "b.expires_ms, b.created_ms, ",
            "(SELECT t.due_ms FROM trigger t WHERE t.no = b.trigger) ",
            "FROM bookmark b JOIN run i ON i.no = b.run ",
            $rest
        ))
    };
}
pub(crate) use select_bookmark;

/// Reads the stimulus in the columns from `column` on, without its blobs.
pub(crate) fn stimulus(row: &dyn Row, column: usize) -> Result<NewStimulus> {
    let tree = int_if_any(row, column + 18)?.zip(small_if_any(row, column + 19)?);
    Ok(NewStimulus {
        tree: tree.map(|(root, workflow)| SenderTree {
            root: RunNo(root),
            workflow,
        }),
        id: StimulusId(uuid(row, column)?),
        name: text(row, column + 1)?,
        matches: bytes(row, column + 2)?,
        hash: digest(row, column + 3)?,
        correlation: text_if_any(row, column + 4)?,
        run: run_if_any(row, column + 5)?,
        delivery: variant(row, column + 6, Delivery::from_stored)?,
        ttl_ms: unsigned(row, column + 7)?,
        at_ms: int(row, column + 8)?,
        input: payload(row, column + 9)?,
        blobs: Vec::new(),
        trace: trace_if_any(row, column + 20)?,
    })
}

fn queued_of(row: &dyn Row) -> Result<QueuedRow> {
    let cursor = int_if_any(row, 15)?.zip(int_if_any(row, 16)?);
    Ok(QueuedRow {
        no: StimulusNo(int(row, 0)?),
        stimulus: stimulus(row, 1)?,
        source: int_if_any(row, 14)?.map(RunNo),
        cursor: cursor.map(|(after, until)| Cursor {
            after: BookmarkNo(after),
            until: BookmarkNo(until),
        }),
        attempts: small(row, 17)?,
        ready_ms: int(row, 13)?,
        last_error: json_if_any(row, 18)?,
    })
}

fn buffered_of(row: &dyn Row) -> Result<BufferedRow> {
    Ok(BufferedRow {
        no: StimulusNo(int(row, 0)?),
        stimulus: stimulus(row, 1)?,
        expires_ms: int(row, 12)?,
    })
}

pub(crate) fn letter(row: &dyn Row) -> Result<LetterRow> {
    let body = match json_if_any::<StimulusWire>(row, 12)? {
        Some(wire) => LetterBody::Stimulus(Box::new(wire.stimulus(payload(row, 13)?))),
        None => LetterBody::Trigger(DeadTrigger {
            run: RunNo(int(row, 5)?),
            seq: Seq(unsigned(row, 6)?),
            kind: variant(row, 7, TriggerType::from_stored)?,
            node: small_if_any(row, 8)?,
            priority: short(row, 9)?,
            payload: bytes_if_any(row, 10)?,
            detail: bytes(row, 11)?,
        }),
    };
    let run = match &body {
        LetterBody::Stimulus(dead) => dead.run,
        LetterBody::Trigger(_) => run_unless_gone(row, 16)?,
    };
    Ok(LetterRow {
        no: LetterNo(int(row, 0)?),
        letter: NewDeadLetter {
            reason: text(row, 2)?,
            body,
            failure: json_if_any(row, 4)?,
            at_ms: int(row, 3)?,
        },
        run_id: run,
        replayed_ms: int_if_any(row, 15)?,
    })
}

pub(crate) fn bookmark_of(row: &dyn Row) -> Result<BookmarkRow> {
    Ok(BookmarkRow {
        no: BookmarkNo(int(row, 0)?),
        run: RunNo(int(row, 1)?),
        run_id: RunId(uuid(row, 2)?),
        bookmark: NewBookmark {
            first: Seq(unsigned(row, 3)?),
            trigger: TriggerNo(int(row, 4)?),
            phase: small(row, 5)?,
            name: text(row, 6)?,
            hash: digest(row, 7)?,
            matches: bytes(row, 8)?,
            correlation: text_if_any(row, 9)?,
            private: flag(row, 10)?,
            auto_burn: flag(row, 11)?,
            metadata: bytes_if_any(row, 12)?,
            token: digest(row, 13)?,
            expires_ms: int_if_any(row, 14)?,
            created_ms: int(row, 15)?,
        },
        ends_ms: int_if_any(row, 16)?.filter(|due_ms| *due_ms < i64::MAX),
    })
}

pub(crate) fn bookmarks(source: &impl Source, query: &BookmarkQuery) -> Result<Vec<BookmarkRow>> {
    // An index finds the bookmarks of one run, those of one hash and correlation, and those of one
    // hash. Many runs may wait for one hash, and a run waits for few.
    let name = query.name.as_deref();
    let after = query.after.map_or(0, |no| no.0);
    match (query.run, query.hash, query.correlation.as_deref()) {
        (Some(run), Some(hash), correlation) => {
            let sql = select_bookmark!(
                "WHERE b.run = ?1 AND {+b.hash|b.hash} = ?6 \
                 AND (CAST(?2 AS text) IS NULL OR b.name = ?2) \
                 AND (CAST(?3 AS text) IS NULL OR b.correlation = ?3) AND b.no > ?4 \
                 ORDER BY b.no LIMIT ?5"
            );
            let key = params![run.0, name, correlation, after, query.limit, hash];
            return source.all(sql, key, bookmark_of);
        }
        (None, Some(hash), Some(correlation)) => {
            let sql = select_bookmark!(
                "WHERE b.hash = ?1 AND b.correlation = ?3 \
                 AND (CAST(?2 AS text) IS NULL OR b.name = ?2) AND b.no > ?4 \
                 ORDER BY b.no LIMIT ?5"
            );
            let key = params![hash, name, correlation, after, query.limit];
            return source.all(sql, key, bookmark_of);
        }
        (None, Some(hash), None) => {
            let sql = select_bookmark!(
                "WHERE b.hash = ?1 AND (CAST(?2 AS text) IS NULL OR b.name = ?2) AND b.no > ?3 \
                 ORDER BY b.no LIMIT ?4"
            );
            let key = params![hash, name, after, query.limit];
            return source.all(sql, key, bookmark_of);
        }
        (_, None, _) => {}
    }
    let sql = if query.run.is_some() {
        select_bookmark!(
            "WHERE b.run = ?1 AND (CAST(?2 AS text) IS NULL OR b.name = ?2) \
             AND (CAST(?3 AS text) IS NULL OR b.correlation = ?3) AND b.no > ?4 \
             ORDER BY b.no LIMIT ?5"
        )
    } else {
        select_bookmark!(
            "WHERE CAST(?1 AS bigint) IS NULL AND (CAST(?2 AS text) IS NULL OR b.name = ?2) \
             AND (CAST(?3 AS text) IS NULL OR b.correlation = ?3) AND b.no > ?4 \
             ORDER BY b.no LIMIT ?5"
        )
    };
    let key = params![
        query.run.map(|no| no.0),
        query.name.as_deref(),
        query.correlation.as_deref(),
        query.after.map_or(0, |no| no.0),
        query.limit,
    ];
    source.all(sql, key, bookmark_of)
}

pub(crate) fn bookmark(source: &impl Source, no: BookmarkNo) -> Result<Option<BookmarkRow>> {
    source.one(
        select_bookmark!("WHERE b.no = ?1"),
        params![no.0],
        bookmark_of,
    )
}

pub(crate) fn bookmark_by_token(
    source: &impl Source,
    token: Digest,
) -> Result<Option<BookmarkRow>> {
    let sql = select_bookmark!("WHERE b.token = ?1 ORDER BY b.no LIMIT 1");
    source.one(sql, params![token], bookmark_of)
}

pub(crate) fn is_heard(source: &impl Source, hash: Digest, now_ms: i64) -> Result<bool> {
    let sql = sql!(
        "SELECT EXISTS (SELECT 1 FROM binding b CROSS JOIN publication p \
        ON p.name = b.workflow AND p.retracted_ms IS NULL WHERE b.hash = ?1) \
        OR EXISTS (SELECT 1 FROM bookmark WHERE hash = ?1 \
        AND coalesce(expires_ms > ?2, true))"
    );
    let found = source.one(sql, params![hash, now_ms], |row| flag(row, 0))?;
    Ok(found.unwrap_or_default())
}

pub(crate) fn queued(source: &impl Source, query: &StimulusQuery) -> Result<Vec<QueuedRow>> {
    let sql = select_stimulus!(
        "WHERE ready_ms IS NOT NULL AND no > ?1 AND (CAST(?2 AS bigint) IS NULL \
         OR ready_ms <= ?2 AND NOT EXISTS (SELECT 1 FROM stimulus AS earlier \
         WHERE earlier.source = stimulus.source AND earlier.no < stimulus.no \
         AND earlier.ready_ms > ?2)) ORDER BY no LIMIT ?3"
    );
    let after = query.after.map_or(0, |no| no.0);
    source.all(sql, params![after, query.ready_ms, query.limit], queued_of)
}

pub(crate) fn buffered(source: &impl Source, query: &StimulusQuery) -> Result<Vec<BufferedRow>> {
    let sql = select_stimulus!("WHERE expires_ms IS NOT NULL AND no > ?1 ORDER BY no LIMIT ?2");
    let after = query.after.map_or(0, |no| no.0);
    source.all(sql, params![after, query.limit], buffered_of)
}

pub(crate) fn dead_letters(source: &impl Source, query: &LetterQuery) -> Result<Vec<LetterRow>> {
    let oldest = select_letter!(
        "WHERE (CAST(?1 AS smallint) IS NULL OR l.kind = ?1) \
         AND (CAST(?2 AS bigint) IS NULL OR l.run = ?2) AND l.no > ?3 \
         ORDER BY l.no LIMIT ?4"
    );
    let newest = select_letter!(
        "WHERE (CAST(?1 AS smallint) IS NULL OR l.kind = ?1) \
         AND (CAST(?2 AS bigint) IS NULL OR l.run = ?2) AND l.no < ?3 \
         ORDER BY l.no DESC LIMIT ?4"
    );
    let (sql, start) = match query.newest {
        true => (newest, i64::MAX),
        false => (oldest, 0),
    };
    let key = params![
        query.kind.map(|kind| i64::from(kind as u8)),
        query.run.map(|no| no.0),
        query.after.map_or(start, |no| no.0),
        query.limit,
    ];
    source.all(sql, key, letter)
}

pub(crate) fn dead_letter(source: &impl Source, no: LetterNo) -> Result<Option<LetterRow>> {
    source.one(select_letter!("WHERE l.no = ?1"), params![no.0], letter)
}
