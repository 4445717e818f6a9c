//! Forgetting, in slices that are bounded by a number of rows.

use tokio_postgres::Row;
use windlass_model::{InstanceNo, Status};

use super::{Done, Session, get};
use crate::retention::{SLICE_BYTES, Sweep};
use crate::sql::row::variant;
use crate::write::Wrote;

/// What hangs on an instance besides its head, its records and its blobs: deletes so many
/// rows of one.
const HANGING: &[&str] = &[
    "DELETE FROM trigger WHERE ctid = ANY (ARRAY(SELECT ctid FROM trigger \
        WHERE instance = $1 LIMIT $2))",
    "DELETE FROM var WHERE ctid = ANY (ARRAY(SELECT ctid FROM var \
        WHERE instance = $1 LIMIT $2))",
    "DELETE FROM scope WHERE ctid = ANY (ARRAY(SELECT ctid FROM scope \
        WHERE instance = $1 LIMIT $2))",
    "DELETE FROM item WHERE ctid = ANY (ARRAY(SELECT ctid FROM item \
        WHERE instance = $1 LIMIT $2))",
    "DELETE FROM bookmark WHERE ctid = ANY (ARRAY(SELECT ctid FROM bookmark \
        WHERE instance = $1 LIMIT $2))",
    "DELETE FROM outside WHERE ctid = ANY (ARRAY(SELECT ctid FROM outside \
        WHERE instance = $1 LIMIT $2))",
    "DELETE FROM journal WHERE ctid = ANY (ARRAY(SELECT ctid FROM journal \
        WHERE instance = $1 LIMIT $2))",
];

impl Session<'_> {
    pub(super) async fn forget(
        &mut self,
        instance: InstanceNo,
        before_ms: i64,
        rows: u32,
        at_ms: i64,
    ) -> Done<Wrote> {
        let no = instance.0;
        let Some((begun, last_run)) = self.forgettable(no, before_ms, at_ms).await? else {
            return Ok(Wrote::Forgotten { more: false });
        };
        if !begun {
            self.hide(no).await?;
        }
        if self.delete_hanging(no, last_run, rows, at_ms).await? {
            return Ok(Wrote::Forgotten { more: true });
        }
        for sql in [
            "DELETE FROM reservation WHERE instance = $1",
            "DELETE FROM kept WHERE instance = $1",
            "DELETE FROM instance WHERE no = $1",
        ] {
            self.later(sql, &[&no]).await?;
        }
        Ok(Wrote::Forgotten { more: false })
    }

    /// Deletes at most about so many rows of what hangs on an instance. True if there may be
    /// more.
    pub(super) async fn delete_hanging(
        &mut self,
        no: i64,
        last_run: Option<i64>,
        rows: u32,
        at_ms: i64,
    ) -> Done<bool> {
        let mut left = i64::from(rows.max(1));
        for sql in HANGING {
            if left > 0 {
                left -= self.execute(sql, &[&no, &left]).await?.cast_signed();
            }
        }
        left -= self.delete_runs(no, last_run, left).await?;
        left -= self.loosen_blobs(no, left, at_ms).await?;
        Ok(left <= 0)
    }

    /// Whether forgetting it has begun, or it is a tombstone, and its newest record, if its
    /// time is over.
    pub(super) async fn forgettable(
        &mut self,
        no: i64,
        before_ms: i64,
        at_ms: i64,
    ) -> Done<Option<(bool, Option<i64>)>> {
        let sql = "SELECT status, finished_ms, last_run, \
            EXISTS (SELECT 1 FROM origin WHERE instance = $1), \
            (SELECT until_ms FROM kept WHERE instance = $1) \
            FROM instance WHERE no = $1 FOR NO KEY UPDATE";
        let Some(row) = self.one(sql, &[&no]).await? else {
            return Ok(None);
        };
        let status = variant(&row, 0, Status::from_stored)?;
        let finished_ms: Option<i64> = get(&row, 1)?;
        let over = match get::<Option<i64>>(&row, 4)? {
            Some(until_ms) => until_ms < at_ms,
            None => finished_ms.is_some_and(|ended_ms| ended_ms < before_ms),
        };
        let over = over && status.is_final();
        let begun = !get::<bool>(&row, 3)?;
        Ok((over || begun).then_some((begun, get(&row, 2)?)))
    }

    /// From here on nobody finds the instance, so that nobody sees one of which a part is
    /// gone; and its id is free, because the column has what cannot be one.
    pub(super) async fn hide(&mut self, no: i64) -> Done<()> {
        for sql in [
            "DELETE FROM origin WHERE instance = $1",
            "UPDATE instance SET id = convert_to('being forgotten: ' || no, 'UTF8'), \
                output = NULL, output_meta = NULL WHERE no = $1",
        ] {
            self.later(sql, &[&no]).await?;
        }
        Ok(())
    }

    /// Walks back through the records: no index finds them.
    async fn delete_runs(&mut self, no: i64, last_run: Option<i64>, bound: i64) -> Done<i64> {
        let (Some(last_run), true) = (last_run, bound > 0) else {
            return Ok(0);
        };
        let sql = "WITH RECURSIVE back (no, previous, place) AS ( \
                SELECT no, previous, 1::bigint FROM run WHERE no = $1 \
                UNION ALL SELECT r.no, r.previous, b.place + 1 FROM back b \
                JOIN run r ON r.no = ANY (ARRAY[b.previous]) WHERE b.place < $2), \
            gone AS (DELETE FROM run WHERE no = ANY (ARRAY(SELECT no FROM back))) \
            SELECT previous, place FROM back ORDER BY place DESC LIMIT 1";
        let row = self.one(sql, &[&last_run, &bound]).await?;
        let (previous, deleted): (Option<i64>, i64) = match row {
            Some(row) => (get(&row, 0)?, get(&row, 1)?),
            None => (None, 1),
        };
        let sql = "UPDATE instance SET last_run = $2 WHERE no = $1";
        self.later(sql, &[&no, &previous]).await?;
        Ok(deleted)
    }

    /// Gives references to blobs up. Whether a blob is still needed is looked at later.
    pub(super) async fn loosen_blobs(&mut self, no: i64, bound: i64, at_ms: i64) -> Done<i64> {
        if bound <= 0 {
            return Ok(0);
        }
        let sql = "WITH gone AS (DELETE FROM blob_ref WHERE instance = $1 AND blob = ANY (ARRAY( \
                SELECT blob FROM blob_ref WHERE instance = $1 ORDER BY blob LIMIT $2)) \
                RETURNING blob), \
            loose AS (INSERT INTO blob_loose (blob, since_ms) SELECT blob, $3 FROM gone \
                ORDER BY blob ON CONFLICT (blob) DO UPDATE \
                SET since_ms = greatest(blob_loose.since_ms, excluded.since_ms)) \
            SELECT count(*) FROM gone";
        Ok(self.row(sql, &[&no, &bound, &at_ms]).await?.try_get(0)?)
    }

    pub(super) async fn sweep(
        &mut self,
        what: Sweep,
        before_ms: i64,
        rows: u32,
        at_ms: i64,
    ) -> Done<Wrote> {
        match what {
            Sweep::Blobs => self.sweep_blobs(before_ms, rows).await,
            Sweep::Documents => self.sweep_documents(before_ms, rows, at_ms).await,
            // Autovacuum has them taken again.
            Sweep::Pages => {
                let (count, more) = (0, false);
                Ok(Wrote::Swept { count, more })
            }
        }
    }

    /// Whoever wants to refer to a blob of the slice waits until it is known whether it stays.
    async fn sweep_blobs(&mut self, before_ms: i64, rows: u32) -> Done<Wrote> {
        let sql = "SELECT l.blob FROM blob_loose l WHERE l.since_ms < $1 \
            ORDER BY l.since_ms, l.blob LIMIT $2 FOR UPDATE SKIP LOCKED";
        let found = self.rows(sql, &[&before_ms, &i64::from(rows)]).await?;
        let mut more = found.len() >= rows as usize;
        let nos = numbers(&found)?;
        let sql = "SELECT no FROM blob WHERE no = ANY($1) ORDER BY no FOR UPDATE";
        self.later(sql, &[&nos]).await?;
        // What was written until they were held is seen by another statement only.
        let sql = "SELECT l.blob, coalesce(octet_length(b.content), 0)::bigint, \
            coalesce(b.touched_ms, 0), EXISTS (SELECT 1 FROM blob_ref r WHERE r.blob = l.blob OFFSET 0) \
            FROM blob_loose l LEFT JOIN blob b ON b.no = ANY (ARRAY[l.blob]) \
            WHERE l.blob = ANY($1) ORDER BY l.since_ms, l.blob";
        let loose = self.rows(sql, &[&nos]).await?;
        let (mut bytes, mut gone, mut tight) = (0, Vec::new(), Vec::new());
        for row in &loose {
            if bytes > SLICE_BYTES {
                more = true;
                break;
            }
            let (no, length): (i64, i64) = (get(row, 0)?, get(row, 1)?);
            let (touched_ms, needed): (i64, bool) = (get(row, 2)?, get(row, 3)?);
            if !needed && touched_ms >= before_ms {
                let sql = "UPDATE blob_loose SET since_ms = $2 WHERE blob = $1";
                self.later(sql, &[&no, &touched_ms]).await?;
                continue;
            }
            tight.push(no);
            if !needed {
                gone.push(no);
                bytes += length;
            }
        }
        self.later("DELETE FROM blob_loose WHERE blob = ANY($1)", &[&tight])
            .await?;
        self.later("DELETE FROM blob WHERE no = ANY($1)", &[&gone])
            .await?;
        let count = u32::try_from(gone.len()).unwrap_or(u32::MAX);
        Ok(Wrote::Swept { count, more })
    }
}

fn numbers(rows: &[Row]) -> Done<Vec<i64>> {
    Ok(rows
        .iter()
        .map(|row| get(row, 0))
        .collect::<Result<_, _>>()?)
}
