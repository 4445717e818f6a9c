//! Deletion of runs, in slices with a bounded number of rows.

use super::{Done, Session, get};
use crate::lives::Clear;
use crate::retention::{Forget, Forgotten};
use crate::sql::hot;
use crate::sql::{lives, rows};

/// Deletes a number of a run's rows, other than its head, its records and its blobs: one
/// statement for each table.
const HANGING: &[&str] = &[
    "DELETE FROM trigger WHERE ctid = ANY (ARRAY(SELECT ctid FROM trigger \
        WHERE run = $1 LIMIT $2))",
    "DELETE FROM var WHERE ctid = ANY (ARRAY(SELECT ctid FROM var \
        WHERE run = $1 LIMIT $2))",
    "DELETE FROM scope WHERE ctid = ANY (ARRAY(SELECT ctid FROM scope \
        WHERE run = $1 LIMIT $2))",
    "DELETE FROM item WHERE ctid = ANY (ARRAY(SELECT ctid FROM item \
        WHERE run = $1 LIMIT $2))",
    "DELETE FROM bookmark WHERE ctid = ANY (ARRAY(SELECT ctid FROM bookmark \
        WHERE run = $1 LIMIT $2))",
    "DELETE FROM external_trigger WHERE ctid = ANY (ARRAY(SELECT ctid FROM external_trigger \
        WHERE run = $1 LIMIT $2))",
    "DELETE FROM journal WHERE ctid = ANY (ARRAY(SELECT ctid FROM journal \
        WHERE run = $1 LIMIT $2))",
];

impl Session<'_> {
    /// Deletes at most about `rows` rows of a tombstone's run.
    pub(super) async fn clear(&mut self, clear: &Clear) -> Done<Forgotten> {
        let Clear { run, rows, at_ms } = *clear;
        let no = run.0;
        let Some((true, last_execution)) = self.forgettable(no, i64::MIN, i64::MIN).await? else {
            return Ok(Forgotten { more: false });
        };
        let more = self.delete_hanging(no, last_execution, rows, at_ms).await?;
        Ok(Forgotten { more })
    }

    pub(super) async fn forget(&mut self, forget: &Forget) -> Done<Forgotten> {
        let (no, at_ms) = (forget.run.0, forget.at_ms);
        let Some((begun, last_execution)) = self.forgettable(no, forget.before_ms, at_ms).await?
        else {
            return Ok(Forgotten { more: false });
        };
        if !begun {
            lives::hide(self, no).await?;
        }
        if self
            .delete_hanging(no, last_execution, forget.rows, at_ms)
            .await?
        {
            return Ok(Forgotten { more: true });
        }
        for sql in [
            hot::RELEASE_RESERVATIONS.postgres,
            hot::UNKEEP.postgres,
            hot::REMOVE_RUN.postgres,
        ] {
            self.later(sql, &[&no]).await?;
        }
        Ok(Forgotten { more: false })
    }

    /// Deletes at most about `rows` rows of a run. True if there may be more.
    pub(super) async fn delete_hanging(
        &mut self,
        no: i64,
        last_execution: Option<i64>,
        rows: u32,
        at_ms: i64,
    ) -> Done<bool> {
        let mut left = i64::from(rows.max(1));
        for sql in HANGING {
            if left > 0 {
                left -= self.execute(sql, &[&no, &left]).await?.cast_signed();
            }
        }
        left -= self.delete_executions(no, last_execution, left).await?;
        left -= self.loosen_blobs(no, left, at_ms).await?;
        Ok(left <= 0)
    }

    /// Whether deletion has begun or the run is a tombstone, and its newest record. None if
    /// its retention time has not ended.
    pub(super) async fn forgettable(
        &mut self,
        no: i64,
        before_ms: i64,
        at_ms: i64,
    ) -> Done<Option<(bool, Option<i64>)>> {
        let sql = hot::FORGETTABLE.postgres;
        let Some(row) = self.one(sql, &[&no]).await? else {
            return Ok(None);
        };
        Ok(rows::forgettable(&row, before_ms, at_ms)?)
    }

    /// Follows the chain of records backwards: no index finds them.
    async fn delete_executions(
        &mut self,
        no: i64,
        last_execution: Option<i64>,
        bound: i64,
    ) -> Done<i64> {
        let (Some(last_execution), true) = (last_execution, bound > 0) else {
            return Ok(0);
        };
        let sql = "WITH RECURSIVE back (no, previous, place) AS ( \
                SELECT no, previous, 1::bigint FROM execution WHERE no = $1 \
                UNION ALL SELECT r.no, r.previous, b.place + 1 FROM back b \
                JOIN execution r ON r.no = ANY (ARRAY[b.previous]) WHERE b.place < $2), \
            gone AS (DELETE FROM execution WHERE no = ANY (ARRAY(SELECT no FROM back))) \
            SELECT previous, place FROM back ORDER BY place DESC LIMIT 1";
        let row = self.one(sql, &[&last_execution, &bound]).await?;
        let (previous, deleted): (Option<i64>, i64) = match row {
            Some(row) => (get(&row, 0)?, get(&row, 1)?),
            None => (None, 1),
        };
        let sql = hot::SET_LAST_RUN.postgres;
        self.later(sql, &[&no, &previous]).await?;
        Ok(deleted)
    }

    /// Releases the references to blobs. A later sweep checks whether each blob is still needed.
    pub(super) async fn loosen_blobs(&mut self, no: i64, bound: i64, at_ms: i64) -> Done<i64> {
        if bound <= 0 {
            return Ok(0);
        }
        let sql = "WITH gone AS (DELETE FROM blob_ref WHERE run = $1 AND blob = ANY (ARRAY( \
                SELECT blob FROM blob_ref WHERE run = $1 ORDER BY blob LIMIT $2)) \
                RETURNING blob), \
            loose AS (INSERT INTO blob_loose (blob, since_ms) SELECT blob, $3 FROM gone \
                ORDER BY blob ON CONFLICT (blob) DO UPDATE \
                SET since_ms = greatest(blob_loose.since_ms, excluded.since_ms)) \
            SELECT count(*) FROM gone";
        Ok(self.row(sql, &[&no, &bound, &at_ms]).await?.try_get(0)?)
    }
}
