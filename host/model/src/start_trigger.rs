//! The triggers that start a workflow: the `triggers` of its file.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::http::{Intake, Respond, Verify};

/// A trigger that starts a workflow. It takes effect when the workflow is published.
#[derive(Clone, Debug, PartialEq)]
pub enum StartTrigger {
    /// A stimulus.
    Event {
        /// The name of the stimulus.
        name: String,
        /// The value that its `match` has to equal. Default: `null`.
        matches: Value,
        /// The input of the run: a template over `event`. None: the input of the stimulus.
        input: Option<Value>,
    },
    /// A request to the host's web server.
    Http {
        /// One of [`crate::http::METHODS`]. Default: `POST`.
        method: String,
        /// The path after `/hooks`: see [`crate::http::is_path`].
        path: String,
        /// How requests are verified. Without it, every request counts.
        verify: Option<Verify>,
        /// The answer to the sender.
        respond: Respond,
        /// How the request becomes the input of the run.
        intake: Intake,
    },
    /// A schedule of the calendar.
    Cron {
        /// Five fields, or six with seconds first.
        expression: String,
        /// The name of an IANA time zone. Default: `UTC`.
        timezone: String,
        /// The options that all schedules have.
        timing: Timing,
    },
    /// A schedule of equal intervals, counted from its first publication.
    Every {
        /// From one occurrence to the next. At least [`crate::limits::INTERVAL_MS`].
        every_ms: u64,
        /// The options that all schedules have.
        timing: Timing,
    },
}

/// The misfire policy of a schedule, its overlap policy, its jitter and the input of its runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Timing {
    /// The policy for occurrences that became due while no host was running.
    pub misfire: Misfire,
    /// The policy for an occurrence while the previous one still runs.
    pub overlap: Overlap,
    /// Each occurrence is delayed by a part of this, which is always the same for one occurrence.
    pub jitter_ms: u64,
    /// The input of the runs: a constant. Default: `null`.
    pub input: Value,
}

/// The policy for occurrences that became due while no host was running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Misfire {
    /// They are dropped.
    Skip,
    /// The latest one happens, late, for all of them.
    #[default]
    FireOnce,
    /// The latest ones happen, one after another, at most so many.
    CatchUp(u32),
}

/// The policy for an occurrence while the previous one still runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// Both run at the same time.
    Allow,
    /// The occurrence is dropped.
    #[default]
    Skip,
    /// The occurrence happens after the previous one has ended. At most one waits.
    Queue,
    /// The previous one is cancelled.
    CancelPrevious,
}
