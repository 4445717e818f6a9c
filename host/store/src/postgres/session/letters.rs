//! Dead letters of resumptions that no step has used.

use windlass_model::TriggerNo;

use super::{Done, Session};

/// Writes dead letters for resumptions; the source of the rows (`t`) follows.
macro_rules! stale_letters {
    ($at_ms:literal) => {
        concat!(
            "INSERT INTO dead_letter (kind, reason, at_ms, run, seq, trigger, node, priority, ",
            "payload, detail) SELECT 1, 'stale', ",
            $at_ms,
            ", t.run, t.seq, t.kind, t.node, t.priority, t.payload, t.detail "
        )
    };
}

/// Dead-letters unused resumptions of runs that end, except those that the owner has named.
/// Takes the runs and the times of their ends.
pub(super) const UNHEARD: &str = concat!(
    stale_letters!("u.at_ms"),
    "FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS u (run, at_ms, place) ",
    "JOIN trigger t ON t.run = ANY (ARRAY[u.run]) ",
    "WHERE t.kind = 8 AND t.payload IS NOT NULL ORDER BY u.place, t.no"
);

impl Session<'_> {
    /// Dead-letters the resumption of one row that no step has used, before the row is removed.
    pub(super) async fn dead_letter_unused(
        &mut self,
        run: i64,
        row: TriggerNo,
        at_ms: i64,
    ) -> Done<()> {
        let sql = concat!(
            stale_letters!("$3"),
            "FROM trigger t WHERE t.run = $1 AND t.no = $2 ",
            "AND t.kind = 8 AND t.payload IS NOT NULL"
        );
        self.later(sql, &[&run, &row.0, &at_ms]).await
    }

    /// Dead-letters the unused resumptions of a run that is about to end.
    pub(super) async fn dead_letter_unheard(&mut self, run: i64, at_ms: i64) -> Done<()> {
        self.later(UNHEARD, &[&[run].as_slice(), &[at_ms].as_slice()])
            .await
    }
}
