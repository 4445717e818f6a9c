//! The rows of a store, as readers return them.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use windlass_model::limits::{CONTROL_PRIORITY, FOLLOWING_PRIORITY, PRIORITY};
use windlass_model::{
    Digest, Epoch, ExecutionNo, ExecutionStatus, Failure, Incarnation, LogLine, Payload, RunId,
    RunNo, Seq, ShortBytes, Status, Tags, Token, TraceContext, TriggerNo, TriggerState,
    TriggerType, Version,
};

use crate::published::Edition;
use crate::read::RunPlace;
use crate::write::TriggerFence;

/// A published or ad-hoc definition: its canonical JSON, identified by its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionRow {
    /// SHA-256 of `json`.
    pub digest: Digest,
    /// The workflow's name.
    pub name: String,
    /// Canonical JSON.
    pub json: Bytes,
}

/// The components that the runs of a definition use, chosen when they start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinsRow {
    /// SHA-256 of `json`.
    pub digest: Digest,
    /// A JSON document, written by the runtime.
    pub json: Bytes,
}

/// The head of a run: all columns that a step reads and writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// Whether the state matches its checksum. If not, the run must not continue.
    pub sound: bool,
    /// Its number in this store.
    pub no: RunNo,
    /// Its id outside of the store.
    pub id: RunId,
    /// Its workflow: digest of a [`DefinitionRow`].
    pub definition: Digest,
    /// Its components: digest of a [`PinsRow`].
    pub pins: Digest,
    /// Its correlation, chosen by the caller.
    pub correlation: Option<String>,
    /// Its tags, by which lists find it.
    pub tags: Tags,
    /// The trace that it continues; none: it begins one.
    pub trace: Option<TraceContext>,
    /// Digest of the request that created it, so that a repeated request gets the same answer.
    pub request: Digest,
    /// Its status.
    pub status: Status,
    /// The member that owns it.
    pub owner: Option<Incarnation>,
    /// How often its owner has changed.
    pub epoch: Epoch,
    /// How many steps were committed.
    pub version: Version,
    /// The engine's state: opaque, versioned by the engine.
    pub state: Bytes,
    /// The newest execution record; the others are linked from it.
    pub last_execution: Option<ExecutionNo>,
    /// Epoch milliseconds.
    pub created_ms: i64,
    /// Epoch milliseconds.
    pub finished_ms: Option<i64>,
    /// Why it faulted.
    pub failure: Option<Failure>,
    /// Its parent, if it is a child.
    pub parent: Option<Parent>,
    /// The root of its tree, if a stimulus of a run of that tree has started it.
    pub tree: Option<RunNo>,
}

impl RunRow {
    /// The root of its tree: the run itself, if nothing of another run has started it.
    pub fn root(&self) -> RunNo {
        let of_parent = self.parent.as_ref().map(|parent| parent.root);
        of_parent.or(self.tree).unwrap_or(self.no)
    }

    /// Its place in the order of creation.
    pub fn place(&self) -> RunPlace {
        RunPlace {
            created_ms: self.created_ms,
            no: self.no,
        }
    }
}

/// The tree of the run that sends a stimulus. The runs that the stimulus starts belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderTree {
    /// The root of the tree.
    pub root: RunNo,
    /// See [`TreeBound::workflow`].
    pub workflow: u32,
}

/// The parent of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The parent.
    pub run: RunNo,
    /// The parent's id.
    pub id: RunId,
    /// The row that waits, of kind `child`, without a payload. The commit that creates the child
    /// writes it. If the row replaces the trigger that is used up, it has that trigger's number.
    pub trigger: TriggerNo,
    /// The sequence number of that row.
    pub seq: Seq,
    /// The depth of the child: 1 if its parent has no parent.
    pub depth: u32,
    /// The run above all others: the parent, if that has no parent.
    pub root: RunNo,
    /// The name of the root's workflow.
    pub flow: Arc<str>,
    /// Whether the child undoes a node of its parent, which has failed or is being cancelled. Such a
    /// child begins although runs above it were asked to end.
    pub undoes: bool,
}

impl Parent {
    /// The stored depth: negative if the child undoes a node. So the column says both.
    pub(crate) fn stored_depth(&self) -> i64 {
        let depth = i64::from(self.depth);
        if self.undoes { -depth } else { depth }
    }
}

/// How many descendants a root run may have in its life, those included that have ended. The lower
/// number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeBound {
    /// The bound of the root's workflow. The first descendant of the root decides for its
    /// tree.
    pub workflow: u32,
    /// The bound of the host that creates the descendant.
    pub host: u32,
}

impl TreeBound {
    /// No bound.
    pub const NONE: Self = Self {
        workflow: u32::MAX,
        host: u32::MAX,
    };
}

/// A trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerRow {
    /// Its number in this store; a successor that replaces the row reuses it.
    pub no: TriggerNo,
    /// Its run.
    pub run: RunNo,
    /// Its sequence number in that run.
    pub seq: Seq,
    /// The type of the trigger.
    pub kind: TriggerType,
    /// The target node, by its position in the definition.
    pub node: Option<u32>,
    /// Epoch milliseconds.
    pub due_ms: i64,
    /// Its state.
    pub state: TriggerState,
    /// How often it has been claimed.
    pub token: Token,
    /// The attempt of the node, from 1.
    pub attempt: u32,
    /// How many hosts in a row have died while they had claimed the trigger; see [`Suspicion`].
    pub deliveries: u32,
    /// Whether the trigger may have caused the death of a host.
    pub suspicion: Suspicion,
    /// Opaque, written and versioned by the engine and the runtime.
    pub detail: Bytes,
    /// Its input from outside: a [`windlass_model::Resumption`] for the kinds `resume` and `child`,
    /// otherwise opaque. A row of these kinds without a payload waits; if it is claimed in that
    /// state, the wait has expired.
    pub payload: Option<Bytes>,
    /// Of the due triggers, the highest priority is claimed first.
    pub priority: i32,
}

impl TriggerRow {
    /// The fence of the row.
    pub fn fence(&self) -> TriggerFence {
        TriggerFence {
            no: self.no,
            token: self.token,
        }
    }

    /// Whether the row waits for a stimulus or a child. A waiting row that is claimed has expired.
    pub fn waits(&self) -> bool {
        matches!(self.kind, TriggerType::Resume | TriggerType::Child) && self.payload.is_none()
    }
}

/// Whether a trigger may have caused the deaths of hosts.
///
/// One death casts no suspicion. A trigger that two hosts in a row had claimed when they died is a
/// suspect. Suspects run in groups, each marked before it runs; if the host dies with a group, each
/// of its triggers is one of that many, and the next group with it holds half of them. See
/// `docs/decisions/suspects-run-in-groups.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Suspicion {
    /// At most one host has died while the trigger was claimed.
    #[default]
    None,
    /// A host died of one of this many triggers, at most [`Suspicion::WIDEST`]. With 1, the trigger
    /// was alone in its group, and other work ran beside it; with [`Suspicion::ALONE_TWICE`], that
    /// happened twice.
    Suspect(u16),
    /// A suspect that is being run in its group: if the host dies now, one of the group is the
    /// cause.
    Marked(u16),
    /// The host died of it. It is not run again.
    Guilty,
}

impl Suspicion {
    /// The number for a trigger that is a suspect for the first time, independent of their number. So
    /// a suspect is alone after 9 more deaths, and dies alone at the tenth.
    pub const WIDEST: u16 = 1_024;

    /// The number of a suspect that was alone in its group at two deaths, with other work beside it.
    pub const ALONE_TWICE: u16 = 2_048;

    /// The stored number of [`Suspicion::Guilty`].
    const GUILTY: u16 = 32_767;

    /// The most triggers of a group with this suspect; none if the trigger is not a suspect.
    pub fn group(self) -> Option<u16> {
        match self {
            Self::Suspect(Self::ALONE_TWICE) | Self::Marked(Self::ALONE_TWICE) => Some(1),
            Self::Suspect(among) | Self::Marked(among) => Some(among.div_ceil(2)),
            Self::None | Self::Guilty => None,
        }
    }

    /// The suspicion when the trigger is not claimed any more, and its host lives.
    #[cfg(any(test, feature = "conformance"))]
    pub(crate) fn unmarked(self) -> Self {
        match self {
            Self::Marked(among) => Self::Suspect(among),
            other => other,
        }
    }

    /// Reads a stored number: 0, that of the suspects, negative for a marked one.
    pub(crate) fn from_stored(number: i64) -> Option<Self> {
        let among = u16::try_from(number.unsigned_abs()).ok()?;
        match (number, among) {
            (0, _) => Some(Self::None),
            (1.., Self::GUILTY) => Some(Self::Guilty),
            (1.., 1..=Self::WIDEST | Self::ALONE_TWICE) => Some(Self::Suspect(among)),
            (_, 1..=Self::WIDEST | Self::ALONE_TWICE) => Some(Self::Marked(among)),
            _ => None,
        }
    }
}

/// A trigger to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTrigger {
    /// Its number. Ignored for the first trigger of a commit, which replaces its predecessor.
    pub no: TriggerNo,
    /// Its sequence number.
    pub seq: Seq,
    /// Its type.
    pub kind: TriggerType,
    /// The target node.
    pub node: Option<u32>,
    /// Epoch milliseconds.
    pub due_ms: i64,
    /// Written as claimed by the committing owner, with token 1 (or one more than the token of the
    /// row that it replaces); otherwise pending.
    pub claimed: bool,
    /// From 1.
    pub attempt: u32,
    /// Opaque.
    pub detail: Bytes,
    /// Opaque.
    pub payload: Option<Bytes>,
    /// Of the due triggers, the highest priority is claimed first. Values beyond [`PRIORITY`] are
    /// limited to it.
    pub priority: i32,
}

impl NewTrigger {
    /// Whether it contains a resumption, of which the sender was told that it resumes the run.
    pub fn resumes(&self) -> bool {
        self.kind == TriggerType::Resume && self.payload.is_some()
    }
}

/// The record of one execution. Records are appended and never changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionRow {
    /// Its number; a member's later records have larger numbers.
    pub no: ExecutionNo,
    /// Its run.
    pub run: RunNo,
    /// The previous record of the same run.
    pub previous: Option<ExecutionNo>,
    /// The sequence number of the trigger that it executed.
    pub seq: Seq,
    /// The sequence number of the first trigger of this node's execution, the same for all
    /// attempts.
    pub first: Seq,
    /// The node.
    pub node: u32,
    /// The type of the trigger.
    pub kind: TriggerType,
    /// From 1.
    pub attempt: u32,
    /// How it ended.
    pub status: ExecutionStatus,
    /// Epoch milliseconds.
    pub started_ms: i64,
    /// How long it took, in microseconds.
    pub took_us: u64,
    /// The output.
    pub output: Option<Payload>,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// The guest's log lines.
    pub logs: Vec<LogLine>,
    /// Nodes that were skipped because of the outcome.
    pub skipped: Vec<u32>,
    /// What its input was made of. Opaque, written and versioned by the runtime; empty: unknown.
    pub inputs: ShortBytes,
    /// The event that it has led to. Opaque, written and versioned by the engine; empty: none.
    pub event: ShortBytes,
}

/// An event of a run as a whole: a change of status, an incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalRow {
    /// Epoch milliseconds.
    pub at_ms: i64,
    /// The kind of event, like `completed` or `incident`.
    pub kind: String,
    /// A JSON document, written by the runtime; the bytes of an event, if the kind is
    /// [`JournalRow::EVENT`].
    pub detail: Bytes,
}

impl JournalRow {
    /// The kind of an entry that has an event of the engine, for a version without the record of an
    /// execution. Only [`events`](crate::Reader::events) and snapshots have such entries.
    pub const EVENT: &str = "event";

    /// An entry with an event.
    pub fn event(at_ms: i64, event: &[u8]) -> Self {
        Self {
            at_ms,
            kind: Self::EVENT.to_owned(),
            detail: Bytes::copy_from_slice(event),
        }
    }

    /// Whether it has an event.
    pub fn is_event(&self) -> bool {
        self.kind == Self::EVENT
    }
}

/// The content of a blob to be written with a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBlob {
    /// SHA-256 of `bytes`.
    pub digest: Digest,
    /// The content.
    pub bytes: Bytes,
}

/// A process that uses the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRow {
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Its name, like `serve`, with the process id: for display.
    pub name: String,
    /// Process id on its machine.
    pub pid: u32,
    /// Epoch milliseconds.
    pub joined_ms: i64,
}

/// The outcome of creating a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// The run is written.
    New,
    /// A run of that id exists; compare its `request`.
    Exists(Box<RunRow>),
    /// A run of that id was deleted: nothing was written.
    Deleted,
    /// An unfinished run reserves the exclusive key: nothing was written.
    Reserved {
        /// That run, or one of several.
        by: RunId,
    },
    /// The edition in [`NewRun::as_of`] is not the current one: nothing was written.
    Moved,
}

/// A run to be written, together with the triggers that start it.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Its number.
    pub no: RunNo,
    /// Its id outside of the store.
    pub id: RunId,
    /// Its definition. Written if the store does not have it.
    pub definition: Arc<DefinitionRow>,
    /// Its components. Written if the store does not have them.
    pub pins: Arc<PinsRow>,
    /// Its correlation, chosen by the caller.
    pub correlation: Option<String>,
    /// Its tags: at most [`TAGS`](windlass_model::limits::TAGS), whose names and values are
    /// [valid](windlass_model::valid::TAG).
    pub tags: Tags,
    /// The trace that it continues; none: it begins one.
    pub trace: Option<TraceContext>,
    /// Digest of the request.
    pub request: Digest,
    /// If set, this member owns the run from its creation, and its triggers may be claimed.
    pub owner: Option<Incarnation>,
    /// The engine's state.
    pub state: Bytes,
    /// The input; never changed.
    pub input: Payload,
    /// The initial variables.
    pub vars: Vec<(String, Payload)>,
    /// At least one, of type `start`.
    pub triggers: Vec<NewTrigger>,
    /// The parent that waits for it.
    pub parent: Option<Parent>,
    /// The root of the tree to which it belongs although it has no parent: a run of that tree has sent
    /// the stimulus that starts it.
    pub tree: Option<RunNo>,
    /// How long it is kept after its end, in milliseconds; none: the default retention time.
    pub keep_ms: Option<u64>,
    /// Journal entries of its beginning.
    pub journal: Vec<JournalRow>,
    /// The keys that it reserves until it ends.
    pub reserves: Vec<String>,
    /// The run is not created while another run reserves this key.
    pub exclusive: Option<String>,
    /// Blobs that `input` and `vars` refer to.
    pub blobs: Vec<NewBlob>,
    /// The edition in which the definition was looked up. If it is not the current one, the answer is
    /// [`Created::Moved`]. None: the definition need not be published.
    pub as_of: Option<Edition>,
    /// Epoch milliseconds.
    pub created_ms: i64,
}

impl NewRun {
    /// The root of the tree to which it belongs; none: it is a root itself.
    pub fn root(&self) -> Option<RunNo> {
        let of_parent = self.parent.as_ref().map(|parent| parent.root);
        of_parent.or(self.tree)
    }

    /// Every value that is written with it.
    pub(crate) fn payloads(&self) -> impl Iterator<Item = &Payload> {
        let vars = self.vars.iter().map(|(_, value)| value);
        std::iter::once(&self.input).chain(vars)
    }
}

/// A control trigger that cancels its run.
pub(crate) fn cancellation(no: TriggerNo, at_ms: i64) -> NewTrigger {
    control(no, TriggerType::Cancel, Bytes::new(), at_ms)
}

/// A control trigger.
pub(crate) fn control(no: TriggerNo, kind: TriggerType, detail: Bytes, at_ms: i64) -> NewTrigger {
    NewTrigger {
        no,
        seq: Seq::external(no),
        kind,
        node: None,
        due_ms: at_ms,
        claimed: false,
        attempt: 1,
        detail,
        payload: None,
        priority: CONTROL_PRIORITY,
    }
}

/// The cancellation of a child, which follows from the step that names it.
pub(crate) fn following(no: TriggerNo, at_ms: i64) -> NewTrigger {
    NewTrigger {
        priority: FOLLOWING_PRIORITY,
        ..cancellation(no, at_ms)
    }
}

/// The epoch of a run whose owner has never changed.
pub const BORN_EPOCH: Epoch = Epoch(1);

/// The version of a run without commits.
pub const BORN_VERSION: Version = Version(0);

/// Limits a priority to the stored range. Claims read each priority separately, so the range is
/// small.
pub(crate) fn bounded(priority: i32) -> i32 {
    priority.clamp(-PRIORITY, CONTROL_PRIORITY)
}
