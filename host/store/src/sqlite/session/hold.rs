//! Releases of runs, and parked triggers of paused runs.

use super::{Done, Session};
use crate::sql::hot;
use crate::write::{Fenced, OrFenced, Release};

impl Session<'_> {
    pub(super) fn release(&mut self, release: &Release) -> Done<OrFenced<()>> {
        let fence = &release.fence;
        if !self.holds(fence)? {
            return Ok(Err(Fenced));
        }
        let no = fence.run.0;
        self.write_head(no)?;
        self.made_pending += self.statements.unclaim.execute([no])? as u64;
        self.connection
            .prepare_cached(hot::GIVE_BACK.sqlite)?
            .execute([no])?;
        if let Some(head) = self.head(no)? {
            head.owner = None;
        }
        Ok(Ok(()))
    }

    /// Parks a due trigger of a paused run. False if it is a control trigger, which stays
    /// pending.
    pub(super) fn park_paused(&mut self, no: i64) -> Done<bool> {
        let sql = "UPDATE trigger SET state = 2, suspicion = abs(suspicion), reason = 'paused' \
            WHERE no = ?1 AND state = 0 AND kind NOT BETWEEN 10 AND 14";
        Ok(self.connection.prepare_cached(sql)?.execute([no])? == 1)
    }
}
