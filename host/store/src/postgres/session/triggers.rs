//! Single trigger rows.

use windlass_model::TriggerNo;

use super::{Done, Session};
use crate::rows::{NewTrigger, bounded};
use crate::sql::hot;

impl Session<'_> {
    /// Writes a trigger row. `owned`: the run has an owner, which may have claimed the
    /// trigger.
    pub(super) async fn insert_trigger(
        &mut self,
        run: i64,
        trigger: &NewTrigger,
        owned: bool,
    ) -> Done<()> {
        let claimed = trigger.claimed && owned;
        if !claimed {
            self.aftermath.made_pending += 1;
        }
        // State and token have equal numbers: pending with 0, claimed with 1.
        let sql = "INSERT INTO trigger (no, run, seq, kind, node, due_ms, state, token, \
            attempt, deliveries, suspicion, detail, payload, priority) \
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, 0, $10, $11, $12)";
        self.later(
            sql,
            &[
                &trigger.no.0,
                &run,
                &trigger.seq.0.cast_signed(),
                &i16::from(trigger.kind.stored()),
                &trigger.node.map(i64::from),
                &trigger.due_ms,
                &i16::from(claimed),
                &i64::from(claimed),
                &i64::from(trigger.attempt),
                &&*trigger.detail,
                &trigger.payload.as_deref(),
                &bounded(trigger.priority),
            ],
        )
        .await?;
        Ok(())
    }

    /// Makes the claimed triggers of a run pending.
    pub(super) async fn unclaim(&mut self, run: i64) -> Done<()> {
        let sql = hot::UNCLAIM.postgres;
        self.aftermath.made_pending += self.execute(sql, &[&run]).await?;
        Ok(())
    }

    /// The next trigger number that the store assigns itself.
    pub(super) async fn own_number(&mut self) -> Done<TriggerNo> {
        let row = self.one("SELECT nextval('own_trigger')", &[]).await?;
        let row = row.ok_or_else(|| crate::Error::corrupt("a sequence without a number"))?;
        Ok(TriggerNo(super::get(&row, 0)?))
    }
}
