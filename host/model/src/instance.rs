//! The life of an instance.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where an instance is in its life. Numbers are stored: they are never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Status {
    /// Written down, not begun.
    #[default]
    Pending = 0,
    /// Something of it runs, or waits for a retry.
    Running = 1,
    /// Everything that is left of it waits for a timer or a bookmark.
    Suspended = 2,
    /// A person stopped it for a while.
    Paused = 3,
    /// It ended well.
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

    /// Whether nothing follows.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Faulted | Self::Cancelled)
    }

    /// The transition table: what may come after `self`.
    pub fn may_become(self, next: Self) -> bool {
        use Status::{Cancelled, Completed, Faulted, Paused, Pending, Running, Suspended};
        match self {
            Pending => !matches!(next, Pending),
            Running => !matches!(next, Pending | Running),
            Suspended => !matches!(next, Pending | Suspended),
            // What is at work when it is paused goes on to its end, and may be the last.
            Paused => !matches!(next, Pending | Paused),
            // Trying again what went wrong is the only way back.
            Faulted | Cancelled => matches!(next, Running | Suspended),
            Completed => false,
        }
    }

    /// As it is shown to people.
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
