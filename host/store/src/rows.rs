//! What the store keeps, as it hands it out.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use windlass_model::limits::{CONTROL_PRIORITY, PRIORITY};
use windlass_model::{
    Digest, Epoch, ExecutionNo, ExecutionStatus, Failure, Incarnation, InstanceId, InstanceNo,
    LogLine, Payload, Seq, Status, Token, TriggerNo, TriggerState, TriggerType, Version,
};

use crate::write::TriggerFence;

/// A published or ad-hoc definition: its canonical JSON, named by the digest of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionRow {
    /// SHA-256 of `json`.
    pub digest: Digest,
    /// The workflow's name.
    pub name: String,
    /// Canonical JSON.
    pub json: Bytes,
}

/// Which components the instances of a definition run on, decided when they start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinsRow {
    /// SHA-256 of `json`.
    pub digest: Digest,
    /// A JSON document of the runtime's.
    pub json: Bytes,
}

/// The head of an instance: all that a step reads and writes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceRow {
    /// Whether its state is what was written, as far as its checksum tells. If not, nothing may go
    /// on from it.
    pub sound: bool,
    /// Its number in this store.
    pub no: InstanceNo,
    /// Its name outside.
    pub id: InstanceId,
    /// What it runs: digest of a [`DefinitionRow`].
    pub definition: Digest,
    /// On which components: digest of a [`PinsRow`].
    pub pins: Digest,
    /// What it is about.
    pub correlation: Option<String>,
    /// Digest of the request that created it, so that the same request is answered alike.
    pub request: Digest,
    /// Where it is in its life.
    pub status: Status,
    /// Who runs it.
    pub owner: Option<Incarnation>,
    /// How often it has changed hands.
    pub epoch: Epoch,
    /// How often it has been committed.
    pub version: Version,
    /// The engine's state: opaque, versioned by the engine.
    pub state: Bytes,
    /// The newest run record; the others are behind it.
    pub last_execution: Option<ExecutionNo>,
    /// Epoch milliseconds.
    pub created_ms: i64,
    /// Epoch milliseconds.
    pub finished_ms: Option<i64>,
    /// Why it faulted.
    pub failure: Option<Failure>,
    /// Whose child it is.
    pub parent: Option<Parent>,
}

/// Who waits for an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The parent.
    pub instance: InstanceNo,
    /// The parent's name outside.
    pub id: InstanceId,
    /// The row that waits: of kind `child`, without a payload. Written by the same commit as the
    /// child; if it takes the place of the trigger that is used up, it is that one's number.
    pub trigger: TriggerNo,
    /// The sequence number of that row.
    pub seq: Seq,
    /// How many parents are above the child: 1 for the child of one that has none.
    pub depth: u32,
}

/// A trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerRow {
    /// Its number in this store; reused by the successor that takes its place.
    pub no: TriggerNo,
    /// Its instance.
    pub instance: InstanceNo,
    /// Its sequence number in that instance.
    pub seq: Seq,
    /// What brought it about.
    pub kind: TriggerType,
    /// The target node, by its position in the definition.
    pub node: Option<u32>,
    /// Epoch milliseconds.
    pub due_ms: i64,
    /// Where it is in its life.
    pub state: TriggerState,
    /// How often it has been claimed.
    pub token: Token,
    /// Which attempt of the node it is, from 1.
    pub attempt: u32,
    /// How often a host died with it; see [`Suspicion`].
    pub deliveries: u32,
    /// Whether it may have killed a host.
    pub suspicion: Suspicion,
    /// The engine's and the runtime's: opaque, versioned by them.
    pub detail: Bytes,
    /// What it was given from outside: a [`windlass_model::Resumption`] if it is of kind
    /// `resume` or `child`, otherwise opaque. One of those kinds without a payload waits, and if
    /// it is claimed so, it has expired.
    pub payload: Option<Bytes>,
    /// Higher first among the due.
    pub priority: i32,
}

impl TriggerRow {
    /// The row as it is known here.
    pub fn fence(&self) -> TriggerFence {
        TriggerFence {
            no: self.no,
            token: self.token,
        }
    }

    /// Whether it is there for somebody else to say that it goes on: a suspended node run, or
    /// one with a child. Claimed like this, it has expired.
    pub fn waits(&self) -> bool {
        matches!(self.kind, TriggerType::Resume | TriggerType::Child) && self.payload.is_none()
    }
}

/// Whether a trigger may have killed a host. Numbers are stored: they are never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Suspicion {
    /// No host has died with it.
    #[default]
    None = 0,
    /// A host died while it, among others, was claimed. It is run alone.
    Suspect = 1,
    /// It is being run alone: a host that dies now died of it.
    Marked = 2,
}

/// A trigger to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTrigger {
    /// Its number. Ignored for the first one of a commit that takes its predecessor's place.
    pub no: TriggerNo,
    /// Its sequence number.
    pub seq: Seq,
    /// What brings it about.
    pub kind: TriggerType,
    /// The target node.
    pub node: Option<u32>,
    /// Epoch milliseconds.
    pub due_ms: i64,
    /// Written as claimed by the committing owner, with token 1 (or one more than the row
    /// it takes the place of); otherwise pending.
    pub claimed: bool,
    /// From 1.
    pub attempt: u32,
    /// Opaque.
    pub detail: Bytes,
    /// Opaque.
    pub payload: Option<Bytes>,
    /// Higher first among the due. What is beyond
    /// [`PRIORITY`] counts as that.
    pub priority: i32,
}

impl NewTrigger {
    /// Whether it holds a resumption: the sender was told that the run is resumed.
    pub fn resumes(&self) -> bool {
        self.kind == TriggerType::Resume && self.payload.is_some()
    }
}

/// The record of one execution. These are appended and never changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionRow {
    /// Its number; newer ones of one member are larger.
    pub no: ExecutionNo,
    /// Its instance.
    pub instance: InstanceNo,
    /// The record of the same instance before it.
    pub previous: Option<ExecutionNo>,
    /// The sequence number of the trigger that it executed.
    pub seq: Seq,
    /// The sequence number of the first trigger of this node run, over all attempts.
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
    /// What came out.
    pub output: Option<Payload>,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// What the guest wrote.
    pub logs: Vec<LogLine>,
    /// Nodes that were skipped because of what came out.
    pub skipped: Vec<u32>,
}

/// Something that happened to an instance as a whole: a change of status, an incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalRow {
    /// Epoch milliseconds.
    pub at_ms: i64,
    /// Like `completed` or `incident`.
    pub kind: String,
    /// A JSON document of the runtime's.
    pub detail: Bytes,
}

/// The content of a blob to be written with a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBlob {
    /// SHA-256 of `bytes`.
    pub digest: Digest,
    /// The content.
    pub bytes: Bytes,
}

/// One process that uses the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRow {
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Like `serve`, with the process id: for people.
    pub name: String,
    /// Process id on its machine.
    pub pid: u32,
    /// Epoch milliseconds.
    pub joined_ms: i64,
}

/// What became of creating an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// The instance is written.
    New,
    /// An instance of that id is there already; compare its `request`.
    Exists(Box<InstanceRow>),
    /// The id is that of an instance that was deleted: nothing was written.
    Deleted,
    /// An instance that excludes the new one has not ended: nothing was written.
    Reserved {
        /// That one, or one of them.
        by: InstanceId,
    },
}

/// An instance to be written, together with the triggers that start it.
#[derive(Clone, Debug)]
pub struct NewInstance {
    /// Its number.
    pub no: InstanceNo,
    /// Its name outside.
    pub id: InstanceId,
    /// What it runs. Written if the store does not have it.
    pub definition: Arc<DefinitionRow>,
    /// On which components. Written if the store does not have it.
    pub pins: Arc<PinsRow>,
    /// What it is about.
    pub correlation: Option<String>,
    /// Digest of the request.
    pub request: Digest,
    /// If set, the instance is born owned by this member, and its triggers may be claimed.
    pub owner: Option<Incarnation>,
    /// The engine's state.
    pub state: Bytes,
    /// What it works on; immutable.
    pub input: Payload,
    /// The variables it begins with.
    pub vars: Vec<(String, Payload)>,
    /// At least one, of type `start`.
    pub triggers: Vec<NewTrigger>,
    /// Who waits for it.
    pub parent: Option<Parent>,
    /// How long it is kept after it has ended, in milliseconds; none: as long as others.
    pub keep_ms: Option<u64>,
    /// What it reserves until it has ended.
    pub reserves: Vec<String>,
    /// It is not made while another instance reserves this.
    pub exclusive: Option<String>,
    /// Blobs that `input` and `vars` refer to.
    pub blobs: Vec<NewBlob>,
    /// Epoch milliseconds.
    pub created_ms: i64,
}

impl NewInstance {
    /// Every value that is written with it.
    pub(crate) fn payloads(&self) -> impl Iterator<Item = &Payload> {
        let vars = self.vars.iter().map(|(_, value)| value);
        std::iter::once(&self.input).chain(vars)
    }
}

/// A control trigger that cancels its instance.
pub(crate) fn cancellation(no: TriggerNo, at_ms: i64) -> NewTrigger {
    control(no, TriggerType::Cancel, Bytes::new(), at_ms)
}

/// A control trigger.
pub(crate) fn control(no: TriggerNo, kind: TriggerType, detail: Bytes, at_ms: i64) -> NewTrigger {
    NewTrigger {
        no,
        seq: Seq::outside(no),
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

/// The epoch of an instance that has never changed hands.
pub const BORN_EPOCH: Epoch = Epoch(1);

/// The version of an instance that has never been committed.
pub const BORN_VERSION: Version = Version(0);

/// A priority as it is stored: the claims look at each that there is, so there are not many.
pub(crate) fn bounded(priority: i32) -> i32 {
    priority.clamp(-PRIORITY, CONTROL_PRIORITY)
}
