//! The options of a SQLite store.

use std::sync::Arc;

use windlass_model::Clock;
use windlass_model::metrics::Metrics;

use crate::sql::layout::Steps;

/// The failures that a committed write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The death of the process and of the machine: every group is flushed to the disk.
    #[default]
    Full,
    /// The death of the process. After a power cut, the last writes may be lost; the rest stays
    /// consistent.
    Normal,
}

/// The settings of a [`super::SqliteStore`].
#[derive(Clone)]
pub struct SqliteOptions {
    /// The failures that a committed write survives.
    pub durability: Durability,
    /// The maximum number of connections for reading, opened on demand. At least 1.
    pub read_connections: usize,
    /// The number of writes that may wait; more block the submitter.
    pub queue_writes: usize,
    /// The number of bytes in writes that may wait; more block the submitter. One batch is accepted
    /// at any size.
    pub queue_bytes: usize,
    /// The size of the writer's page cache, in bytes. That of a connection for reading is a fourth.
    pub cache_bytes: usize,
    /// The maximum number of writes in one physical transaction.
    pub group_writes: usize,
    /// How long to wait for another process that holds the write lock, in milliseconds.
    pub busy_wait_ms: u64,
    /// From this size on, in bytes, the writer empties the log even if it has to wait for readers.
    pub log_bytes: u64,
    /// Beyond this size, in bytes, writes are refused until the reader that keeps the log from
    /// being emptied ends.
    pub log_bytes_max: u64,
    /// The maximum size of the file, in bytes; none: limited by the disk only.
    pub max_bytes: Option<u64>,
    /// Whether opening a store of an older layout migrates it; otherwise opening is refused.
    pub migrates: bool,
    /// Whether each group writes its bound to the marker itself; otherwise the bound is written up
    /// to 20 milliseconds later.
    pub mark_at_once: bool,
    /// The monotonic clock of leases.
    pub clock: Arc<dyn Clock>,
    /// Receives measurements of groups of writes.
    pub metrics: Arc<Metrics>,
    /// For tests: the steps of a later version.
    #[cfg(test)]
    pub(crate) further: &'static [crate::sql::layout::Step],
}

impl SqliteOptions {
    /// The defaults.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            durability: Durability::Full,
            read_connections: 4,
            queue_writes: 4096,
            queue_bytes: 64 * 1024 * 1024,
            cache_bytes: 32 * 1024 * 1024,
            group_writes: 1024,
            busy_wait_ms: 10_000,
            log_bytes: 64 * 1024 * 1024,
            log_bytes_max: 1024 * 1024 * 1024,
            max_bytes: None,
            migrates: true,
            mark_at_once: false,
            clock,
            metrics: Arc::default(),
            #[cfg(test)]
            further: &[],
        }
    }

    /// The steps of the layout.
    pub(super) fn steps(&self) -> Steps {
        #[cfg(test)]
        return Steps::sqlite(self.further);
        #[cfg(not(test))]
        Steps::sqlite(&[])
    }
}
