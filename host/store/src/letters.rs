//! Dead letters: what could not be delivered, kept for people to look at and to try again.

use bytes::Bytes;
use windlass_model::{Failure, InstanceId, InstanceNo, LetterNo, Seq, TriggerNo, TriggerType};

use crate::stimuli::NewStimulus;

/// What died. Numbers are stored: they are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum LetterKind {
    /// A trigger that failed for good.
    Trigger = 0,
    /// A resumption of a node run that was not waiting any more.
    Resume = 1,
    /// A stimulus that nobody could be given, or took in time.
    Stimulus = 2,
}

impl LetterKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Trigger, Self::Resume, Self::Stimulus];

    /// As it is shown to people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trigger => "trigger",
            Self::Resume => "resume",
            Self::Stimulus => "stimulus",
        }
    }

    /// The kind stored as this number.
    pub fn from_stored(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// A dead letter to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDeadLetter {
    /// Why: `failed`, `expired`, `stale` and the like.
    pub reason: String,
    /// What.
    pub body: LetterBody,
    /// What went wrong, if something did.
    pub failure: Option<Failure>,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

impl NewDeadLetter {
    /// A resumption that nobody heard, because its wait was gone.
    pub fn stale(resumption: DeadTrigger, at_ms: i64) -> Self {
        Self {
            reason: "stale".to_owned(),
            body: LetterBody::Trigger(resumption),
            failure: None,
            at_ms,
        }
    }
}

/// What died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LetterBody {
    /// A trigger or a resumption.
    Trigger(DeadTrigger),
    /// A stimulus.
    Stimulus(Box<NewStimulus>),
}

/// What is left of a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadTrigger {
    /// Its instance.
    pub instance: InstanceNo,
    /// Its sequence number.
    pub seq: Seq,
    /// What brought it about.
    pub kind: TriggerType,
    /// Its node.
    pub node: Option<u32>,
    /// Its priority.
    pub priority: i32,
    /// Opaque.
    pub payload: Option<Bytes>,
    /// Opaque.
    pub detail: Bytes,
}

impl LetterBody {
    /// What died.
    pub fn kind(&self) -> LetterKind {
        match self {
            Self::Trigger(dead) if dead.kind == TriggerType::Resume => LetterKind::Resume,
            Self::Trigger(_) => LetterKind::Trigger,
            Self::Stimulus(_) => LetterKind::Stimulus,
        }
    }
}

/// A dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LetterRow {
    /// Its number: later ones are larger.
    pub no: LetterNo,
    /// What is in it. Stimuli are without their blobs.
    pub letter: NewDeadLetter,
    /// Its instance, for people; none for a stimulus that was meant for none, and if the
    /// instance is gone.
    pub instance_id: Option<InstanceId>,
    /// When it was tried again, in epoch milliseconds. That happens once.
    pub replayed_ms: Option<i64>,
}

/// Which dead letters to list: oldest first.
#[derive(Clone, Debug, Default)]
pub struct LetterQuery {
    /// Only of this kind.
    pub kind: Option<LetterKind>,
    /// Only of this instance.
    pub instance: Option<InstanceNo>,
    /// Only after this one.
    pub after: Option<LetterNo>,
    /// At most this many.
    pub limit: u32,
}

/// Tries a dead letter again: what came from outside gets a row that is due now, a stimulus goes
/// to the queue.
#[derive(Clone, Copy, Debug)]
pub struct ReplayLetter {
    /// Which.
    pub no: LetterNo,
    /// The number of the new row, if it needs one.
    pub trigger: TriggerNo,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// Throws a dead letter away.
#[derive(Clone, Copy, Debug)]
pub struct DeleteLetter {
    /// Which.
    pub no: LetterNo,
}

/// Throws old dead letters away. Answered by their number.
#[derive(Clone, Copy, Debug)]
pub struct PurgeLetters {
    /// Those that died before this, in epoch milliseconds.
    pub before_ms: i64,
    /// Bound on them.
    pub limit: u32,
}

/// What became of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lettered {
    /// It is done.
    Done,
    /// There is none.
    NotFound,
    /// It has been tried again already.
    Already,
    /// The instance is over, or the engine made the trigger and has gone on without it.
    Closed,
}
