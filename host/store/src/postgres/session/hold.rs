//! The small verbs of a member about what it holds.

use super::heads::Params;
use super::{Done, HEAD, Head, MEMBER, Session, get, head};
use crate::write::{Fence, TriggerFence, Wrote};

impl Session<'_> {
    /// The head of the instance, if the member that is named still runs it. The version is not
    /// looked at.
    pub(super) async fn holds(&mut self, fence: &Fence) -> Done<Option<Head>> {
        let (incarnation, instance) = (fence.incarnation.0, fence.instance.0);
        let (member, there): (Params<'_>, Params<'_>) = (&[&incarnation], &[&instance]);
        let [member, there] = self.all([(MEMBER, member), (HEAD, there)]).await?;
        let there = there.first().filter(|_| !member.is_empty());
        let there = there.map(head).transpose()?;
        Ok(there.filter(|head| head.owner == Some(incarnation) && head.epoch == fence.epoch.0))
    }

    pub(super) async fn mark(&mut self, fence: &Fence, trigger: &TriggerFence) -> Done<Wrote> {
        if self.holds(fence).await?.is_none() {
            return Ok(Wrote::Fenced);
        }
        let sql = "UPDATE trigger SET suspicion = 2 \
            WHERE no = $1 AND token = $2 AND instance = $3 AND state = 1";
        let key = (trigger.no.0, trigger.token.0, fence.instance.0);
        let changed = self.execute(sql, &[&key.0, &key.1, &key.2]).await?;
        Ok(if changed == 1 {
            Wrote::Done
        } else {
            Wrote::Fenced
        })
    }

    pub(super) async fn release(&mut self, fence: &Fence) -> Done<Wrote> {
        if self.holds(fence).await?.is_none() {
            return Ok(Wrote::Fenced);
        }
        let no = fence.instance.0;
        self.unclaim(no).await?;
        let sql = "UPDATE instance SET owner = NULL WHERE no = $1";
        self.later(sql, &[&no]).await?;
        Ok(Wrote::Done)
    }

    pub(super) async fn park(
        &mut self,
        fence: &Fence,
        trigger: &TriggerFence,
        reason: &str,
    ) -> Done<Wrote> {
        if self.holds(fence).await?.is_none() {
            return Ok(Wrote::Fenced);
        }
        let sql = "UPDATE trigger SET state = 2, suspicion = least(suspicion, 1::smallint), \
            reason = $4 WHERE no = $1 AND token = $2 AND instance = $3 AND state = 1";
        let key = (trigger.no.0, trigger.token.0, fence.instance.0);
        let reason = reason.replace('\0', "\u{fffd}");
        let changed = self
            .execute(sql, &[&key.0, &key.1, &key.2, &reason])
            .await?;
        Ok(if changed == 1 {
            Wrote::Done
        } else {
            Wrote::Fenced
        })
    }

    /// Brings what is parked of an instance back. True if there was something.
    pub(super) async fn unpark_of(&mut self, instance: i64) -> Done<bool> {
        let sql = "UPDATE trigger SET state = 0, reason = NULL WHERE instance = $1 AND state = 2";
        let changed = self.execute(sql, &[&instance]).await?;
        self.aftermath.made_pending += changed;
        Ok(changed > 0)
    }

    /// Parks what has come due of paused instances, but for control, which goes on. Gives what
    /// is parked.
    pub(super) async fn park_paused(&mut self, triggers: &[i64], now_ms: i64) -> Done<Vec<i64>> {
        let sql = "UPDATE trigger SET state = 2, suspicion = least(suspicion, 1::smallint), \
            reason = 'paused' WHERE no = ANY($1) AND state = 0 AND due_ms <= $2 \
            AND kind NOT BETWEEN 10 AND 14 RETURNING no";
        let rows = self.rows(sql, &[&triggers, &now_ms]).await?;
        let numbers = rows.iter().map(|row| get(row, 0));
        Ok(numbers.collect::<Result<_, _>>()?)
    }

    pub(super) async fn unpark(&mut self) -> Done<Wrote> {
        self.retry_schedules().await?;
        let sql = "UPDATE trigger SET state = 0, reason = NULL WHERE state = 2";
        let changed = self.execute(sql, &[]).await?;
        self.aftermath.made_pending += changed;
        Ok(Wrote::Freed(u32::try_from(changed).unwrap_or(u32::MAX)))
    }
}
