//! Holding the heads of instances, which is how whoever changes something of an instance keeps
//! out of the way of the others.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use windlass_model::InstanceId;

use super::{Done, Session, get};
use crate::error::Error;
use crate::sql::hot;

/// The parameters of a statement.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Holds the heads of certain instances until the transaction ends, and reads their numbers and,
/// from the second column on, their [`standing`].
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

/// How an instance stands.
#[derive(Clone, Copy)]
pub(super) struct Standing {
    /// It has no owner.
    pub(super) free: bool,
    /// Only control goes on.
    pub(super) paused: bool,
}

impl Standing {
    /// Whether somebody may take it now, and begin what is due.
    pub(super) fn is_free(&self) -> bool {
        self.free && !self.paused
    }
}

/// The standing of an instance, in the columns from `column` on.
pub(super) fn standing(row: &Row, column: usize) -> Done<Standing> {
    Ok(Standing {
        free: get(row, column)?,
        paused: get(row, column + 1)?,
    })
}

/// An id as it lies in its column.
pub(super) fn id(instance: &InstanceId) -> &[u8] {
    instance.0.as_bytes()
}

impl Session<'_> {
    /// The row that a statement always gives.
    pub(super) async fn row(&mut self, sql: &'static str, params: Params<'_>) -> Done<Row> {
        let row = self.one(sql, params).await?;
        row.ok_or_else(|| Error::corrupt("fewer rows than were written").into())
    }

    /// Holds the heads of these instances until the transaction ends.
    pub(super) async fn hold_heads(&mut self, instances: &[i64]) -> Done<()> {
        let sql = "SELECT 1 FROM instance WHERE no = ANY($1) ORDER BY no FOR NO KEY UPDATE";
        self.later(sql, &[&instances]).await?;
        Ok(())
    }

    /// The number of an instance.
    pub(super) async fn instance_no(&mut self, instance: InstanceId) -> Done<Option<i64>> {
        let sql = hot::INSTANCE_NO.postgres;
        let row = self.one(sql, &[&id(&instance)]).await?;
        Ok(row.map(|row| get(&row, 0)).transpose()?)
    }
}
