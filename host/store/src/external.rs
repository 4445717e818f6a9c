//! External triggers: triggers that users, other systems and control requests schedule, rather than
//! the engine.
//!
//! They are ordinary rows whose sequence number shows their origin ([`Seq::external`]). They do not
//! keep a run open: when it ends, its remaining external triggers are closed.

use bytes::Bytes;
use windlass_model::{Digest, RunId, RunNo, Seq, TriggerId, TriggerNo, TriggerType};

use crate::rows::TriggerRow;

/// The types of [`TriggerType::is_pausing`], as they are stored.
pub(crate) const PAUSING: (u8, u8) = (TriggerType::Pause as u8, TriggerType::Unpause as u8);

/// An external trigger to be scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewExternal {
    /// The number of its row.
    pub no: TriggerNo,
    /// Its external id: the same id with the same request is the same trigger.
    pub id: TriggerId,
    /// The run that it is for.
    pub run: RunId,
    /// The node to run.
    pub node: Option<u32>,
    /// The type of the trigger.
    pub kind: TriggerType,
    /// When it is due, in epoch milliseconds.
    pub due_ms: i64,
    /// Opaque: the runtime merges it into the variables.
    pub payload: Option<Bytes>,
    /// The highest priority is claimed first; see [`windlass_model::limits::PRIORITY`].
    pub priority: i32,
    /// Opaque.
    pub detail: Bytes,
    /// Digest of the request, so that a repeated request gets the same answer.
    pub request: Digest,
}

/// The outcome of scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduled {
    /// The trigger is written.
    New,
    /// The same request has already written the trigger.
    Already,
    /// The same request has written the trigger, and the trigger has finished.
    Finished,
    /// Another request has used the id.
    Conflict,
    /// The run has ended.
    Closed,
    /// There is no such run.
    NoRun,
}

/// The identification of a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerTarget {
    /// An external trigger, by its id.
    External(TriggerId),
    /// Any trigger, by its run and its sequence number.
    Row(RunNo, Seq),
}

/// Makes a trigger due now.
#[derive(Clone, Copy, Debug)]
pub struct Fire {
    /// The trigger.
    pub target: TriggerTarget,
    /// Epoch milliseconds.
    pub at_ms: i64,
    /// Only if it is due at this time, in epoch milliseconds: at another time it has been run since,
    /// which is [`Touched::AlreadyFinished`].
    pub only_due_ms: Option<i64>,
}

/// Makes a trigger due at another time.
#[derive(Clone, Copy, Debug)]
pub struct Reschedule {
    /// The trigger.
    pub target: TriggerTarget,
    /// Epoch milliseconds.
    pub due_ms: i64,
}

/// Removes an external trigger that no member has claimed. For a claimed trigger, or one that the
/// engine made, writes a control trigger that asks the owner to cancel it.
#[derive(Clone, Copy, Debug)]
pub struct CancelTrigger {
    /// The trigger.
    pub target: TriggerTarget,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// Writes a control trigger that is due now.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    /// The run.
    pub run: RunId,
    /// The number of the row.
    pub no: TriggerNo,
    /// A control type.
    pub kind: TriggerType,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// The outcome of a verb on a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    /// The verb was carried out.
    Done,
    /// The trigger is claimed. A cancellation was written as a request; other verbs did nothing.
    Running,
    /// The trigger has been run or cancelled.
    AlreadyFinished,
    /// There is no such trigger.
    NotFound,
    /// The trigger is a dead letter.
    Dead,
    /// The run ended before the trigger ran.
    Closed,
    /// The trigger waits for a stimulus or a child, and only that can resume it.
    Waiting,
}

/// An external trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalRow {
    /// Its id.
    pub id: TriggerId,
    /// Its run.
    pub run: RunNo,
    /// The id of its run.
    pub run_id: RunId,
    /// Its sequence number in the run.
    pub seq: Seq,
    /// The row, while it exists.
    pub row: Option<TriggerRow>,
    /// Whether the run ended before the trigger ran.
    pub closed: bool,
}

/// The position after the last row of a page of triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DuePlace {
    /// Epoch milliseconds.
    pub due_ms: i64,
    /// Its run.
    pub run: RunNo,
    /// Its row.
    pub no: TriggerNo,
}

impl From<&TriggerRow> for DuePlace {
    fn from(row: &TriggerRow) -> Self {
        let (due_ms, run, no) = (row.due_ms, row.run, row.no);
        Self { due_ms, run, no }
    }
}

/// Which pending triggers to list, the soonest first.
#[derive(Clone, Copy, Debug)]
pub struct DueQuery {
    /// Only after this one.
    pub after: Option<DuePlace>,
    /// Only triggers due at or before this time, in epoch milliseconds.
    pub until_ms: i64,
    /// At most this many.
    pub limit: u32,
}
