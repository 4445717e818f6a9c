//! What is asked of an instance as a whole, beside what its triggers do: that it begins, that
//! it is deleted, that it is taken up again.
//!
//! None of this names an owner. Each is one transaction that looks at how the instance stands,
//! and what cannot be done then is refused and leaves no trace.

use bytes::Bytes;
use windlass_model::{InstanceId, InstanceNo, LetterNo, ScopeNo, Status, TriggerNo, Version};

use crate::rows::{JournalRow, NewBlob, NewTrigger};

/// What is asked of an instance.
#[derive(Clone, Debug)]
pub enum LifeOp {
    /// Makes the start triggers due that wait, without a time or for one that has not come.
    /// Answered by [`Lived::Done`], [`Lived::Already`], [`Lived::Ended`] or [`Lived::NotFound`].
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
    /// Takes an instance up again that is faulted or cancelled. Answered by [`Lived::Done`],
    /// [`Lived::NotFound`], [`Lived::Reported`], [`Lived::Reserved`], [`Lived::Already`] or
    /// [`Lived::Moved`].
    Reopen(Box<Reopen>),
}

/// Deletes at most about `rows` rows of what is left behind a tombstone.
#[derive(Clone, Copy, Debug)]
pub struct Clear {
    /// Which.
    pub instance: InstanceNo,
    /// Bound on the rows, which bounds how long the writer is held.
    pub rows: u32,
    /// From when on its blobs may be swept, in epoch milliseconds.
    pub at_ms: i64,
}

/// How an instance goes on that had ended.
#[derive(Clone, Debug)]
pub struct Reopen {
    /// Which.
    pub instance: InstanceNo,
    /// Its version, by which it is known here: it becomes one more.
    pub version: Version,
    /// The status from now on.
    pub status: Status,
    /// The engine's state from now on.
    pub state: Bytes,
    /// What is to run, pending.
    pub triggers: Vec<NewTrigger>,
    /// As in [`Commit::scopes`](crate::write::Commit::scopes).
    pub scopes: Vec<(ScopeNo, Option<Bytes>)>,
    /// What it reserves again until it has ended.
    pub reserves: Vec<String>,
    /// It is refused while another instance reserves this.
    pub exclusive: Option<String>,
    /// Blobs that what is to run refers to.
    pub blobs: Vec<NewBlob>,
    /// The dead letter that is tried again by this. If it has been before, or is not there any
    /// more, nothing is done, and the answer is [`Lived::Already`].
    pub replays: Option<LetterNo>,
    /// What people are to see of it.
    pub journal: JournalRow,
    /// Epoch milliseconds.
    pub at_ms: i64,
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
    /// There is no such instance, or there is only its tombstone.
    NotFound,
    /// It has ended.
    Ended,
    /// It is a child, and its parent was told how it ended.
    Reported,
    /// Another instance has what it reserves.
    Reserved {
        /// That one, or one of them.
        by: InstanceId,
    },
    /// It is not as it was when the request was made.
    Moved,
}
