//! Retention: rows that the store keeps for a limited time.

use windlass_model::{Incarnation, RunId, RunNo};

use crate::write::Duty;

/// Bytes of blobs that one slice deletes, besides the blob that exceeds the bound: SQLite has to
/// visit all their pages.
pub(crate) const SLICE_BYTES: i64 = 4 * 1024 * 1024;

/// Free pages that stay in the file: one in this number of pages, and at least this number.
pub(crate) const KEPT_PAGES: (i64, i64) = (8, 256);

/// An ended run whose retention time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiredRow {
    /// Its number.
    pub no: RunNo,
    /// Its id; none if its deletion has begun.
    pub id: Option<RunId>,
}

/// Rows or pages that accumulate unless they are swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sweepable {
    /// Blobs without references since before the given time. The distance from now is the grace
    /// period for values of writes in progress.
    Blobs,
    /// Definitions and pins without runs and versions, which a sweep before the given time has
    /// found unused.
    Documents,
    /// Free pages of the file, beyond those that a steady load uses again. The time is ignored.
    Pages,
}

impl Sweepable {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Blobs, Self::Documents, Self::Pages];
}

/// Deletes at most `rows` rows that were unused since before a time.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    /// The kind of rows.
    pub what: Sweepable,
    /// Epoch milliseconds.
    pub before_ms: i64,
    /// Bound on the rows, which bounds how long the writer thread is occupied.
    pub rows: u32,
    /// The time that is recorded for rows found unused, in epoch milliseconds.
    pub at_ms: i64,
}

/// The result of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// How many rows were deleted.
    pub count: u32,
    /// Whether there is more to sweep.
    pub more: bool,
}

/// Deletes at most about `rows` rows of a run that ended before a time. From the first
/// deletion on, no reader finds the run.
#[derive(Clone, Copy, Debug)]
pub struct Forget {
    /// The run.
    pub run: RunNo,
    /// Epoch milliseconds.
    pub before_ms: i64,
    /// Bound on the rows, which bounds how long the writer thread is occupied.
    pub rows: u32,
    /// The time from which its blobs may be swept, in epoch milliseconds.
    pub at_ms: i64,
}

/// The result of a slice of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// Whether the run has more rows.
    pub more: bool,
}

/// Whether a duty is given to the member that asks; `last` is the last holder, when it got the duty,
/// and whether it is a member. If a clock is set back by more than the interval, the duty is still
/// given.
pub(crate) fn is_given(duty: &Duty, last: Option<(Incarnation, i64, bool)>) -> bool {
    match (last, duty.every_ms) {
        (None, every_ms) => every_ms.is_some(),
        (Some((_, last_ms, is_member)), Some(every_ms)) => {
            duty.at_ms.abs_diff(last_ms) >= every_ms || duty.inherited && !is_member
        }
        (Some((holder, ..)), None) => holder == duty.incarnation,
    }
}
