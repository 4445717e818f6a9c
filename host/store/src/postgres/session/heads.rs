//! Locks the heads of instances. A transaction that changes an instance holds its head, which
//! excludes the others.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use windlass_model::RunId;

use super::{Done, Session, get};
use crate::error::Error;
use crate::sql::hot;

/// The parameters of a statement.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Locks the heads of instances until the transaction ends. Reads their numbers and, from the
/// second column on, their [`standing`].
macro_rules! hold {
    ($which:expr) => {
        concat!(
            "SELECT no, owner IS NULL, status = 3 FROM instance WHERE ",
            $which,
            " ORDER BY no FOR NO KEY UPDATE"
        )
    };
}
pub(super) use hold;

/// The state of an instance's head.
#[derive(Clone, Copy)]
pub(super) struct Standing {
    /// It has no owner.
    pub(super) free: bool,
    /// The instance is paused: only control triggers run.
    pub(super) paused: bool,
}

impl Standing {
    /// Whether a member may claim the instance and run its due work.
    pub(super) fn is_free(&self) -> bool {
        self.free && !self.paused
    }
}

/// Reads the standing of an instance from the columns from `column` on.
pub(super) fn standing(row: &Row, column: usize) -> Done<Standing> {
    Ok(Standing {
        free: get(row, column)?,
        paused: get(row, column + 1)?,
    })
}

/// An id as its column stores it.
pub(super) fn id(instance: &RunId) -> &[u8] {
    instance.0.as_bytes()
}

impl Session<'_> {
    /// The single row of a statement that always returns one.
    pub(super) async fn row(&mut self, sql: &'static str, params: Params<'_>) -> Done<Row> {
        let row = self.one(sql, params).await?;
        row.ok_or_else(|| Error::corrupt("fewer rows than were written").into())
    }

    /// Locks the heads of these instances until the transaction ends.
    pub(super) async fn hold_heads(&mut self, instances: &[i64]) -> Done<()> {
        let sql = "SELECT 1 FROM instance WHERE no = ANY($1) ORDER BY no FOR NO KEY UPDATE";
        self.later(sql, &[&instances]).await?;
        Ok(())
    }

    /// The number of an instance.
    pub(super) async fn instance_no(&mut self, instance: RunId) -> Done<Option<i64>> {
        let sql = hot::INSTANCE_NO.postgres;
        let row = self.one(sql, &[&id(&instance)]).await?;
        Ok(row.map(|row| get(&row, 0)).transpose()?)
    }
}
