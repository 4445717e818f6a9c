//! What the store object and its writer both have.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::locks::MemberLock;
use super::mark::Mark;
use super::options::SqliteOptions;
use super::time::MachineTime;
use super::watch::Identity;
use crate::health::Health;
use crate::queue::Queue;

/// What a group leaves in the file to be recognised by, if nothing else of it tells.
pub(super) struct Trace {
    /// Told from the other processes by this.
    pub(super) process: i64,
    /// The number of the newest such group.
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
    /// The file that was opened; a process never goes on with another one of the same name.
    pub(super) file: Identity,
    pub(super) mark: Arc<Mark>,
    /// By incarnation: the lock files of the members that joined through this store object.
    /// Letting go of one tells everybody that its member is dead.
    pub(super) locks: Mutex<FxHashMap<i64, MemberLock>>,
    /// What a test lets happen to the next commits.
    #[cfg(test)]
    pub(super) troubles: Mutex<Vec<super::tests::Trouble>>,
    /// What a test watches of the shared statements.
    #[cfg(test)]
    pub(super) watched: Mutex<Option<Arc<super::tests::Watched>>>,
}
