//! What can be read of a store. Reading needs no lock and holds up no writer.

use bytes::Bytes;
use windlass_model::{
    BlobRef, BookmarkNo, Digest, InstanceId, InstanceNo, LetterNo, Payload, RunNo, ScopeNo, Seq,
    Status, TriggerId,
};

use crate::components::{ComponentRow, Stored};
use crate::drafts::{DraftRow, SourceRow, UpkeepRow};
use crate::error::Result;
use crate::letters::{LetterQuery, LetterRow};
use crate::outside::{DueQuery, OutsideRow, TriggerTarget};
use crate::published::{BindingRow, PublicationQuery, PublicationRow, ScheduleQuery, ScheduleRow};
use crate::retention::ExpiredRow;
use crate::rows::{DefinitionRow, InstanceRow, JournalRow, MemberRow, PinsRow, RunRow, TriggerRow};
use crate::stimuli::{BookmarkQuery, BookmarkRow, BufferedRow, QueuedRow, StimulusQuery};
use crate::transfer::{Bounds, Snapshot};

/// Reads. Each blocks for as long as the backend takes: keep them off threads that must not.
pub trait Reader {
    /// The head of an instance.
    fn instance(&self, id: InstanceId) -> Result<Option<InstanceRow>>;

    /// The head of an instance, by number.
    fn instance_by_no(&self, no: InstanceNo) -> Result<Option<InstanceRow>>;

    /// An instance with all that hangs on it, as it is in one moment: one transaction.
    fn snapshot(&self, id: InstanceId, bounds: Bounds) -> Result<Option<Snapshot>>;

    /// Instances whose id begins with these hexadecimal digits, hyphens ignored; at most `limit`.
    fn instances_by_prefix(&self, prefix: &str, limit: u32) -> Result<Vec<InstanceRow>>;

    /// Instances, the highest number first: those of the process that joined the store last come
    /// first, and of one process, the one that was written down last.
    fn instances(&self, query: &InstanceQuery) -> Result<Vec<InstanceRow>>;

    /// What an instance works on.
    fn input(&self, instance: InstanceNo) -> Result<Option<Payload>>;

    /// What came out of a finished instance.
    fn output(&self, instance: InstanceNo) -> Result<Option<Payload>>;

    /// All variables of one scope of an instance.
    fn vars(&self, instance: InstanceNo, scope: ScopeNo) -> Result<Vec<(String, Payload)>>;

    /// The open scopes of an instance besides the root, in order: the engine's, opaque.
    fn scopes(&self, instance: InstanceNo) -> Result<Vec<(ScopeNo, Bytes)>>;

    /// What came out of the items of a for-each, by place, from this place on.
    fn items(
        &self,
        instance: InstanceNo,
        list: Seq,
        from: u32,
        limit: u32,
    ) -> Result<Vec<(u32, Payload)>>;

    /// One run record.
    fn run(&self, no: RunNo) -> Result<Option<RunRow>>;

    /// Only the output of one run record.
    fn run_output(&self, no: RunNo) -> Result<Option<Payload>>;

    /// Run records of an instance, newest first, from its last or from before a known one.
    fn runs(&self, instance: InstanceNo, before: Option<RunNo>, limit: u32) -> Result<Vec<RunRow>>;

    /// What happened to an instance as a whole, oldest first.
    fn journal(&self, instance: InstanceNo) -> Result<Vec<JournalRow>>;

    /// The triggers of an instance, by sequence number.
    fn triggers(&self, instance: InstanceNo) -> Result<Vec<TriggerRow>>;

    /// A definition.
    fn definition(&self, digest: Digest) -> Result<Option<DefinitionRow>>;

    /// A set of pins.
    fn pins(&self, digest: Digest) -> Result<Option<PinsRow>>;

    /// The published version of a workflow.
    fn published(&self, name: &str) -> Result<Option<PublicationRow>>;

    /// Versions of workflows.
    fn publications(&self, query: &PublicationQuery) -> Result<Vec<PublicationRow>>;

    /// Whether a stimulus of this hash would start a workflow or resume a run now. A hint: what
    /// it does is decided by the transaction that delivers it.
    fn is_heard(&self, hash: Digest, now_ms: i64) -> Result<bool>;

    /// What stimuli of this hash start, by number.
    fn bindings(&self, hash: Digest) -> Result<Vec<BindingRow>>;

    /// The rows of the trigger index of a workflow, by key.
    fn bindings_of(&self, workflow: &str) -> Result<Vec<BindingRow>>;

    /// Schedules of published workflows.
    fn schedules(&self, query: &ScheduleQuery) -> Result<Vec<ScheduleRow>>;

    /// The draft of a workflow.
    fn draft(&self, name: &str) -> Result<Option<DraftRow>>;

    /// Drafts by name, of workflows whose names come after this one; at most `limit`.
    fn drafts(&self, after: Option<&str>, limit: u32) -> Result<Vec<DraftRow>>;

    /// What was last published from a place.
    fn source(&self, name: &str) -> Result<Option<SourceRow>>;

    /// Places that versions were published from, by name and after this one; at most `limit`.
    fn sources(&self, after: Option<&str>, limit: u32) -> Result<Vec<SourceRow>>;

    /// Requests that wait, oldest first; at most `limit`.
    fn upkeep(&self, limit: u32) -> Result<Vec<UpkeepRow>>;

    /// Finished instances that are kept no longer, the oldest first; at most `limit`. Those are
    /// the ones that ended before `before_ms`, and of those with a time of their own, the ones
    /// whose time is over at `now_ms`.
    fn expired(&self, before_ms: i64, now_ms: i64, limit: u32) -> Result<Vec<ExpiredRow>>;

    /// One trigger.
    fn trigger(&self, target: TriggerTarget) -> Result<Option<TriggerRow>>;

    /// What is known of a trigger that was named from outside.
    fn outside(&self, id: TriggerId) -> Result<Option<OutsideRow>>;

    /// Pending triggers, soonest first. What waits without a time is due at `i64::MAX`.
    fn due(&self, query: &DueQuery) -> Result<Vec<TriggerRow>>;

    /// Bookmarks, oldest first.
    fn bookmarks(&self, query: &BookmarkQuery) -> Result<Vec<BookmarkRow>>;

    /// One bookmark.
    fn bookmark(&self, no: BookmarkNo) -> Result<Option<BookmarkRow>>;

    /// The bookmark that a token resumes, by the digest of that.
    fn bookmark_by_token(&self, token: Digest) -> Result<Option<BookmarkRow>>;

    /// Random bytes that tell the store from others. Never changes. Earlier versions made resume
    /// tokens with them.
    fn secret(&self) -> Result<[u8; 32]>;

    /// What somebody has decided about the system as a whole, by name.
    fn setting(&self, name: &str) -> Result<Option<Bytes>>;

    /// A component that is kept.
    fn component(&self, digest: Digest) -> Result<Option<Stored>>;

    /// Components that are kept, from behind this generation on; at most `limit`.
    fn components(&self, after: i64, limit: u32) -> Result<Vec<ComponentRow>>;

    /// Stimuli in the queue, oldest first.
    fn queued(&self, query: &StimulusQuery) -> Result<Vec<QueuedRow>>;

    /// Stimuli that wait for their bookmark, oldest first.
    fn buffered(&self, query: &StimulusQuery) -> Result<Vec<BufferedRow>>;

    /// Dead letters, oldest first.
    fn dead_letters(&self, query: &LetterQuery) -> Result<Vec<LetterRow>>;

    /// One dead letter.
    fn dead_letter(&self, no: LetterNo) -> Result<Option<LetterRow>>;

    /// Children of an instance, oldest first, from behind a known one; at most `limit`.
    fn children(
        &self,
        parent: InstanceNo,
        after: Option<InstanceNo>,
        limit: u32,
    ) -> Result<Vec<InstanceRow>>;

    /// The whole of a blob.
    fn blob(&self, blob: BlobRef) -> Result<Option<Bytes>>;

    /// Who is a member.
    fn members(&self) -> Result<Vec<MemberRow>>;

    /// How much waits, each counted up to `limit`, so that it costs little however much it is.
    fn backlog(&self, now_ms: i64, limit: u32) -> Result<Backlog>;

    /// Counts, for `doctor` and for tests.
    fn counts(&self) -> Result<Counts>;
}

/// How much waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Triggers that are due and that nobody has claimed.
    pub due: u64,
    /// Dead letters that were not tried again.
    pub dead: u64,
}

/// Which instances to list.
#[derive(Clone, Debug, Default)]
pub struct InstanceQuery {
    /// Only in one of these statuses; empty means all.
    pub statuses: Vec<Status>,
    /// Only of the workflow of this name.
    pub workflow: Option<String>,
    /// Only older than this one.
    pub before: Option<InstanceNo>,
    /// At most this many.
    pub limit: u32,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All instances.
    pub instances: u64,
    /// Instances that are not in a final status.
    pub unfinished: u64,
    /// Triggers of any state.
    pub triggers: u64,
    /// Parked triggers.
    pub parked: u64,
    /// Run records.
    pub runs: u64,
    /// Blobs.
    pub blobs: u64,
    /// Bookmarks.
    pub bookmarks: u64,
    /// Stimuli in the queue.
    pub queued: u64,
    /// Stimuli that wait for their bookmark.
    pub buffered: u64,
    /// Dead letters.
    pub dead_letters: u64,
}
