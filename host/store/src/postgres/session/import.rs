//! The locks that an import takes first.

use windlass_model::Digest;

use super::{Done, Session};
use crate::sql::row::digest;
use crate::transfer::Import;

impl Session<'_> {
    /// Waits for other transactions on stimuli that the old or the new bookmarks match, and on the
    /// reservations.
    pub(super) async fn lock_import(&mut self, import: &Import) -> Done<()> {
        let id: &[u8] = import.new.id.0.as_bytes();
        let sql = "SELECT DISTINCT b.hash FROM run i \
            JOIN bookmark b ON b.run = ANY (ARRAY[i.no]) WHERE i.id = $1";
        let rows = self.rows(sql, &[&id]).await?;
        let before = rows.iter().map(|row| digest(row, 0));
        let mut hashes: Vec<Digest> = before.collect::<Result<_, _>>()?;
        hashes.extend(import.bookmarks.iter().map(|new| new.hash));
        self.lock_hashes(&hashes).await?;
        self.lock_reservations(&import.new.exclusive, &import.new.reserves)
            .await
    }
}
