//! Dead letters of resumptions that no step has used.

use bytes::Bytes;
use windlass_model::{RunNo, Seq, TriggerNo, TriggerType};

use super::{Done, Session};
use crate::letters::{DeadTrigger, NewDeadLetter};
use crate::sql::letters;
use crate::sql::transaction::now;

impl Session<'_> {
    /// Dead-letters the resumptions that no step has used, before their rows are removed: of one
    /// row, or of all rows of a run.
    pub(super) fn dead_letter_unheard(
        &mut self,
        run: i64,
        row: Option<TriggerNo>,
        at_ms: i64,
    ) -> Done<()> {
        // A single row is found by its key, because a run may have many.
        let sql = match row {
            Some(_) => {
                "SELECT seq, node, priority, payload, detail FROM trigger \
                WHERE no = ?2 AND run = ?1 AND kind = ?3 AND payload IS NOT NULL"
            }
            None => {
                "SELECT seq, node, priority, payload, detail FROM trigger \
                WHERE run = ?1 AND ?2 IS NULL AND kind = ?3 AND payload IS NOT NULL \
                ORDER BY no"
            }
        };
        let row = row.map(|no| no.0);
        let key = (run, row, TriggerType::Resume.stored());
        let unheard: Vec<DeadTrigger> = self
            .connection
            .prepare_cached(sql)?
            .query_map(key, |row| {
                Ok(DeadTrigger {
                    run: RunNo(run),
                    seq: Seq(row.get::<_, i64>(0)?.cast_unsigned()),
                    kind: TriggerType::Resume,
                    node: row.get(1)?,
                    priority: row.get(2)?,
                    payload: row.get::<_, Option<Vec<u8>>>(3)?.map(Bytes::from),
                    detail: Bytes::from(row.get::<_, Vec<u8>>(4)?),
                })
            })?
            .collect::<Result<_, _>>()?;
        for dead in unheard {
            now(letters::add_letter(
                self,
                &NewDeadLetter::stale(dead, at_ms),
            ))?;
        }
        Ok(())
    }
}
