//! Published definitions: versions, the trigger index, schedules.
//!
//! One version of a workflow is published at a time. Publishing another compares what starts
//! it with what is there, so that whatever did not change keeps its number, and a schedule
//! what it has planned already.

use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashSet;
use windlass_model::{BindingNo, Digest, InstanceId, ScheduleNo, TriggerNo};

use crate::codes;
use crate::error::{Error, Result};
use crate::rows::{DefinitionRow, NewInstance};

/// A definition to be published.
#[derive(Clone, Debug)]
pub struct NewPublication {
    /// The definition. Written if the store does not have it.
    pub definition: Arc<DefinitionRow>,
    /// What starts it by a stimulus. Keys are unique.
    pub bindings: Vec<NewBinding>,
    /// What starts it by time. Keys are unique.
    pub schedules: Vec<NewSchedule>,
    /// Only if this version is the published one, 0 for only if none is. Otherwise nothing is
    /// written, and the answer is [`Fenced`](crate::write::Fenced).
    pub only: Option<u32>,
    /// The revision of the draft that it was made from: removed with it. If the workflow's draft
    /// is another one by now, nothing is written, and the answer is [`Fenced`](crate::write::Fenced).
    pub draft: Option<u64>,
    /// The place that it was read from, like a path: noted with the version.
    pub source: Option<String>,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// The definition is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its version.
    pub version: u32,
    /// Whether it was the published one before.
    pub unchanged: bool,
}

/// Takes the published version of a workflow back, with what starts it.
#[derive(Clone, Debug)]
pub struct Retract {
    /// The workflow.
    pub name: String,
    /// Only if this version is the published one.
    pub only: Option<u32>,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// Whether the published version is another one than somebody counts on.
pub(crate) fn has_moved(only: Option<u32>, version: Option<u32>) -> bool {
    only.is_some_and(|only| only != version.unwrap_or(0))
}

impl NewPublication {
    /// Keys are what rows are told apart by, so none may be there twice.
    pub(crate) fn check(&self) -> Result<()> {
        let mut bindings = FxHashSet::default();
        let mut schedules = FxHashSet::default();
        let unique = self.bindings.iter().all(|new| bindings.insert(&new.key))
            && self.schedules.iter().all(|new| schedules.insert(&new.key));
        if unique {
            return Ok(());
        }
        let text = format!("two triggers of {} have one key", self.definition.name);
        Err(Error::new(codes::CONTRADICTION, text))
    }
}

/// A trigger of a definition that waits for stimuli.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBinding {
    /// The trigger's name in the definition.
    pub key: String,
    /// The name of the stimulus.
    pub name: String,
    /// By which stimuli find it: of the name and what must match.
    pub hash: Digest,
    /// What must match, as canonical JSON: for people.
    pub matches: Bytes,
    /// The node to begin with.
    pub node: Option<u32>,
}

/// A trigger of a definition that waits for times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSchedule {
    /// The trigger's name in the definition.
    pub key: String,
    /// The schedule: opaque, versioned by whoever plans it.
    pub spec: Bytes,
    /// When to look at it first, in epoch milliseconds; `i64::MAX` for never. Not looked at
    /// if the schedule is there already with this very `spec`.
    pub next_ms: i64,
}

/// A version of a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicationRow {
    /// The workflow's name.
    pub name: String,
    /// From 1, counted by name.
    pub version: u32,
    /// Digest of a [`DefinitionRow`].
    pub definition: Digest,
    /// Epoch milliseconds.
    pub published_ms: i64,
    /// When it stopped being the published one, in epoch milliseconds; none if it is.
    pub retracted_ms: Option<i64>,
}

/// A row of the trigger index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingRow {
    /// Its number: another one as soon as anything but the version changes.
    pub no: BindingNo,
    /// The workflow's name.
    pub workflow: String,
    /// The published version.
    pub version: u32,
    /// The published definition.
    pub definition: Digest,
    /// The trigger, as it was published.
    pub binding: NewBinding,
}

/// A schedule of a published workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleRow {
    /// Its number.
    pub no: ScheduleNo,
    /// The workflow's name.
    pub workflow: String,
    /// The published definition.
    pub definition: Digest,
    /// The trigger's name in the definition.
    pub key: String,
    /// Opaque.
    pub spec: Bytes,
    /// Since when it is there with this `spec`, in epoch milliseconds.
    pub since_ms: i64,
    /// When to look at it next, in epoch milliseconds; `i64::MAX` for never.
    pub next_ms: i64,
    /// The last occurrence that was decided about, in epoch milliseconds.
    pub last_planned_ms: Option<i64>,
    /// The instance that the last occurrence made.
    pub last_instance: Option<InstanceId>,
    /// How often in a row an occurrence could not be planned; `next_ms` is when that is tried
    /// again.
    pub troubles: u32,
}

/// Which versions to list: by name, and newest version first.
#[derive(Clone, Debug, Default)]
pub struct PublicationQuery {
    /// Only of this workflow.
    pub name: Option<String>,
    /// Also those that are not published any more.
    pub retracted: bool,
    /// Only of workflows whose names come after this one.
    pub after: Option<String>,
    /// At most this many.
    pub limit: u32,
}

/// Which schedules to list: the soonest first.
#[derive(Clone, Debug)]
pub struct ScheduleQuery {
    /// Only of this workflow.
    pub workflow: Option<String>,
    /// Only those in trouble, or only those that are not.
    pub troubled: Option<bool>,
    /// Only what is to be looked at by then, in epoch milliseconds.
    pub until_ms: i64,
    /// At most this many.
    pub limit: u32,
}

/// What to do about a schedule of which no occurrence can be planned for now.
#[derive(Clone, Copy, Debug)]
pub struct PutOff {
    /// Which schedule.
    pub schedule: ScheduleNo,
    /// As in [`Plan`].
    pub expected_last_planned_ms: Option<i64>,
    /// When to try again, in epoch milliseconds.
    pub again_ms: i64,
}

/// A decision about one occurrence of a schedule.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which schedule.
    pub schedule: ScheduleNo,
    /// What the schedule's `last_planned_ms` was when the occurrence was computed. If it has
    /// moved on, somebody else has decided.
    pub expected_last_planned_ms: Option<i64>,
    /// The occurrence, in epoch milliseconds.
    pub planned_ms: i64,
    /// When to look again after this, in epoch milliseconds; `i64::MAX` for never.
    pub next_ms: i64,
    /// When to look again if the occurrence has to queue, in epoch milliseconds.
    pub again_ms: i64,
    /// What to do if the instance of the occurrence before has not ended.
    pub overlap: Overlap,
    /// The instance to make; none to skip the occurrence.
    pub create: Option<Box<NewInstance>>,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// What to do if the instance of the occurrence before has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// Start beside it.
    Allow,
    /// Leave this occurrence out.
    Skip,
    /// Leave the schedule where it is, and look again later.
    Queue,
    /// Start, and cancel the one before by a control trigger of this number.
    CancelPrevious(TriggerNo),
}

/// What became of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planned {
    /// The instance of the occurrence is there, and the schedule has moved on.
    Created(InstanceId),
    /// The schedule has moved on without an instance.
    Skipped,
    /// The instance before has not ended: the occurrence is still to be planned.
    Queued,
    /// The schedule is gone, or somebody else has planned: nothing was written.
    Stale,
}
