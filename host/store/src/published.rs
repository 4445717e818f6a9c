//! Published definitions: versions, the trigger index, schedules.
//!
//! One version of a workflow is published at a time. Publishing another one compares its triggers
//! with the current ones: unchanged triggers keep their numbers, and schedules keep their planned
//! occurrences.

use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashSet;
use windlass_model::limits::WORKFLOW_BYTES;
use windlass_model::{BindingNo, Digest, RunId, ScheduleNo, TriggerNo};

use crate::codes;
use crate::error::{Error, Result};
use crate::rows::{Created, DefinitionRow, NewRun};

/// A definition to be published.
#[derive(Clone, Debug)]
pub struct NewPublication {
    /// The definition. Written if the store does not have it.
    pub definition: Arc<DefinitionRow>,
    /// The triggers by stimulus. Keys are unique.
    pub bindings: Vec<NewBinding>,
    /// The triggers by time. Keys are unique.
    pub schedules: Vec<NewSchedule>,
    /// Publish only if this version is the published one; 0: only if none is. Otherwise nothing is
    /// written, and the answer is [`Fenced`](crate::write::Fenced).
    pub only: Option<u32>,
    /// The revision of the draft that becomes this version; publishing removes the draft. If the
    /// workflow's draft has another revision, nothing is written, and the answer is
    /// [`Fenced`](crate::write::Fenced).
    pub draft: Option<u64>,
    /// The source of the definition, like a path: recorded with the version.
    pub source: Option<String>,
    /// The text of the definition, as its author sent it, comments and all: at most
    /// [`WORKFLOW_BYTES`]. It replaces the text of a version that is published already. None: the
    /// version keeps the text that it has.
    pub text: Option<Bytes>,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// The definition is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its version.
    pub version: u32,
    /// Whether this version was already the published one.
    pub unchanged: bool,
}

/// Retracts the published version of a workflow, with its triggers.
#[derive(Clone, Debug)]
pub struct Retract {
    /// The workflow.
    pub name: String,
    /// Retract only if this version is the published one.
    pub only: Option<u32>,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// Whether the published version differs from the expected one.
pub(crate) fn has_moved(only: Option<u32>, version: Option<u32>) -> bool {
    only.is_some_and(|only| only != version.unwrap_or(0))
}

impl NewPublication {
    /// Checks that the keys are unique, since they identify the rows, and the size of the text.
    pub(crate) fn check(&self) -> Result<()> {
        if self
            .text
            .as_ref()
            .is_some_and(|text| text.len() > WORKFLOW_BYTES)
        {
            let text = format!("the text of a definition has at most {WORKFLOW_BYTES} bytes");
            return Err(Error::new(codes::CONTRADICTION, text));
        }
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
    /// The hash of the name and the match, by which stimuli find the binding.
    pub hash: Digest,
    /// The values that must match, as canonical JSON: for display.
    pub matches: Bytes,
    /// The node that the trigger starts at.
    pub node: Option<u32>,
}

/// A trigger of a definition that fires at planned times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSchedule {
    /// The trigger's name in the definition.
    pub key: String,
    /// The schedule: opaque, versioned by the planner.
    pub spec: Bytes,
    /// When to plan first, in epoch milliseconds; `i64::MAX` for never. Ignored if the schedule
    /// exists with the same `spec`.
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
    /// When it was replaced or retracted, in epoch milliseconds; none if it is the published
    /// version.
    pub retracted_ms: Option<i64>,
}

/// The published workflows and the waits for requests of hooks, as they were at one moment: the number
/// changes with each publication and retraction, and with each new wait for a request.
///
/// Data that was read after [`Store::edition`](crate::Store::edition) is current while the edition is,
/// as far as the process knows. [`NewRun::as_of`] makes the transaction of a new run find out whether
/// that is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edition(pub u64);

/// A row of the trigger index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingRow {
    /// Its number: a change of the binding, other than its version, gives it a new number.
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
    /// When the schedule was published with this `spec`, in epoch milliseconds.
    pub since_ms: i64,
    /// When to plan next, in epoch milliseconds; `i64::MAX` for never.
    pub next_ms: i64,
    /// The last occurrence that was decided on, in epoch milliseconds.
    pub last_planned_ms: Option<i64>,
    /// The run that the last occurrence created.
    pub last_run: Option<RunId>,
    /// How many times in a row planning has failed. If it is not 0, `next_ms` is the time of the
    /// next attempt.
    pub troubles: u32,
    /// Since when it is paused, in epoch milliseconds; then `next_ms` is `i64::MAX`. None: it is
    /// not paused.
    pub paused_ms: Option<i64>,
}

/// Which versions to list: by name, the newest version first.
#[derive(Clone, Debug, Default)]
pub struct PublicationQuery {
    /// Only of this workflow.
    pub name: Option<String>,
    /// Also versions that are no longer published.
    pub retracted: bool,
    /// Only of workflows whose names come after this one.
    pub after: Option<String>,
    /// At most this many.
    pub limit: u32,
}

/// The place of a schedule in a list: when it is planned next, in epoch milliseconds, and its number.
pub type SchedulePlace = (i64, ScheduleNo);

/// Which schedules to list: the soonest first.
#[derive(Clone, Debug)]
pub struct ScheduleQuery {
    /// Only of this workflow.
    pub workflow: Option<String>,
    /// Only with this key.
    pub key: Option<String>,
    /// Only schedules behind this place.
    pub after: Option<SchedulePlace>,
    /// Only schedules in trouble, or only the others.
    pub troubled: Option<bool>,
    /// Only schedules to be planned by then, in epoch milliseconds.
    pub until_ms: i64,
    /// At most this many.
    pub limit: u32,
}

impl Default for ScheduleQuery {
    /// All schedules.
    fn default() -> Self {
        Self {
            workflow: None,
            key: None,
            after: None,
            troubled: None,
            until_ms: i64::MAX,
            limit: u32::MAX,
        }
    }
}

/// Pauses a schedule: no occurrence of it is planned until it is unpaused. Publishing another
/// version of the workflow does not end the pause, and retracting the workflow does. Answered by
/// whether that was done; otherwise the schedule is gone, or is paused already.
#[derive(Clone, Copy, Debug)]
pub struct PauseSchedule {
    /// The schedule.
    pub schedule: ScheduleNo,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// Ends the pause of a schedule. Answered by whether that was done; otherwise the schedule is gone,
/// is not paused, or was published with another `spec` meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct UnpauseSchedule {
    /// The schedule.
    pub schedule: ScheduleNo,
    /// The schedule's `since_ms` when the times were computed.
    pub expected_since_ms: i64,
    /// The last occurrence that is not planned any more, in epoch milliseconds; none: the last
    /// decision stands.
    pub planned_ms: Option<i64>,
    /// When to plan next, in epoch milliseconds; `i64::MAX` for never.
    pub next_ms: i64,
}

/// Creates a run of a schedule beside its plan: for a person who does not wait for the next
/// occurrence. The run counts as that of the last occurrence, so the rule for overlaps holds between
/// it and the next one. A paused schedule has such runs, too.
#[derive(Clone, Debug)]
pub struct StartSchedule {
    /// The schedule.
    pub schedule: ScheduleNo,
    /// The rule if the run of the last occurrence has not ended. The run is refused under
    /// [`Overlap::Skip`] and [`Overlap::Queue`].
    pub overlap: Overlap,
    /// The run.
    pub create: Box<NewRun>,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// The outcome of [`StartSchedule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartedNow {
    /// The store was asked to create the run.
    Created(Created),
    /// The run of the last occurrence has not ended, and the schedule allows one at a time.
    Busy(RunId),
    /// The schedule is gone.
    Gone,
}

/// Defers a schedule whose next occurrence cannot be planned.
#[derive(Clone, Copy, Debug)]
pub struct PutOff {
    /// The schedule.
    pub schedule: ScheduleNo,
    /// As in [`Plan`].
    pub expected_last_planned_ms: Option<i64>,
    /// When to try again, in epoch milliseconds.
    pub again_ms: i64,
}

/// A decision about one occurrence of a schedule.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The schedule.
    pub schedule: ScheduleNo,
    /// The schedule's `last_planned_ms` when the occurrence was computed. If it has changed,
    /// another member has decided.
    pub expected_last_planned_ms: Option<i64>,
    /// The occurrence, in epoch milliseconds.
    pub planned_ms: i64,
    /// When to plan next, in epoch milliseconds; `i64::MAX` for never.
    pub next_ms: i64,
    /// When to try again if the occurrence has to queue, in epoch milliseconds.
    pub again_ms: i64,
    /// The rule for an occurrence whose predecessor has not ended.
    pub overlap: Overlap,
    /// The run to create; none to skip the occurrence.
    pub create: Option<Box<NewRun>>,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// The rule for an occurrence whose predecessor has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// Start it in parallel.
    Allow,
    /// Skip this occurrence.
    Skip,
    /// Do not advance the schedule, and try again later.
    Queue,
    /// Start it, and cancel the predecessor by a control trigger with this number.
    CancelPrevious(TriggerNo),
}

/// The outcome of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planned {
    /// The run of the occurrence exists, and the schedule has advanced.
    Created(RunId),
    /// The schedule has advanced without a run.
    Skipped,
    /// The predecessor has not ended: the occurrence is still to be planned.
    Queued,
    /// The schedule is gone or paused, or another member has planned: nothing was written.
    Stale,
}
