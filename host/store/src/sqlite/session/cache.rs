//! The writer's cache of the file, valid until another connection writes to the file.

use bytes::Bytes;
use rustc_hash::FxHashMap;
use windlass_model::{Digest, Status};

use crate::write::Finish;

/// The maximum number of cached heads, of about 150 bytes each; beyond it, all are dropped.
const HEADS: usize = 64 * 1024;

/// The maximum number of cached definitions and pins; beyond it, all are dropped.
const DOCUMENTS: usize = 4096;

/// The columns that a fence is compared with, and the changes that are not in the file yet.
pub(super) struct Head {
    pub(super) status: Status,
    pub(super) owner: Option<i64>,
    pub(super) epoch: i64,
    pub(super) version: i64,
    pub(super) last_execution: Option<i64>,
    /// The kinds of rare rows of the run; see [`extras`](crate::sql::transaction::extras).
    pub(super) extras: i16,
    pub(super) unwritten: Unwritten,
    /// Set for an unwritten head.
    pub(super) state: Bytes,
    /// Set for an unwritten head whose run has ended.
    pub(super) finish: Option<Box<(i64, Finish)>>,
}

/// The part of a head that must be written before the group ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unwritten {
    Nothing,
    Step,
    Whole,
}

/// Whether a table that few workflows use has any rows. If it has none, lookups are skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Filled {
    #[default]
    Unknown,
    None,
    /// The table has rows, or had some recently.
    Some,
}

/// The cache. It is cleared when another connection has written, and when a group is rolled back.
#[derive(Default)]
pub(super) struct Cache {
    /// The value of `PRAGMA data_version` for which the cache is valid.
    pub(super) data_version: i64,
    pub(super) heads: FxHashMap<i64, Head>,
    /// Instances with unwritten heads, in the order of their changes.
    pub(super) unwritten: Vec<i64>,
    pub(super) members: FxHashMap<i64, bool>,
    pub(super) definitions: FxHashMap<Digest, i64>,
    pub(super) pins: FxHashMap<Digest, i64>,
    pub(super) scopes: Filled,
    pub(super) reservations: Filled,
    /// The generation of the store, including a change by the open group.
    pub(super) generation: Option<i64>,
}

impl Cache {
    pub(super) fn clear(&mut self) {
        self.heads.clear();
        self.unwritten.clear();
        self.members.clear();
        self.definitions.clear();
        self.pins.clear();
        self.scopes = Filled::Unknown;
        self.reservations = Filled::Unknown;
        self.generation = None;
    }

    /// Drops caches beyond their bounds. Called between groups, when all heads are written.
    pub(super) fn keep_bounds(&mut self) {
        if self.heads.len() > HEADS {
            self.heads.clear();
        }
        if self.definitions.len() > DOCUMENTS || self.pins.len() > DOCUMENTS {
            self.definitions.clear();
            self.pins.clear();
        }
    }
}
