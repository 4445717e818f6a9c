//! The verbs that change a store.

use bytes::Bytes;
use windlass_model::{
    Digest, Epoch, Failure, Incarnation, InstanceId, InstanceNo, Payload, RunNo, ScopeNo, Seq,
    Status, Token, TriggerNo, TriggerType, UpkeepNo, Version,
};

use crate::components::NewComponent;
use crate::drafts::{NewDraft, UpkeepOp};
use crate::error::Result;
use crate::letters::{DeadLetterOp, Lettered, NewDeadLetter};
use crate::lives::{LifeOp, Lived};
use crate::outside::{NewOutside, Scheduled, Touched, TriggerTarget};
use crate::published::{NewPublication, Plan, Planned, PutOff};
use crate::retention::Sweep;
use crate::rows::{InstanceRow, JournalRow, NewBlob, NewInstance, NewTrigger, RunRow, TriggerRow};
use crate::stimuli::{self, NewBookmark, NewStimulus, QueueOp, Resume, Sent};
use crate::transfer::{Import, Imported};

/// How the submitter recognises the answer to a write.
pub type Ticket = u64;

/// Takes the answers to submitted writes, many at a time.
pub trait Sink: Send + Sync {
    /// Called from the backend's thread after the writes are durable or refused: hand them on
    /// and return. Answers come in the order in which the writes of this sink were submitted.
    fn answered(&self, answers: Vec<(Ticket, Result<Wrote>)>);

    /// The line that what is submitted with this sink stands in.
    fn line(&self) -> Line {
        Line::All
    }
}

/// What comes before what. A backend may carry out several lines at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// After all that was submitted before, whatever its line, and before all that is submitted
    /// after it; what stands in none is not meant.
    All,
    /// After what was submitted to the same line before.
    Of(usize),
    /// Whenever it may be: for who submits one write and waits for its answer.
    None,
}

/// One logical transaction.
#[derive(Clone, Debug)]
pub enum Write {
    /// Becomes a member. Answered by [`Wrote::Joined`].
    Join(NewMember),
    /// Extends the lease. Answered by [`Wrote::Renewed`] or [`Wrote::Fenced`].
    Renew {
        /// Whose.
        incarnation: Incarnation,
    },
    /// Ends the membership; what the member still holds is freed without suspicion.
    /// Answered by [`Wrote::Done`].
    Leave {
        /// Whose.
        incarnation: Incarnation,
    },
    /// Removes members that are dead or whose lease has run out, and frees at most `limit`
    /// instances of such. Answered by [`Wrote::Freed`].
    ///
    /// Freeing an instance makes its claimed triggers pending and suspect. One that was
    /// only claimed gets `deliveries = max(deliveries, 1)`; one that was marked, one more.
    Bury {
        /// Who asks; never buried by itself.
        incarnation: Incarnation,
        /// Bound on the instances freed.
        limit: u32,
    },
    /// Writes an instance with its triggers. Answered by [`Wrote::Created`],
    /// [`Wrote::Exists`], [`Wrote::Deleted`], [`Wrote::Reserved`] or, if `owner` is set and
    /// gone, [`Wrote::Fenced`].
    Create(Box<NewInstance>),
    /// Takes instances with due work, and then the work. Answered by [`Wrote::Claimed`].
    Claim(Claim),
    /// One step. Answered by [`Wrote::Done`], [`Wrote::DoneDue`] or [`Wrote::Fenced`].
    Commit(Box<Commit>),
    /// Notes, before a suspect is run, that a host which dies now died of it.
    /// Answered by [`Wrote::Done`] or [`Wrote::Fenced`].
    Mark {
        /// Who runs it, and which.
        fence: Fence,
        /// The suspect.
        trigger: TriggerFence,
    },
    /// Gives an instance back. Its claimed triggers become pending, without suspicion,
    /// unless they were suspects before. Answered by [`Wrote::Done`] or [`Wrote::Fenced`].
    Release {
        /// Who holds it. The version is not looked at.
        fence: Fence,
    },
    /// Takes a pending trigger out of the due index, or brings parked ones back.
    /// Answered by [`Wrote::Done`] or [`Wrote::Fenced`].
    Park {
        /// Who holds the instance.
        fence: Fence,
        /// The claimed trigger that becomes parked.
        trigger: TriggerFence,
        /// Why, for people.
        reason: String,
    },
    /// Makes every parked trigger pending, and every schedule in trouble due: what was missing may
    /// be there. Answered by [`Wrote::Freed`], with the number of triggers.
    Unpark,
    /// Delivers a stimulus. Answered by [`Wrote::Sent`], [`Wrote::Moved`] or, if it was to come
    /// from the queue and is not there any more, [`Wrote::Fenced`].
    Send(Box<stimuli::Send>),
    /// Resumes by a token. Answered by [`Wrote::Sent`]: dropped, if nobody waits for it.
    Resume(Box<Resume>),
    /// Looks after the stimuli that wait.
    Queue(QueueOp),
    /// Looks after the dead letters.
    DeadLetter(DeadLetterOp),
    /// Writes a trigger from outside. Answered by [`Wrote::Scheduled`].
    Schedule(Box<NewOutside>),
    /// Makes a trigger due now. Answered by [`Wrote::Touched`].
    Fire {
        /// Which.
        target: TriggerTarget,
        /// Epoch milliseconds.
        at_ms: i64,
    },
    /// Makes a trigger due at another time. Answered by [`Wrote::Touched`].
    Reschedule {
        /// Which.
        target: TriggerTarget,
        /// Epoch milliseconds.
        due_ms: i64,
    },
    /// Removes a trigger from outside that nobody has claimed. One that is claimed, or that the
    /// engine made, is asked to be cancelled by a control trigger. Answered by
    /// [`Wrote::Touched`].
    CancelTrigger {
        /// Which.
        target: TriggerTarget,
        /// Epoch milliseconds.
        at_ms: i64,
    },
    /// Writes a control trigger that is due now. Answered by [`Wrote::Touched`]: done, not found
    /// or closed.
    Control {
        /// The instance.
        instance: InstanceId,
        /// The number of the row.
        no: TriggerNo,
        /// A control type.
        kind: TriggerType,
        /// Epoch milliseconds.
        at_ms: i64,
    },
    /// Asks something of an instance as a whole. Answered by [`Wrote::Lived`].
    Life(LifeOp),
    /// Puts an instance in that was taken out of this store or another one. Answered by
    /// [`Wrote::Imported`].
    Import(Box<Import>),
    /// Makes a definition the published version of its workflow. Answered by
    /// [`Wrote::Published`] or, if something that it counts on has moved on, [`Wrote::Fenced`].
    Publish(Box<NewPublication>),
    /// Takes the published version of a workflow back, with what starts it. Answered by
    /// [`Wrote::Retracted`] or, if another version is published, [`Wrote::Fenced`].
    Retract {
        /// The workflow.
        name: String,
        /// Only if this version is the published one.
        only: Option<u32>,
        /// Epoch milliseconds.
        at_ms: i64,
    },
    /// Saves a draft. Answered by [`Wrote::Drafted`] or, if there is another revision than was
    /// expected, [`Wrote::Fenced`].
    SaveDraft(Box<NewDraft>),
    /// Throws a draft away. Answered by [`Wrote::Done`] or, if it is not there,
    /// [`Wrote::Fenced`].
    DiscardDraft {
        /// The workflow.
        name: String,
        /// Only this revision.
        revision: Option<u64>,
    },
    /// Forgets a place that a version was published from, and takes that version back if it is
    /// still the published one, no other place has it too, and `retract` says so. Answered by
    /// [`Wrote::Retracted`].
    DropSource {
        /// The place, as it was named when it was published.
        name: String,
        /// Whether to take it back.
        retract: bool,
        /// Epoch milliseconds.
        at_ms: i64,
    },
    /// Looks after the requests to look at definitions again.
    Upkeep(UpkeepOp),
    /// Decides about one occurrence of a schedule. Answered by [`Wrote::Planned`] or, if the
    /// new instance has an owner who is gone, [`Wrote::Fenced`].
    Plan(Box<Plan>),
    /// Puts a schedule off that is in trouble, and counts that. Answered by [`Wrote::Planned`]:
    /// queued, or stale.
    PutOff(PutOff),
    /// Asks for a duty that one member at a time does now and then, and notes who does it.
    /// Answered by [`Wrote::Duty`].
    Duty {
        /// The duty.
        name: String,
        /// Who asks. Never gets it unless it is a member.
        incarnation: Incarnation,
        /// How long after it was last given out the duty is free, in milliseconds. None: it is
        /// given again to who has it already, however soon, and to nobody else.
        every_ms: Option<u64>,
        /// Epoch milliseconds.
        at_ms: i64,
    },
    /// Deletes at most about `rows` rows of an instance that ended before a moment; nobody
    /// finds it from the first of them on. Answered by [`Wrote::Forgotten`].
    Forget {
        /// Which instance.
        instance: InstanceNo,
        /// Epoch milliseconds.
        before_ms: i64,
        /// Bound on the rows, which bounds how long the writer is held.
        rows: u32,
        /// From when on its blobs may be swept, in epoch milliseconds.
        at_ms: i64,
    },
    /// Deletes at most `rows` of what has piled up since before a moment. Answered by
    /// [`Wrote::Swept`].
    Sweep {
        /// What.
        what: Sweep,
        /// Epoch milliseconds.
        before_ms: i64,
        /// Bound on the rows, which bounds how long the writer is held.
        rows: u32,
        /// From when on what is found to be unused counts as that, in epoch milliseconds.
        at_ms: i64,
    },
    /// Keeps what somebody has decided about the system as a whole. Answered by
    /// [`Wrote::Done`].
    Setting {
        /// What is decided: like `pause`.
        name: String,
        /// How: opaque, versioned by the caller, of at most
        /// [`SETTING_BYTES`](windlass_model::limits::SETTING_BYTES); none forgets it.
        value: Option<Bytes>,
    },
    /// Keeps a component of a plugin, unless it is there. Answered by [`Wrote::Done`].
    KeepComponent(Box<NewComponent>),
    /// Notes which components are used, and forgets some of those that nobody has named for a
    /// while and no pins name. Answered by [`Wrote::Swept`].
    SweepComponents {
        /// Those that are used.
        used: Vec<Digest>,
        /// Whoever was named since then stays, in epoch milliseconds.
        before_ms: i64,
        /// Epoch milliseconds.
        at_ms: i64,
    },
    /// Empties the queue and makes sure that all before it is durable. Answered by
    /// [`Wrote::Done`].
    Flush,
}

impl Write {
    /// The line of a write whose submitter waits for the answer. What is about members, and
    /// about what they hold, has to come after what members have submitted.
    pub(crate) fn line(&self) -> Line {
        match self {
            Self::Join(_)
            | Self::Renew { .. }
            | Self::Leave { .. }
            | Self::Bury { .. }
            | Self::Claim(_)
            | Self::Commit(_)
            | Self::Mark { .. }
            | Self::Release { .. }
            | Self::Park { .. }
            | Self::Unpark
            | Self::Flush => Line::All,
            Self::Create(_)
            | Self::Send(_)
            | Self::Resume(_)
            | Self::Queue(_)
            | Self::DeadLetter(_)
            | Self::Schedule(_)
            | Self::Fire { .. }
            | Self::Reschedule { .. }
            | Self::CancelTrigger { .. }
            | Self::Control { .. }
            | Self::Life(_)
            | Self::Import(_)
            | Self::Publish(_)
            | Self::Retract { .. }
            | Self::SaveDraft(_)
            | Self::DiscardDraft { .. }
            | Self::DropSource { .. }
            | Self::Upkeep(_)
            | Self::Plan(_)
            | Self::PutOff(_)
            | Self::Duty { .. }
            | Self::Forget { .. }
            | Self::Sweep { .. }
            | Self::KeepComponent(_)
            | Self::SweepComponents { .. }
            | Self::Setting { .. } => Line::None,
        }
    }
}

/// The answer to a write that was carried out, or refused by a fence.
#[derive(Clone, Debug)]
pub enum Wrote {
    /// It is durable.
    Done,
    /// It is durable, and something that somebody has to claim is due now: what a buffered
    /// stimulus resumed, a child, or the parent of one.
    DoneDue,
    /// Something named by the fence has moved on: nothing was written.
    Fenced,
    /// The member's incarnation.
    Joined(Incarnation),
    /// The lease is good until this moment of the member's monotonic clock, in milliseconds.
    Renewed {
        /// On the clock that [`NewMember::lease_ms`] counts on.
        until_monotonic_ms: u64,
    },
    /// How many were freed.
    Freed(u32),
    /// The instance is written.
    Created,
    /// An instance of that id is there already; compare its `request`.
    Exists(Box<InstanceRow>),
    /// The id is that of an instance that was deleted: nothing was written.
    Deleted,
    /// What became of a request about a whole instance.
    Lived(Lived),
    /// What became of putting an instance in.
    Imported(Imported),
    /// What was claimed.
    Claimed(Claims),
    /// An instance that excludes the new one has not ended: nothing was written.
    Reserved {
        /// That one, or one of them.
        by: InstanceId,
    },
    /// The definition is published.
    Published {
        /// Its version.
        version: u32,
        /// Whether it was the published one before.
        unchanged: bool,
    },
    /// The version that was taken back, if there was a published one.
    Retracted(Option<u32>),
    /// The draft is saved.
    Drafted {
        /// Its revision.
        revision: u64,
    },
    /// The request is written.
    Requested(UpkeepNo),
    /// What became of the occurrence.
    Planned(Planned),
    /// Whether the duty is the asking member's now.
    Duty(bool),
    /// A slice of an instance is gone.
    Forgotten {
        /// Whether there is more of it.
        more: bool,
    },
    /// A slice is swept.
    Swept {
        /// How many are gone.
        count: u32,
        /// Whether there is more to sweep.
        more: bool,
    },
    /// What a stimulus or a token did.
    Sent(Sent),
    /// The bindings of the hash are others by now: look them up again.
    Moved,
    /// What became of scheduling.
    Scheduled(Scheduled),
    /// What became of touching a trigger.
    Touched(Touched),
    /// What became of a dead letter.
    Letter(Lettered),
}

/// A process that wants to be a member.
#[derive(Clone, Debug)]
pub struct NewMember {
    /// For people.
    pub name: String,
    /// How long others trust in its life without hearing of it.
    pub lease_ms: u64,
    /// Epoch milliseconds.
    pub joined_ms: i64,
}

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
    pub runs: Vec<RunRow>,
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
        let outputs = self.runs.iter().filter_map(|run| run.output.as_ref());
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

/// A wish for work.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Who asks. Answered with nothing if it is not a member any more.
    pub incarnation: Incarnation,
    /// What is due at this moment, in epoch milliseconds.
    pub now_ms: i64,
    /// Bound on the instances claimed.
    pub instances: u32,
    /// Bound on the triggers claimed of each.
    pub triggers: u32,
    /// Whether to claim whatever is there, or only what already belongs to the member.
    pub scope: ClaimScope,
}

/// Whose work may be claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimScope {
    /// Everybody's.
    All,
    /// Only of these instances.
    Only(Vec<InstanceNo>),
}

/// Work that was claimed.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// Instance by instance.
    pub instances: Vec<ClaimedInstance>,
    /// Whether there may be more that is due and free.
    pub more: bool,
    /// When the next pending trigger that this member may take comes due, in epoch
    /// milliseconds, if nothing more is due now.
    pub next_due_ms: Option<i64>,
    /// Whether a write had to wait for another process since the claim before this one. Only in
    /// SQLite do writes wait for each other.
    pub contended: bool,
}

/// One instance and its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedInstance {
    /// The head, with the new owner and epoch.
    pub row: InstanceRow,
    /// Whether the instance was taken by this claim, rather than belonging to the member before.
    pub taken: bool,
    /// The triggers claimed, with their new tokens.
    pub claimed: Vec<TriggerRow>,
    /// If it was taken: all its other triggers.
    pub others: Vec<TriggerRow>,
    /// If it was taken: its open scopes besides the root, in order.
    pub scopes: Vec<(ScopeNo, Bytes)>,
}

impl ClaimedInstance {
    /// How many triggers were claimed.
    pub fn count(&self) -> u32 {
        u32::try_from(self.claimed.len()).unwrap_or(u32::MAX)
    }
}

/// The number of the newest run record of an instance, for walking back.
pub type LastRun = Option<RunNo>;
