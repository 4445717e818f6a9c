//! The trigger: a unit of work, and its due time.

use serde::{Deserialize, Serialize};

/// The type of a trigger. Numbers are stored: they are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum TriggerType {
    /// Starts a workflow.
    Start = 0,
    /// The next node.
    Next = 1,
    /// A node again, after a failure.
    Retry = 2,
    /// A node again, because it asked to be called again.
    Loop = 3,
    /// The end of a wait for an instant.
    Timer = 4,
    /// A schedule.
    Cron = 5,
    /// A person.
    Manual = 6,
    /// A stimulus.
    Event = 7,
    /// A bookmark.
    Resume = 8,
    /// The end of a child run.
    Child = 9,
    /// Cancels the run.
    Cancel = 10,
    /// Pauses the run.
    Pause = 11,
    /// Ends the pause of the run.
    Unpause = 12,
    /// Changes the run, for example cancels one of its triggers.
    Alter = 13,
    /// Deletes the run.
    Delete = 14,
}

impl TriggerType {
    /// Every type.
    pub const ALL: [Self; 15] = [
        Self::Start,
        Self::Next,
        Self::Retry,
        Self::Loop,
        Self::Timer,
        Self::Cron,
        Self::Manual,
        Self::Event,
        Self::Resume,
        Self::Child,
        Self::Cancel,
        Self::Pause,
        Self::Unpause,
        Self::Alter,
        Self::Delete,
    ];

    /// Its name for people, for consumers and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Next => "next",
            Self::Retry => "retry",
            Self::Loop => "loop",
            Self::Timer => "timer",
            Self::Cron => "cron",
            Self::Manual => "manual",
            Self::Event => "event",
            Self::Resume => "resume",
            Self::Child => "child",
            Self::Cancel => "cancel",
            Self::Pause => "pause",
            Self::Unpause => "unpause",
            Self::Alter => "alter",
            Self::Delete => "delete",
        }
    }

    /// The type stored as this number.
    pub fn from_stored(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The number it is stored as.
    pub fn stored(self) -> u8 {
        self as u8
    }

    /// Control types change a run without executing a node: no consumer gets them, they need
    /// no worker slot, and they are never parked.
    pub fn is_control(self) -> bool {
        matches!(
            self,
            Self::Cancel | Self::Pause | Self::Unpause | Self::Alter | Self::Delete
        )
    }

    /// Whether it pauses a run or ends its pause: the later request wins.
    pub fn is_pausing(self) -> bool {
        matches!(self, Self::Pause | Self::Unpause)
    }
}

/// The state of a trigger row. A finished one is deleted; its execution row remains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum TriggerState {
    /// Waits for its due time, and then for a claim.
    Pending = 0,
    /// Belongs to the process that owns its run.
    Claimed = 1,
    /// Cannot be executed now (its consumer or plugin is missing) and is kept out of the due index.
    Parked = 2,
    /// Will not be executed any more; kept for people to look at.
    Dead = 3,
}

impl TriggerState {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Claimed => "claimed",
            Self::Parked => "parked",
            Self::Dead => "dead",
        }
    }

    /// The state stored as this number.
    pub fn from_stored(number: u8) -> Option<Self> {
        [Self::Pending, Self::Claimed, Self::Parked, Self::Dead]
            .get(usize::from(number))
            .copied()
    }
}
