//! The state that the store object and its writer thread share.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::locks::MemberLock;
use super::mark::Mark;
use super::options::SqliteOptions;
use super::time::MachineTime;
use super::watch::Identity;
use crate::health::Health;
use crate::queue::Queue;

/// The trace that a group leaves in the file if its writes leave no other proof.
pub(super) struct Trace {
    /// The number that tells this process from others.
    pub(super) process: i64,
    /// The number of the newest group with a trace.
    pub(super) last: AtomicI64,
}

impl Trace {
    pub(super) fn new(nonce: u64) -> Self {
        Self {
            process: nonce.cast_signed(),
            last: AtomicI64::new(0),
        }
    }
}

pub(super) struct SqliteShared {
    pub(super) path: PathBuf,
    pub(super) options: SqliteOptions,
    pub(super) time: MachineTime,
    pub(super) queue: Queue,
    pub(super) trace: Trace,
    pub(super) health: Arc<Health>,
    /// The identity of the opened file. A process never continues with another file of the same
    /// name.
    pub(super) file: Identity,
    pub(super) mark: Arc<Mark>,
    /// The current [`Edition`](crate::published::Edition). Only the writer changes it.
    pub(super) edition: AtomicU64,
    /// By incarnation: the lock files of the members that joined through this store object.
    /// Releasing a lock tells the other processes that the member is dead.
    pub(super) locks: Mutex<FxHashMap<i64, MemberLock>>,
    /// Faults that a test injects into the next commits.
    #[cfg(test)]
    pub(super) troubles: Mutex<Vec<super::tests::Trouble>>,
    /// A test's recorder of the shared statements.
    #[cfg(test)]
    pub(super) watched: Mutex<Option<Arc<super::tests::Watched>>>,
}
