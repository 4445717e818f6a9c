//! What is kept for a while only.

use windlass_model::{Incarnation, InstanceId, InstanceNo};

/// Bytes of blobs that one slice deletes, besides the blob that exceeds it: their pages have to
/// be visited.
pub(crate) const SLICE_BYTES: i64 = 4 * 1024 * 1024;

/// Pages that hold nothing and are kept: one in so many of the file, and at least so many.
pub(crate) const KEPT_PAGES: (i64, i64) = (8, 256);

/// A finished instance whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiredRow {
    /// Its number.
    pub no: InstanceNo,
    /// Its name; none if it has begun to be forgotten, and nobody finds it any more.
    pub id: Option<InstanceId>,
}

/// Something that piles up unless it is swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sweepable {
    /// Blobs that nothing refers to since before the moment that is given: its distance from
    /// now is the grace period for values that are still on their way.
    Blobs,
    /// Definitions and pins that no instance and no version refers to, and that a sweep before
    /// the moment that is given has found like that.
    Documents,
    /// Pages of the file that hold nothing, beyond what a steady load takes again. The moment
    /// is not looked at.
    Pages,
}

impl Sweepable {
    /// Everything that there is to sweep.
    pub const ALL: [Self; 3] = [Self::Blobs, Self::Documents, Self::Pages];
}

/// Deletes at most `rows` of what has piled up since before a moment.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    /// What.
    pub what: Sweepable,
    /// Epoch milliseconds.
    pub before_ms: i64,
    /// Bound on the rows, which bounds how long the writer is held.
    pub rows: u32,
    /// From when on what is found to be unused counts as that, in epoch milliseconds.
    pub at_ms: i64,
}

/// A slice is swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// How many are gone.
    pub count: u32,
    /// Whether there is more to sweep.
    pub more: bool,
}

/// Deletes at most about `rows` rows of an instance that ended before a moment; no reader finds
/// the instance from the first of them on.
#[derive(Clone, Copy, Debug)]
pub struct Forget {
    /// Which instance.
    pub instance: InstanceNo,
    /// Epoch milliseconds.
    pub before_ms: i64,
    /// Bound on the rows, which bounds how long the writer is held.
    pub rows: u32,
    /// From when on its blobs may be swept, in epoch milliseconds.
    pub at_ms: i64,
}

/// A slice of an instance is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// Whether there is more of it.
    pub more: bool,
}

/// Whether a duty is given to a member that asks, as [`crate::write::Duty`] says, when `last` has
/// it since then. A clock that was stepped back by more than the interval does not keep it from
/// everybody.
pub(crate) fn is_given(
    last: Option<(Incarnation, i64)>,
    incarnation: Incarnation,
    every_ms: Option<u64>,
    at_ms: i64,
) -> bool {
    match (last, every_ms) {
        (None, every_ms) => every_ms.is_some(),
        (Some((_, last_ms)), Some(every_ms)) => at_ms.abs_diff(last_ms) >= every_ms,
        (Some((holder, _)), None) => holder == incarnation,
    }
}
