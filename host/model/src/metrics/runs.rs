//! The metrics of runs and of the executions of their nodes, by workflow.

use super::text::Text;
use super::{About, Family, Tally};
use crate::{ExecutionStatus, Status};

pub(super) const STARTED: About = About {
    name: "windlass_runs_started_total",
    kind: "counter",
    labels: &["workflow"],
    help: "Runs that this process began.",
};
pub(super) const FINISHED: About = About {
    name: "windlass_runs_finished_total",
    kind: "counter",
    labels: &["workflow", "outcome"],
    help: "Runs that ended in this process: `completed`, `faulted` or `cancelled`.",
};
pub(super) const RETRIED: About = About {
    name: "windlass_runs_retried_total",
    kind: "counter",
    labels: &["workflow"],
    help: "Runs that had failed or were cancelled, and that this process was asked to retry.",
};
pub(super) const SUSPENDED: About = About {
    name: "windlass_runs_suspended_total",
    kind: "counter",
    labels: &["workflow"],
    help: "How often a run left this process to wait for a timer, a bookmark or a child.",
};
pub(super) const EXECUTIONS: About = About {
    name: "windlass_executions_total",
    kind: "counter",
    labels: &["workflow", "node", "outcome"],
    help: "Executions of nodes: `completed`, `failed`, `waiting-retry` (failed, and tried again), \
        `suspended` or `cancelled`.",
};

/// What happens to a run, as far as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEvent {
    /// It begins.
    Started,
    /// It succeeds.
    Completed,
    /// It fails.
    Faulted,
    /// It is cancelled.
    Cancelled,
    /// It is retried after its end.
    Retried,
    /// It waits, and leaves the process.
    Suspended,
}

impl RunEvent {
    /// The end of a run in this status.
    pub fn of(status: Status) -> Option<Self> {
        match status {
            Status::Completed => Some(Self::Completed),
            Status::Faulted => Some(Self::Faulted),
            Status::Cancelled => Some(Self::Cancelled),
            Status::Pending | Status::Running | Status::Suspended | Status::Paused => None,
        }
    }
}

/// Writes all of them.
pub(super) fn write(runs: &Family<Tally>, executions: &Family<Tally>, text: &mut Text) {
    text.tally(&STARTED, runs, RunEvent::Started as usize);
    let ends = [Status::Completed, Status::Faulted, Status::Cancelled];
    let ends = ends.map(|status| {
        let event = RunEvent::of(status).map_or(usize::MAX, |event| event as usize);
        (event, status.name())
    });
    text.tallies(&FINISHED, runs, &ends, ends.len());
    text.tally(&RETRIED, runs, RunEvent::Retried as usize);
    text.tally(&SUSPENDED, runs, RunEvent::Suspended as usize);
    // The first two have a line from the beginning, so that the first failure is an increase.
    let outcomes = [
        ExecutionStatus::Completed,
        ExecutionStatus::Failed,
        ExecutionStatus::WaitingRetry,
        ExecutionStatus::Suspended,
        ExecutionStatus::Cancelled,
    ];
    let outcomes = outcomes.map(|status| (status as usize, status.name()));
    text.tallies(&EXECUTIONS, executions, &outcomes, 2);
}
