//! Sweeping definitions and pins that nothing refers to.
//!
//! Whoever refers to a document holds its row FOR KEY SHARE. So what is to go is locked first,
//! and whether it is used is asked by a later statement.

use super::{Done, Session, get};
use crate::retention::SLICE_BYTES;
use crate::write::Wrote;

/// How far a sweep has come: which of the tables, and after which row.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::postgres) struct Place {
    table: usize,
    after: i64,
}

/// What there is to say about a table: its rows after one, with their sizes; which of some are
/// used; noting since when others are not; and deleting.
struct Table {
    page: &'static str,
    look: &'static str,
    note: &'static str,
    delete: &'static str,
}

const TABLES: [Table; 2] = [
    Table {
        page: "SELECT no FROM definition WHERE no > $1 ORDER BY no LIMIT $2 FOR UPDATE",
        look: "SELECT d.no, d.unused_ms, octet_length(d.json)::bigint, \
            EXISTS (SELECT 1 FROM instance i WHERE i.definition = d.no OFFSET 0) \
            OR EXISTS (SELECT 1 FROM publication p WHERE p.definition = d.no OFFSET 0) \
            FROM definition d WHERE d.no = ANY($1) ORDER BY d.no",
        note: "UPDATE definition SET unused_ms = $2 WHERE no = $1",
        delete: "DELETE FROM definition WHERE no = $1",
    },
    Table {
        page: "SELECT no FROM pins WHERE no > $1 ORDER BY no LIMIT $2 FOR UPDATE",
        look: "SELECT d.no, d.unused_ms, octet_length(d.json)::bigint, \
            EXISTS (SELECT 1 FROM instance i WHERE i.pins = d.no OFFSET 0) \
            FROM pins d WHERE d.no = ANY($1) ORDER BY d.no",
        note: "UPDATE pins SET unused_ms = $2 WHERE no = $1",
        delete: "DELETE FROM pins WHERE no = $1",
    },
];

impl Session<'_> {
    pub(super) async fn sweep_documents(
        &mut self,
        before_ms: i64,
        rows: u32,
        at_ms: i64,
    ) -> Done<Wrote> {
        let (mut left, mut count, mut bytes) = (i64::from(rows.max(1)), 0, 0);
        let mut place = *self.shared.documents.lock();
        let more = loop {
            let Some(table) = TABLES.get(place.table) else {
                place = Place::default();
                break false;
            };
            if left <= 0 || bytes > SLICE_BYTES {
                break true;
            }
            let page = self.rows(table.page, &[&place.after, &left]).await?;
            let page: Vec<i64> = page
                .iter()
                .map(|row| get(row, 0))
                .collect::<Result<_, _>>()?;
            if page.is_empty() {
                place.table += 1;
                place.after = 0;
            }
            for row in self.rows(table.look, &[&page]).await? {
                left -= 1;
                place.after = get(&row, 0)?;
                if self.look_after(table, &row, before_ms, at_ms).await? {
                    count += 1;
                    bytes += get::<i64>(&row, 2)?;
                }
                if bytes > SLICE_BYTES {
                    break;
                }
            }
        };
        self.aftermath.documents = Some(place);
        Ok(Wrote::Swept { count, more })
    }

    /// Deletes what has been unused for long enough, and notes of the rest whether it is used.
    /// True if it is gone.
    async fn look_after(
        &mut self,
        table: &Table,
        row: &tokio_postgres::Row,
        before_ms: i64,
        at_ms: i64,
    ) -> Done<bool> {
        let no: i64 = get(row, 0)?;
        let (unused_ms, used): (Option<i64>, bool) = (get(row, 1)?, get(row, 3)?);
        let since_ms = match (used, unused_ms) {
            (false, Some(since_ms)) if since_ms < before_ms => {
                self.later(table.delete, &[&no]).await?;
                return Ok(true);
            }
            (true, None) | (false, Some(_)) => return Ok(false),
            (true, Some(_)) => None,
            (false, None) => Some(at_ms),
        };
        self.later(table.note, &[&no, &since_ms]).await?;
        Ok(false)
    }
}
