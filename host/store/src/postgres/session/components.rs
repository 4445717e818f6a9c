//! Components of plugins.

use super::{Done, Session};
use crate::components::{NewComponent, check};
use crate::write::Wrote;

impl Session<'_> {
    /// Keeps a component, unless it is there. Their numbers are those in which they become
    /// visible, so one process at a time gives one out.
    pub(super) async fn keep_component(&mut self, new: &NewComponent) -> Done<Wrote> {
        check(new)?;
        self.execute("LOCK TABLE component IN SHARE ROW EXCLUSIVE MODE", &[])
            .await?;
        let sql = "INSERT INTO component (generation, digest, name, version, bytes) \
            SELECT coalesce(max(generation), 0) + 1, $1, $2, $3, $4 FROM component \
            ON CONFLICT (digest) DO NOTHING";
        let digest: &[u8] = &new.digest.0;
        self.execute(sql, &[&digest, &new.name, &new.version, &&*new.bytes])
            .await?;
        Ok(Wrote::Done)
    }
}
