//! The readers of a store. A read takes no lock and does not delay writes.

use bytes::Bytes;
use windlass_model::{
    BatchNo, BlobRef, BookmarkNo, Digest, ExecutionNo, Incarnation, LetterNo, Payload, RunId,
    RunNo, ScopeNo, Seq, Status, Tags, TriggerId, TriggerNo, Version,
};

use crate::batches::{BatchQuery, BatchRow};
use crate::components::{ComponentRow, Stored};
use crate::drafts::{DraftRow, SourceRow, UpkeepRow};
use crate::error::Result;
use crate::external::{DuePlace, DueQuery, ExternalRow, TriggerTarget};
use crate::letters::{LetterQuery, LetterRow};
use crate::published::{BindingRow, PublicationQuery, PublicationRow, ScheduleQuery, ScheduleRow};
use crate::retention::ExpiredRow;
use crate::rows::{
    DefinitionRow, ExecutionRow, JournalRow, MemberRow, PinsRow, RunRow, TriggerRow,
};
use crate::sql::{self, InTables};
use crate::stimuli::{BookmarkQuery, BookmarkRow, BufferedRow, QueuedRow, StimulusQuery};
use crate::transfer::{Bounds, Snapshot};

/// Passes the list of readers to a macro. Each reader has a name, parameters, a result type, and
/// the file of `crate::sql` whose function of that name reads it. The memory store has a method
/// with that name.
macro_rules! with_readers {
    ($then:ident) => {
        $then! {
            /// The head of a run.
            run(id: RunId) -> Option<RunRow>, by readers;
            /// The head of a run, by number.
            run_by_no(no: RunNo) -> Option<RunRow>, by readers;
            /// A run with all its rows, read at one moment in one transaction.
            snapshot(id: RunId, bounds: Bounds) -> Option<Snapshot>, by snapshot;
            /// The bytes of values, states, records and blobs of a [`snapshot`](Reader::snapshot) with
            /// the same bounds.
            extent(id: RunId, bounds: Bounds) -> Option<u64>, by snapshot;
            /// The version and status of these runs, in any order; none of runs that do not exist.
            versions(runs: &[RunNo]) -> Vec<(RunNo, Version, Status)>, by readers;
            /// Runs whose id begins with these hexadecimal digits, ignoring hyphens; at most
            /// `limit`.
            runs_by_prefix(prefix: &str, limit: u32) -> Vec<RunRow>, by readers;
            /// Runs, the newest first by the time of their creation.
            runs(query: &RunQuery) -> Vec<RunRow>, by listing;
            /// The number of runs that [`runs`](Reader::runs) would return.
            run_count(query: &RunQuery) -> u64, by listing;
            /// The place at which a search for these runs ends if it looks at `looks` runs, at
            /// least 1; none: fewer are left to look at. Only the time, one condition with an index
            /// and the places of the query decide: that condition is the first that the query has
            /// of correlation, parent and the tag whose name comes first.
            horizon(query: &RunQuery, looks: u32) -> Option<RunPlace>, by listing;
            /// Runs with an owner, by the owner and their numbers, after a known one; at most `limit`.
            owned(after: Option<(Incarnation, RunNo)>, limit: u32) -> Vec<RunRow>, by listing;
            /// The input of a run.
            input(run: RunNo) -> Option<Payload>, by readers;
            /// The output of an ended run.
            output(run: RunNo) -> Option<Payload>, by readers;
            /// All variables of one scope of a run.
            vars(run: RunNo, scope: ScopeNo) -> Vec<(String, Payload)>, by readers;
            /// Variables of one scope of a run whose names come after this one, by name; at most
            /// `limit`.
            vars_after(run: RunNo, scope: ScopeNo, after: Option<&str>, limit: u32) -> Vec<(String, Payload)>, by readers;
            /// One variable of one scope of a run.
            var(run: RunNo, scope: ScopeNo, name: &str) -> Option<Payload>, by readers;
            /// The open scopes of a run besides the root, in order: opaque, written by the
            /// engine.
            scopes(run: RunNo) -> Vec<(ScopeNo, Bytes)>, by readers;
            /// The outputs of the items of a for-each, by index, beginning with `from`.
            items(run: RunNo, list: Seq, from: u32, limit: u32) -> Vec<(u32, Payload)>, by readers;
            /// One execution record.
            execution(no: ExecutionNo) -> Option<ExecutionRow>, by readers;
            /// Only the output of one execution record.
            execution_output(no: ExecutionNo) -> Option<Payload>, by readers;
            /// Execution records of a run, newest first, from the last one or from before a
            /// known one.
            executions(run: RunNo, before: Option<ExecutionNo>, limit: u32) -> Vec<ExecutionRow>, by readers;
            /// The journal of a run, oldest entry first.
            journal(run: RunNo) -> Vec<JournalRow>, by readers;
            /// Entries of the journal of a run behind the first `skip`, oldest first; at most `limit`.
            journal_after(run: RunNo, skip: u32, limit: u32) -> Vec<JournalRow>, by readers;
            /// Entries of a run with an event of the engine, in the order of versions, behind the
            /// first `skip`; at most `limit`.
            events(run: RunNo, skip: u32, limit: u32) -> Vec<JournalRow>, by readers;
            /// Triggers of a run of any state after a position, the soonest first; at most `limit`.
            triggers_after(run: RunNo, after: Option<DuePlace>, limit: u32) -> Vec<TriggerRow>, by readers;
            /// Parked triggers after the one of this run and number, by both; at most `limit`.
            parked(after: Option<(RunNo, TriggerNo)>, limit: u32) -> Vec<TriggerRow>, by readers;
            /// Why a trigger is parked. None: it is not, or its run is paused.
            park_reason(trigger: TriggerNo) -> Option<String>, by readers;
            /// The triggers of a run, by sequence number.
            triggers(run: RunNo) -> Vec<TriggerRow>, by readers;
            /// A definition.
            definition(digest: Digest) -> Option<DefinitionRow>, by readers;
            /// A set of pins.
            pins(digest: Digest) -> Option<PinsRow>, by readers;
            /// The published version of a workflow.
            published(name: &str) -> Option<PublicationRow>, by published;
            /// Versions of workflows.
            publications(query: &PublicationQuery) -> Vec<PublicationRow>, by published;
            /// The version of a workflow that was published as this definition: the last one at
            /// this time, in epoch milliseconds, or the first one after it. None: it was never
            /// published.
            published_as(definition: Digest, at_ms: i64) -> Option<PublicationRow>, by published;
            /// The text that a version of a workflow was published as; none if it was published
            /// without one.
            published_text(name: &str, version: u32) -> Option<Bytes>, by published;
            /// Whether a stimulus of this hash would start a workflow or resume a run now. A hint:
            /// the transaction that delivers the stimulus decides.
            is_heard(hash: Digest, now_ms: i64) -> bool, by stimulus_rows;
            /// The bindings of stimuli with this hash, by number.
            bindings(hash: Digest) -> Vec<BindingRow>, by published;
            /// The rows of the trigger index of a workflow, by key.
            bindings_of(workflow: &str) -> Vec<BindingRow>, by published;
            /// Schedules of published workflows.
            schedules(query: &ScheduleQuery) -> Vec<ScheduleRow>, by published;
            /// The draft of a workflow.
            draft(name: &str) -> Option<DraftRow>, by drafts;
            /// Drafts of workflows whose names come after this one, by name; at most `limit`.
            drafts(after: Option<&str>, limit: u32) -> Vec<DraftRow>, by drafts;
            /// The version that was last published from a source.
            source(name: &str) -> Option<SourceRow>, by drafts;
            /// Sources whose names come after this one, by name; at most `limit`.
            sources(after: Option<&str>, limit: u32) -> Vec<SourceRow>, by drafts;
            /// A batch.
            batch(no: BatchNo) -> Option<BatchRow>, by batches;
            /// Batches.
            batches(query: &BatchQuery) -> Vec<BatchRow>, by batches;
            /// Pending upkeep requests, oldest first; at most `limit`.
            upkeep(limit: u32) -> Vec<UpkeepRow>, by drafts;
            /// Ended runs whose retention time is over, the oldest first; at most `limit`.
            /// They ended before `before_ms`, or have a retention time of their own that is over at
            /// `now_ms`.
            expired(before_ms: i64, now_ms: i64, limit: u32) -> Vec<ExpiredRow>, by readers;
            /// One trigger.
            trigger(target: TriggerTarget) -> Option<TriggerRow>, by readers;
            /// An external trigger.
            external(id: TriggerId) -> Option<ExternalRow>, by readers;
            /// Pending triggers, the soonest first. A trigger that waits without a time-out is due
            /// at `i64::MAX`.
            due(query: &DueQuery) -> Vec<TriggerRow>, by readers;
            /// Bookmarks, oldest first.
            bookmarks(query: &BookmarkQuery) -> Vec<BookmarkRow>, by stimulus_rows;
            /// One bookmark.
            bookmark(no: BookmarkNo) -> Option<BookmarkRow>, by stimulus_rows;
            /// The bookmark that a token resumes, by the token's digest.
            bookmark_by_token(token: Digest) -> Option<BookmarkRow>, by stimulus_rows;
            /// An operator's setting of the whole system, by name.
            setting(name: &str) -> Option<Bytes>, by settings;
            /// A stored component.
            component(digest: Digest) -> Option<Stored>, by components;
            /// A stored component without its bytes.
            component_row(digest: Digest) -> Option<ComponentRow>, by components;
            /// Stored components with a generation above this one; at most `limit`.
            components(after: i64, limit: u32) -> Vec<ComponentRow>, by components;
            /// Stimuli in the queue, oldest first.
            queued(query: &StimulusQuery) -> Vec<QueuedRow>, by stimulus_rows;
            /// Buffered stimuli, oldest first.
            buffered(query: &StimulusQuery) -> Vec<BufferedRow>, by stimulus_rows;
            /// Dead letters, oldest first.
            dead_letters(query: &LetterQuery) -> Vec<LetterRow>, by stimulus_rows;
            /// One dead letter.
            dead_letter(no: LetterNo) -> Option<LetterRow>, by stimulus_rows;
            /// Children of a run, oldest first, after a known place; at most `limit`.
            children(parent: RunNo, after: Option<RunPlace>, limit: u32) -> Vec<RunRow>, by listing;
            /// The complete bytes of a blob.
            blob(blob: BlobRef) -> Option<Bytes>, by readers;
            /// At most `limit` bytes of a blob, beginning with byte `from`; fewer at its end. The
            /// store does not read the rest, so its checksum of the blob proves nothing here: the
            /// caller compares the part with a sum of its own.
            blob_part(blob: BlobRef, from: u32, limit: u32) -> Option<Bytes>, by readers;
            /// The members.
            members() -> Vec<MemberRow>, by readers;
            /// The backlog. Each number is counted up to `limit`, which bounds the cost.
            backlog(now_ms: i64, limit: u32) -> Backlog, by readers;
            /// Counts, for `doctor` and for tests.
            counts() -> Counts, by readers;
        }
    };
}
#[cfg(any(test, feature = "conformance"))]
pub(crate) use with_readers;

/// Declares the readers, and implements them for stores in tables.
macro_rules! readers {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $kind:ty),*) -> $found:ty, by $room:ident;)+) => {
        /// The readers. Each blocks for as long as the backend takes; do not call them on a thread
        /// that must not block.
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

/// The amount of pending work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Due triggers that no member has claimed.
    pub due: u64,
    /// Triggers that are due later.
    pub pending: u64,
    /// Parked triggers.
    pub parked: u64,
    /// Dead letters that were not replayed.
    pub dead: u64,
}

/// The place of a run in the order of creation. The clocks of machines differ, so a run may be
/// created at a place before that of an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunPlace {
    /// The time of its creation, in epoch milliseconds.
    pub created_ms: i64,
    /// Its number.
    pub no: RunNo,
}

impl RunPlace {
    /// The place before all runs that were created at this time.
    pub(crate) const fn at(created_ms: i64) -> Self {
        let no = RunNo(i64::MIN);
        Self { created_ms, no }
    }
}

/// Which runs to list.
#[derive(Clone, Debug, Default)]
pub struct RunQuery {
    /// Only in one of these statuses; empty means all.
    pub statuses: Vec<Status>,
    /// Only of the workflow of this name.
    pub workflow: Option<String>,
    /// Only created at this time or later, in epoch milliseconds.
    pub since_ms: Option<i64>,
    /// Only created before this time, in epoch milliseconds.
    pub until_ms: Option<i64>,
    /// Only with this correlation.
    pub correlation: Option<String>,
    /// Only with a failure of this code.
    pub failure: Option<String>,
    /// Only children of this run.
    pub parent: Option<RunNo>,
    /// Only with all these tags.
    pub tags: Tags,
    /// Only before this place.
    pub before: Option<RunPlace>,
    /// Only at this place or after it: see [`Reader::horizon`].
    pub down_to: Option<RunPlace>,
    /// At most this many.
    pub limit: u32,
}

impl RunQuery {
    /// The places between which the runs are: after the first one or at it, before the second one.
    pub(crate) fn places(&self) -> (RunPlace, RunPlace) {
        let from = self.down_to.max(self.since_ms.map(RunPlace::at));
        let until = self.until_ms.map(RunPlace::at);
        let before = [self.before, until].into_iter().flatten().min();
        (
            from.unwrap_or(RunPlace::at(i64::MIN)),
            before.unwrap_or(RunPlace {
                created_ms: i64::MAX,
                no: RunNo(i64::MAX),
            }),
        )
    }
}

/// The number of rows of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All runs.
    pub runs: u64,
    /// Runs that are not in a final status.
    pub unfinished: u64,
    /// Triggers of any state.
    pub triggers: u64,
    /// Parked triggers.
    pub parked: u64,
    /// Execution records.
    pub executions: u64,
    /// Blobs.
    pub blobs: u64,
    /// Bookmarks.
    pub bookmarks: u64,
    /// Stimuli in the queue.
    pub queued: u64,
    /// Buffered stimuli.
    pub buffered: u64,
    /// Dead letters.
    pub dead_letters: u64,
}
