//! What the owner of an instance writes: the commit of a step, and what else its fence checks.

use bytes::Bytes;
use windlass_model::{
    Epoch, Failure, Incarnation, InstanceId, InstanceNo, Payload, ScopeNo, Seq, Status, Token,
    TriggerNo, Version,
};

use crate::letters::NewDeadLetter;
use crate::rows::{ExecutionRow, JournalRow, NewBlob, NewInstance, NewTrigger};
use crate::stimuli::{NewBookmark, NewStimulus};

/// The answer of a verb whose fence may fail.
pub type OrFenced<T> = Result<T, Fenced>;

/// A fence does not hold: what the verb counts on has moved on, and nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fenced;

/// What must still hold for a step to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The member that commits, which must still be one.
    pub incarnation: Incarnation,
    /// The instance.
    pub instance: InstanceNo,
    /// Its epoch.
    pub epoch: Epoch,
    /// Its version before this step. Commits of one instance in a row count on by one.
    pub version: Version,
}

/// The trigger that a step used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriggerFence {
    /// Its row.
    pub no: TriggerNo,
    /// Its token, with the row claimed.
    pub token: Token,
}

/// Another row of the instance that a step does away with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The row.
    pub no: TriggerNo,
    /// The step makes use of the resumption that the row holds, or drops it because its sender
    /// wants that. The step is fenced off if the row is not there: the resumption was cancelled,
    /// or used before. A resumption that is not used becomes a dead letter `stale`: its sender
    /// was told that it resumes the run.
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

/// What one step did.
#[derive(Clone, Debug)]
pub struct Commit {
    /// What must still hold. The version becomes one more.
    pub fence: Fence,
    /// The trigger that is used up: turned into the first of `triggers` in place, or removed.
    pub trigger: TriggerFence,
    /// The status from now on.
    pub status: Status,
    /// The engine's state from now on.
    pub state: Bytes,
    /// Executions to record, oldest first. The last one becomes the instance's last run.
    pub executions: Vec<ExecutionRow>,
    /// Successors.
    pub triggers: Vec<NewTrigger>,
    /// Other triggers of the instance that are not wanted any more.
    ///
    /// The store alone decides which of them leaves a dead letter, since it alone knows what a
    /// row holds: the owner may not know yet that a row was resumed, and its claim of the row
    /// may be on the way. The end of an instance does the same with all rows that are not named.
    pub removed: Vec<Removed>,
    /// Variables assigned, by scope.
    pub vars: Vec<(ScopeNo, String, Payload)>,
    /// Open scopes besides the root, as they are from now on; none: closed, and gone with its
    /// variables. The engine's: opaque, versioned by it.
    pub scopes: Vec<(ScopeNo, Option<Bytes>)>,
    /// Items of for-eaches that have come out.
    pub items: Vec<NewItem>,
    /// For-eaches whose items are not wanted any more.
    pub lists_done: Vec<Seq>,
    /// Node runs, by the sequence numbers of their first triggers, whose bookmarks end.
    pub burned: Vec<Seq>,
    /// What waits from now on. Those that meet a buffered stimulus resume at once. At most
    /// [`BOOKMARKS`](windlass_model::limits::BOOKMARKS) of one node run.
    pub bookmarks: Vec<NewBookmark>,
    /// Stimuli that are sent: they go to the queue.
    pub sends: Vec<NewStimulus>,
    /// Sub-workflows that begin. If one cannot be made, its parent's row is resumed with a
    /// failure.
    pub children: Vec<NewInstance>,
    /// Instances that are to be cancelled, if they have not ended.
    pub cancels: Vec<InstanceId>,
    /// What could not be delivered.
    pub dead: Vec<NewDeadLetter>,
    /// Blobs that the rest refers to.
    pub blobs: Vec<NewBlob>,
    /// What else happened.
    pub journal: Vec<JournalRow>,
    /// Set if the instance has ended: whatever triggers it still has are removed, and it has
    /// no owner any more.
    pub finish: Option<Finish>,
    /// Give the instance back, since nothing of it is left to run here now.
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

/// What came out of one item of a for-each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewItem {
    /// The for-each: the sequence number of its first trigger.
    pub list: Seq,
    /// The place of the item in the list, from 0.
    pub index: u32,
    /// What came out.
    pub output: Payload,
}

/// How an instance ended.
#[derive(Clone, Debug, Default)]
pub struct Finish {
    /// What came out; none if it failed.
    pub output: Option<Payload>,
    /// Why it failed.
    pub failure: Option<Failure>,
}

/// The step is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Whether something that a member has to claim is due now: what a buffered stimulus resumed,
    /// a child, or the parent of one.
    pub due: bool,
}

/// Notes, before a suspect is run, that a host which dies now died of it.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Who runs it, and which.
    pub fence: Fence,
    /// The suspect.
    pub trigger: TriggerFence,
}

/// Gives an instance back. Its claimed triggers become pending, without suspicion, unless they
/// were suspects before.
#[derive(Clone, Debug)]
pub struct Release {
    /// Who holds it. The version is not looked at.
    pub fence: Fence,
}

/// Takes a claimed trigger out of the due index.
#[derive(Clone, Debug)]
pub struct Park {
    /// Who holds the instance.
    pub fence: Fence,
    /// The claimed trigger that becomes parked.
    pub trigger: TriggerFence,
    /// Why, for people.
    pub reason: String,
}

/// Makes every parked trigger pending, and every schedule in trouble due: what was missing may be
/// there. Answered by the number of triggers.
#[derive(Clone, Copy, Debug)]
pub struct Unpark;
