//! Reading, on connections of its own: one statement each, so that each sees one moment.

use bytes::Bytes;
use windlass_model::{
    BlobRef, BookmarkNo, Digest, Incarnation, InstanceId, InstanceNo, LetterNo, Payload, RunNo,
    ScopeNo, Seq, TriggerId,
};

use super::rows::{self, select_instance, select_run, select_trigger};
use super::values::{digest, get, params, read_payload, small, some_bytes, some_payload, unsigned};
use super::{PostgresStore, snapshot, stimuli};
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

impl Reader for PostgresStore {
    fn instance(&self, id: InstanceId) -> Result<Option<InstanceRow>> {
        let sql = select_instance!("WHERE i.id = $1");
        let row = self.pool.one(sql, params![id.0.as_bytes().to_vec()])?;
        row.as_ref().map(rows::instance).transpose()
    }

    fn instance_by_no(&self, no: InstanceNo) -> Result<Option<InstanceRow>> {
        let sql = select_instance!("WHERE i.no = $1");
        let row = self.pool.one(sql, params![no.0])?;
        row.as_ref().map(rows::instance).transpose()
    }

    fn snapshot(&self, id: InstanceId, bounds: Bounds) -> Result<Option<Snapshot>> {
        snapshot::snapshot(&self.pool, id, bounds)
    }

    fn instances_by_prefix(&self, prefix: &str, limit: u32) -> Result<Vec<InstanceRow>> {
        let Some((first, last)) = prefix::range(prefix) else {
            return Ok(Vec::new());
        };
        let sql = select_instance!("WHERE i.id BETWEEN $1 AND $2 ORDER BY i.id LIMIT $3");
        let key = params![first.to_vec(), last.to_vec(), i64::from(limit)];
        self.pool
            .rows(sql, key)?
            .iter()
            .map(rows::instance)
            .collect()
    }

    fn instances(&self, query: &InstanceQuery) -> Result<Vec<InstanceRow>> {
        let statuses = query.statuses.iter().map(|status| i16::from(*status as u8));
        let statuses: Vec<i16> = statuses.collect();
        let sql = select_instance!(
            "WHERE (cardinality($1::smallint[]) = 0 OR i.status = ANY($1)) \
             AND ($2::text IS NULL OR d.name = $2) AND i.no < $3 ORDER BY i.no DESC LIMIT $4"
        );
        let before = query.before.map_or(i64::MAX, |no| no.0);
        let key = params![
            statuses,
            query.workflow.clone(),
            before,
            i64::from(query.limit)
        ];
        self.pool
            .rows(sql, key)?
            .iter()
            .map(rows::instance)
            .collect()
    }

    fn input(&self, instance: InstanceNo) -> Result<Option<Payload>> {
        let sql = "SELECT input, input_meta FROM origin WHERE instance = $1";
        self.payload(sql, instance.0)
    }

    fn output(&self, instance: InstanceNo) -> Result<Option<Payload>> {
        let sql = "SELECT output, output_meta FROM instance WHERE no = $1";
        self.payload(sql, instance.0)
    }

    fn vars(&self, instance: InstanceNo, scope: ScopeNo) -> Result<Vec<(String, Payload)>> {
        let sql = "SELECT name, body, meta FROM var WHERE instance = $1 AND scope = $2 \
            ORDER BY name";
        let rows = self
            .pool
            .rows(sql, params![instance.0, scope.0.cast_signed()])?;
        let var = |row| Ok((get(row, 0)?, some_payload(row, 1)?));
        rows.iter().map(var).collect()
    }

    fn scopes(&self, instance: InstanceNo) -> Result<Vec<(ScopeNo, Bytes)>> {
        let sql = "SELECT scope, state FROM scope WHERE instance = $1 ORDER BY scope";
        let rows = self.pool.rows(sql, params![instance.0])?;
        let scope = |row: &tokio_postgres::Row| {
            let no: i64 = get(row, 0)?;
            Ok((ScopeNo(no.cast_unsigned()), some_bytes(row, 1)?))
        };
        rows.iter().map(scope).collect()
    }

    fn items(
        &self,
        instance: InstanceNo,
        list: Seq,
        from: u32,
        limit: u32,
    ) -> Result<Vec<(u32, Payload)>> {
        let sql = "SELECT place, body, meta FROM item WHERE instance = $1 AND list = $2 \
            AND place >= $3 ORDER BY place LIMIT $4";
        let (from, limit) = (i64::from(from), i64::from(limit));
        let key = params![instance.0, list.0.cast_signed(), from, limit];
        let item = |row| Ok((small(row, 0)?, some_payload(row, 1)?));
        self.pool.rows(sql, key)?.iter().map(item).collect()
    }

    fn run(&self, no: RunNo) -> Result<Option<RunRow>> {
        let row = self.pool.one(select_run!("WHERE no = $1"), params![no.0])?;
        row.as_ref().map(rows::run).transpose()
    }

    fn run_output(&self, no: RunNo) -> Result<Option<Payload>> {
        self.payload("SELECT output, output_meta FROM run WHERE no = $1", no.0)
    }

    fn runs(&self, instance: InstanceNo, before: Option<RunNo>, limit: u32) -> Result<Vec<RunRow>> {
        let sql = "WITH RECURSIVE walk (no, place) AS ( \
                SELECT CASE WHEN $2::bigint IS NULL \
                    THEN (SELECT last_run FROM instance WHERE no = $1) \
                    ELSE (SELECT previous FROM run WHERE no = $2 AND instance = $1) END, 1::bigint \
                UNION ALL \
                SELECT r.previous, place + 1 FROM walk JOIN run r ON r.no = walk.no \
                WHERE place < $3) \
            SELECT r.no, r.instance, r.previous, r.seq, r.first, r.node, r.kind, r.attempt, \
                r.status, r.started_ms, r.took_us, r.failure, r.logs, r.skipped, r.output, \
                r.output_meta \
            FROM walk JOIN run r ON r.no = walk.no ORDER BY walk.place LIMIT $3";
        let key = params![instance.0, before.map(|no| no.0), i64::from(limit)];
        self.pool.rows(sql, key)?.iter().map(rows::run).collect()
    }

    fn journal(&self, instance: InstanceNo) -> Result<Vec<JournalRow>> {
        let sql = "SELECT at_ms, kind, detail FROM journal WHERE instance = $1 \
            ORDER BY version, place";
        let entry = |row| {
            Ok(JournalRow {
                at_ms: get(row, 0)?,
                kind: get(row, 1)?,
                detail: some_bytes(row, 2)?,
            })
        };
        self.pool
            .rows(sql, params![instance.0])?
            .iter()
            .map(entry)
            .collect()
    }

    fn triggers(&self, instance: InstanceNo) -> Result<Vec<TriggerRow>> {
        // Those from outside have the top bit set, which is the sign here.
        let sql = select_trigger!("WHERE instance = $1 ORDER BY seq < 0, seq, no");
        self.pool
            .rows(sql, params![instance.0])?
            .iter()
            .map(rows::trigger)
            .collect()
    }

    fn definition(&self, wanted: Digest) -> Result<Option<DefinitionRow>> {
        let sql = "SELECT digest, name, json FROM definition WHERE digest = $1";
        let row = self.pool.one(sql, params![wanted.0.to_vec()])?;
        row.map(|row| {
            Ok(DefinitionRow {
                digest: digest(&row, 0)?,
                name: get(&row, 1)?,
                json: some_bytes(&row, 2)?,
            })
        })
        .transpose()
    }

    fn pins(&self, wanted: Digest) -> Result<Option<PinsRow>> {
        let sql = "SELECT digest, json FROM pins WHERE digest = $1";
        let row = self.pool.one(sql, params![wanted.0.to_vec()])?;
        row.map(|row| {
            Ok(PinsRow {
                digest: digest(&row, 0)?,
                json: some_bytes(&row, 1)?,
            })
        })
        .transpose()
    }

    fn published(&self, name: &str) -> Result<Option<PublicationRow>> {
        published::published(&self.pool, name)
    }

    fn publications(&self, query: &PublicationQuery) -> Result<Vec<PublicationRow>> {
        published::publications(&self.pool, query)
    }

    fn is_heard(&self, hash: Digest, now_ms: i64) -> Result<bool> {
        stimuli::is_heard(&self.pool, hash, now_ms)
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
            (SELECT finished_ms AS at_ms, no, id FROM instance \
                WHERE finished_ms IS NOT NULL AND extras & 16 = 0 AND finished_ms < $1 \
                ORDER BY finished_ms, no LIMIT $3) \
            UNION ALL (SELECT i.finished_ms, i.no, i.id \
                FROM kept k JOIN instance i ON i.no = k.instance \
                WHERE k.until_ms < $2 AND i.finished_ms IS NOT NULL \
                ORDER BY k.until_ms, k.instance LIMIT $3)) AS over \
            ORDER BY at_ms, no LIMIT $3";
        let row = |row| {
            Ok(ExpiredRow {
                no: InstanceNo(get(row, 0)?),
                id: stimuli::uuid_if_any(row, 1)?,
            })
        };
        let key = params![before_ms, now_ms, i64::from(limit)];
        self.pool.rows(sql, key)?.iter().map(row).collect()
    }

    fn component(&self, digest: Digest) -> Result<Option<Stored>> {
        let sql = "SELECT bytes, signature FROM component WHERE digest = $1";
        let Some(row) = self.pool.one(sql, params![digest.0.to_vec()])? else {
            return Ok(None);
        };
        Ok(Some(Stored {
            bytes: some_bytes(&row, 0)?,
            signature: get(&row, 1)?,
        }))
    }

    fn components(&self, after: i64, limit: u32) -> Result<Vec<ComponentRow>> {
        let sql = "SELECT digest, name, version, generation, signature FROM component \
            WHERE generation > $1 ORDER BY generation LIMIT $2";
        let row = |row| {
            Ok(ComponentRow {
                digest: digest(row, 0)?,
                name: get(row, 1)?,
                version: get(row, 2)?,
                generation: get(row, 3)?,
                signature: get::<Option<&str>>(row, 4)?.map(|text| Digest::of(text.as_bytes())),
            })
        };
        let key = params![after, i64::from(limit)];
        self.pool.rows(sql, key)?.iter().map(row).collect()
    }

    fn trigger(&self, target: TriggerTarget) -> Result<Option<TriggerRow>> {
        stimuli::trigger(&self.pool, target)
    }

    fn outside(&self, id: TriggerId) -> Result<Option<OutsideRow>> {
        stimuli::outside(&self.pool, id)
    }

    fn due(&self, query: &DueQuery) -> Result<Vec<TriggerRow>> {
        stimuli::due(&self.pool, query)
    }

    fn bookmarks(&self, query: &BookmarkQuery) -> Result<Vec<BookmarkRow>> {
        stimuli::bookmarks(&self.pool, query)
    }

    fn bookmark(&self, no: BookmarkNo) -> Result<Option<BookmarkRow>> {
        stimuli::bookmark_by_no(&self.pool, no)
    }

    fn bookmark_by_token(&self, token: Digest) -> Result<Option<BookmarkRow>> {
        stimuli::bookmark_by_token(&self.pool, token)
    }

    fn secret(&self) -> Result<[u8; 32]> {
        stimuli::secret(&self.pool)
    }

    fn setting(&self, name: &str) -> Result<Option<Bytes>> {
        let sql = "SELECT value FROM setting WHERE name = $1";
        let row = self.pool.one(sql, params![name.to_owned()])?;
        row.map(|row| some_bytes(&row, 0)).transpose()
    }

    fn queued(&self, query: &StimulusQuery) -> Result<Vec<QueuedRow>> {
        stimuli::queue(&self.pool, query)
    }

    fn buffered(&self, query: &StimulusQuery) -> Result<Vec<BufferedRow>> {
        stimuli::buffer(&self.pool, query)
    }

    fn dead_letters(&self, query: &LetterQuery) -> Result<Vec<LetterRow>> {
        stimuli::letters(&self.pool, query)
    }

    fn dead_letter(&self, no: LetterNo) -> Result<Option<LetterRow>> {
        stimuli::letter_by_no(&self.pool, no)
    }

    fn children(
        &self,
        parent: InstanceNo,
        after: Option<InstanceNo>,
        limit: u32,
    ) -> Result<Vec<InstanceRow>> {
        let sql = select_instance!("WHERE o.parent = $1 AND i.no > $2 ORDER BY i.no LIMIT $3");
        let after = after.map_or(i64::MIN, |no| no.0);
        let key = params![parent.0, after, i64::from(limit)];
        self.pool
            .rows(sql, key)?
            .iter()
            .map(rows::instance)
            .collect()
    }

    fn blob(&self, blob: BlobRef) -> Result<Option<Bytes>> {
        let sql = "SELECT content FROM blob WHERE digest = $1";
        let row = self.pool.one(sql, params![blob.digest.0.to_vec()])?;
        row.map(|row| some_bytes(&row, 0)).transpose()
    }

    fn members(&self) -> Result<Vec<MemberRow>> {
        let sql = "SELECT incarnation, name, pid, joined_ms FROM member ORDER BY incarnation";
        let member = |row| {
            Ok(MemberRow {
                incarnation: Incarnation(get(row, 0)?),
                name: get(row, 1)?,
                pid: small(row, 2)?,
                joined_ms: get(row, 3)?,
            })
        };
        self.pool.rows(sql, params![])?.iter().map(member).collect()
    }

    fn backlog(&self, now_ms: i64, limit: u32) -> Result<Backlog> {
        // The due index begins with the priority, so each is looked at by itself.
        let sql = "WITH RECURSIVE ranks (rank) AS ( \
                (SELECT rank FROM trigger WHERE wake_ms IS NOT NULL ORDER BY rank DESC LIMIT 1) \
                UNION ALL \
                SELECT (SELECT t.rank FROM trigger t WHERE t.wake_ms IS NOT NULL \
                    AND t.rank < ranks.rank ORDER BY t.rank DESC LIMIT 1) \
                FROM ranks WHERE ranks.rank IS NOT NULL) \
            SELECT (SELECT count(*) FROM (SELECT 1 FROM ranks JOIN trigger t \
                    ON t.wake_ms IS NOT NULL AND t.rank = ranks.rank AND t.wake_ms <= $1 \
                    LIMIT $2) AS due), \
                (SELECT count(*) FROM (SELECT 1 FROM dead_letter WHERE replayed_ms IS NULL \
                    LIMIT $2) AS dead)";
        let row = self.pool.one(sql, params![now_ms, i64::from(limit)])?;
        let Some(row) = row else {
            return Ok(Backlog::default());
        };
        Ok(Backlog {
            due: unsigned(&row, 0)?,
            dead: unsigned(&row, 1)?,
        })
    }

    fn counts(&self) -> Result<Counts> {
        let sql = "SELECT (SELECT count(*) FROM instance), \
            (SELECT count(*) FROM instance WHERE status < 4), \
            (SELECT count(*) FROM trigger), \
            (SELECT count(*) FROM trigger WHERE state = 2), \
            (SELECT count(*) FROM run), (SELECT count(*) FROM blob), \
            (SELECT count(*) FROM bookmark), \
            (SELECT count(*) FROM stimulus WHERE ready_ms IS NOT NULL), \
            (SELECT count(*) FROM stimulus WHERE expires_ms IS NOT NULL), \
            (SELECT count(*) FROM dead_letter)";
        let Some(row) = self.pool.one(sql, params![])? else {
            return Ok(Counts::default());
        };
        Ok(Counts {
            instances: unsigned(&row, 0)?,
            unfinished: unsigned(&row, 1)?,
            triggers: unsigned(&row, 2)?,
            parked: unsigned(&row, 3)?,
            runs: unsigned(&row, 4)?,
            blobs: unsigned(&row, 5)?,
            bookmarks: unsigned(&row, 6)?,
            queued: unsigned(&row, 7)?,
            buffered: unsigned(&row, 8)?,
            dead_letters: unsigned(&row, 9)?,
        })
    }
}

impl PostgresStore {
    /// The payload in the two columns of a statement with one parameter.
    fn payload(&self, sql: &'static str, key: i64) -> Result<Option<Payload>> {
        let row = self.pool.one(sql, params![key])?;
        let payload = row.map(|row| read_payload(&row, 0)).transpose()?;
        Ok(payload.flatten())
    }
}
