//! Sweeps definitions, pins and large values without references.
//!
//! In PostgreSQL a transaction that refers to such a row holds it FOR KEY SHARE. So a sweep first
//! locks the rows that it may delete, and a later statement checks whether they are used.

use super::row::{flag, int, int_if_any};
use super::transaction::{Done, Transaction};
use super::{Row, Sql, params, sql};
use crate::error::Result;
use crate::retention::{SLICE_BYTES, Sweep, Sweepable, Swept};

/// The progress of a sweep of documents: the table, and the last row examined.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SweepCursor {
    table: usize,
    after: i64,
}

/// The statements for a table: a page of rows; the use of some rows; noting the time since when a
/// row is unused; deletion.
struct Table {
    page: Sql,
    look: Sql,
    note: Sql,
    delete: Sql,
}

/// A row of one of the tables.
struct Document {
    no: i64,
    unused_ms: Option<i64>,
    length: i64,
    used: bool,
}

const TABLES: [Table; 2] = [
    Table {
        page: sql!("SELECT no FROM definition WHERE no > ?1 ORDER BY no LIMIT ?2{| FOR UPDATE}"),
        look: sql!(
            "SELECT d.no, d.unused_ms, octet_length(d.json), \
            EXISTS (SELECT 1 FROM run i WHERE i.definition = d.no{| OFFSET 0}) \
            OR EXISTS (SELECT 1 FROM publication p WHERE p.definition = d.no{| OFFSET 0}) \
            FROM definition d WHERE d.no {IN (SELECT value FROM json_each(?1))|= ANY(?1)} \
            ORDER BY d.no"
        ),
        note: sql!("UPDATE definition SET unused_ms = ?2 WHERE no = ?1"),
        delete: sql!("DELETE FROM definition WHERE no = ?1"),
    },
    Table {
        page: sql!("SELECT no FROM pins WHERE no > ?1 ORDER BY no LIMIT ?2{| FOR UPDATE}"),
        look: sql!(
            "SELECT d.no, d.unused_ms, octet_length(d.json), \
            EXISTS (SELECT 1 FROM run i WHERE i.pins = d.no{| OFFSET 0}) \
            FROM pins d WHERE d.no {IN (SELECT value FROM json_each(?1))|= ANY(?1)} \
            ORDER BY d.no"
        ),
        note: sql!("UPDATE pins SET unused_ms = ?2 WHERE no = ?1"),
        delete: sql!("DELETE FROM pins WHERE no = ?1"),
    },
];

fn document(row: &dyn Row) -> Result<Document> {
    Ok(Document {
        no: int(row, 0)?,
        unused_ms: int_if_any(row, 1)?,
        length: int(row, 2)?,
        used: flag(row, 3)?,
    })
}

/// Deletes a slice of unused rows.
pub(crate) async fn sweep<X: Transaction>(tx: &mut X, sweep: &Sweep) -> Done<X, Swept> {
    match sweep.what {
        Sweepable::Documents => documents(tx, sweep).await,
        Sweepable::Blobs => blobs(tx, sweep.before_ms, sweep.rows).await,
        Sweepable::Pages => tx.sweep_pages(sweep.rows).await,
    }
}

/// Deletes documents that were unused before a time.
async fn documents<X: Transaction>(tx: &mut X, sweep: &Sweep) -> Done<X, Swept> {
    let (mut left, mut count, mut bytes) = (sweep.rows.max(1), 0, 0);
    let mut place = tx.documents_place();
    let more = loop {
        let Some(table) = TABLES.get(place.table) else {
            place = SweepCursor::default();
            break false;
        };
        if left == 0 || bytes > SLICE_BYTES {
            break true;
        }
        let page = tx
            .all(table.page, params![place.after, left], |row| int(row, 0))
            .await?;
        if page.is_empty() {
            place.table += 1;
            place.after = 0;
            continue;
        }
        for found in tx.all(table.look, params![page], document).await? {
            left = left.saturating_sub(1);
            place.after = found.no;
            if look_after(tx, table, &found, sweep).await? {
                count += 1;
                bytes += found.length;
            }
            if bytes > SLICE_BYTES {
                break;
            }
        }
    };
    tx.set_documents_place(place, count > 0);
    Ok(Swept { count, more })
}

/// Deletes a document that has been unused for long enough; otherwise notes whether it is used.
/// True if it was deleted.
async fn look_after<X: Transaction>(
    tx: &mut X,
    table: &Table,
    found: &Document,
    sweep: &Sweep,
) -> Done<X, bool> {
    let since_ms = match (found.used, found.unused_ms) {
        (false, Some(since_ms)) if since_ms < sweep.before_ms => {
            tx.later(table.delete, params![found.no]).await?;
            return Ok(true);
        }
        (true, None) | (false, Some(_)) => return Ok(false),
        (true, Some(_)) => None,
        (false, None) => Some(sweep.at_ms),
    };
    tx.later(table.note, params![found.no, since_ms]).await?;
    Ok(false)
}

/// A large value that has lost a reference.
struct Loose {
    no: i64,
    length: i64,
    touched_ms: i64,
    needed: bool,
}

fn loose(row: &dyn Row) -> Result<Loose> {
    Ok(Loose {
        no: int(row, 0)?,
        length: int(row, 1)?,
        touched_ms: int(row, 2)?,
        needed: flag(row, 3)?,
    })
}

/// Deletes large values that have no references since before a time. A transaction that adds a
/// reference to one of them waits until the sweep has decided.
async fn blobs<X: Transaction>(tx: &mut X, before_ms: i64, rows: u32) -> Done<X, Swept> {
    let sql = sql!(
        "SELECT l.blob FROM blob_loose l WHERE l.since_ms < ?1 \
        ORDER BY l.since_ms, l.blob LIMIT ?2{| FOR UPDATE SKIP LOCKED}"
    );
    let nos = tx
        .all(sql, params![before_ms, rows], |row| int(row, 0))
        .await?;
    let mut more = nos.len() >= rows as usize;
    let lock = "SELECT no FROM blob WHERE no = ANY($1) ORDER BY no FOR UPDATE";
    tx.lock(lock, params![nos.clone()]).await?;
    // Only a later statement sees the references that were committed before the locks were taken.
    let sql = sql!(
        "SELECT l.blob, coalesce(octet_length(b.content), 0), coalesce(b.touched_ms, 0), \
        EXISTS (SELECT 1 FROM blob_ref r WHERE r.blob = l.blob{| OFFSET 0}) \
        FROM blob_loose l LEFT JOIN blob b ON b.no = {l.blob|ANY (ARRAY[l.blob])} \
        WHERE l.blob {IN (SELECT value FROM json_each(?1))|= ANY(?1)} \
        ORDER BY l.since_ms, l.blob"
    );
    let (mut bytes, mut gone, mut tight) = (0, Vec::new(), Vec::new());
    for blob in tx.all(sql, params![nos], loose).await? {
        if bytes > SLICE_BYTES {
            more = true;
            break;
        }
        if !blob.needed && blob.touched_ms >= before_ms {
            let sql = sql!("UPDATE blob_loose SET since_ms = ?2 WHERE blob = ?1");
            tx.later(sql, params![blob.no, blob.touched_ms]).await?;
            continue;
        }
        tight.push(blob.no);
        if !blob.needed {
            gone.push(blob.no);
            bytes += blob.length;
        }
    }
    let count = u32::try_from(gone.len()).unwrap_or(u32::MAX);
    let sql =
        sql!("DELETE FROM blob_loose WHERE blob {IN (SELECT value FROM json_each(?1))|= ANY(?1)}");
    tx.later(sql, params![tight]).await?;
    let sql = sql!("DELETE FROM blob WHERE no {IN (SELECT value FROM json_each(?1))|= ANY(?1)}");
    tx.later(sql, params![gone]).await?;
    Ok(Swept { count, more })
}
