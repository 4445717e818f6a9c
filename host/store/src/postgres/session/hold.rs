//! Releases of runs, and parked triggers of paused runs.

use super::heads::Params;
use super::{Done, HEAD, Head, MEMBER, Session, get, head};
use crate::sql::hot;
use crate::write::{Fence, Fenced, OrFenced, Release};

impl Session<'_> {
    /// The head of the run, if the member named by the fence still owns it. Ignores the
    /// version.
    pub(super) async fn holds(&mut self, fence: &Fence) -> Done<Option<Head>> {
        let (incarnation, run) = (fence.incarnation.0, fence.run.0);
        let (member, there): (Params<'_>, Params<'_>) = (&[&incarnation], &[&run]);
        let [member, there] = self.all([(MEMBER, member), (HEAD, there)]).await?;
        let there = there.first().filter(|_| !member.is_empty());
        let there = there.map(head).transpose()?;
        Ok(there.filter(|head| head.owner == Some(incarnation) && head.epoch == fence.epoch.0))
    }

    pub(super) async fn release(&mut self, release: &Release) -> Done<OrFenced<()>> {
        let fence = &release.fence;
        if self.holds(fence).await?.is_none() {
            return Ok(Err(Fenced));
        }
        let no = fence.run.0;
        self.unclaim(no).await?;
        let sql = hot::GIVE_BACK.postgres;
        self.later(sql, &[&no]).await?;
        Ok(Ok(()))
    }

    /// Parks due triggers of paused runs, except control triggers. Returns the parked ones.
    pub(super) async fn park_paused(&mut self, triggers: &[i64], now_ms: i64) -> Done<Vec<i64>> {
        let sql = "UPDATE trigger SET state = 2, suspicion = abs(suspicion), reason = 'paused' WHERE no = ANY($1) AND state = 0 AND due_ms <= $2 \
            AND kind NOT BETWEEN 10 AND 14 RETURNING no";
        let rows = self.rows(sql, &[&triggers, &now_ms]).await?;
        let numbers = rows.iter().map(|row| get(row, 0));
        Ok(numbers.collect::<Result<_, _>>()?)
    }
}
