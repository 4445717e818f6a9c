//! What is asked of an instance as a whole, beside what its triggers do: that it begins, that
//! it is deleted.
//!
//! None of this names an owner. Each is one transaction that looks at how the instance stands,
//! and what cannot be done then is refused and leaves no trace.

use windlass_model::{InstanceId, InstanceNo, TriggerNo};

/// What is asked of an instance.
#[derive(Clone, Debug)]
pub enum LifeOp {
    /// Makes the start triggers due that wait without a time. Answered by [`Lived::Done`],
    /// [`Lived::Already`], [`Lived::Ended`] or [`Lived::NotFound`].
    Begin {
        /// Which.
        instance: InstanceId,
        /// Epoch milliseconds.
        at_ms: i64,
    },
    /// Deletes an instance. One that has ended is a tombstone at once: nobody finds it, and its
    /// name stays taken until it is forgotten. Another one is cancelled, and is a tombstone from
    /// the commit on that ends it. Answered by [`Lived::Gone`], [`Lived::Done`] (it is being
    /// cancelled) or [`Lived::NotFound`].
    Delete {
        /// Which.
        instance: InstanceId,
        /// The number of the control trigger that cancels it.
        no: TriggerNo,
        /// Epoch milliseconds.
        at_ms: i64,
    },
    /// Deletes at most about `rows` rows of what is left behind a tombstone. Answered by
    /// [`Lived::Done`], or [`Lived::More`] if there is more of it.
    Clear {
        /// Which.
        instance: InstanceNo,
        /// Bound on the rows, which bounds how long the writer is held.
        rows: u32,
        /// From when on its blobs may be swept, in epoch milliseconds.
        at_ms: i64,
    },
}

/// What became of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lived {
    /// It is done, or written down for whoever runs the instance.
    Done,
    /// It was so before.
    Already,
    /// It is a tombstone.
    Gone(InstanceNo),
    /// There is more to do.
    More,
    /// There is no such instance, or there is only its tombstone.
    NotFound,
    /// It has ended.
    Ended,
}
