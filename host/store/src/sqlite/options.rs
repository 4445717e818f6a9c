//! How a SQLite store is opened.

use std::sync::Arc;

use windlass_model::Clock;
use windlass_model::metrics::Metrics;

/// What a committed write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process and of the machine: every group is flushed to the disk.
    #[default]
    Full,
    /// The end of the process. A machine that loses power may lose the last moments, never
    /// the consistency of what is left.
    Normal,
}

/// The settings of a [`super::SqliteStore`].
#[derive(Clone)]
pub struct SqliteOptions {
    /// What a committed write survives.
    pub durability: Durability,
    /// Connections for reading, opened as they are needed. At least 1.
    pub read_connections: usize,
    /// Writes that may wait; more make the submitter wait.
    pub queue_writes: usize,
    /// How much the writes that wait may hold, in bytes; more make the submitter wait. One
    /// batch is let in whatever it holds.
    pub queue_bytes: usize,
    /// Writes in one physical transaction at most.
    pub group_writes: usize,
    /// How long to wait for another process that holds the write lock, in milliseconds.
    pub busy_wait_ms: u64,
    /// From this size on, in bytes, the log is emptied even if readers have to be waited for.
    pub log_bytes: u64,
    /// Beyond this size, in bytes, writes are refused until a reader that holds the log up
    /// is gone.
    pub log_bytes_max: u64,
    /// The file does not grow beyond this, in bytes; none: as far as the disk goes.
    pub max_bytes: Option<u64>,
    /// Whether each group waits until the marker beside the store names it; otherwise the marker
    /// does so up to 20 milliseconds later.
    pub mark_at_once: bool,
    /// Leases count on its monotonic time.
    pub clock: Arc<dyn Clock>,
    /// Where groups of writes are measured.
    pub metrics: Arc<Metrics>,
}

impl SqliteOptions {
    /// The defaults.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            durability: Durability::Full,
            read_connections: 4,
            queue_writes: 4096,
            queue_bytes: 64 * 1024 * 1024,
            group_writes: 1024,
            busy_wait_ms: 10_000,
            log_bytes: 64 * 1024 * 1024,
            log_bytes_max: 1024 * 1024 * 1024,
            max_bytes: None,
            mark_at_once: false,
            clock,
            metrics: Arc::default(),
        }
    }
}
