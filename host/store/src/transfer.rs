//! Export and import of whole runs, between stores or back into the same one.
//!
//! An export reads one moment ([`Snapshot`]), and an import is one transaction ([`Import`]). Row
//! numbers belong to one store, so the importing caller assigns new ones. The store ensures that a
//! former owner of a run cannot write to the one that replaces it.

use bytes::Bytes;
use windlass_model::{
    Digest, Epoch, Failure, Payload, RunId, RunNo, ScopeNo, Status, TriggerId, TriggerNo, Version,
};

use crate::codes;
use crate::error::{Error, Result};
use crate::rows::{
    DefinitionRow, ExecutionRow, JournalRow, NewBlob, NewRun, PinsRow, RunRow, TriggerRow,
};
use crate::stimuli::NewBookmark;
use crate::write::NewItem;

/// Bounds on the exported rows of a run. Exceeding them is an error with the code
/// [`TOO_LARGE`](crate::codes::TOO_LARGE), except for execution records: only the newest are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Rows of one kind: triggers, variables, items and so on.
    pub rows: u32,
    /// Execution records.
    pub executions: u32,
    /// Bytes of values, states, blobs and execution records together.
    pub bytes: u64,
}

/// A run with all its rows, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The head.
    pub row: RunRow,
    /// Its definition.
    pub definition: DefinitionRow,
    /// Its components.
    pub pins: PinsRow,
    /// Its input.
    pub input: Payload,
    /// Its output.
    pub output: Option<Payload>,
    /// How long it is kept after its end, in milliseconds.
    pub keep_ms: Option<u64>,
    /// Variables by scope and name.
    pub vars: Vec<(ScopeNo, String, Payload)>,
    /// Open scopes besides the root, in order.
    pub scopes: Vec<(ScopeNo, Bytes)>,
    /// Outputs of the items of unfinished for-eaches, by list and index.
    pub items: Vec<NewItem>,
    /// All its triggers, by number.
    pub triggers: Vec<TriggerRow>,
    /// Execution records, the newest first.
    pub executions: Vec<ExecutionRow>,
    /// Its journal, oldest entry first.
    pub journal: Vec<JournalRow>,
    /// Its entries with events, in the order of versions; at most one more than the bound on rows.
    pub events: Vec<JournalRow>,
    /// Its bookmarks, oldest first.
    pub bookmarks: Vec<NewBookmark>,
    /// The ids of its external triggers, by row.
    pub names: Vec<TriggerName>,
    /// The number of its children that have not ended, counted up to the bound on rows.
    pub children: u32,
    /// Blobs that it refers to, by digest.
    pub blobs: Vec<NewBlob>,
}

/// The external id of a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerName {
    /// The id.
    pub id: TriggerId,
    /// The row, which may be gone.
    pub trigger: TriggerNo,
    /// Digest of the request.
    pub request: Digest,
    /// Whether the run ended before the trigger ran.
    pub closed: bool,
}

/// A run to be imported.
#[derive(Clone, Debug)]
pub struct Import {
    /// The parts that are written as for a new run: it has no owner and no parent, its
    /// variables are those of the root, and all its triggers are pending.
    pub new: NewRun,
    /// Its status. An ended run has neither triggers nor bookmarks.
    pub status: Status,
    /// The epoch at the export. The imported run gets a larger one, also larger than that of a
    /// replaced run.
    pub epoch: Epoch,
    /// The version at the export. The imported run gets a larger one, likewise.
    pub version: Version,
    /// When it ended, in epoch milliseconds.
    pub finished_ms: Option<i64>,
    /// Why it faulted.
    pub failure: Option<Failure>,
    /// Its output.
    pub output: Option<Payload>,
    /// Variables of other scopes.
    pub vars: Vec<(ScopeNo, String, Payload)>,
    /// Open scopes besides the root.
    pub scopes: Vec<(ScopeNo, Bytes)>,
    /// Items of unfinished for-eaches.
    pub items: Vec<NewItem>,
    /// Execution records, oldest first, each with the number of the previous one. The last one
    /// becomes the run's last record.
    pub executions: Vec<ExecutionRow>,
    /// Its journal before the import, oldest entry first, with the entries that have events.
    pub journal: Vec<JournalRow>,
    /// The journal entry about the import. A repeated import is recognised by its kind and detail,
    /// so the detail identifies the imported snapshot and contains no time.
    pub mark: JournalRow,
    /// Its bookmarks. A bookmark that matches a buffered stimulus resumes at once.
    pub bookmarks: Vec<NewBookmark>,
    /// The ids of its external triggers.
    pub names: Vec<TriggerName>,
    /// Whether it replaces a run with the same id.
    pub replace: bool,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

impl Import {
    /// Every value that is written, besides those of the new run.
    pub(crate) fn payloads(&self) -> impl Iterator<Item = &Payload> {
        let outputs = self
            .executions
            .iter()
            .filter_map(|execution| execution.output.as_ref());
        let vars = self.vars.iter().map(|(_, _, value)| value);
        let items = self.items.iter().map(|item| &item.output);
        outputs.chain(vars).chain(items).chain(&self.output)
    }

    /// The end of its retention, if it has ended and has a retention time of its own.
    pub(crate) fn kept_until_ms(&self) -> Option<i64> {
        let (finished_ms, keep_ms) = (self.finished_ms?, self.new.keep_ms?);
        Some(finished_ms.saturating_add_unsigned(keep_ms))
    }

    /// Whether this journal entry shows that the same snapshot was imported before.
    pub(crate) fn is_marked(&self, kind: &str, detail: &[u8]) -> bool {
        self.mark.kind == kind && self.mark.detail == detail
    }
}

/// The outcome of an import. A refused import has written nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    /// It is written.
    New,
    /// It is written, and replaces the run that had its id.
    Replaced {
        /// The replaced run, which no reader finds any more. Its remaining rows are deleted by
        /// [`Clear`](crate::lives::Clear), or by retention.
        old: RunNo,
    },
    /// The same snapshot was imported before: nothing was written. If it was to replace an
    /// run, that run has not changed since.
    Already(RunNo),
    /// A run has its id, and the import does not replace.
    Exists,
    /// A run with that id was deleted, or is being deleted.
    Deleted,
    /// A member owns the run that was to be replaced.
    Owned,
    /// The run that was to be replaced has children that have not ended.
    Children,
    /// The run that was to be replaced is a child that has not ended.
    Child,
    /// Another run holds a reservation that this one needs.
    Reserved {
        /// That run, or one of several.
        by: RunId,
    },
    /// An external trigger of another run has the same id as one of its triggers.
    Name(TriggerId),
}

/// The epoch or version of an imported run: one more than all former ones.
pub(crate) fn above(imported: i64, replaced: i64) -> i64 {
    imported.max(replaced).saturating_add(1)
}

impl Bounds {
    /// Refuses a run that has more bytes.
    pub(crate) fn admit_bytes(self, bytes: u64) -> Result<()> {
        if bytes <= self.bytes {
            return Ok(());
        }
        Err(too_large(&format!(
            "it holds {bytes} bytes, and at most {} are read",
            self.bytes
        )))
    }

    /// The bytes that the execution records may have besides those of the other data.
    pub(crate) fn rest(self, others: u64) -> i64 {
        i64::try_from(self.bytes.saturating_sub(others)).unwrap_or(i64::MAX)
    }

    /// Refuses a run that has more rows of a kind.
    pub(crate) fn admit_rows(self, what: &str, rows: usize) -> Result<()> {
        if rows <= self.rows as usize {
            return Ok(());
        }
        Err(too_large(&format!("it has more than {} {what}", self.rows)))
    }

    /// One row more than allowed, which shows that there are too many.
    pub(crate) fn limit(self) -> u32 {
        self.rows.saturating_add(1)
    }
}

impl Snapshot {
    /// Its size in bytes, without its execution records.
    #[cfg(any(test, feature = "conformance"))]
    pub(crate) fn bytes(&self) -> u64 {
        let values = self.vars.iter().map(|(_, _, value)| value);
        let items = self.items.iter().map(|item| &item.output);
        let values = values.chain(items).chain(&self.output).chain([&self.input]);
        let values = values.filter_map(|value| value.inline());
        let scopes = self.scopes.iter().map(|(_, state)| state);
        let journal = self.journal.iter().chain(&self.events);
        let journal = journal.map(|entry| &entry.detail);
        let rows = self.triggers.iter();
        let rows = rows.flat_map(|row| [Some(&row.detail), row.payload.as_ref()]);
        let marks = self.bookmarks.iter();
        let marks = marks.flat_map(|mark| [Some(&mark.matches), mark.metadata.as_ref()]);
        let blobs = self.blobs.iter().map(|blob| &blob.bytes);
        let all = values.chain(scopes).chain(journal).chain(blobs);
        let all = all.chain(rows.chain(marks).flatten());
        all.chain([&self.row.state])
            .map(|bytes| bytes.len() as u64)
            .sum()
    }

    /// The size of its execution records in bytes.
    #[cfg(any(test, feature = "conformance"))]
    pub(crate) fn record_bytes(&self) -> u64 {
        let outputs = self.executions.iter().filter_map(|row| row.output.as_ref());
        let outputs = outputs.filter_map(|output| output.inline());
        let rows = self.executions.iter();
        let others = rows.flat_map(|row| [&row.inputs, &row.event]);
        let lengths = outputs
            .map(Bytes::len)
            .chain(others.map(|bytes| bytes.len()));
        lengths.map(|bytes| bytes as u64).sum()
    }

    /// Refuses a snapshot that has more rows of a kind than allowed.
    pub(crate) fn admitted(self, bounds: Bounds) -> Result<Self> {
        for (what, rows) in [
            ("variables", self.vars.len()),
            ("open items", self.scopes.len()),
            ("collected items", self.items.len()),
            ("triggers", self.triggers.len()),
            ("entries in its journal", self.journal.len()),
            ("bookmarks", self.bookmarks.len()),
            ("external triggers", self.names.len()),
            ("large values", self.blobs.len()),
        ] {
            bounds.admit_rows(what, rows)?;
        }
        Ok(self)
    }
}

fn too_large(reason: &str) -> Error {
    let message = format!("the run is too large to be taken out as a whole: {reason}");
    Error::new(codes::TOO_LARGE, message)
        .help("Let it come to its end, or to a place where less of it waits, and try again.")
}
