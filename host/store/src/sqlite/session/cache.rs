//! What the writer remembers of the file, for as long as nobody else writes to it.

use bytes::Bytes;
use rustc_hash::FxHashMap;
use windlass_model::{Digest, Status};

use crate::write::Finish;

/// Heads remembered before all are forgotten. Each takes about 150 bytes.
const HEADS: usize = 64 * 1024;

/// Definitions and pins remembered before all are forgotten.
const DOCUMENTS: usize = 4096;

/// What a fence is compared with, and what of it is not in the file yet.
pub(super) struct Head {
    pub(super) status: Status,
    pub(super) owner: Option<i64>,
    pub(super) epoch: i64,
    pub(super) version: i64,
    pub(super) last_execution: Option<i64>,
    /// Which of the rarer things hang on it; see [`extras`](crate::sql::transaction::extras).
    pub(super) extras: i16,
    pub(super) unwritten: Unwritten,
    /// Of an unwritten head.
    pub(super) state: Bytes,
    /// Of an unwritten head whose instance has ended.
    pub(super) finish: Option<Box<(i64, Finish)>>,
}

/// How much of a head has to be written before the group ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unwritten {
    Nothing,
    Step,
    Whole,
}

/// Whether a table that few workflows use has any rows: if not, nothing is looked up in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Filled {
    #[default]
    Unknown,
    None,
    /// Or had some a moment ago.
    Some,
}

/// Forgotten when another connection has written, and when a group is rolled back.
#[derive(Default)]
pub(super) struct Cache {
    /// The value of `PRAGMA data_version` that all this goes with.
    pub(super) data_version: i64,
    pub(super) heads: FxHashMap<i64, Head>,
    /// Instances whose heads are unwritten, in the order in which they became so.
    pub(super) unwritten: Vec<i64>,
    pub(super) members: FxHashMap<i64, bool>,
    pub(super) definitions: FxHashMap<Digest, i64>,
    pub(super) pins: FxHashMap<Digest, i64>,
    pub(super) scopes: Filled,
    pub(super) reservations: Filled,
    /// Of the store, with what the group that is open has added.
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

    /// To be called between groups, when nothing is unwritten.
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
