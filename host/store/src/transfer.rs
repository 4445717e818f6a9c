//! An instance as a whole: taken out of one store, and put into another one or back.
//!
//! What is read is one moment of it ([`Snapshot`]), and what is written is one transaction
//! ([`Import`]). Numbers belong to a store, so whoever writes hands new ones in; the store only
//! sees to it that nobody who ran an instance before writes to what took its place.

use bytes::Bytes;
use windlass_model::{
    Digest, Epoch, Failure, InstanceId, InstanceNo, Payload, ScopeNo, Status, TriggerId, TriggerNo,
    Version,
};

use crate::codes;
use crate::error::{Error, Result};
use crate::rows::{
    DefinitionRow, ExecutionRow, InstanceRow, JournalRow, NewBlob, NewInstance, PinsRow, TriggerRow,
};
use crate::stimuli::NewBookmark;
use crate::write::NewItem;

/// How much of an instance is read at most. What is beyond is an error of code
/// [`TOO_LARGE`](crate::codes::TOO_LARGE), except for run records: of those, the newest are
/// read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Rows of one kind: triggers, variables, items and so on.
    pub rows: u32,
    /// Run records.
    pub executions: u32,
    /// Bytes of values, states and blobs together.
    pub bytes: u64,
}

/// An instance with all that hangs on it, as it was in one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The head.
    pub row: InstanceRow,
    /// What it runs.
    pub definition: DefinitionRow,
    /// On which components.
    pub pins: PinsRow,
    /// What it works on.
    pub input: Payload,
    /// What came out of it.
    pub output: Option<Payload>,
    /// How long it is kept after it has ended, in milliseconds.
    pub keep_ms: Option<u64>,
    /// Variables by scope and name.
    pub vars: Vec<(ScopeNo, String, Payload)>,
    /// Open scopes besides the root, in order.
    pub scopes: Vec<(ScopeNo, Bytes)>,
    /// What came out of the items of for-eaches that go on, by list and place.
    pub items: Vec<NewItem>,
    /// All its triggers, by number.
    pub triggers: Vec<TriggerRow>,
    /// Run records, the newest first.
    pub executions: Vec<ExecutionRow>,
    /// What happened to it as a whole, oldest first.
    pub journal: Vec<JournalRow>,
    /// What it waits for, oldest first.
    pub bookmarks: Vec<NewBookmark>,
    /// The names of its triggers from outside, by row.
    pub names: Vec<TriggerName>,
    /// Children of it that have not ended, counted up to the bound on rows.
    pub children: u32,
    /// Blobs that it refers to, by digest.
    pub blobs: Vec<NewBlob>,
}

/// The name that a trigger from outside was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerName {
    /// The name.
    pub id: TriggerId,
    /// The row, which may be gone.
    pub trigger: TriggerNo,
    /// What was asked for.
    pub request: Digest,
    /// Whether the instance ended without it.
    pub closed: bool,
}

/// An instance to be put in.
#[derive(Clone, Debug)]
pub struct Import {
    /// What is written as with an instance that is created: it has no owner and no parent, its
    /// variables are those of the root, and all its triggers are pending.
    pub new: NewInstance,
    /// Where it is in its life. One that has ended has neither triggers nor bookmarks.
    pub status: Status,
    /// The epoch that it had. It gets a larger one, also than what it takes the place of.
    pub epoch: Epoch,
    /// The version that it had. It gets a larger one likewise.
    pub version: Version,
    /// When it ended, in epoch milliseconds.
    pub finished_ms: Option<i64>,
    /// Why it faulted.
    pub failure: Option<Failure>,
    /// What came out of it.
    pub output: Option<Payload>,
    /// Variables of other scopes.
    pub vars: Vec<(ScopeNo, String, Payload)>,
    /// Open scopes besides the root.
    pub scopes: Vec<(ScopeNo, Bytes)>,
    /// Items of for-eaches that go on.
    pub items: Vec<NewItem>,
    /// Run records, oldest first, each with the one before it; the last one becomes the
    /// instance's last.
    pub executions: Vec<ExecutionRow>,
    /// What had happened to it, oldest first.
    pub journal: Vec<JournalRow>,
    /// That it was put in. By its kind and detail a second request of the same is recognised,
    /// so the detail names what was put in, and no moment.
    pub mark: JournalRow,
    /// What it waits for. Those that meet a buffered stimulus resume at once.
    pub bookmarks: Vec<NewBookmark>,
    /// The names of its triggers from outside.
    pub names: Vec<TriggerName>,
    /// Whether it takes the place of an instance that has its id.
    pub replace: bool,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

impl Import {
    /// Every value that is written with it, besides those of an instance that is created.
    pub(crate) fn payloads(&self) -> impl Iterator<Item = &Payload> {
        let outputs = self
            .executions
            .iter()
            .filter_map(|execution| execution.output.as_ref());
        let vars = self.vars.iter().map(|(_, _, value)| value);
        let items = self.items.iter().map(|item| &item.output);
        outputs.chain(vars).chain(items).chain(&self.output)
    }

    /// Until when it is kept, if it has ended and has a time of its own.
    pub(crate) fn kept_until_ms(&self) -> Option<i64> {
        let (finished_ms, keep_ms) = (self.finished_ms?, self.new.keep_ms?);
        Some(finished_ms.saturating_add_unsigned(keep_ms))
    }

    /// Whether this entry says that the same was put in before.
    pub(crate) fn is_marked(&self, kind: &str, detail: &[u8]) -> bool {
        self.mark.kind == kind && self.mark.detail == detail
    }
}

/// What became of putting an instance in. Whatever is refused has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    /// It is written.
    New,
    /// It is written in place of the one that had its id.
    Replaced {
        /// That one, which nobody finds any more. What is left of it is cleared by
        /// [`LifeOp::Clear`](crate::lives::LifeOp::Clear), or by retention.
        old: InstanceNo,
    },
    /// The same was put in before: nothing was written. If it was to take a place, it has not
    /// changed since then.
    Already(InstanceNo),
    /// An instance has its id, and it was not to take a place.
    Exists,
    /// An instance of that id was deleted, or is being deleted.
    Deleted,
    /// Somebody runs the instance whose place it was to take.
    Owned,
    /// The instance whose place it was to take has children that have not ended.
    Children,
    /// The instance whose place it was to take is a child that has not ended.
    Child,
    /// Another instance has what it reserves.
    Reserved {
        /// That one, or one of them.
        by: InstanceId,
    },
    /// A trigger from outside of another instance has the name of one of its.
    Name(TriggerId),
}

/// The epoch or version that an import gets: one more than any that there was.
pub(crate) fn above(imported: i64, replaced: i64) -> i64 {
    imported.max(replaced).saturating_add(1)
}

impl Bounds {
    /// Refuses an instance that has more bytes than these.
    pub(crate) fn admit_bytes(self, bytes: u64) -> Result<()> {
        if bytes <= self.bytes {
            return Ok(());
        }
        Err(too_large(&format!(
            "it holds {bytes} bytes, and at most {} are read",
            self.bytes
        )))
    }

    /// Refuses an instance that has more rows of a kind than these.
    pub(crate) fn admit_rows(self, what: &str, rows: usize) -> Result<()> {
        if rows <= self.rows as usize {
            return Ok(());
        }
        Err(too_large(&format!("it has more than {} {what}", self.rows)))
    }

    /// One row more than is allowed, by which it shows that there are too many.
    pub(crate) fn limit(self) -> u32 {
        self.rows.saturating_add(1)
    }
}

impl Snapshot {
    /// How many bytes it holds, besides its run records.
    #[cfg(any(test, feature = "memory"))]
    pub(crate) fn bytes(&self) -> u64 {
        let values = self.vars.iter().map(|(_, _, value)| value);
        let items = self.items.iter().map(|item| &item.output);
        let values = values.chain(items).chain(&self.output).chain([&self.input]);
        let values = values.filter_map(|value| value.inline());
        let scopes = self.scopes.iter().map(|(_, state)| state);
        let journal = self.journal.iter().map(|entry| &entry.detail);
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

    /// Refuses what has more rows of a kind than is allowed.
    pub(crate) fn admitted(self, bounds: Bounds) -> Result<Self> {
        for (what, rows) in [
            ("variables", self.vars.len()),
            ("open items", self.scopes.len()),
            ("collected items", self.items.len()),
            ("triggers", self.triggers.len()),
            ("entries in its journal", self.journal.len()),
            ("bookmarks", self.bookmarks.len()),
            ("triggers from outside", self.names.len()),
            ("large values", self.blobs.len()),
        ] {
            bounds.admit_rows(what, rows)?;
        }
        Ok(self)
    }
}

fn too_large(reason: &str) -> Error {
    let message = format!("the instance is too large to be taken out as a whole: {reason}");
    Error::new(codes::TOO_LARGE, message)
        .help("Let it come to its end, or to a place where less of it waits, and try again.")
}
