//! The record of one execution of a node.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Bytes of a record that are few for the usual execution: up to 16 stand in place, without an
/// allocation.
pub type ShortBytes = SmallVec<[u8; 16]>;

/// The result of one execution. Numbers are stored: they are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum ExecutionStatus {
    /// The node is finished.
    Completed = 0,
    /// It failed, and is retried later.
    WaitingRetry = 1,
    /// It failed for good.
    Failed = 2,
    /// It waits for a timer or a bookmark, or asked to be called again.
    Suspended = 3,
    /// It was cancelled.
    Cancelled = 4,
    /// It never ran, because no path led to it.
    Skipped = 5,
}

impl ExecutionStatus {
    /// Every status.
    pub const ALL: [Self; 6] = [
        Self::Completed,
        Self::WaitingRetry,
        Self::Failed,
        Self::Suspended,
        Self::Cancelled,
        Self::Skipped,
    ];

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::WaitingRetry => "waiting-retry",
            Self::Failed => "failed",
            Self::Suspended => "suspended",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
        }
    }

    /// The status stored as this number.
    pub fn from_stored(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// One line that a guest wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// `trace`, `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// Control characters are escaped.
    pub message: String,
    /// Names and values.
    pub fields: Vec<(String, String)>,
}
