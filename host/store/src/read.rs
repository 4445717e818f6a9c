//! What can be read of a store. Reading needs no lock and holds up no writer.

use bytes::Bytes;
use windlass_model::{
    BlobRef, BookmarkNo, Digest, ExecutionNo, InstanceId, InstanceNo, LetterNo, Payload, ScopeNo,
    Seq, Status, TriggerId,
};

use crate::components::{ComponentRow, Stored};
use crate::drafts::{DraftRow, SourceRow, UpkeepRow};
use crate::error::Result;
use crate::letters::{LetterQuery, LetterRow};
use crate::outside::{DueQuery, OutsideRow, TriggerTarget};
use crate::published::{BindingRow, PublicationQuery, PublicationRow, ScheduleQuery, ScheduleRow};
use crate::retention::ExpiredRow;
use crate::rows::{
    DefinitionRow, ExecutionRow, InstanceRow, JournalRow, MemberRow, PinsRow, TriggerRow,
};
use crate::sql::{self, InTables};
use crate::stimuli::{BookmarkQuery, BookmarkRow, BufferedRow, QueuedRow, StimulusQuery};
use crate::transfer::{Bounds, Snapshot};

/// Gives the list of readers to a macro. Each reader has a name, parameters, what it finds, and the
/// file of `crate::sql` whose function of that name reads it. The store in memory has a method with
/// that name.
macro_rules! with_readers {
    ($then:ident) => {
        $then! {
            /// The head of an instance.
            instance(id: InstanceId) -> Option<InstanceRow>, by read;
            /// The head of an instance, by number.
            instance_by_no(no: InstanceNo) -> Option<InstanceRow>, by read;
            /// An instance with all that hangs on it, as it is in one moment: one transaction.
            snapshot(id: InstanceId, bounds: Bounds) -> Option<Snapshot>, by snapshot;
            /// Instances whose id begins with these hexadecimal digits, hyphens ignored; at most `limit`.
            instances_by_prefix(prefix: &str, limit: u32) -> Vec<InstanceRow>, by read;
            /// Instances, the highest number first: those of the process that joined the store last come
            /// first, and of one process, the one that was written down last.
            instances(query: &InstanceQuery) -> Vec<InstanceRow>, by read;
            /// What an instance works on.
            input(instance: InstanceNo) -> Option<Payload>, by read;
            /// What came out of a finished instance.
            output(instance: InstanceNo) -> Option<Payload>, by read;
            /// All variables of one scope of an instance.
            vars(instance: InstanceNo, scope: ScopeNo) -> Vec<(String, Payload)>, by read;
            /// The open scopes of an instance besides the root, in order: the engine's, opaque.
            scopes(instance: InstanceNo) -> Vec<(ScopeNo, Bytes)>, by read;
            /// What came out of the items of a for-each, by place, from this place on.
            items(instance: InstanceNo, list: Seq, from: u32, limit: u32) -> Vec<(u32, Payload)>, by read;
            /// One run record.
            execution(no: ExecutionNo) -> Option<ExecutionRow>, by read;
            /// Only the output of one run record.
            execution_output(no: ExecutionNo) -> Option<Payload>, by read;
            /// Run records of an instance, newest first, from its last or from before a known one.
            executions(instance: InstanceNo, before: Option<ExecutionNo>, limit: u32) -> Vec<ExecutionRow>, by read;
            /// What happened to an instance as a whole, oldest first.
            journal(instance: InstanceNo) -> Vec<JournalRow>, by read;
            /// The triggers of an instance, by sequence number.
            triggers(instance: InstanceNo) -> Vec<TriggerRow>, by read;
            /// A definition.
            definition(digest: Digest) -> Option<DefinitionRow>, by read;
            /// A set of pins.
            pins(digest: Digest) -> Option<PinsRow>, by read;
            /// The published version of a workflow.
            published(name: &str) -> Option<PublicationRow>, by published;
            /// Versions of workflows.
            publications(query: &PublicationQuery) -> Vec<PublicationRow>, by published;
            /// Whether a stimulus of this hash would start a workflow or resume a run now. A hint: what
            /// it does is decided by the transaction that delivers it.
            is_heard(hash: Digest, now_ms: i64) -> bool, by stimuli;
            /// What stimuli of this hash start, by number.
            bindings(hash: Digest) -> Vec<BindingRow>, by published;
            /// The rows of the trigger index of a workflow, by key.
            bindings_of(workflow: &str) -> Vec<BindingRow>, by published;
            /// Schedules of published workflows.
            schedules(query: &ScheduleQuery) -> Vec<ScheduleRow>, by published;
            /// The draft of a workflow.
            draft(name: &str) -> Option<DraftRow>, by drafts;
            /// Drafts by name, of workflows whose names come after this one; at most `limit`.
            drafts(after: Option<&str>, limit: u32) -> Vec<DraftRow>, by drafts;
            /// What was last published from a place.
            source(name: &str) -> Option<SourceRow>, by drafts;
            /// Places that versions were published from, by name and after this one; at most `limit`.
            sources(after: Option<&str>, limit: u32) -> Vec<SourceRow>, by drafts;
            /// Requests that wait, oldest first; at most `limit`.
            upkeep(limit: u32) -> Vec<UpkeepRow>, by drafts;
            /// Finished instances that are kept no longer, the oldest first; at most `limit`. Those are
            /// the ones that ended before `before_ms`, and of those with a time of their own, the ones
            /// whose time is over at `now_ms`.
            expired(before_ms: i64, now_ms: i64, limit: u32) -> Vec<ExpiredRow>, by read;
            /// One trigger.
            trigger(target: TriggerTarget) -> Option<TriggerRow>, by read;
            /// What is known of a trigger that was named from outside.
            outside(id: TriggerId) -> Option<OutsideRow>, by read;
            /// Pending triggers, soonest first. What waits without a time is due at `i64::MAX`.
            due(query: &DueQuery) -> Vec<TriggerRow>, by read;
            /// Bookmarks, oldest first.
            bookmarks(query: &BookmarkQuery) -> Vec<BookmarkRow>, by stimuli;
            /// One bookmark.
            bookmark(no: BookmarkNo) -> Option<BookmarkRow>, by stimuli;
            /// The bookmark that a token resumes, by the digest of that.
            bookmark_by_token(token: Digest) -> Option<BookmarkRow>, by stimuli;
            /// Random bytes that tell the store from others. Never changes. Earlier versions made resume
            /// tokens with them.
            secret() -> [u8; 32], by stimuli;
            /// What somebody has decided about the system as a whole, by name.
            setting(name: &str) -> Option<Bytes>, by settings;
            /// A component that is kept.
            component(digest: Digest) -> Option<Stored>, by components;
            /// Components that are kept, from behind this generation on; at most `limit`.
            components(after: i64, limit: u32) -> Vec<ComponentRow>, by components;
            /// Stimuli in the queue, oldest first.
            queued(query: &StimulusQuery) -> Vec<QueuedRow>, by stimuli;
            /// Stimuli that wait for their bookmark, oldest first.
            buffered(query: &StimulusQuery) -> Vec<BufferedRow>, by stimuli;
            /// Dead letters, oldest first.
            dead_letters(query: &LetterQuery) -> Vec<LetterRow>, by stimuli;
            /// One dead letter.
            dead_letter(no: LetterNo) -> Option<LetterRow>, by stimuli;
            /// Children of an instance, oldest first, from behind a known one; at most `limit`.
            children(parent: InstanceNo, after: Option<InstanceNo>, limit: u32) -> Vec<InstanceRow>, by read;
            /// The whole of a blob.
            blob(blob: BlobRef) -> Option<Bytes>, by read;
            /// Who is a member.
            members() -> Vec<MemberRow>, by read;
            /// How much waits, each counted up to `limit`, so that it costs little however much it is.
            backlog(now_ms: i64, limit: u32) -> Backlog, by read;
            /// Counts, for `doctor` and for tests.
            counts() -> Counts, by read;
        }
    };
}
#[cfg(any(test, feature = "memory"))]
pub(crate) use with_readers;

/// Declares the readers, and reads by them what lies in tables.
macro_rules! readers {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $kind:ty),*) -> $found:ty, by $room:ident;)+) => {
        /// Reads. Each blocks for as long as the backend takes: keep them off threads that must not.
        pub trait Reader {
            $($(#[$doc])* fn $name(&self, $($arg: $kind),*) -> Result<$found>;)+
        }

        impl<S: InTables> Reader for S {
            $(fn $name(&self, $($arg: $kind),*) -> Result<$found> {
                sql::$room::$name(self.tables(), $($arg),*)
            })+
        }
    };
}

with_readers! { readers }

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
    pub executions: u64,
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
