//! Batches: retry, cancel or delete all runs that match a filter.
//!
//! A batch is a row of the store with its operation, its filter and its progress. Of the processes on
//! the store, one at a time carries it out: it looks at the runs from the newest to the oldest, a
//! page at a time, and writes the place where it goes on after each page. If it dies in a page, the
//! next process repeats that page: the operations are refused or change nothing where they have been
//! carried out before, and a run that failed again since the batch began is left alone.
//!
//! Bounds: a batch concerns the runs that existed when it was made. One page has at most
//! `worker::PAGE` runs, and a batch remembers at most [`REFUSALS`] refusals. At most
//! [`windlass_store::batches::WORKING`] batches go on.

mod asking;
#[cfg(test)]
mod tests;
mod worker;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use windlass_model::{BatchNo, RunId, RunNo, Status, Tags};
use windlass_store::Store;
use windlass_store::batches::BatchRow;
use windlass_store::read::{RunPlace, RunQuery};

use super::altering::WithVersion;
use crate::codes;
use crate::error::Error;

pub use asking::Preview;
pub(crate) use worker::start;

/// The version of the stored forms.
const VERSION: u32 = 1;

/// The most refusals that a batch remembers.
pub const REFUSALS: usize = 10;

/// The most bytes of the message of a remembered refusal.
const MESSAGE_BYTES: usize = 500;

/// What a batch does with each run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// Retries runs that faulted or were cancelled.
    Retry {
        /// The node to run, as in [`Retry::from`](super::Retry::from).
        from: Option<String>,
        /// The version with which the runs continue.
        definition: Option<Version>,
    },
    /// Cancels runs that have not ended.
    Cancel,
    /// Deletes runs that have ended.
    Delete,
}

/// The stored form of a [`WithVersion`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Version {
    /// The published one.
    Latest,
    /// This one.
    Number(u32),
}

impl From<Version> for WithVersion {
    fn from(version: Version) -> Self {
        match version {
            Version::Latest => Self::Latest,
            Version::Number(number) => Self::Number(number),
        }
    }
}

impl From<WithVersion> for Version {
    fn from(version: WithVersion) -> Self {
        match version {
            WithVersion::Latest => Self::Latest,
            WithVersion::Number(number) => Self::Number(number),
        }
    }
}

impl Action {
    /// Its name in the API and on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Retry { .. } => "retry",
            Self::Cancel => "cancel",
            Self::Delete => "delete",
        }
    }

    /// The statuses of the runs that it concerns.
    fn statuses(&self) -> Vec<Status> {
        let concerns = |status: &Status| match self {
            Self::Retry { .. } => matches!(status, Status::Faulted | Status::Cancelled),
            Self::Cancel => !status.is_final(),
            Self::Delete => status.is_final(),
        };
        Status::ALL.into_iter().filter(concerns).collect()
    }
}

/// Which runs a batch concerns: those that match all members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// By name: in one of these statuses. Empty: in all that the operation concerns.
    pub statuses: Vec<String>,
    /// Of this workflow.
    pub workflow: Option<String>,
    /// Created at this time or later, in epoch milliseconds.
    pub since_ms: Option<i64>,
    /// Created before this time, in epoch milliseconds.
    pub until_ms: Option<i64>,
    /// With this correlation.
    pub correlation: Option<String>,
    /// With a failure of this code.
    pub failure: Option<String>,
    /// Called by this run.
    pub parent: Option<RunId>,
    /// With all these tags.
    pub tags: Tags,
}

/// What a batch is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct What {
    v: u32,
    /// The operation.
    pub action: Action,
    /// The runs.
    pub runs: Selection,
}

/// How a batch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// It goes on.
    Working,
    /// It was asked to stop, and ends with the current page.
    Stopping,
    /// It was stopped before it had looked at all runs.
    Stopped,
    /// It has looked at all runs.
    Done,
    /// It cannot go on.
    Failed,
}

impl Standing {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Working,
        Self::Stopping,
        Self::Stopped,
        Self::Done,
        Self::Failed,
    ];

    /// Its name in the API and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    fn is_over(self) -> bool {
        !matches!(self, Self::Working | Self::Stopping)
    }
}

/// Why an operation was refused for a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// The run.
    pub run: RunId,
    /// The page that explains it.
    pub code: String,
    /// In one sentence.
    pub message: String,
}

/// How far a batch is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    v: u32,
    /// How it stands.
    pub standing: Standing,
    /// The place before which it goes on: creation in epoch milliseconds, and number of the run.
    before: Option<(i64, RunNo)>,
    /// For how many runs the operation was carried out, or its request is stored.
    pub done: u64,
    /// For how many runs it was refused.
    pub refused: u64,
    /// The first of them, at most [`REFUSALS`].
    pub refusals: Vec<Refusal>,
    /// Why it failed.
    pub error: Option<String>,
}

impl Progress {
    fn new() -> Self {
        Self {
            v: VERSION,
            standing: Standing::Working,
            before: None,
            done: 0,
            refused: 0,
            refusals: Vec::new(),
            error: None,
        }
    }

    /// The time down to which the runs were looked at, in epoch milliseconds; none: no page is done.
    pub fn searched_to_ms(&self) -> Option<i64> {
        self.before.map(|(created_ms, _)| created_ms)
    }

    fn refuse(&mut self, run: RunId, error: &Error) {
        self.refused += 1;
        if self.refusals.len() >= REFUSALS {
            return;
        }
        let mut message = error.to_string();
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES));
        self.refusals.push(Refusal {
            run,
            code: error.code().to_string(),
            message,
        });
    }

    fn encode(&self) -> Result<Bytes, Error> {
        encode(self)
    }
}

/// A batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its number.
    pub no: BatchNo,
    /// What it does.
    pub what: What,
    /// How far it is.
    pub progress: Progress,
    /// Epoch milliseconds.
    pub created_ms: i64,
    /// Epoch milliseconds.
    pub ended_ms: Option<i64>,
}

impl TryFrom<&BatchRow> for Batch {
    type Error = Error;

    fn try_from(row: &BatchRow) -> Result<Self, Error> {
        let unreadable = |error: serde_json::Error| {
            Error::Unreadable(format!("batch {} cannot be read: {error}", row.no))
        };
        let what: What = serde_json::from_slice(&row.what).map_err(unreadable)?;
        let progress: Progress = serde_json::from_slice(&row.progress).map_err(unreadable)?;
        if (what.v, progress.v) != (VERSION, VERSION) {
            let message = format!("batch {} was written by a newer Windlass", row.no);
            return Err(Error::Unreadable(message));
        }
        Ok(Self {
            no: row.no,
            what,
            progress,
            created_ms: row.created_ms,
            ended_ms: row.ended_ms,
        })
    }
}

impl What {
    /// An operation on the runs of a selection.
    ///
    /// # Errors
    ///
    /// The selection has no condition, or one that no run of the operation meets.
    pub fn new(action: Action, runs: Selection) -> Result<Self, Error> {
        let refused = |message: String, help: &str| Error::Refused {
            code: codes::BAD_BATCH,
            message,
            help: Some(help.to_owned()),
        };
        if runs == Selection::default() {
            return Err(refused(
                format!("a batch that would {} all runs is refused", action.name()),
                "give a condition, like `workflow=NAME` or `since=2h`",
            ));
        }
        let allowed = action.statuses();
        for name in &runs.statuses {
            if !allowed.iter().any(|status| status.name() == name) {
                let names: Vec<_> = allowed.iter().map(|status| status.name()).collect();
                let (action, names) = (action.name(), names.join(", "));
                return Err(refused(
                    format!("a batch that would {action} runs concerns none in status `{name}`"),
                    &format!("it concerns runs that are {names}"),
                ));
            }
        }
        Ok(Self {
            v: VERSION,
            action,
            runs,
        })
    }

    /// The query for its runs. `made_ms`: when the batch was made, in epoch milliseconds.
    fn query(&self, store: &dyn Store, made_ms: i64) -> Result<RunQuery, Error> {
        let runs = &self.runs;
        let parent = match runs.parent {
            None => None,
            Some(id) => {
                let row = store.run(id)?;
                Some(row.ok_or_else(|| Error::NotFound(id.to_string()))?.no)
            }
        };
        let wanted = |status: &Status| {
            runs.statuses.is_empty() || runs.statuses.iter().any(|name| name == status.name())
        };
        let until_ms = made_ms.saturating_add(1);
        Ok(RunQuery {
            statuses: self.action.statuses().into_iter().filter(wanted).collect(),
            workflow: runs.workflow.clone(),
            since_ms: runs.since_ms,
            until_ms: Some(runs.until_ms.map_or(until_ms, |of| of.min(until_ms))),
            correlation: runs.correlation.clone(),
            failure: runs.failure.clone(),
            parent,
            tags: runs.tags.clone(),
            ..RunQuery::default()
        })
    }

    fn encode(&self) -> Result<Bytes, Error> {
        encode(self)
    }
}

fn encode(value: &impl Serialize) -> Result<Bytes, Error> {
    let bytes = serde_json::to_vec(value);
    let bytes = bytes.map_err(|error| Error::Unreadable(format!("a batch: {error}")))?;
    Ok(bytes.into())
}

fn place((created_ms, no): (i64, RunNo)) -> RunPlace {
    RunPlace { created_ms, no }
}
