//! Sweeping definitions and pins that nothing refers to.

use super::{Done, Session};
use crate::retention::SLICE_BYTES;
use crate::write::Wrote;

/// How far a sweep has come: which of the tables, and after which row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    table: usize,
    after: i64,
}

/// What there is to say about a table: its rows after one, with since when each is unused, its
/// size, and whether something uses it; noting since when; and deleting.
struct Table {
    page: &'static str,
    note: &'static str,
    delete: &'static str,
}

/// A row of one of them.
struct Document {
    no: i64,
    unused_ms: Option<i64>,
    length: i64,
    used: bool,
}

const TABLES: [Table; 2] = [
    Table {
        page: "SELECT d.no, d.unused_ms, length(d.json), \
            EXISTS (SELECT 1 FROM instance i WHERE i.definition = d.no) \
            OR EXISTS (SELECT 1 FROM publication p WHERE p.definition = d.no) \
            FROM definition d WHERE d.no > ?1 ORDER BY d.no LIMIT ?2",
        note: "UPDATE definition SET unused_ms = ?2 WHERE no = ?1",
        delete: "DELETE FROM definition WHERE no = ?1",
    },
    Table {
        page: "SELECT d.no, d.unused_ms, length(d.json), \
            EXISTS (SELECT 1 FROM instance i WHERE i.pins = d.no) \
            FROM pins d WHERE d.no > ?1 ORDER BY d.no LIMIT ?2",
        note: "UPDATE pins SET unused_ms = ?2 WHERE no = ?1",
        delete: "DELETE FROM pins WHERE no = ?1",
    },
];

impl Session<'_> {
    pub(super) fn sweep_documents(&mut self, before_ms: i64, rows: u32, at_ms: i64) -> Done<Wrote> {
        let (mut left, mut count, mut bytes) = (rows.max(1), 0, 0);
        let more = loop {
            let Some(table) = TABLES.get(self.documents.table) else {
                self.documents = Place::default();
                break false;
            };
            if left == 0 || bytes > SLICE_BYTES {
                break true;
            }
            let page = self.documents_after(table, left)?;
            if page.is_empty() {
                self.documents.table += 1;
                self.documents.after = 0;
            }
            for document in page {
                left -= 1;
                self.documents.after = document.no;
                if self.look_after(table, &document, before_ms, at_ms)? {
                    count += 1;
                    bytes += document.length;
                }
                if bytes > SLICE_BYTES {
                    break;
                }
            }
        };
        if count > 0 {
            // Numbers that are remembered may be those of what is gone.
            self.cache.definitions.clear();
            self.cache.pins.clear();
        }
        Ok(Wrote::Swept { count, more })
    }

    fn documents_after(&self, table: &Table, limit: u32) -> Done<Vec<Document>> {
        let mut statement = self.connection.prepare_cached(table.page)?;
        let rows = statement.query_map((self.documents.after, limit), |row| {
            Ok(Document {
                no: row.get(0)?,
                unused_ms: row.get(1)?,
                length: row.get(2)?,
                used: row.get(3)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Deletes what has been unused for long enough, and notes of the rest whether it is used.
    /// True if it is gone.
    fn look_after(
        &self,
        table: &Table,
        document: &Document,
        before_ms: i64,
        at_ms: i64,
    ) -> Done<bool> {
        let no = document.no;
        let since_ms = match (document.used, document.unused_ms) {
            (false, Some(since_ms)) if since_ms < before_ms => {
                self.connection
                    .prepare_cached(table.delete)?
                    .execute([no])?;
                return Ok(true);
            }
            (true, None) | (false, Some(_)) => return Ok(false),
            (true, Some(_)) => None,
            (false, None) => Some(at_ms),
        };
        self.connection
            .prepare_cached(table.note)?
            .execute((no, since_ms))?;
        Ok(false)
    }
}
