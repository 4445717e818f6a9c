//! The small verbs of a member about what it holds.

use super::{Done, Session};
use crate::write::{Fence, TriggerFence, Wrote};

impl Session<'_> {
    pub(super) fn mark(&mut self, fence: &Fence, trigger: &TriggerFence) -> Done<Wrote> {
        if !self.holds(fence)? {
            return Ok(Wrote::Fenced);
        }
        let sql = "UPDATE trigger SET suspicion = 2 \
            WHERE no = ?1 AND token = ?2 AND instance = ?3 AND state = 1";
        let key = (trigger.no.0, trigger.token.0, fence.instance.0);
        let changed = self.connection.prepare_cached(sql)?.execute(key)?;
        Ok(if changed == 1 {
            Wrote::Done
        } else {
            Wrote::Fenced
        })
    }

    pub(super) fn release(&mut self, fence: &Fence) -> Done<Wrote> {
        if !self.holds(fence)? {
            return Ok(Wrote::Fenced);
        }
        let no = fence.instance.0;
        self.write_head(no)?;
        self.made_pending += self.statements.unclaim.execute([no])? as u64;
        self.connection
            .prepare_cached("UPDATE instance SET owner = NULL WHERE no = ?1")?
            .execute([no])?;
        if let Some(head) = self.head(no)? {
            head.owner = None;
        }
        Ok(Wrote::Done)
    }

    pub(super) fn park(
        &mut self,
        fence: &Fence,
        trigger: &TriggerFence,
        reason: &str,
    ) -> Done<Wrote> {
        if !self.holds(fence)? {
            return Ok(Wrote::Fenced);
        }
        let sql = "UPDATE trigger SET state = 2, suspicion = min(suspicion, 1), reason = ?4 \
            WHERE no = ?1 AND token = ?2 AND instance = ?3 AND state = 1";
        let key = (trigger.no.0, trigger.token.0, fence.instance.0, reason);
        let changed = self.connection.prepare_cached(sql)?.execute(key)?;
        Ok(if changed == 1 {
            Wrote::Done
        } else {
            Wrote::Fenced
        })
    }

    /// Brings what is parked of an instance back. True if there was something.
    pub(super) fn unpark_of(&mut self, instance: i64) -> Done<bool> {
        let sql = "UPDATE trigger SET state = 0, reason = NULL WHERE instance = ?1 AND state = 2";
        let changed = self.connection.prepare_cached(sql)?.execute([instance])?;
        self.made_pending += changed as u64;
        Ok(changed > 0)
    }

    /// Parks what has come due of a paused instance. False if it is control, which goes on.
    pub(super) fn park_paused(&mut self, no: i64) -> Done<bool> {
        let sql = "UPDATE trigger SET state = 2, suspicion = min(suspicion, 1), reason = 'paused' \
            WHERE no = ?1 AND state = 0 AND kind NOT BETWEEN 10 AND 14";
        Ok(self.connection.prepare_cached(sql)?.execute([no])? == 1)
    }

    pub(super) fn unpark(&mut self) -> Done<Wrote> {
        self.retry_schedules()?;
        let sql = "UPDATE trigger SET state = 0, reason = NULL WHERE state = 2";
        let changed = self.connection.prepare_cached(sql)?.execute([])?;
        self.made_pending += changed as u64;
        Ok(Wrote::Freed(u32::try_from(changed).unwrap_or(u32::MAX)))
    }
}
