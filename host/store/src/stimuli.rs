//! Bookmarks, and the stimuli that match them.
//!
//! Both sides match inside one transaction: a stimulus looks for bookmarks when it is sent, and a
//! bookmark looks for buffered stimuli when it is written. So a stimulus may come before or after
//! its bookmark, and each pair meets exactly once.

use bytes::Bytes;
use windlass_model::{
    BindingNo, BookmarkNo, Delivery, Digest, Failure, Incarnation, JsonText, Payload, Resumption,
    RunId, RunNo, Seq, StimulusId, StimulusNo, TraceContext, TriggerNo,
};

use crate::children::too_many;
use crate::letters::{LetterBody, NewDeadLetter};
use crate::rows::{Created, NewBlob, NewRun, SenderTree};
use crate::write::{Claim, ClaimScope, ClaimedRun, Fenced, OrFenced};

/// A bookmark of a suspended execution. All bookmarks of one execution form its wait group:
/// resuming one burns them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBookmark {
    /// The execution: the sequence number of its first trigger.
    pub first: Seq,
    /// The row that waits: pending, of kind `resume`, without a payload, and due when the first
    /// bookmark of the group expires, or at `i64::MAX`. Written by the same commit. If the row
    /// replaces the trigger that is used up, it has that trigger's number.
    pub trigger: TriggerNo,
    /// The phase in which the execution waits.
    pub phase: u32,
    /// The name of the stimulus.
    pub name: String,
    /// [`windlass_model::stimulus::hash`] of name and match.
    pub hash: Digest,
    /// Canonical JSON.
    pub matches: Bytes,
    /// A value that stimuli may restrict themselves to.
    pub correlation: Option<String>,
    /// Only its token resumes it: no stimulus has its hash.
    pub private: bool,
    /// Resuming burns the group. If not set, the execution is resumed and keeps waiting, until its
    /// next outcome replaces the bookmarks.
    pub auto_burn: bool,
    /// JSON that is part of the resumption.
    pub metadata: Option<Bytes>,
    /// The digest of the resume token.
    pub token: Digest,
    /// When it stops matching, in epoch milliseconds.
    pub expires_ms: Option<i64>,
    /// Epoch milliseconds.
    pub created_ms: i64,
}

/// A bookmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookmarkRow {
    /// Its number: later ones are larger.
    pub no: BookmarkNo,
    /// Its run.
    pub run: RunNo,
    /// The id of its run, for display.
    pub run_id: RunId,
    /// The bookmark.
    pub bookmark: NewBookmark,
    /// When the wait ends without a stimulus, in epoch milliseconds: its node's `wait-timeout`, or
    /// the end of the first bookmark of the group.
    pub ends_ms: Option<i64>,
}

/// Which bookmarks to list, oldest first.
#[derive(Clone, Debug, Default)]
pub struct BookmarkQuery {
    /// Only of this run.
    pub run: Option<RunNo>,
    /// Only of this name.
    pub name: Option<String>,
    /// Only with this correlation.
    pub correlation: Option<String>,
    /// Only those that a stimulus of this hash resumes.
    pub hash: Option<Digest>,
    /// Only after this one.
    pub after: Option<BookmarkNo>,
    /// At most this many.
    pub limit: u32,
}

/// A stimulus to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewStimulus {
    /// Its id, chosen by the sender.
    pub id: StimulusId,
    /// Matched exactly.
    pub name: String,
    /// Canonical JSON.
    pub matches: Bytes,
    /// [`windlass_model::stimulus::hash`] of name and match.
    pub hash: Digest,
    /// Only bookmarks with this correlation; none: all.
    pub correlation: Option<String>,
    /// Only bookmarks of this run, and no starts; none: all.
    pub run: Option<RunId>,
    /// The input of the resumed execution.
    pub input: Payload,
    /// Blobs that `input` refers to.
    pub blobs: Vec<NewBlob>,
    /// How it is delivered.
    pub delivery: Delivery,
    /// How long it is buffered, in milliseconds.
    pub ttl_ms: u64,
    /// When it happened, in epoch milliseconds.
    pub at_ms: i64,
    /// The tree of the run that sends it; none if it comes from outside, or is replayed.
    pub tree: Option<SenderTree>,
    /// The trace in which it is sent: the runs that it starts continue the trace.
    pub trace: Option<TraceContext>,
}

/// Delivers a stimulus.
#[derive(Clone, Debug)]
pub struct Send {
    /// The stimulus.
    pub stimulus: NewStimulus,
    /// The run to start for every binding of the hash. If these are not exactly the current
    /// bindings, nothing is written and the answer is [`SendOutcome::Moved`]. Ignored if the
    /// stimulus starts no workflow: because of its delivery, because it names a run, or
    /// because the queued stimulus has started its workflows already.
    pub starts: Vec<(BindingNo, NewRun)>,
    /// The number of the stimulus in the queue, if it is queued. The queued stimulus is removed, or
    /// its cursor is moved if there is more to resume. If it is gone, the answer is
    /// [`SendOutcome::Gone`].
    pub queued: Option<StimulusNo>,
    /// Bound on the bookmarks that one transaction resumes. If more match, the stimulus continues
    /// from the queue, and does not match bookmarks that are written later.
    pub limit: u32,
    /// The member that claims the started and resumed runs.
    pub claim_for: Option<ClaimFor>,
    /// How many descendants a root may have, according to the host that delivers the stimulus. If the
    /// stimulus has a tree, the runs that it starts are counted before they are created. If they are
    /// too many, none of them is created, and the stimulus becomes a dead letter that only starts.
    pub descendants: u32,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

impl Send {
    /// The default bound on the bookmarks that one transaction resumes.
    pub const LIMIT: u32 = 1000;
}

impl Send {
    /// The dead letter of a stimulus that may not start its workflows, because the root of its
    /// sender's tree has had so many descendants. Executions that wait are resumed without it.
    pub(crate) fn refused(&self, born: i64) -> NewDeadLetter {
        let dead = NewStimulus {
            delivery: Delivery::Start,
            ..self.stimulus.clone()
        };
        let name = &self.stimulus.name;
        NewDeadLetter {
            reason: "limit".to_owned(),
            failure: Some(too_many(&format!("stimulus `{name}` starts no run"), born)),
            body: LetterBody::Stimulus(Box::new(dead)),
            at_ms: self.at_ms,
        }
    }
}

/// Resumes by a token.
#[derive(Clone, Debug)]
pub struct Resume {
    /// The digest of the token.
    pub token: Digest,
    /// The input of the resumed execution.
    pub input: Payload,
    /// Blobs that `input` refers to.
    pub blobs: Vec<NewBlob>,
    /// The member that claims the resumed run.
    pub claim_for: Option<ClaimFor>,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// Claims the resulting work in the same transaction: the due triggers of those runs that have
/// no owner, as a [`Claim`] right afterwards would. All other work is left to claims.
#[derive(Clone, Copy, Debug)]
pub struct ClaimFor {
    /// The member that claims. Nothing is claimed if it is not a member any more.
    pub incarnation: Incarnation,
    /// Bound on the runs claimed.
    pub runs: u32,
    /// Bound on the triggers claimed of each.
    pub triggers: u32,
}

impl ClaimFor {
    /// The claim on these runs, which have no owner.
    pub(crate) fn claim(&self, now_ms: i64, free: Vec<RunNo>) -> Claim {
        Claim {
            incarnation: self.incarnation,
            now_ms,
            runs: self.runs,
            triggers: self.triggers,
            bytes: u64::MAX,
            scope: ClaimScope::Only(free),
        }
    }
}

/// The outcome of delivering a stimulus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The stimulus was delivered.
    Sent(Sent),
    /// The bindings of the hash have changed: the caller must look them up again. Nothing was
    /// written.
    Moved,
    /// The queued stimulus is gone. Nothing was written.
    Gone,
}

/// The effects of a stimulus or a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Instances that it started.
    pub started: Vec<RunId>,
    /// Instances that it resumed, once for each execution.
    pub resumed: Vec<RunId>,
    /// Runs whose reservations exclude runs that it would have started.
    pub reserved: Vec<RunId>,
    /// The stimulus is buffered for a later bookmark.
    pub buffered: bool,
    /// The tree of its sender has no room for the runs that it would have started: a dead letter has
    /// the stimulus.
    pub refused: bool,
    /// No bookmark or binding matched, and the stimulus was dropped.
    pub dropped: bool,
    /// More bookmarks match; the stimulus continues from the queue.
    pub more: bool,
    /// The runs that it started and resumed and that its [`ClaimFor`] has claimed.
    pub taken: Vec<ClaimedRun>,
}

impl Sent {
    /// Notes the result of a start. Returns whether the run is new.
    pub(crate) fn note(&mut self, new: &NewRun, created: &OrFenced<Created>) -> bool {
        match created {
            Ok(Created::New | Created::Exists(_)) => self.started.push(new.id),
            Ok(Created::Reserved { by }) => self.reserved.push(*by),
            Ok(Created::Deleted | Created::Moved) | Err(Fenced) => {}
        }
        matches!(created, Ok(Created::New))
    }
}

/// The resumption by a bookmark: the input for the waiting execution.
pub(crate) fn resumption(bookmark: &str, input: &Payload, metadata: Option<&Bytes>) -> Bytes {
    let document = Resumption::Resumed {
        bookmark: bookmark.to_owned(),
        input: input.clone(),
        // Stored JSON is valid JSON.
        metadata: metadata.and_then(|json| JsonText::stored(json).ok()),
    };
    document.encode()
}

/// The progress of the delivery of a queued stimulus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Bookmarks up to this one are resumed.
    pub after: BookmarkNo,
    /// Later bookmarks do not match.
    pub until: BookmarkNo,
}

/// A stimulus in the queue: sent by a node, or delivered in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedRow {
    /// Its number: later ones are larger.
    pub no: StimulusNo,
    /// The stimulus, without its blobs.
    pub stimulus: NewStimulus,
    /// The run that sent it.
    pub source: Option<RunNo>,
    /// Set if it was delivered in part.
    pub cursor: Option<Cursor>,
    /// How often it has failed.
    pub attempts: u32,
    /// When to try again, in epoch milliseconds.
    pub ready_ms: i64,
    /// Why the last attempt failed.
    pub last_error: Option<Failure>,
}

/// A buffered stimulus, which waits for its bookmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferedRow {
    /// Its number: later ones are larger.
    pub no: StimulusNo,
    /// The stimulus, without its blobs.
    pub stimulus: NewStimulus,
    /// When it expires, in epoch milliseconds.
    pub expires_ms: i64,
}

/// Which waiting stimuli to list, oldest first.
#[derive(Clone, Debug, Default)]
pub struct StimulusQuery {
    /// Only after this one.
    pub after: Option<StimulusNo>,
    /// Only queued stimuli that may be delivered at this time, in epoch milliseconds. A stimulus
    /// that is not ready holds back the later ones of the same run. Ignored for buffered
    /// stimuli.
    pub ready_ms: Option<i64>,
    /// At most this many.
    pub limit: u32,
}

/// A verb on a waiting stimulus.
#[derive(Clone, Debug)]
pub enum QueueOp {
    /// Records a failure and delays the next attempt.
    Delay {
        /// The stimulus.
        no: StimulusNo,
        /// When to try again, in epoch milliseconds.
        ready_ms: i64,
        /// Why it failed.
        error: Failure,
    },
    /// Moves a stimulus from the queue to the dead letters.
    Fail {
        /// The stimulus.
        no: StimulusNo,
        /// Why it failed.
        error: Failure,
        /// Epoch milliseconds.
        at_ms: i64,
    },
    /// Removes a stimulus from the queue.
    Delete {
        /// The stimulus.
        no: StimulusNo,
    },
    /// Removes a buffered stimulus.
    Unbuffer {
        /// The stimulus.
        no: StimulusNo,
    },
}

/// Dead-letters old stimuli: queued ones that were sent before a time, and buffered ones that have
/// expired. Answered by their number.
#[derive(Clone, Copy, Debug)]
pub struct Expire {
    /// Queued stimuli that were sent before this time have waited too long, in epoch milliseconds.
    pub queued_before_ms: i64,
    /// Epoch milliseconds.
    pub now_ms: i64,
    /// Bound on each of the two kinds.
    pub limit: u32,
}
