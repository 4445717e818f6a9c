//! The writes of a run's owner: the commit of a step, and other verbs that check the fence.

use bytes::Bytes;
use windlass_model::{
    Epoch, Failure, Incarnation, Payload, RunId, RunNo, ScopeNo, Seq, Status, Token, TriggerNo,
    Version,
};

use crate::letters::NewDeadLetter;
use crate::rows::{ExecutionRow, JournalRow, NewBlob, NewRun, NewTrigger, TreeBound};
use crate::stimuli::{NewBookmark, NewStimulus};

/// The answer of a verb whose fence may fail.
pub type OrFenced<T> = Result<T, Fenced>;

/// A fence does not hold: a row that the verb depends on has changed, and nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fenced;

/// The conditions that must still hold for a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The member that commits. It must still be a member.
    pub incarnation: Incarnation,
    /// The run.
    pub run: RunNo,
    /// Its epoch.
    pub epoch: Epoch,
    /// Its version before this step. Each commit of the run adds one.
    pub version: Version,
}

/// The trigger that a step used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriggerFence {
    /// Its row.
    pub no: TriggerNo,
    /// Its token. The row must be claimed.
    pub token: Token,
}

/// Another row of the run that a step removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The row.
    pub no: TriggerNo,
    /// The step uses the resumption that the row holds, or drops it because its sender asked for
    /// that. The step is fenced if the row is gone: the resumption was cancelled, or used before. A
    /// resumption that is not used becomes a dead letter `stale`, because its sender was told that
    /// it resumes the run.
    pub used: bool,
}

impl Removed {
    /// A row whose resumption the step uses, if the row holds one.
    pub const fn used(no: TriggerNo) -> Self {
        Self { no, used: true }
    }

    /// A row whose resumption becomes a dead letter, if the row holds one.
    pub const fn unused(no: TriggerNo) -> Self {
        Self { no, used: false }
    }
}

/// The changes of one step.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The conditions that must still hold. The version grows by one.
    pub fence: Fence,
    /// The trigger that is used up: the first of `triggers` replaces it, or it is removed.
    pub trigger: TriggerFence,
    /// The new status.
    pub status: Status,
    /// The engine's new state.
    pub state: Bytes,
    /// Execution records, oldest first. The last one becomes the run's last record.
    pub executions: Vec<ExecutionRow>,
    /// Successors.
    pub triggers: Vec<NewTrigger>,
    /// Other triggers of the run that are removed.
    ///
    /// The store alone decides which of them leaves a dead letter, because only the store knows the
    /// content of a row: the owner may not know yet that a row was resumed, and its claim of the
    /// row may be in progress. The end of a run does the same with all rows that are not
    /// named.
    pub removed: Vec<Removed>,
    /// Variables assigned, by scope.
    pub vars: Vec<(ScopeNo, String, Payload)>,
    /// The new states of open scopes besides the root; none: the scope is closed, and its variables
    /// are deleted. Opaque, written and versioned by the engine.
    pub scopes: Vec<(ScopeNo, Option<Bytes>)>,
    /// Completed items of for-eaches.
    pub items: Vec<NewItem>,
    /// For-eaches whose items are deleted.
    pub lists_done: Vec<Seq>,
    /// Executions, by the sequence numbers of their first triggers, whose bookmarks end.
    pub burned: Vec<Seq>,
    /// New bookmarks. A bookmark that matches a buffered stimulus resumes at once. At most
    /// [`BOOKMARKS`](windlass_model::limits::BOOKMARKS) of one execution.
    pub bookmarks: Vec<NewBookmark>,
    /// Stimuli that are sent: they are added to the queue.
    pub sends: Vec<NewStimulus>,
    /// Sub-workflows to start. If one cannot be created, its parent's row is resumed with a
    /// failure.
    pub children: Vec<NewRun>,
    /// How many descendants the root of the tree may have. Each child is counted before it is
    /// created.
    pub tree: TreeBound,
    /// Instances to cancel, if they have not ended.
    pub cancels: Vec<RunId>,
    /// Dead letters to write.
    pub dead: Vec<NewDeadLetter>,
    /// Blobs that the other fields refer to.
    pub blobs: Vec<NewBlob>,
    /// Journal entries.
    pub journal: Vec<JournalRow>,
    /// Set if the run ends: its remaining triggers and its owner are removed.
    pub finish: Option<Finish>,
    /// Release the run, because this member has no more work of it.
    pub release: bool,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

impl Commit {
    /// Every value that the step writes.
    pub(crate) fn payloads(&self) -> impl Iterator<Item = &Payload> {
        let outputs = self
            .executions
            .iter()
            .filter_map(|execution| execution.output.as_ref());
        let vars = self.vars.iter().map(|(_, _, value)| value);
        let items = self.items.iter().map(|item| &item.output);
        let finish = self.finish.as_ref();
        let output = finish.and_then(|finish| finish.output.as_ref());
        outputs.chain(vars).chain(items).chain(output)
    }
}

/// The output of one item of a for-each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewItem {
    /// The for-each: the sequence number of its first trigger.
    pub list: Seq,
    /// The index of the item in the list, from 0.
    pub index: u32,
    /// The output.
    pub output: Payload,
}

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub struct Finish {
    /// The output; none if the run failed.
    pub output: Option<Payload>,
    /// Why it failed.
    pub failure: Option<Failure>,
}

/// The step is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Whether work is due now that needs a claim: an execution that a buffered stimulus resumed, a
    /// child, or the parent of this run.
    pub due: bool,
}

/// Marks suspects before they run together: if the host dies now, one of its marked triggers is the
/// cause. Fenced if the member is gone. Triggers that are no claimed suspects any more are left out.
#[derive(Clone, Debug)]
pub struct Mark {
    /// The member that has claimed them.
    pub incarnation: Incarnation,
    /// The suspects.
    pub triggers: Vec<TriggerFence>,
}

/// Releases a run. Its claimed triggers become pending, without suspicion unless they were
/// suspects before.
#[derive(Clone, Debug)]
pub struct Release {
    /// The fence of the owner. The version is ignored.
    pub fence: Fence,
}

/// Parks a claimed trigger: it leaves the due index.
#[derive(Clone, Debug)]
pub struct Park {
    /// The fence of the owner.
    pub fence: Fence,
    /// The claimed trigger that becomes parked.
    pub trigger: TriggerFence,
    /// The reason, for display.
    pub reason: String,
}

/// Makes every parked trigger pending, and every schedule in trouble due: a missing component may
/// have arrived. Answered by the number of triggers.
#[derive(Clone, Copy, Debug)]
pub struct Unpark;
