//! The state that the store object, its writer threads and its sessions share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use windlass_model::{Clock, Digest};

use super::connect::Target;
use super::lanes::Lanes;
use super::listen::Untold;
use super::local::{MemberFile, Members};
use super::options::PostgresOptions;
use super::session::Scan;
use crate::health::Health;
use crate::sql::sweeping::SweepCursor;
use crate::write::Commit;

/// The maximum number of remembered definitions and pins; beyond it, all are forgotten.
const DOCUMENTS: usize = 4096;

/// The maximum number of runs whose extras are remembered; beyond it, all are forgotten.
const CARRYING: usize = 64 * 1024;

pub(super) struct PostgresShared {
    pub(super) target: Arc<Target>,
    pub(super) options: PostgresOptions,
    /// Identifies this store object among those of all processes.
    pub(super) process: i64,
    /// Until when another process waits for runs, in monotonic milliseconds.
    pub(super) attended_ms: AtomicU64,
    /// The changed runs to tell them.
    pub(super) untold: Mutex<Untold>,
    pub(super) lanes: Lanes,
    pub(super) health: Arc<Health>,
    /// The trace number of each lane.
    pub(super) tracers: Vec<i64>,
    pub(super) known: Mutex<Known>,
    /// Counts the triggers that became pending through this store object, so that a walk detects
    /// missed ones.
    pub(super) made_pending: AtomicU64,
    /// The value of `made_pending` at the last look at pending triggers.
    pub(super) seen_pending: AtomicU64,
    /// How often this store object has reaped dead members.
    pub(super) reaps: AtomicU64,
    /// By incarnation: the progress of its walk through the due index.
    pub(super) scans: Mutex<FxHashMap<i64, Scan>>,
    /// The progress of the sweep of documents.
    pub(super) documents: Mutex<SweepCursor>,
    /// The members that joined through this store object and have not left: dead once it is closed.
    pub(super) joined: Mutex<Vec<(i64, Option<MemberFile>)>>,
    /// The lock files of members.
    pub(super) members: Option<Members>,
    /// Faults that a test injects into the next commits, the last first.
    #[cfg(test)]
    pub(super) troubles: Mutex<Vec<super::tests::troubles::Trouble>>,
    /// The round trips that the verbs have taken.
    #[cfg(test)]
    pub(super) trips: Mutex<super::tests::trips::Trips>,
    /// A test's hook that runs at the first of those faults.
    #[cfg(test)]
    pub(super) before_trouble: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// A test's hook that runs between the next look at due triggers and the locking of their
    /// runs.
    #[cfg(test)]
    pub(super) between: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// Remembered facts about the tables. They are hints: a batch that relies on a wrong one fails and
/// is repeated.
#[derive(Default)]
pub(super) struct Known {
    /// The numbers of definitions. A batch locks those that it uses.
    pub(super) definitions: FxHashMap<Digest, i64>,
    /// The numbers of pins, likewise.
    pub(super) pins: FxHashMap<Digest, i64>,
    /// Instances with rare rows that their end must handle, with the kinds of those rows
    /// ([`extras`](super::session::extras)): a hint.
    pub(super) carrying: FxHashMap<i64, i16>,
}

impl Known {
    pub(super) fn keep_bounds(&mut self) {
        if self.definitions.len() > DOCUMENTS || self.pins.len() > DOCUMENTS {
            self.definitions.clear();
            self.pins.clear();
        }
        if self.carrying.len() > CARRYING {
            self.carrying.clear();
        }
    }

    /// The remembered kinds of rare rows of a step's run.
    pub(super) fn carried_by(&self, commit: &Commit) -> i16 {
        let carried = self.carrying.get(&commit.fence.run.0);
        carried.copied().unwrap_or_default()
    }

    /// Remembers the kinds of rare rows of runs.
    pub(super) fn carry(&mut self, carrying: impl IntoIterator<Item = (i64, i16)>) {
        for (run, extras) in carrying {
            *self.carrying.entry(run).or_default() |= extras;
        }
    }
}

impl PostgresShared {
    /// The offset from the database's clock, in milliseconds: 0 except in tests.
    pub(super) fn ahead_ms(&self) -> i64 {
        self.options.ahead_ms()
    }

    /// The current time on the clock that measures leases.
    pub(super) fn passed_ms(&self) -> u64 {
        clock_ms(&*self.options.clock)
    }
}

pub(super) fn clock_ms(clock: &dyn Clock) -> u64 {
    u64::try_from(clock.monotonic().as_millis()).unwrap_or(u64::MAX)
}
