//! Readers that use an index which only SQLite's tables have.

use bytes::Bytes;
use rusqlite::OptionalExtension as _;
use windlass_model::BlobRef;

use super::SqliteStore;
use super::pool::Pool;
use super::session::statements::PRIORITY;
use crate::error::Result;
use crate::external::DueQuery;
use crate::read::Backlog;
use crate::rows::TriggerRow;
use crate::sql::row::{int, unsigned};
use crate::sql::rows::{select_trigger, trigger};
use crate::sql::{InTables, Moments as _, Source, Tables, params, sql};

/// The priorities of pending triggers, the highest first.
fn priorities(moment: &impl Source) -> Result<Vec<i64>> {
    let (mut priority, mut found) = (i64::MAX, Vec::new());
    while let Some(lower) = moment.one(PRIORITY, params![priority], |row| int(row, 0))? {
        priority = lower;
        found.push(priority);
    }
    Ok(found)
}

impl InTables for SqliteStore {
    type Tables = Pool;

    fn tables(&self) -> &Pool {
        &self.pool
    }
}

impl Tables for Pool {
    fn due(&self, query: &DueQuery) -> Result<Vec<TriggerRow>> {
        let after = query.after.map_or((i64::MIN, i64::MIN, i64::MIN), |place| {
            (place.due_ms, place.run.0, place.no.0)
        });
        // The index begins with the priority: one page of each priority.
        let sql = select_trigger!(
            "INDEXED BY trigger_due WHERE state = 0 AND priority = ?1 AND due_ms <= ?2 \
             AND (due_ms, run, no) > (?3, ?4, ?5) ORDER BY due_ms, run, no LIMIT ?6"
        );
        let mut found = self.moment(|moment| {
            let mut found = Vec::new();
            for priority in priorities(moment)? {
                let key = params![
                    priority,
                    query.until_ms,
                    after.0,
                    after.1,
                    after.2,
                    query.limit
                ];
                found.extend(moment.all(sql, key, |row| trigger(row))?);
            }
            Ok(found)
        })?;
        found.sort_by_key(|row: &TriggerRow| (row.due_ms, row.run, row.no));
        found.truncate(query.limit as usize);
        Ok(found)
    }

    fn blob_part(&self, blob: BlobRef, from: u32, limit: u32) -> Result<Option<Bytes>> {
        let (from, limit) = (from as usize, limit as usize);
        self.read(|connection| {
            // Both reads see one moment. The transaction is rolled back on drop.
            let moment = connection.unchecked_transaction()?;
            let mut find = moment.prepare_cached("SELECT no FROM blob WHERE digest = ?1")?;
            let found = find.query_row([&blob.digest.0[..]], |row| row.get::<_, i64>(0));
            let Some(no) = found.optional()? else {
                return Ok(None);
            };
            // A statement would read the whole blob.
            let content = moment.blob_open("main", "blob", "content", no, true)?;
            let rest = content.len().saturating_sub(from);
            let mut part = vec![0; rest.min(limit)];
            if !part.is_empty() {
                content.read_at_exact(&mut part, from)?;
            }
            Ok(Some(part.into()))
        })
    }

    fn backlog(&self, now_ms: i64, limit: u32) -> Result<Backlog> {
        // The due index begins with the priority, so each priority is read separately.
        let due = sql!(
            "WITH RECURSIVE ranks (priority) AS ( \
                SELECT max(priority) FROM trigger WHERE state = 0 \
                UNION ALL \
                SELECT (SELECT max(t.priority) FROM trigger t \
                    WHERE t.state = 0 AND t.priority < ranks.priority) \
                FROM ranks WHERE ranks.priority IS NOT NULL) \
            SELECT count(*) FROM (SELECT 1 FROM ranks \
                JOIN trigger t ON t.state = 0 AND t.priority = ranks.priority AND t.due_ms <= ?1 \
                LIMIT ?2)"
        );
        let dead = sql!(
            "SELECT count(*) FROM (SELECT 1 FROM dead_letter WHERE replayed_ms IS NULL LIMIT ?1)"
        );
        let waiting = sql!("SELECT count(*) FROM (SELECT 1 FROM trigger WHERE state = 0 LIMIT ?1)");
        let parked = sql!("SELECT count(*) FROM (SELECT 1 FROM trigger WHERE state = 2 LIMIT ?1)");
        self.moment(|moment| {
            let due = moment.one(due, params![now_ms, limit], |row| unsigned(row, 0))?;
            let waiting = moment.one(waiting, params![limit], |row| unsigned(row, 0))?;
            let parked = moment.one(parked, params![limit], |row| unsigned(row, 0))?;
            let dead = moment.one(dead, params![limit], |row| unsigned(row, 0))?;
            Ok(Backlog {
                due: due.unwrap_or_default(),
                pending: waiting
                    .unwrap_or_default()
                    .saturating_sub(due.unwrap_or_default()),
                parked: parked.unwrap_or_default(),
                dead: dead.unwrap_or_default(),
            })
        })
    }
}
