//! Lets a program watch runs as they go: for a progress display, and for metrics.

use windlass_model::{ExecutionStatus, Failure, InstanceId, Status, TriggerType};

/// Is told what happens, from the runtime's threads: it must return at once.
pub trait Observer: Send + Sync + 'static {
    /// Something happened.
    fn observe(&self, event: &Observed<'_>);
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Observed<'a> {
    /// A node is handed to its plugin.
    Started {
        /// The run.
        instance: InstanceId,
        /// The node.
        node: &'a str,
        /// From 1.
        attempt: u32,
    },
    /// An execution has ended; its commit is on its way.
    Executed {
        /// The run.
        instance: InstanceId,
        /// The node.
        node: &'a str,
        /// What triggered it.
        kind: TriggerType,
        /// From 1.
        attempt: u32,
        /// How it ended.
        status: ExecutionStatus,
        /// Why it failed.
        failure: Option<&'a Failure>,
        /// Nodes that will not run because of what came out.
        skipped: &'a [&'a str],
        /// How long it took, in microseconds.
        took_us: u64,
    },
    /// A run has ended, durably.
    Ended {
        /// The run.
        instance: InstanceId,
        /// How.
        status: Status,
    },
}
