//! From one state to the next.

use windlass_model::{Failure, Payload, RunNo, Seq, Status};

use crate::expr::Values;
use crate::graph::{Graph, NodeIx};
use crate::state::{Open, State};

/// Something that happened to a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An execution ended well.
    Done {
        /// Its trigger.
        seq: Seq,
        /// Its record.
        run: RunNo,
        /// The ports taken; none means `done`.
        ports: Vec<String>,
        /// Set if the node ends its branch: whether it ends the whole run.
        end: Option<bool>,
    },
    /// An execution failed.
    Failed {
        /// Its trigger.
        seq: Seq,
        /// Its record.
        run: RunNo,
        /// Why.
        failure: Failure,
    },
    /// A node asked to be called again.
    Again {
        /// Its trigger.
        seq: Seq,
        /// Its record.
        run: RunNo,
        /// How long from now.
        after_ms: u64,
        /// What it left for itself.
        left: Option<Payload>,
    },
    /// A node waits for an instant. The trigger that follows is of type `timer`; when it is
    /// due the wait is over, and `Done` says so.
    Wait {
        /// Its trigger.
        seq: Seq,
        /// Its record.
        run: RunNo,
        /// Epoch milliseconds.
        until_ms: i64,
    },
    /// A trigger is put off without an execution.
    Later {
        /// Which.
        seq: Seq,
        /// Epoch milliseconds.
        until_ms: i64,
    },
    /// The run has taken too long.
    TimedOut {
        /// The trigger that says so.
        seq: Seq,
    },
    /// Somebody cancels the run.
    Cancel,
}

/// What follows.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Execute this as soon as possible.
    Run(Open),
    /// Execute this when it is due: [`Open::due_ms`] is set.
    Schedule(Open),
    /// Report [`Event::TimedOut`] when this is due.
    Timeout {
        /// Its sequence number.
        seq: Seq,
        /// Epoch milliseconds.
        due_ms: i64,
    },
    /// This open run is not wanted any more: stop it if it runs, and record it as cancelled.
    Cancel(Open),
    /// This node is skipped.
    Skip(NodeIx),
    /// The execution that was reported as done has failed all the same, since a condition of
    /// an edge could not be evaluated: record it so.
    Refuted {
        /// Its trigger.
        seq: Seq,
        /// Why.
        failure: Failure,
    },
    /// A failure that is not tried again.
    Incident {
        /// The trigger whose execution failed.
        seq: Seq,
        /// Its node.
        node: NodeIx,
        /// Why.
        failure: Failure,
    },
    /// The run has ended. Always the last command.
    Finish {
        /// How.
        status: Status,
        /// Why, if it is faulted.
        failure: Option<Failure>,
        /// The run record whose output is the run's; otherwise the workflow's `output` is
        /// rendered, if the run completed.
        output: Option<RunNo>,
    },
}

/// What a step may look at besides the state.
#[derive(Clone, Copy, Debug)]
pub struct Cx<'a> {
    /// The wall clock, in epoch milliseconds.
    pub now_ms: i64,
    /// Any number: it spreads retries out.
    pub random: u64,
    /// What the conditions of the node's outbound edges need; see [`crate::Plan::needs`].
    pub values: &'a Values,
    /// Executions that one run may have; [`MAX_STEPS`] unless configured.
    pub max_steps: u64,
}

/// Executions that one run may have unless configured otherwise.
pub const MAX_STEPS: u64 = 1_000_000;

/// What the event is about is not open any more: nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the trigger is not open any more")]
pub struct Stale;

/// What becomes of a failure.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The node is tried again at this moment, in epoch milliseconds.
    Retry {
        /// Epoch milliseconds.
        due_ms: i64,
    },
    /// The node counts as done, with the output `null`.
    Continue(Failure),
    /// The port `error` is taken, with this failure as the output.
    Route(Failure),
    /// The node has failed.
    Fail(Failure),
}
