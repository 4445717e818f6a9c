//! Reading, on connections of its own. Each verb is one short transaction at most, so that
//! none keeps the log from being started over.

use bytes::Bytes;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Params, Result as Sql, Row};
use uuid::Uuid;
use windlass_model::{
    BlobRef, BookmarkNo, Digest, Incarnation, InstanceId, InstanceNo, LetterNo, Payload, RunNo,
    ScopeNo, Seq, TriggerId,
};

use super::rows::{self, select_instance, select_run, select_trigger};
use super::sums::{self, Key, Of};
use super::values::{digest, read_summed, some_bytes, unsigned};
use super::{SqliteStore, snapshot, stimuli};
use crate::components::{ComponentRow, Stored};
use crate::drafts::{DraftRow, SourceRow, UpkeepRow};
use crate::error::Result;
use crate::letters::{LetterQuery, LetterRow};
use crate::outside::{DueQuery, OutsideRow, TriggerTarget};
use crate::prefix;
use crate::published::{BindingRow, PublicationQuery, PublicationRow, ScheduleQuery, ScheduleRow};
use crate::read::{Backlog, Counts, InstanceQuery, Reader};
use crate::retention::ExpiredRow;
use crate::rows::{DefinitionRow, InstanceRow, JournalRow, MemberRow, PinsRow, RunRow, TriggerRow};
use crate::sql::{drafts, published};
use crate::stimuli::{BookmarkQuery, BookmarkRow, BufferedRow, QueuedRow, StimulusQuery};
use crate::transfer::{Bounds, Snapshot};

pub(super) fn one<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    of: impl FnOnce(&Row<'_>) -> Sql<T>,
) -> Sql<Option<T>> {
    connection
        .prepare_cached(sql)?
        .query_row(params, of)
        .optional()
}

pub(super) fn all<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    of: impl FnMut(&Row<'_>) -> Sql<T>,
) -> Sql<Vec<T>> {
    connection
        .prepare_cached(sql)?
        .query_map(params, of)?
        .collect()
}

fn payload_or_null(row: &Row<'_>, column: usize, of: Of, key: Key, name: &str) -> Sql<Payload> {
    Ok(read_summed(row, column, of, key, name)?.unwrap_or_else(Payload::null))
}

fn count(connection: &Connection, sql: &str) -> Sql<u64> {
    connection
        .prepare_cached(sql)?
        .query_row([], |row| unsigned(row, 0))
}

impl Reader for SqliteStore {
    fn instance(&self, id: InstanceId) -> Result<Option<InstanceRow>> {
        let sql = select_instance!("WHERE i.id = ?1");
        self.pool
            .read(|c| one(c, sql, [&id.0.as_bytes()[..]], rows::instance))
    }

    fn instance_by_no(&self, no: InstanceNo) -> Result<Option<InstanceRow>> {
        let sql = select_instance!("WHERE i.no = ?1");
        self.pool.read(|c| one(c, sql, [no.0], rows::instance))
    }

    fn snapshot(&self, id: InstanceId, bounds: Bounds) -> Result<Option<Snapshot>> {
        let read = self.pool.read(|c| snapshot::snapshot(c, id, bounds))?;
        read.transpose()
    }

    fn instances_by_prefix(&self, prefix: &str, limit: u32) -> Result<Vec<InstanceRow>> {
        let Some((first, last)) = prefix::range(prefix) else {
            return Ok(Vec::new());
        };
        let sql = select_instance!("WHERE i.id BETWEEN ?1 AND ?2 ORDER BY i.id LIMIT ?3");
        self.pool
            .read(|c| all(c, sql, (&first[..], &last[..], limit), rows::instance))
    }

    fn instances(&self, query: &InstanceQuery) -> Result<Vec<InstanceRow>> {
        // Lists are passed as JSON, so that there is one statement however long they are.
        let statuses: Vec<u8> = query.statuses.iter().map(|status| *status as u8).collect();
        let statuses = super::values::json_list(&statuses);
        let sql = select_instance!(
            "WHERE (?1 IS NULL OR i.status IN (SELECT value FROM json_each(?1))) \
             AND (?2 IS NULL OR d.name = ?2) AND i.no < ?3 ORDER BY i.no DESC LIMIT ?4"
        );
        let before = query.before.map_or(i64::MAX, |no| no.0);
        let key = (statuses, query.workflow.as_deref(), before, query.limit);
        self.pool.read(|c| all(c, sql, key, rows::instance))
    }

    fn input(&self, instance: InstanceNo) -> Result<Option<Payload>> {
        let sql = "SELECT input, input_meta, sum FROM origin WHERE instance = ?1";
        let key = [instance.0, 0, 0];
        let of = |row: &Row<'_>| read_summed(row, 0, Of::Input, key, "");
        let read = self.pool.read(|c| one(c, sql, [instance.0], of));
        read.map(Option::flatten)
    }

    fn output(&self, instance: InstanceNo) -> Result<Option<Payload>> {
        let sql = "SELECT output, output_meta, output_sum FROM instance WHERE no = ?1";
        let key = [instance.0, 0, 0];
        let of = |row: &Row<'_>| read_summed(row, 0, Of::Output, key, "");
        let read = self.pool.read(|c| one(c, sql, [instance.0], of));
        read.map(Option::flatten)
    }

    fn vars(&self, instance: InstanceNo, scope: ScopeNo) -> Result<Vec<(String, Payload)>> {
        let sql = "SELECT name, body, meta, sum FROM var WHERE instance = ?1 AND scope = ?2 \
            ORDER BY name";
        let key = (instance.0, scope.0.cast_signed());
        self.pool.read(|c| {
            all(c, sql, key, |row| {
                let name: String = row.get(0)?;
                let value = payload_or_null(row, 1, Of::Var, [key.0, key.1, 0], &name)?;
                Ok((name, value))
            })
        })
    }

    fn scopes(&self, instance: InstanceNo) -> Result<Vec<(ScopeNo, Bytes)>> {
        let sql = "SELECT scope, state, NULL, sum FROM scope WHERE instance = ?1 ORDER BY scope";
        self.pool.read(|c| {
            all(c, sql, [instance.0], |row| {
                let scope: i64 = row.get(0)?;
                sums::check(row, 1, Of::Scope, [instance.0, scope, 0], "")?;
                Ok((ScopeNo(scope.cast_unsigned()), some_bytes(row, 1)?))
            })
        })
    }

    fn items(
        &self,
        instance: InstanceNo,
        list: Seq,
        from: u32,
        limit: u32,
    ) -> Result<Vec<(u32, Payload)>> {
        let sql = "SELECT place, body, meta, sum FROM item WHERE instance = ?1 AND list = ?2 \
            AND place >= ?3 ORDER BY place LIMIT ?4";
        let key = (instance.0, list.0.cast_signed(), from, limit);
        self.pool.read(|c| {
            all(c, sql, key, |row| {
                let place: u32 = row.get(0)?;
                let at = [key.0, key.1, i64::from(place)];
                Ok((place, payload_or_null(row, 1, Of::Item, at, "")?))
            })
        })
    }

    fn run(&self, no: RunNo) -> Result<Option<RunRow>> {
        self.pool
            .read(|c| one(c, select_run!("WHERE no = ?1"), [no.0], rows::run))
    }

    fn run_output(&self, no: RunNo) -> Result<Option<Payload>> {
        let sql = "SELECT output, output_meta, sum FROM run WHERE no = ?1";
        let of = |row: &Row<'_>| read_summed(row, 0, Of::Run, [no.0, 0, 0], "");
        let read = self.pool.read(|c| one(c, sql, [no.0], of));
        read.map(Option::flatten)
    }

    fn runs(&self, instance: InstanceNo, before: Option<RunNo>, limit: u32) -> Result<Vec<RunRow>> {
        let start = match before {
            None => "SELECT last_run FROM instance WHERE no = ?1",
            Some(_) => "SELECT previous FROM run WHERE no = ?2 AND instance = ?1",
        };
        self.pool.read(|c| {
            let before = before.map(|no| Value::Integer(no.0));
            let key = [Some(Value::Integer(instance.0)), before]
                .into_iter()
                .flatten();
            let key = rusqlite::params_from_iter(key);
            let mut next = one(c, start, key, |row| row.get::<_, Option<i64>>(0))?.flatten();
            let mut found = Vec::new();
            while let Some(no) = next
                && found.len() < limit as usize
            {
                let Some(run) = one(c, select_run!("WHERE no = ?1"), [no], rows::run)? else {
                    break;
                };
                next = run.previous.map(|previous| previous.0);
                found.push(run);
            }
            Ok(found)
        })
    }

    fn journal(&self, instance: InstanceNo) -> Result<Vec<JournalRow>> {
        let sql = "SELECT at_ms, kind, detail FROM journal WHERE instance = ?1 \
            ORDER BY version, place";
        self.pool.read(|c| {
            all(c, sql, [instance.0], |row| {
                let (at_ms, kind) = (row.get(0)?, row.get(1)?);
                Ok(JournalRow {
                    at_ms,
                    kind,
                    detail: some_bytes(row, 2)?,
                })
            })
        })
    }

    fn triggers(&self, instance: InstanceNo) -> Result<Vec<TriggerRow>> {
        // Those from outside have the top bit set, which is the sign here.
        let sql = select_trigger!("WHERE instance = ?1 ORDER BY seq < 0, seq, no");
        self.pool.read(|c| all(c, sql, [instance.0], rows::trigger))
    }

    fn definition(&self, wanted: Digest) -> Result<Option<DefinitionRow>> {
        let sql = "SELECT digest, name, json FROM definition WHERE digest = ?1";
        self.pool.read(|c| {
            one(c, sql, [&wanted.0[..]], |row| {
                let (digest, name) = (digest(row, 0)?, row.get(1)?);
                Ok(DefinitionRow {
                    digest,
                    name,
                    json: some_bytes(row, 2)?,
                })
            })
        })
    }

    fn pins(&self, wanted: Digest) -> Result<Option<PinsRow>> {
        let sql = "SELECT digest, json FROM pins WHERE digest = ?1";
        self.pool.read(|c| {
            one(c, sql, [&wanted.0[..]], |row| {
                Ok(PinsRow {
                    digest: digest(row, 0)?,
                    json: some_bytes(row, 1)?,
                })
            })
        })
    }

    fn published(&self, name: &str) -> Result<Option<PublicationRow>> {
        published::published(&self.pool, name)
    }

    fn publications(&self, query: &PublicationQuery) -> Result<Vec<PublicationRow>> {
        published::publications(&self.pool, query)
    }

    fn is_heard(&self, hash: Digest, now_ms: i64) -> Result<bool> {
        self.pool.read(|c| stimuli::is_heard(c, hash, now_ms))
    }

    fn bindings(&self, hash: Digest) -> Result<Vec<BindingRow>> {
        published::bindings(&self.pool, hash)
    }

    fn bindings_of(&self, workflow: &str) -> Result<Vec<BindingRow>> {
        published::bindings_of(&self.pool, workflow)
    }

    fn schedules(&self, query: &ScheduleQuery) -> Result<Vec<ScheduleRow>> {
        published::schedules(&self.pool, query)
    }

    fn draft(&self, name: &str) -> Result<Option<DraftRow>> {
        drafts::draft(&self.pool, name)
    }

    fn drafts(&self, after: Option<&str>, limit: u32) -> Result<Vec<DraftRow>> {
        drafts::drafts(&self.pool, after, limit)
    }

    fn source(&self, name: &str) -> Result<Option<SourceRow>> {
        drafts::source(&self.pool, name)
    }

    fn sources(&self, after: Option<&str>, limit: u32) -> Result<Vec<SourceRow>> {
        drafts::sources(&self.pool, after, limit)
    }

    fn upkeep(&self, limit: u32) -> Result<Vec<UpkeepRow>> {
        drafts::upkeep(&self.pool, limit)
    }

    fn expired(&self, before_ms: i64, now_ms: i64, limit: u32) -> Result<Vec<ExpiredRow>> {
        // Each half is read from an index of its own, and no further than the limit.
        let sql = "SELECT no, id FROM ( \
            SELECT * FROM (SELECT finished_ms AS at_ms, no, id FROM instance \
                WHERE finished_ms IS NOT NULL AND extras & 16 = 0 AND finished_ms < ?1 \
                ORDER BY finished_ms, no LIMIT ?3) \
            UNION ALL SELECT * FROM (SELECT i.finished_ms, i.no, i.id \
                FROM kept k CROSS JOIN instance i ON i.no = k.instance \
                WHERE k.until_ms < ?2 AND i.finished_ms IS NOT NULL \
                ORDER BY k.until_ms, k.instance LIMIT ?3)) \
            ORDER BY at_ms, no LIMIT ?3";
        self.pool.read(|c| {
            all(c, sql, (before_ms, now_ms, limit), |row| {
                // One that has begun to be forgotten has no id of 16 bytes any more.
                let id = some_bytes(row, 1)?;
                Ok(ExpiredRow {
                    no: InstanceNo(row.get(0)?),
                    id: Uuid::from_slice(&id).ok().map(InstanceId),
                })
            })
        })
    }

    fn trigger(&self, target: TriggerTarget) -> Result<Option<TriggerRow>> {
        self.pool.read(|c| stimuli::trigger(c, target))
    }

    fn outside(&self, id: TriggerId) -> Result<Option<OutsideRow>> {
        self.pool.read(|c| stimuli::outside(c, id))
    }

    fn due(&self, query: &DueQuery) -> Result<Vec<TriggerRow>> {
        self.pool.read(|c| stimuli::due(c, query))
    }

    fn bookmarks(&self, query: &BookmarkQuery) -> Result<Vec<BookmarkRow>> {
        self.pool.read(|c| stimuli::bookmarks(c, query))
    }

    fn bookmark(&self, no: BookmarkNo) -> Result<Option<BookmarkRow>> {
        self.pool.read(|c| stimuli::bookmark_by_no(c, no))
    }

    fn bookmark_by_token(&self, token: Digest) -> Result<Option<BookmarkRow>> {
        self.pool.read(|c| stimuli::bookmark_by_token(c, token))
    }

    fn secret(&self) -> Result<[u8; 32]> {
        self.pool.read(stimuli::secret)
    }

    fn queued(&self, query: &StimulusQuery) -> Result<Vec<QueuedRow>> {
        self.pool.read(|c| stimuli::queue(c, query))
    }

    fn buffered(&self, query: &StimulusQuery) -> Result<Vec<BufferedRow>> {
        self.pool.read(|c| stimuli::buffer(c, query))
    }

    fn dead_letters(&self, query: &LetterQuery) -> Result<Vec<LetterRow>> {
        self.pool.read(|c| stimuli::letters(c, query))
    }

    fn dead_letter(&self, no: LetterNo) -> Result<Option<LetterRow>> {
        self.pool.read(|c| stimuli::letter_by_no(c, no))
    }

    fn children(
        &self,
        parent: InstanceNo,
        after: Option<InstanceNo>,
        limit: u32,
    ) -> Result<Vec<InstanceRow>> {
        self.pool
            .read(|c| stimuli::children(c, parent, after, limit))
    }

    fn blob(&self, blob: BlobRef) -> Result<Option<Bytes>> {
        let sql = "SELECT content, digest, sum FROM blob WHERE digest = ?1";
        let of = |row: &Row<'_>| {
            sums::check(row, 0, Of::Blob, [0; 3], "")?;
            some_bytes(row, 0)
        };
        self.pool.read(|c| one(c, sql, [&blob.digest.0[..]], of))
    }

    fn members(&self) -> Result<Vec<MemberRow>> {
        let sql = "SELECT incarnation, name, pid, joined_ms FROM member ORDER BY incarnation";
        self.pool.read(|c| {
            all(c, sql, [], |row| {
                Ok(MemberRow {
                    incarnation: Incarnation(row.get(0)?),
                    name: row.get(1)?,
                    pid: row.get(2)?,
                    joined_ms: row.get(3)?,
                })
            })
        })
    }

    fn setting(&self, name: &str) -> Result<Option<Bytes>> {
        let sql = "SELECT value FROM setting WHERE name = ?1";
        self.pool.read(|c| {
            one(c, sql, [name], |row| {
                row.get::<_, Vec<u8>>(0).map(Bytes::from)
            })
        })
    }

    fn component(&self, digest: Digest) -> Result<Option<Stored>> {
        let sql = "SELECT bytes, signature FROM component WHERE digest = ?1";
        let row = |row: &Row<'_>| {
            Ok(Stored {
                bytes: row.get::<_, Vec<u8>>(0)?.into(),
                signature: row.get(1)?,
            })
        };
        self.pool.read(|c| one(c, sql, [digest.0], row))
    }

    fn components(&self, after: i64, limit: u32) -> Result<Vec<ComponentRow>> {
        let sql = "SELECT digest, name, version, generation, signature FROM component \
            WHERE generation > ?1 ORDER BY generation LIMIT ?2";
        let row = |row: &Row<'_>| {
            Ok(ComponentRow {
                digest: digest(row, 0)?,
                name: row.get(1)?,
                version: row.get(2)?,
                generation: row.get(3)?,
                signature: row
                    .get::<_, Option<String>>(4)?
                    .map(|text| Digest::of(text.as_bytes())),
            })
        };
        self.pool.read(|c| all(c, sql, (after, limit), row))
    }

    fn backlog(&self, now_ms: i64, limit: u32) -> Result<Backlog> {
        // The due index begins with the priority, so each is looked at by itself.
        const DUE: &str = "WITH RECURSIVE ranks (priority) AS (
                SELECT max(priority) FROM trigger WHERE state = 0
                UNION ALL
                SELECT (SELECT max(t.priority) FROM trigger t
                    WHERE t.state = 0 AND t.priority < ranks.priority)
                FROM ranks WHERE ranks.priority IS NOT NULL)
            SELECT count(*) FROM (SELECT 1 FROM ranks
                JOIN trigger t ON t.state = 0 AND t.priority = ranks.priority AND t.due_ms <= ?1
                LIMIT ?2)";
        const DEAD: &str = "SELECT count(*) FROM
            (SELECT 1 FROM dead_letter WHERE replayed_ms IS NULL LIMIT ?1)";
        self.pool.read(|c| {
            let due = one(c, DUE, (now_ms, limit), |row| unsigned(row, 0))?;
            let dead = one(c, DEAD, [limit], |row| unsigned(row, 0))?;
            Ok(Backlog {
                due: due.unwrap_or(0),
                dead: dead.unwrap_or(0),
            })
        })
    }

    fn counts(&self) -> Result<Counts> {
        self.pool.read(|c| {
            Ok(Counts {
                instances: count(c, "SELECT count(*) FROM instance")?,
                unfinished: count(c, "SELECT count(*) FROM instance WHERE status < 4")?,
                triggers: count(c, "SELECT count(*) FROM trigger")?,
                parked: count(c, "SELECT count(*) FROM trigger WHERE state = 2")?,
                runs: count(c, "SELECT count(*) FROM run")?,
                blobs: count(c, "SELECT count(*) FROM blob")?,
                bookmarks: count(c, "SELECT count(*) FROM bookmark")?,
                queued: count(
                    c,
                    "SELECT count(*) FROM stimulus WHERE ready_ms IS NOT NULL",
                )?,
                buffered: count(
                    c,
                    "SELECT count(*) FROM stimulus WHERE expires_ms IS NOT NULL",
                )?,
                dead_letters: count(c, "SELECT count(*) FROM dead_letter")?,
            })
        })
    }
}
