//! The trigger: one piece of work, and when it is due.

use serde::{Deserialize, Serialize};

/// What brings a trigger about. Numbers are stored: they are never reused.
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
    /// A node again, because it asked for it.
    Loop = 3,
    /// An instant that was waited for.
    Timer = 4,
    /// A schedule.
    Cron = 5,
    /// A person.
    Manual = 6,
    /// A stimulus.
    Event = 7,
    /// A bookmark.
    Resume = 8,
    /// A sub-workflow that has ended.
    Child = 9,
    /// Cancels the instance.
    Cancel = 10,
    /// Stops the instance for a while.
    Pause = 11,
    /// Lets a paused instance go on.
    Unpause = 12,
    /// Changes something of the instance: cancels one of its triggers, for one.
    Alter = 13,
    /// Removes the instance.
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

    /// As it is shown to people, to consumers and in metrics.
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

    /// Control types change an instance without running a node: no consumer sees them, they
    /// need no room among the workers, and they are never parked.
    pub fn is_control(self) -> bool {
        matches!(
            self,
            Self::Cancel | Self::Pause | Self::Unpause | Self::Alter | Self::Delete
        )
    }

    /// Whether it pauses a run or ends its pause: of those the one that was asked for last
    /// counts.
    pub fn is_pausing(self) -> bool {
        matches!(self, Self::Pause | Self::Unpause)
    }
}

/// Where a trigger row is in its life. A finished one is gone; its run record remains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum TriggerState {
    /// Waits for its time, and then for somebody to claim it.
    Pending = 0,
    /// Belongs to the process that owns its instance.
    Claimed = 1,
    /// Cannot run now (its consumer or plugin is missing) and is kept out of the due index.
    Parked = 2,
    /// Will not run any more; kept for people to look at.
    Dead = 3,
}

impl TriggerState {
    /// As it is shown to people.
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
