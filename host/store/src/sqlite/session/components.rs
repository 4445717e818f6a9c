//! Components of plugins.

use super::{Done, Session};
use crate::components::{NewComponent, check};
use crate::write::Wrote;

impl Session<'_> {
    /// Keeps a component, unless it is there.
    pub(super) fn keep_component(&mut self, new: &NewComponent) -> Done<Wrote> {
        check(new)?;
        let sql = "INSERT INTO component (digest, name, version, bytes) VALUES (?1, ?2, ?3, ?4) \
            ON CONFLICT (digest) DO NOTHING";
        self.connection.prepare_cached(sql)?.execute((
            new.digest.0,
            &new.name,
            &new.version,
            &*new.bytes,
        ))?;
        Ok(Wrote::Done)
    }
}
