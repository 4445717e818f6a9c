//! Verbs on a run as a whole: begin, delete, reopen.
//!
//! None of them names an owner. Each is one transaction that checks the state of the run; a
//! verb that the state does not allow is refused and writes nothing.

use std::sync::Arc;

use bytes::Bytes;
use windlass_model::{LetterNo, Payload, RunId, RunNo, ScopeNo, Status, TriggerNo, Version};

use crate::rows::{DefinitionRow, JournalRow, NewBlob, NewTrigger, PinsRow};

/// A verb on a run as a whole.
#[derive(Clone, Debug)]
pub enum LifeOp {
    /// Makes the waiting start triggers due, with or without a due time. Answered by
    /// [`Lived::Done`], [`Lived::Already`], [`Lived::Ended`] or [`Lived::NotFound`].
    Begin {
        /// The run.
        run: RunId,
        /// Epoch milliseconds.
        at_ms: i64,
    },
    /// Deletes a run. A run that has ended becomes a tombstone at once: no reader finds
    /// it, and its id stays reserved until it is forgotten. A run that has not ended is
    /// cancelled, and becomes a tombstone in the commit that ends it. Answered by [`Lived::Gone`],
    /// [`Lived::Done`] (it is being cancelled) or [`Lived::NotFound`].
    Delete {
        /// The run.
        run: RunId,
        /// The number of the control trigger that cancels it.
        no: TriggerNo,
        /// Epoch milliseconds.
        at_ms: i64,
    },
    /// Reopens a run that is faulted or cancelled. Answered by [`Lived::Done`],
    /// [`Lived::NotFound`], [`Lived::Reported`], [`Lived::Reserved`], [`Lived::Already`] or
    /// [`Lived::Moved`].
    Reopen(Box<Reopen>),
}

/// Deletes at most about `rows` rows of a tombstone's run.
#[derive(Clone, Copy, Debug)]
pub struct Clear {
    /// The deleted run.
    pub run: RunNo,
    /// Bound on the rows, which bounds how long the writer thread is occupied.
    pub rows: u32,
    /// The time from which its blobs may be swept, in epoch milliseconds.
    pub at_ms: i64,
}

/// How an ended run continues.
#[derive(Clone, Debug)]
pub struct Reopen {
    /// The run.
    pub run: RunNo,
    /// The version on which the request is based. It grows by one.
    pub version: Version,
    /// The definition and the pins with which the run continues. None: those that it has.
    pub documents: Option<(Arc<DefinitionRow>, Arc<PinsRow>)>,
    /// The new status.
    pub status: Status,
    /// The engine's new state.
    pub state: Bytes,
    /// The triggers to run, pending.
    pub triggers: Vec<NewTrigger>,
    /// As in [`Commit::scopes`](crate::write::Commit::scopes).
    pub scopes: Vec<(ScopeNo, Option<Bytes>)>,
    /// The keys that it reserves again until it ends.
    pub reserves: Vec<String>,
    /// The verb is refused while another run reserves this key.
    pub exclusive: Option<String>,
    /// The input of the run, in place of the one that it has.
    pub input: Option<Payload>,
    /// Blobs that the triggers and the input refer to.
    pub blobs: Vec<NewBlob>,
    /// The dead letter that this replays. If the letter was replayed before or is gone, nothing is
    /// written, and the answer is [`Lived::Already`].
    pub replays: Option<LetterNo>,
    /// The journal entries about the reopening.
    pub journal: Vec<JournalRow>,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// The outcome of a [`LifeOp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lived {
    /// It is done, or the request to the owner of the run is written.
    Done,
    /// The run was already in that state.
    Already,
    /// The run is a tombstone now.
    Gone(RunNo),
    /// There is no such run, or only its tombstone.
    NotFound,
    /// The run has ended.
    Ended,
    /// The run is a child, and its parent has received its result.
    Reported,
    /// Another run holds a reservation that this one needs.
    Reserved {
        /// That run, or one of several.
        by: RunId,
    },
    /// The run has changed since the request was made.
    Moved,
}
