//! What operators have decided about the system as a whole.

use super::{Done, Session};
use crate::settings::check;
use crate::write::Wrote;

impl Session<'_> {
    /// Keeps a decision, or forgets it.
    pub(super) async fn setting(&mut self, name: &str, value: Option<&[u8]>) -> Done<Wrote> {
        check(name, value)?;
        match value {
            Some(value) => {
                let sql = "INSERT INTO setting (name, value) VALUES ($1, $2) \
                    ON CONFLICT (name) DO UPDATE SET value = excluded.value";
                self.later(sql, &[&name, &value]).await?;
            }
            None => {
                self.later("DELETE FROM setting WHERE name = $1", &[&name])
                    .await?;
            }
        }
        Ok(Wrote::Done)
    }
}
