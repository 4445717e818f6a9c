//! Readers that use an index which only PostgreSQL's tables have.

use bytes::Bytes;
use windlass_model::BlobRef;

use super::PostgresStore;
use super::pool::ReadPool;
use crate::error::Result;
use crate::external::DueQuery;
use crate::read::Backlog;
use crate::rows::TriggerRow;
use crate::sql::row::{bytes, unsigned};
use crate::sql::rows::trigger;
use crate::sql::{InTables, Source as _, Tables, params, sql};

/// The priorities of pending triggers, the highest first, as `ranks`. The due index begins with the
/// priority, so each priority is read separately.
macro_rules! with_ranks {
    ($rest:literal) => {
        sql!(concat!(
            "WITH RECURSIVE ranks (rank) AS ( ",
            "(SELECT rank FROM trigger WHERE wake_ms IS NOT NULL ORDER BY rank DESC LIMIT 1) ",
            "UNION ALL ",
            "SELECT (SELECT t.rank FROM trigger t WHERE t.wake_ms IS NOT NULL ",
            "AND t.rank < ranks.rank ORDER BY t.rank DESC LIMIT 1) ",
            "FROM ranks WHERE ranks.rank IS NOT NULL) ",
            $rest
        ))
    };
}

impl InTables for PostgresStore {
    type Tables = ReadPool;

    fn tables(&self) -> &ReadPool {
        &self.pool
    }
}

impl Tables for ReadPool {
    fn due(&self, query: &DueQuery) -> Result<Vec<TriggerRow>> {
        // One page of each priority.
        let sql = with_ranks!(
            "SELECT d.no, d.run, d.seq, d.kind, d.node, d.due_ms, d.state, d.token, \
                d.attempt, d.deliveries, d.suspicion, d.detail, d.payload, d.priority \
            FROM ranks JOIN LATERAL (SELECT * FROM trigger t WHERE t.wake_ms IS NOT NULL \
                AND t.rank = ranks.rank AND t.wake_ms <= ?1 \
                AND (t.wake_ms, t.run, t.no) > (?2, ?3, ?4) \
                ORDER BY t.wake_ms, t.run, t.no LIMIT ?5) AS d ON true \
            ORDER BY d.due_ms, d.run, d.no LIMIT ?5"
        );
        let after = query.after.map_or((i64::MIN, i64::MIN, i64::MIN), |place| {
            (place.due_ms, place.run.0, place.no.0)
        });
        let key = params![query.until_ms, after.0, after.1, after.2, query.limit];
        self.all(sql, key, |row| trigger(row))
    }

    fn blob_part(&self, blob: BlobRef, from: u32, limit: u32) -> Result<Option<Bytes>> {
        // A blob is stored without compression, so the server reads only these parts of it.
        let sql = sql!(
            "SELECT substring(content FROM (?2::bigint)::int FOR (?3::bigint)::int) FROM blob \
             WHERE digest = ?1"
        );
        // No value has so many bytes.
        let most = i64::from(i32::MAX);
        let from = (i64::from(from) + 1).min(most);
        let key = params![blob.digest, from, i64::from(limit).min(most)];
        self.one(sql, key, |row| bytes(row, 0))
    }

    fn backlog(&self, now_ms: i64, limit: u32) -> Result<Backlog> {
        let sql = with_ranks!(
            "SELECT (SELECT count(*) FROM (SELECT 1 FROM ranks JOIN trigger t \
                    ON t.wake_ms IS NOT NULL AND t.rank = ranks.rank AND t.wake_ms <= ?1 \
                    LIMIT ?2) AS due), \
                (SELECT count(*) FROM (SELECT 1 FROM trigger WHERE wake_ms IS NOT NULL \
                    LIMIT ?2) AS waiting), \
                (SELECT count(*) FROM (SELECT 1 FROM trigger WHERE state = 2 \
                    LIMIT ?2) AS parked), \
                (SELECT count(*) FROM (SELECT 1 FROM dead_letter WHERE replayed_ms IS NULL \
                    LIMIT ?2) AS dead)"
        );
        let backlog = self.one(sql, params![now_ms, limit], |row| {
            Ok(Backlog {
                due: unsigned(row, 0)?,
                pending: unsigned(row, 1)?.saturating_sub(unsigned(row, 0)?),
                parked: unsigned(row, 2)?,
                dead: unsigned(row, 3)?,
            })
        })?;
        Ok(backlog.unwrap_or_default())
    }
}
