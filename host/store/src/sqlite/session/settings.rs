//! What operators have decided about the system as a whole.

use super::{Done, Session};
use crate::settings::check;
use crate::write::Wrote;

impl Session<'_> {
    /// Keeps a decision, or forgets it.
    pub(super) fn setting(&mut self, name: &str, value: Option<&[u8]>) -> Done<Wrote> {
        check(name, value)?;
        match value {
            Some(value) => {
                let sql = "INSERT INTO setting VALUES (?1, ?2) \
                    ON CONFLICT (name) DO UPDATE SET value = excluded.value";
                self.connection
                    .prepare_cached(sql)?
                    .execute((name, value))?;
            }
            None => {
                let sql = "DELETE FROM setting WHERE name = ?1";
                self.connection.prepare_cached(sql)?.execute([name])?;
            }
        }
        self.turn()?;
        Ok(Wrote::Done)
    }
}
