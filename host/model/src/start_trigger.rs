//! What starts a workflow, besides people: the `triggers` of its file.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::http::{Respond, Verify};

/// What starts a workflow. It takes effect when the workflow is published.
#[derive(Clone, Debug, PartialEq)]
pub enum StartTrigger {
    /// A stimulus. Its input is the run's.
    Event {
        /// The name of the stimulus.
        name: String,
        /// What its `match` has to equal. `null` unless said otherwise.
        matches: Value,
    },
    /// A request to the host's web server. What it brings is the run's input.
    Http {
        /// One of [`crate::http::METHODS`]. `POST` unless said otherwise.
        method: String,
        /// What comes after `/hooks`: see [`crate::http::is_path`].
        path: String,
        /// How a request is known to come from its sender. Without it, every request counts.
        verify: Option<Verify>,
        /// What the sender is answered.
        respond: Respond,
    },
    /// A schedule of the calendar.
    Cron {
        /// Five fields, or six with seconds first.
        expression: String,
        /// The name of an IANA time zone. `UTC` unless said otherwise.
        timezone: String,
        /// What all schedules have.
        timing: Timing,
    },
    /// A schedule of equal intervals, counted from when it was first published.
    Every {
        /// From one occurrence to the next. At least [`crate::limits::INTERVAL_MS`].
        every_ms: u64,
        /// What all schedules have.
        timing: Timing,
    },
}

/// How a schedule deals with what is late, and what runs of it get.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Timing {
    /// What becomes of occurrences that nobody was there for.
    pub misfire: Misfire,
    /// What becomes of an occurrence whose predecessor is still running.
    pub overlap: Overlap,
    /// Each occurrence is late by a part of this that is its own.
    pub jitter_ms: u64,
    /// The input of the runs: a constant. `null` unless said otherwise.
    pub input: Value,
}

/// What becomes of occurrences that nobody was there for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Misfire {
    /// Nothing.
    Skip,
    /// They happen as one, late.
    #[default]
    FireOnce,
    /// The latest ones happen one after another, at most so many.
    CatchUp(u32),
}

/// What becomes of an occurrence whose predecessor is still running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// Both run.
    Allow,
    /// Nothing.
    #[default]
    Skip,
    /// It happens once the other has ended. At most one waits.
    Queue,
    /// The other is cancelled.
    CancelPrevious,
}
