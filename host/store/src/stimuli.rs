//! Bookmarks, and the stimuli that find them.
//!
//! Both sides meet inside one transaction: a stimulus looks for bookmarks when it is sent, and
//! a bookmark for buffered stimuli when it is made. So too early is as good as in time, and
//! what meets, meets once.

use bytes::Bytes;
use windlass_model::{
    BindingNo, BookmarkNo, Delivery, Digest, Failure, Incarnation, InstanceId, InstanceNo,
    JsonText, Payload, Resumption, Seq, StimulusId, StimulusNo, TriggerNo,
};

use crate::rows::{NewBlob, NewInstance};
use crate::write::{Claim, ClaimScope, ClaimedInstance};

/// What a suspended node run waits for. Those of one node run are its wait group: resuming
/// one burns them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBookmark {
    /// The node run: the sequence number of its first trigger.
    pub first: Seq,
    /// The row that waits: pending, of kind `resume`, without a payload, and due when the first
    /// bookmark of the group expires, or at `i64::MAX`. Written by the same commit; if it takes
    /// the place of the trigger that is used up, it is that one's number.
    pub trigger: TriggerNo,
    /// The phase in which the node run waits.
    pub phase: u32,
    /// What it waits for.
    pub name: String,
    /// [`windlass_model::stimulus::hash`] of name and match.
    pub hash: Digest,
    /// Canonical JSON.
    pub matches: Bytes,
    /// What stimuli may narrow themselves to.
    pub correlation: Option<String>,
    /// Only its token resumes it: its hash is one that no stimulus has.
    pub private: bool,
    /// Resuming uses the group up. Otherwise the node run is resumed and goes on waiting, until
    /// its next outcome replaces the bookmarks.
    pub auto_burn: bool,
    /// JSON, given back when it resumes.
    pub metadata: Option<Bytes>,
    /// [`windlass_model::stimulus::token_digest`] of the resume token.
    pub token: Digest,
    /// Nothing resumes it from this moment on, in epoch milliseconds.
    pub expires_ms: Option<i64>,
    /// Epoch milliseconds.
    pub created_ms: i64,
}

/// A bookmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookmarkRow {
    /// Its number: later ones are larger.
    pub no: BookmarkNo,
    /// Whose it is.
    pub instance: InstanceNo,
    /// Whose it is, for people.
    pub instance_id: InstanceId,
    /// The bookmark.
    pub bookmark: NewBookmark,
}

/// Which bookmarks to list: oldest first.
#[derive(Clone, Debug, Default)]
pub struct BookmarkQuery {
    /// Only of this instance.
    pub instance: Option<InstanceNo>,
    /// Only of this name.
    pub name: Option<String>,
    /// Only with this correlation.
    pub correlation: Option<String>,
    /// Only after this one.
    pub after: Option<BookmarkNo>,
    /// At most this many.
    pub limit: u32,
}

/// A stimulus as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewStimulus {
    /// Its name outside.
    pub id: StimulusId,
    /// Matched exactly.
    pub name: String,
    /// Canonical JSON.
    pub matches: Bytes,
    /// [`windlass_model::stimulus::hash`] of name and match.
    pub hash: Digest,
    /// Only bookmarks with this correlation; none: all.
    pub correlation: Option<String>,
    /// Only bookmarks of this instance, and nothing is started; none: all.
    pub instance: Option<InstanceId>,
    /// What whoever waits is given.
    pub input: Payload,
    /// Blobs that `input` refers to.
    pub blobs: Vec<NewBlob>,
    /// What is done with it.
    pub delivery: Delivery,
    /// How long it is buffered, in milliseconds.
    pub ttl_ms: u64,
    /// When it happened, in epoch milliseconds.
    pub at_ms: i64,
}

/// Delivers a stimulus.
#[derive(Clone, Debug)]
pub struct Send {
    /// What happened.
    pub stimulus: NewStimulus,
    /// For every binding of the hash, the instance that it starts. If these are not exactly the
    /// bindings that there are, nothing is done and the answer is [`SendOutcome::Moved`].
    /// Not looked at if the stimulus starts nothing (by its delivery, because it is meant for an
    /// instance, or because what waits has started already).
    pub starts: Vec<(BindingNo, NewInstance)>,
    /// The waiting stimulus that this is. It is removed, or moved on if there is more to resume;
    /// if it is not there any more, the answer is [`SendOutcome::Gone`].
    pub queued: Option<StimulusNo>,
    /// Bound on the bookmarks that one transaction resumes. If more match, the stimulus waits
    /// in the queue to go on, and bookmarks made later do not match.
    pub limit: u32,
    /// Who takes what it starts and resumes.
    pub claim_for: Option<ClaimFor>,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

impl Send {
    /// How many bookmarks one transaction resumes at most, unless somebody says otherwise.
    pub const LIMIT: u32 = 1000;
}

/// Resumes by a token.
#[derive(Clone, Debug)]
pub struct Resume {
    /// [`windlass_model::stimulus::token_digest`] of the token.
    pub token: Digest,
    /// What whoever waits is given.
    pub input: Payload,
    /// Blobs that `input` refers to.
    pub blobs: Vec<NewBlob>,
    /// Who takes what it resumes.
    pub claim_for: Option<ClaimFor>,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// Takes what it has made due, in the same transaction: what is due of those instances that have
/// no owner, as by a [`Claim`] right afterwards. The rest is left to claims.
#[derive(Clone, Copy, Debug)]
pub struct ClaimFor {
    /// Who. Takes nothing if it is not a member any more.
    pub incarnation: Incarnation,
    /// Bound on the instances taken.
    pub instances: u32,
    /// Bound on the triggers taken of each.
    pub triggers: u32,
}

impl ClaimFor {
    /// The claim that it makes, on instances without an owner.
    pub(crate) fn claim(&self, now_ms: i64, free: Vec<InstanceNo>) -> Claim {
        Claim {
            incarnation: self.incarnation,
            now_ms,
            instances: self.instances,
            triggers: self.triggers,
            scope: ClaimScope::Only(free),
        }
    }
}

/// What became of delivering a stimulus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// It is delivered.
    Sent(Sent),
    /// The bindings of the hash are others by now: look them up again. Nothing was done.
    Moved,
    /// The waiting stimulus is not there any more. Nothing was done.
    Gone,
}

/// What a stimulus, or a token, did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Instances that it started.
    pub started: Vec<InstanceId>,
    /// Instances of which it resumed something; once for each node run.
    pub resumed: Vec<InstanceId>,
    /// Instances that have reserved what others that it would have started need.
    pub reserved: Vec<InstanceId>,
    /// It is kept for who comes later.
    pub buffered: bool,
    /// There was nobody, and it is gone.
    pub dropped: bool,
    /// There are more bookmarks to resume; it waits in the queue to go on.
    pub more: bool,
    /// What its [`ClaimFor`] has now, of what it started and resumed.
    pub taken: Vec<ClaimedInstance>,
}

/// The document of a resumption by a bookmark: what the node run that waits is given.
pub(crate) fn resumption(bookmark: &str, input: &Payload, metadata: Option<&Bytes>) -> Bytes {
    let document = Resumption::Resumed {
        bookmark: bookmark.to_owned(),
        input: input.clone(),
        // What was stored as JSON is JSON.
        metadata: metadata.and_then(|json| JsonText::stored(json).ok()),
    };
    document.encode()
}

/// How far a waiting stimulus has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Bookmarks up to this one are done.
    pub after: BookmarkNo,
    /// Later bookmarks do not match.
    pub until: BookmarkNo,
}

/// A stimulus in the queue: sent by a node, or with more to resume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedRow {
    /// Its number: later ones are larger.
    pub no: StimulusNo,
    /// The stimulus, without its blobs.
    pub stimulus: NewStimulus,
    /// The instance that sent it.
    pub source: Option<InstanceNo>,
    /// If it has been delivered in part.
    pub cursor: Option<Cursor>,
    /// How often it has failed.
    pub attempts: u32,
    /// When to try again, in epoch milliseconds.
    pub ready_ms: i64,
    /// Why it failed.
    pub last_error: Option<Failure>,
}

/// A stimulus that waits for its bookmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferedRow {
    /// Its number: later ones are larger.
    pub no: StimulusNo,
    /// The stimulus, without its blobs.
    pub stimulus: NewStimulus,
    /// How long it waits, in epoch milliseconds.
    pub expires_ms: i64,
}

/// Which waiting stimuli to list: oldest first.
#[derive(Clone, Debug, Default)]
pub struct StimulusQuery {
    /// Only after this one.
    pub after: Option<StimulusNo>,
    /// Only what may be tried at this moment, in epoch milliseconds: what an instance sent after
    /// something that has to wait, has to wait too. Not for buffered ones.
    pub ready_ms: Option<i64>,
    /// At most this many.
    pub limit: u32,
}

/// What is done with a stimulus that waits.
#[derive(Clone, Debug)]
pub enum QueueOp {
    /// Notes a failure and waits.
    Delay {
        /// Which.
        no: StimulusNo,
        /// When to try again, in epoch milliseconds.
        ready_ms: i64,
        /// Why it failed.
        error: Failure,
    },
    /// Removes one from the queue and makes a dead letter of it.
    Fail {
        /// Which.
        no: StimulusNo,
        /// Why.
        error: Failure,
        /// Epoch milliseconds.
        at_ms: i64,
    },
    /// Removes one from the queue.
    Delete {
        /// Which.
        no: StimulusNo,
    },
    /// Removes a buffered one.
    Unbuffer {
        /// Which.
        no: StimulusNo,
    },
}

/// Makes dead letters of what is too old: queued stimuli that happened before a moment, and
/// buffered ones that have expired. Answered by their number.
#[derive(Clone, Copy, Debug)]
pub struct Expire {
    /// Queued ones that happened before this have waited too long, in epoch milliseconds.
    pub queued_before_ms: i64,
    /// Epoch milliseconds.
    pub now_ms: i64,
    /// Bound on each of the two.
    pub limit: u32,
}
