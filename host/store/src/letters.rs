//! Dead letters: undeliverable triggers, resumptions and stimuli, kept for operators to inspect and
//! replay.

use bytes::Bytes;
use windlass_model::{Failure, LetterNo, RunId, RunNo, Seq, TriggerNo, TriggerType};

use crate::stimuli::NewStimulus;

/// The kinds of dead letters. Numbers are stored: they are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum LetterKind {
    /// A trigger that failed permanently.
    Trigger = 0,
    /// A resumption of an execution that was no longer waiting.
    Resume = 1,
    /// A stimulus that matched no bookmark, or none before it expired.
    Stimulus = 2,
}

impl LetterKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Trigger, Self::Resume, Self::Stimulus];

    /// The name that users see.
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
    /// The reason: `failed`, `expired`, `stale` and the like.
    pub reason: String,
    /// The undeliverable trigger, resumption or stimulus.
    pub body: LetterBody,
    /// The failure, if the trigger failed.
    pub failure: Option<Failure>,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

impl NewDeadLetter {
    /// The dead letter for a resumption that no step used, because its wait had ended.
    pub fn stale(resumption: DeadTrigger, at_ms: i64) -> Self {
        Self {
            reason: "stale".to_owned(),
            body: LetterBody::Trigger(resumption),
            failure: None,
            at_ms,
        }
    }
}

/// The content of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LetterBody {
    /// A trigger or a resumption.
    Trigger(DeadTrigger),
    /// A stimulus.
    Stimulus(Box<NewStimulus>),
}

/// The remains of a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadTrigger {
    /// Its run.
    pub run: RunNo,
    /// Its sequence number.
    pub seq: Seq,
    /// The type of the trigger.
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
    /// The kind of the dead letter.
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
    /// The content. A stimulus comes without its blobs.
    pub letter: NewDeadLetter,
    /// The id of its run, for display. None if the stimulus named no run, or if the
    /// run was deleted.
    pub run_id: Option<RunId>,
    /// When the letter was replayed, in epoch milliseconds. A letter is replayed once.
    pub replayed_ms: Option<i64>,
}

/// Which dead letters to list, by number.
#[derive(Clone, Debug, Default)]
pub struct LetterQuery {
    /// Only of this kind.
    pub kind: Option<LetterKind>,
    /// Only of this run.
    pub run: Option<RunNo>,
    /// The newest first.
    pub newest: bool,
    /// Only behind this one in the list.
    pub after: Option<LetterNo>,
    /// At most this many.
    pub limit: u32,
}

/// Replays a dead letter: a resumption or external trigger gets a row that is due now, a stimulus
/// goes to the queue.
#[derive(Clone, Copy, Debug)]
pub struct ReplayLetter {
    /// The dead letter.
    pub no: LetterNo,
    /// The number of the new row, if it needs one.
    pub trigger: TriggerNo,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// Deletes a dead letter.
#[derive(Clone, Copy, Debug)]
pub struct DeleteLetter {
    /// The dead letter.
    pub no: LetterNo,
}

/// Deletes old dead letters. Answered by the number of deleted letters.
#[derive(Clone, Copy, Debug)]
pub struct PurgeLetters {
    /// Letters from before this time are deleted, in epoch milliseconds.
    pub before_ms: i64,
    /// Bound on the deleted letters.
    pub limit: u32,
}

/// The outcome of a verb on a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lettered {
    /// The verb was carried out.
    Done,
    /// There is no such letter.
    NotFound,
    /// The letter was replayed before.
    Already,
    /// The run has ended, or the engine made the trigger and has continued without it.
    Closed,
}
