//! Deletion of runs, in slices with a bounded number of rows.

use rusqlite::OptionalExtension as _;
use windlass_model::{Body, Digest, Payload};

use super::{Done, Session};
use crate::lives::Clear;
use crate::retention::{Forget, Forgotten, KEPT_PAGES, Swept};
use crate::rows::NewBlob;
use crate::sql::hot;
use crate::sql::transaction::now;
use crate::sql::{lives, rows};
use crate::sums::{self, Of};

/// Deletes a number of a run's rows, other than its head, its records and its blobs: one
/// statement for each table.
const HANGING: &[&str] = &[
    "DELETE FROM trigger WHERE no IN (SELECT no FROM trigger WHERE run = ?1 LIMIT ?2)",
    "DELETE FROM var WHERE (run, scope, name) IN \
        (SELECT run, scope, name FROM var WHERE run = ?1 LIMIT ?2)",
    "DELETE FROM scope WHERE (run, scope) IN \
        (SELECT run, scope FROM scope WHERE run = ?1 LIMIT ?2)",
    "DELETE FROM item WHERE (run, list, place) IN \
        (SELECT run, list, place FROM item WHERE run = ?1 LIMIT ?2)",
    "DELETE FROM bookmark WHERE no IN (SELECT no FROM bookmark WHERE run = ?1 LIMIT ?2)",
    "DELETE FROM external_trigger WHERE id IN (SELECT id FROM external_trigger WHERE run = ?1 LIMIT ?2)",
    "DELETE FROM journal WHERE (run, version, place) IN \
        (SELECT run, version, place FROM journal WHERE run = ?1 LIMIT ?2)",
];

impl Session<'_> {
    pub(super) fn forget(&mut self, forget: &Forget) -> Done<Forgotten> {
        let (no, at_ms) = (forget.run.0, forget.at_ms);
        self.write_head(no)?;
        let Some((begun, mut last_execution)) = self.to_forget(no, forget.before_ms, at_ms)? else {
            return Ok(Forgotten { more: false });
        };
        // The cached head is outdated.
        self.cache.heads.remove(&no);
        if !begun {
            now(lives::hide(self, no))?;
        }
        if self.delete_hanging(no, &mut last_execution, forget.rows, at_ms)? {
            return Ok(Forgotten { more: true });
        }
        self.release_reservations(forget.run)?;
        for sql in [hot::UNKEEP.sqlite, hot::REMOVE_RUN.sqlite] {
            self.connection.prepare_cached(sql)?.execute([no])?;
        }
        self.turn()?;
        Ok(Forgotten { more: false })
    }

    /// Deletes at most about `rows` rows of a tombstone's run.
    pub(super) fn clear(&mut self, clear: &Clear) -> Done<Forgotten> {
        let Clear { run, rows, at_ms } = *clear;
        let no = run.0;
        self.write_head(no)?;
        let Some((true, mut last_execution)) = self.to_forget(no, i64::MIN, i64::MIN)? else {
            return Ok(Forgotten { more: false });
        };
        self.cache.heads.remove(&no);
        let more = self.delete_hanging(no, &mut last_execution, rows, at_ms)?;
        Ok(Forgotten { more })
    }

    /// Deletes at most about `rows` rows of a run. True if there may be more.
    pub(super) fn delete_hanging(
        &mut self,
        no: i64,
        last_execution: &mut Option<i64>,
        rows: u32,
        at_ms: i64,
    ) -> Done<bool> {
        let mut left = u64::from(rows.max(1));
        for sql in HANGING {
            left -= self.delete_some(sql, (no, left))?;
        }
        left -= self.delete_executions(no, last_execution, left)?;
        left -= self.loosen_blobs(no, left, at_ms)?;
        Ok(left == 0)
    }

    /// Whether deletion has begun or the run is a tombstone, and its newest record. None if
    /// its retention time has not ended.
    pub(super) fn to_forget(
        &self,
        no: i64,
        before_ms: i64,
        at_ms: i64,
    ) -> Done<Option<(bool, Option<i64>)>> {
        let mut statement = self.connection.prepare_cached(hot::FORGETTABLE.sqlite)?;
        let row = statement.query_row([no], |row| Ok(rows::forgettable(row, before_ms, at_ms)));
        Ok(row.optional()?.transpose()?.flatten())
    }

    fn delete_some(&self, sql: &str, key: (i64, u64)) -> Done<u64> {
        if key.1 == 0 {
            return Ok(0);
        }
        let key = (key.0, key.1.cast_signed());
        Ok(self.connection.prepare_cached(sql)?.execute(key)? as u64)
    }

    /// Follows the chain of records backwards: no index finds them.
    fn delete_executions(
        &self,
        no: i64,
        last_execution: &mut Option<i64>,
        bound: u64,
    ) -> Done<u64> {
        let mut deleted = 0;
        let mut statement = self
            .connection
            .prepare_cached("DELETE FROM execution WHERE no = ?1 RETURNING previous")?;
        while let Some(execution) = last_execution.filter(|_| deleted < bound) {
            let previous = statement
                .query_row([execution], |row| row.get(0))
                .optional()?;
            *last_execution = previous.flatten();
            deleted += 1;
        }
        let sql = hot::SET_LAST_RUN.sqlite;
        self.connection
            .prepare_cached(sql)?
            .execute((no, *last_execution))?;
        Ok(deleted)
    }

    /// Releases the references to blobs. A later sweep checks whether each blob is still needed.
    pub(super) fn loosen_blobs(&self, no: i64, bound: u64, at_ms: i64) -> Done<u64> {
        let sql = "INSERT INTO blob_loose (blob, since_ms) SELECT blob, ?3 FROM \
            (SELECT blob FROM blob_ref WHERE run = ?1 ORDER BY blob LIMIT ?2) WHERE true \
            ON CONFLICT (blob) DO UPDATE SET since_ms = max(since_ms, excluded.since_ms)";
        let bound = bound.cast_signed();
        self.connection
            .prepare_cached(sql)?
            .execute((no, bound, at_ms))?;
        let sql = "DELETE FROM blob_ref WHERE run = ?1 AND blob IN \
            (SELECT blob FROM blob_ref WHERE run = ?1 ORDER BY blob LIMIT ?2)";
        Ok(self.connection.prepare_cached(sql)?.execute((no, bound))? as u64)
    }

    /// Writes blobs, and notes that the run refers to them.
    pub(super) fn put_blobs(&mut self, run: i64, blobs: &[NewBlob], at_ms: i64) -> Done<()> {
        for blob in blobs {
            let bytes: &[u8] = &blob.bytes;
            let digest = &blob.digest.0[..];
            let sum = sums::sum(Of::Blob, [0; 3], "", Some(bytes), Some(digest));
            let put = &mut self.statements.put_blob;
            put.execute((digest, at_ms, bytes, sum))?;
            // The statement has a copy of the bytes until it is bound again.
            put.clear_bindings();
            self.hold_blob(run, &blob.digest)?;
        }
        Ok(())
    }

    /// Notes that a run refers to the blob of a payload, if the payload has one.
    pub(super) fn refer(&mut self, run: i64, payload: &Payload) -> Done<()> {
        match &payload.body {
            Body::Inline(_) => Ok(()),
            Body::Blob(blob) => self.hold_blob(run, &blob.digest),
        }
    }

    pub(super) fn hold_blob(&mut self, run: i64, digest: &Digest) -> Done<()> {
        let sql = "INSERT OR IGNORE INTO blob_ref (run, blob) \
            SELECT ?1, no FROM blob WHERE digest = ?2";
        let key = (run, &digest.0[..]);
        self.connection.prepare_cached(sql)?.execute(key)?;
        Ok(())
    }

    /// Returns free pages to the file system, except for the number that a steady load uses again.
    pub(super) fn sweep_pages(&self, rows: u32) -> Done<Swept> {
        let pragma = |name: &str| {
            self.connection
                .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
        };
        let pages = pragma("page_count")?;
        let before = pragma("freelist_count")?;
        let spare = before - (pages / KEPT_PAGES.0).max(KEPT_PAGES.1);
        let slice = spare.clamp(0, i64::from(rows));
        if slice == 0 {
            let (count, more) = (0, false);
            return Ok(Swept { count, more });
        }
        // Each step of the statement frees one page, so it is stepped to its end.
        let mut vacuum = self
            .connection
            .prepare(&format!("PRAGMA incremental_vacuum({slice})"))?;
        let mut steps = vacuum.query([])?;
        while steps.next()?.is_some() {}
        let freed = before - pragma("freelist_count")?;
        Ok(Swept {
            count: u32::try_from(freed).unwrap_or_default(),
            more: freed > 0 && spare > slice,
        })
    }
}
