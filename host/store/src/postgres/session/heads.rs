//! Locks the heads of runs. A transaction that changes a run holds its head, which
//! excludes the others.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use windlass_model::RunId;

use super::{Done, Session, get};
use crate::error::Error;
use crate::sql::hot;

/// The parameters of a statement.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Locks the heads of runs until the transaction ends. Reads their numbers and, from the
/// second column on, their [`standing`].
macro_rules! hold {
    ($which:expr) => {
        concat!(
            "SELECT no, owner IS NULL, status = 3 FROM run WHERE ",
            $which,
            " ORDER BY no FOR NO KEY UPDATE"
        )
    };
}
pub(super) use hold;

/// The state of a run's head.
#[derive(Clone, Copy)]
pub(super) struct Standing {
    /// It has no owner.
    pub(super) free: bool,
    /// The run is paused: only control triggers run.
    pub(super) paused: bool,
}

impl Standing {
    /// Whether a member may claim the run and run its due work.
    pub(super) fn is_free(&self) -> bool {
        self.free && !self.paused
    }
}

/// Reads the standing of a run from the columns from `column` on.
pub(super) fn standing(row: &Row, column: usize) -> Done<Standing> {
    Ok(Standing {
        free: get(row, column)?,
        paused: get(row, column + 1)?,
    })
}

/// An id as its column stores it.
pub(super) fn id(run: &RunId) -> &[u8] {
    run.0.as_bytes()
}

impl Session<'_> {
    /// The single row of a statement that always returns one.
    pub(super) async fn row(&mut self, sql: &'static str, params: Params<'_>) -> Done<Row> {
        let row = self.one(sql, params).await?;
        row.ok_or_else(|| Error::corrupt("fewer rows than were written").into())
    }

    /// Locks the heads of these runs until the transaction ends.
    pub(super) async fn hold_heads(&mut self, runs: &[i64]) -> Done<()> {
        let sql = "SELECT 1 FROM run WHERE no = ANY($1) ORDER BY no FOR NO KEY UPDATE";
        self.later(sql, &[&runs]).await?;
        Ok(())
    }

    /// The number of a run.
    pub(super) async fn run_no(&mut self, run: RunId) -> Done<Option<i64>> {
        let sql = hot::RUN_NO.postgres;
        let row = self.one(sql, &[&id(&run)]).await?;
        Ok(row.map(|row| get(&row, 0)).transpose()?)
    }
}
