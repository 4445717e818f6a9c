//! Lets a program observe runs as they execute: for a progress display, and for metrics.

use windlass_model::{ExecutionStatus, Failure, RunId, Status, TriggerType};

/// Receives observations on the runtime's threads: it must return at once.
pub trait Observer: Send + Sync + 'static {
    /// Called for each observation.
    fn observe(&self, event: &Observed<'_>);
}

/// An observation.
#[derive(Clone, Debug)]
pub enum Observed<'a> {
    /// A node is passed to its plugin.
    Started {
        /// The run.
        run: RunId,
        /// The node.
        node: &'a str,
        /// The attempt, from 1.
        attempt: u32,
    },
    /// An execution has ended; its commit is on its way.
    Executed {
        /// The run.
        run: RunId,
        /// The node.
        node: &'a str,
        /// The type of its trigger.
        kind: TriggerType,
        /// The attempt, from 1.
        attempt: u32,
        /// The status of the execution.
        status: ExecutionStatus,
        /// The failure.
        failure: Option<&'a Failure>,
        /// Nodes that this result skips.
        skipped: &'a [&'a str],
        /// The duration, in microseconds.
        took_us: u64,
    },
    /// A run has ended, durably.
    Ended {
        /// The run.
        run: RunId,
        /// The final status.
        status: Status,
    },
}
