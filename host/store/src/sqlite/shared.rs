//! What the store object and its writer both have.

use std::path::PathBuf;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::locks::Held;
use super::options::SqliteOptions;
use super::queue::Queue;
use super::time::MachineTime;

pub(super) struct Shared {
    pub(super) path: PathBuf,
    pub(super) options: SqliteOptions,
    pub(super) time: MachineTime,
    pub(super) queue: Queue,
    /// By incarnation: the lock files of the members that joined through this store object.
    /// Letting go of one tells everybody that its member is dead.
    pub(super) locks: Mutex<FxHashMap<i64, Held>>,
    /// What a test lets happen to the next commits.
    #[cfg(test)]
    pub(super) troubles: Mutex<Vec<super::tests::Trouble>>,
}
