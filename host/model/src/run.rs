//! The life of a run.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The tags of a run: names and values.
pub type Tags = BTreeMap<String, String>;

/// The status of a run. Numbers are stored: they are never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Status {
    /// Created, not begun.
    #[default]
    Pending = 0,
    /// An execution of it is in progress, or waits for a retry.
    Running = 1,
    /// All its open executions wait for a timer or a bookmark.
    Suspended = 2,
    /// A person paused it.
    Paused = 3,
    /// It succeeded.
    Completed = 4,
    /// It failed.
    Faulted = 5,
    /// It was cancelled.
    Cancelled = 6,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Running,
        Self::Suspended,
        Self::Paused,
        Self::Completed,
        Self::Faulted,
        Self::Cancelled,
    ];

    /// Whether it is a final status.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Faulted | Self::Cancelled)
    }

    /// The transition table: which status may follow `self`.
    pub fn may_become(self, next: Self) -> bool {
        use Status::{Cancelled, Completed, Faulted, Paused, Pending, Running, Suspended};
        match self {
            Pending => !matches!(next, Pending),
            Running => !matches!(next, Pending | Running),
            Suspended => !matches!(next, Pending | Suspended),
            // Executions in progress finish after the pause, and may be the last ones.
            Paused => !matches!(next, Pending | Paused),
            // A retry is the only transition out of a failure.
            Faulted | Cancelled => matches!(next, Running | Suspended),
            Completed => false,
        }
    }

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Suspended => "suspended",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Faulted => "faulted",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status stored as this number.
    pub fn from_stored(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
