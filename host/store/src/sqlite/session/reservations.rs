//! Reservations, which keep runs from running at the same time.

use rusqlite::OptionalExtension as _;
use uuid::Uuid;
use windlass_model::{RunId, RunNo};

use super::cache::Filled;
use super::{Done, Session};
use crate::sql::hot;

impl Session<'_> {
    /// A run that reserves this key.
    pub(super) fn reserved_by(&self, key: &str) -> Done<Option<RunId>> {
        let sql = "SELECT i.id FROM reservation r CROSS JOIN run i ON i.no = r.run \
            WHERE r.key = ?1 ORDER BY r.run LIMIT 1";
        let id: Option<[u8; 16]> = self
            .connection
            .prepare_cached(sql)?
            .query_row([key], |row| row.get(0))
            .optional()?;
        Ok(id.map(|id| RunId(Uuid::from_bytes(id))))
    }

    pub(super) fn reserve(&mut self, run: i64, keys: &[String]) -> Done<()> {
        for key in keys {
            self.connection
                .prepare_cached("INSERT OR IGNORE INTO reservation VALUES (?1, ?2)")?
                .execute((key, run))?;
            self.cache.reservations = Filled::Some;
        }
        Ok(())
    }

    /// Releases the reservations of a run.
    pub(super) fn release_reservations(&mut self, run: RunNo) -> Done<()> {
        if self.cache.reservations == Filled::Unknown {
            let sql = "SELECT EXISTS (SELECT 1 FROM reservation)";
            self.cache.reservations = self.filled(sql)?;
        }
        if self.cache.reservations == Filled::Some {
            self.connection
                .prepare_cached(hot::RELEASE_RESERVATIONS.sqlite)?
                .execute([run.0])?;
        }
        Ok(())
    }
}
