//! What the store object, its writer and its sessions all have.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use windlass_model::{Clock, Digest};

use super::connect::Target;
use super::lanes::Lanes;
use super::options::PostgresOptions;
use super::session::Scan;
use crate::health::Health;
use crate::sql::sweeping::SweepCursor;
use crate::write::Commit;

/// Definitions and pins remembered before all are forgotten.
const DOCUMENTS: usize = 4096;

/// Instances remembered as carrying rarer things before all are forgotten.
const CARRYING: usize = 64 * 1024;

pub(super) struct PostgresShared {
    pub(super) target: Arc<Target>,
    pub(super) options: PostgresOptions,
    /// Names this store object among those of all processes.
    pub(super) process: i64,
    pub(super) lanes: Lanes,
    pub(super) health: Arc<Health>,
    /// What the lanes are told apart by.
    pub(super) tracers: Vec<i64>,
    pub(super) known: Mutex<Known>,
    /// Counts what became pending through this store object, so that a scan knows whether it
    /// missed something.
    pub(super) made_pending: AtomicU64,
    /// How much that was when it was looked for last what is pending.
    pub(super) seen_pending: AtomicU64,
    /// How often the dead were buried through this store object.
    pub(super) burials: AtomicU64,
    /// By incarnation: how far its walk through the due index has come.
    pub(super) scans: Mutex<FxHashMap<i64, Scan>>,
    /// How far the sweep of documents has come.
    pub(super) documents: Mutex<SweepCursor>,
    /// Who joined through this store object and has not left: dead once it is closed.
    pub(super) joined: Mutex<Vec<i64>>,
    /// What a test lets happen to the next commits, the last first.
    #[cfg(test)]
    pub(super) troubles: Mutex<Vec<super::tests::troubles::Trouble>>,
    /// What the verbs have taken.
    #[cfg(test)]
    pub(super) trips: Mutex<super::tests::trips::Trips>,
    /// What a test does when the first of those happens.
    #[cfg(test)]
    pub(super) before_trouble: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// What a test does between the next look at what is due and holding it.
    #[cfg(test)]
    pub(super) between: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// What is known of the tables as long as a batch that rests on it does not say otherwise.
#[derive(Default)]
pub(super) struct Known {
    /// The numbers of definitions. A batch holds those that it uses.
    pub(super) definitions: FxHashMap<Digest, i64>,
    /// Pins likewise.
    pub(super) pins: FxHashMap<Digest, i64>,
    /// Instances that carry what their end has to look after, and what
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

    /// What the instance of a step carries, as far as is known.
    pub(super) fn carried_by(&self, commit: &Commit) -> i16 {
        let carried = self.carrying.get(&commit.fence.instance.0);
        carried.copied().unwrap_or_default()
    }

    /// Notes what instances carry.
    pub(super) fn carry(&mut self, carrying: impl IntoIterator<Item = (i64, i16)>) {
        for (instance, extras) in carrying {
            *self.carrying.entry(instance).or_default() |= extras;
        }
    }
}

impl PostgresShared {
    /// What is to be added to the database's clock, in milliseconds: nothing, but in tests.
    pub(super) fn ahead_ms(&self) -> i64 {
        let ahead = self.options.ahead.as_ref();
        ahead.map_or(0, |clock| clock_ms(&**clock).cast_signed())
    }

    /// Now, on the clock on which leases are handed out.
    pub(super) fn passed_ms(&self) -> u64 {
        clock_ms(&*self.options.clock)
    }
}

fn clock_ms(clock: &dyn Clock) -> u64 {
    u64::try_from(clock.monotonic().as_millis()).unwrap_or(u64::MAX)
}
