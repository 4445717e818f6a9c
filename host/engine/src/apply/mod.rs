//! From one state to the next.

mod edges;
mod failing;
mod joins;
mod loops;
mod step;

use windlass_model::{Failure, Payload, RunNo, Seq, Status};

use crate::expr::Values;
use crate::graph::{Graph, NodeIx};
use crate::state::{Open, State};

pub use failing::verdict;
use step::Step;

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
    /// The execution has failed although it was reported otherwise: a condition of an edge
    /// could not be evaluated, or the node wants to wait for longer than it may. Record it so.
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

/// The state of a new run, with an open run of type `start` for each entry.
///
/// Nodes that nothing leads to and that are no entries either are skipped, so that no join
/// waits for them.
pub fn begin(graph: &Graph, now_ms: i64) -> (State, Vec<Command>) {
    let mut state = State {
        deadline_ms: graph.options().timeout_ms.map(|ms| after(now_ms, ms)),
        ..State::default()
    };
    let mut step = Step::new(graph, &mut state, now_ms);
    step.begin();
    let commands = step.commands;
    (state, commands)
}

/// Takes a run from one state to the next.
///
/// All of [`State::open`] has to be there. Doing it again from the same state with the same
/// event and context gives the same state and the same commands.
///
/// # Errors
///
/// What the event is about is not open: the state is as before.
pub fn apply(
    graph: &Graph,
    state: &mut State,
    event: Event,
    cx: &Cx<'_>,
) -> Result<Vec<Command>, Stale> {
    if state.status.is_final() {
        return Err(Stale);
    }
    let mut step = Step::new(graph, state, cx.now_ms);
    match event {
        Event::Done {
            seq,
            run,
            ports,
            end,
        } => {
            let open = step.executed(seq)?;
            step.done(open, run, &ports, end, cx);
        }
        Event::Failed { seq, run, failure } => {
            let open = step.executed(seq)?;
            step.failed(open, run, failure, cx);
        }
        Event::Again {
            seq,
            run,
            after_ms,
            left,
        } => {
            let open = step.executed(seq)?;
            step.again(open, run, after_ms, left, cx);
        }
        Event::Wait { seq, run, until_ms } => {
            let open = step.executed(seq)?;
            step.wait(open, run, until_ms, cx);
        }
        Event::Later { seq, until_ms } => {
            let open = step.take(seq)?;
            step.later(open, until_ms);
        }
        Event::TimedOut { seq } => {
            if step.state.timeout != Some(seq) {
                return Err(Stale);
            }
            step.end(Status::Faulted, Some(failing::timed_out()));
        }
        Event::Cancel => step.end(Status::Cancelled, None),
    }
    Ok(step.conclude(cx.max_steps))
}

/// Turns a completed run into a faulted one, because its output could not be made. The command
/// takes the place of the [`Command::Finish`] that said so.
pub fn fail_output(state: &mut State, failure: Failure) -> Command {
    state.status = Status::Faulted;
    state.output = None;
    Command::Finish {
        status: Status::Faulted,
        failure: Some(failure),
        output: None,
    }
}

/// A moment so long after another, or the end of time.
pub(crate) fn after(now_ms: i64, ms: u64) -> i64 {
    now_ms.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))
}
