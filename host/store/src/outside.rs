//! Triggers that the engine did not make: what people, other systems and control schedule.
//!
//! They are ordinary rows whose sequence number says where they come from
//! ([`Seq::outside`]). They keep no instance open: what is left of them when it ends is closed.

use bytes::Bytes;
use windlass_model::{Digest, InstanceId, InstanceNo, Seq, TriggerId, TriggerNo, TriggerType};

use crate::rows::TriggerRow;

/// The types of [`TriggerType::is_pausing`], as they are stored.
pub(crate) const PAUSING: (u8, u8) = (TriggerType::Pause as u8, TriggerType::Unpause as u8);

/// A trigger to be scheduled from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOutside {
    /// The number of its row.
    pub no: TriggerNo,
    /// Its name outside: the same name with the same request is the same trigger.
    pub id: TriggerId,
    /// The instance that it is for.
    pub instance: InstanceId,
    /// The node to run.
    pub node: Option<u32>,
    /// What it is.
    pub kind: TriggerType,
    /// When it is due, in epoch milliseconds.
    pub due_ms: i64,
    /// Opaque: merged into the variables by the runtime.
    pub payload: Option<Bytes>,
    /// Higher first among the due; see [`windlass_model::limits::PRIORITY`].
    pub priority: i32,
    /// Opaque.
    pub detail: Bytes,
    /// What was asked for, so that the same request is answered alike.
    pub request: Digest,
}

/// What became of scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduled {
    /// It is written.
    New,
    /// It is there already, by the same request.
    Already,
    /// It was there, by the same request, and is finished.
    Finished,
    /// Its name is taken by another request.
    Conflict,
    /// Its instance is over.
    Closed,
    /// There is no such instance.
    NoInstance,
}

/// How a trigger is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerTarget {
    /// One from outside, as it was named.
    Outside(TriggerId),
    /// Any, by its sequence number in its instance.
    Row(InstanceNo, Seq),
}

/// Makes a trigger due now.
#[derive(Clone, Copy, Debug)]
pub struct Fire {
    /// Which.
    pub target: TriggerTarget,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// Makes a trigger due at another time.
#[derive(Clone, Copy, Debug)]
pub struct Reschedule {
    /// Which.
    pub target: TriggerTarget,
    /// Epoch milliseconds.
    pub due_ms: i64,
}

/// Removes a trigger from outside that no member has claimed. One that is claimed, or that the
/// engine made, is asked to be cancelled by a control trigger.
#[derive(Clone, Copy, Debug)]
pub struct CancelTrigger {
    /// Which.
    pub target: TriggerTarget,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// Writes a control trigger that is due now.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    /// The instance.
    pub instance: InstanceId,
    /// The number of the row.
    pub no: TriggerNo,
    /// A control type.
    pub kind: TriggerType,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// What became of touching a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    /// It is done.
    Done,
    /// It is being run. Cancelling it was put down as a request; for the rest nothing is done.
    Running,
    /// It has been run, or cancelled.
    AlreadyFinished,
    /// There is none.
    NotFound,
    /// It is a dead letter.
    Dead,
    /// Its instance ended without it.
    Closed,
    /// It waits for a stimulus or a child: only that resumes it.
    Waiting,
}

/// A trigger that was named from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideRow {
    /// Its name.
    pub id: TriggerId,
    /// Its instance.
    pub instance: InstanceNo,
    /// Its instance, for people.
    pub instance_id: InstanceId,
    /// Its sequence number in the instance.
    pub seq: Seq,
    /// The row, for as long as it is there.
    pub row: Option<TriggerRow>,
    /// Whether its instance ended without it.
    pub closed: bool,
}

/// Where a list of triggers goes on: what its last row was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DuePlace {
    /// Epoch milliseconds.
    pub due_ms: i64,
    /// Its instance.
    pub instance: InstanceNo,
    /// Its row.
    pub no: TriggerNo,
}

impl From<&TriggerRow> for DuePlace {
    fn from(row: &TriggerRow) -> Self {
        let (due_ms, instance, no) = (row.due_ms, row.instance, row.no);
        Self {
            due_ms,
            instance,
            no,
        }
    }
}

/// Which pending triggers to list: soonest first.
#[derive(Clone, Copy, Debug)]
pub struct DueQuery {
    /// Only after this one.
    pub after: Option<DuePlace>,
    /// Only what is due by then, in epoch milliseconds.
    pub until_ms: i64,
    /// At most this many.
    pub limit: u32,
}
