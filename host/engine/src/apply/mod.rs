//! From one state to the next.

mod edges;
mod ending;
mod failing;
mod joins;
mod lists;
mod loops;
mod mutexes;
mod race_losers;
mod reopen;
mod step;
mod waits;

use windlass_model::{ExecutionNo, Failure, Payload, ScopeNo, Seq, Status, TriggerType};

use crate::expr::Values;
use crate::graph::{BodyIx, Graph, NodeIx};
use crate::state::{Open, RunState};

pub use failing::{verdict, waited_too_long};
pub use reopen::{Closed, Reopening, reopen};
use step::Step;

/// Something that happened to a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An execution ended well.
    Done {
        /// Its trigger.
        seq: Seq,
        /// Its record.
        run: ExecutionNo,
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
        run: ExecutionNo,
        /// Why.
        failure: Failure,
    },
    /// A node asked to be called again.
    Again {
        /// Its trigger.
        seq: Seq,
        /// Its record.
        run: ExecutionNo,
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
        run: ExecutionNo,
        /// Epoch milliseconds.
        until_ms: i64,
    },
    /// A node waits for one of its bookmarks. The trigger that follows is of type `resume` and
    /// is due when the wait is over: [`Open::expires_ms`] and [`Open::give_up_wait_ms`] say
    /// what has run out then.
    Suspended {
        /// Its trigger.
        seq: Seq,
        /// Its record.
        run: ExecutionNo,
        /// When the first of its bookmarks expires, in epoch milliseconds.
        until_ms: Option<i64>,
        /// What it left for itself.
        left: Option<Payload>,
    },
    /// A node waits for a sub-workflow. The trigger that follows is of type `child`.
    Child {
        /// Its trigger.
        seq: Seq,
        /// Its record.
        run: ExecutionNo,
    },
    /// A for-each has made its list, which is the output of this execution.
    Listed {
        /// Its trigger.
        seq: Seq,
        /// Its record.
        run: ExecutionNo,
        /// How many items there are.
        count: u32,
    },
    /// What one item of a for-each came to has been made, as [`Command::Emit`] asks.
    Emitted {
        /// The scope of the item.
        scope: ScopeNo,
        /// Why it could not be made.
        result: Result<(), Failure>,
    },
    /// Somebody cancels one node.
    CancelNode {
        /// Its trigger: the open one, or the first of the node run.
        seq: Seq,
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
    /// Somebody stops the run for a while. What goes on meanwhile may still end it.
    Pause,
    /// Somebody lets a paused run go on.
    Unpause,
    /// Nothing that follows from an execution can be kept: the run is faulted. What undoes other
    /// nodes goes no further.
    Broken {
        /// Why.
        failure: Failure,
    },
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
    /// Work on an item of a for-each begins, in a scope of its own.
    OpenScope {
        /// The scope.
        scope: ScopeNo,
        /// The run record whose output is the list.
        list: ExecutionNo,
        /// The position of the item in it.
        index: u32,
    },
    /// Nothing of this scope is wanted any more: it is closed, and so are its variables.
    CloseScope(ScopeNo),
    /// Nothing is open any more in the scope of an item. Make what it comes to (the output of
    /// the body, rendered in that scope), keep it under this list and index, and report
    /// [`Event::Emitted`] as part of the same step.
    Emit {
        /// The scope.
        scope: ScopeNo,
        /// Names the list: see [`crate::state::Collect::list`].
        list: Seq,
        /// The position of the item.
        index: u32,
        /// The run record whose output it is, in place of the body's `output`.
        output: Option<ExecutionNo>,
    },
    /// What was kept under this list is not needed any more.
    DropList(Seq),
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
        output: Option<ExecutionNo>,
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
pub fn begin(graph: &Graph, now_ms: i64) -> (RunState, Vec<Command>) {
    let mut state = RunState {
        deadline_ms: graph.options().timeout_ms.map(|ms| after(now_ms, ms)),
        ..RunState::default()
    };
    let mut step = Step::new(graph, &mut state, now_ms);
    step.begin(ScopeNo::ROOT, BodyIx::ROOT);
    step.settle();
    let commands = step.commands;
    (state, commands)
}

/// Takes a run from one state to the next.
///
/// All of [`RunState::open`] has to be there. Doing it again from the same state with the same
/// event and context gives the same state and the same commands.
///
/// # Errors
///
/// What the event is about is not open: the state is as before.
pub fn apply(
    graph: &Graph,
    state: &mut RunState,
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
        Event::Suspended {
            seq,
            run: _,
            until_ms,
            left,
        } => {
            let open = step.executed(seq)?;
            step.suspended(open, TriggerType::Resume, until_ms, left);
        }
        Event::Child { seq, run: _ } => {
            let open = step.executed(seq)?;
            let left = open.left.clone();
            step.suspended(open, TriggerType::Child, None, left);
        }
        Event::Listed { seq, run, count } => step.listed(seq, run, count)?,
        Event::Emitted { scope, result } => step.emitted(scope, result)?,
        Event::Later { seq, until_ms } => {
            let open = step.take(seq)?;
            step.later(open, until_ms);
        }
        Event::TimedOut { seq } => {
            if step.state.timeout != Some(seq) {
                return Err(Stale);
            }
            step.state.timeout = None;
            if step.state.undoing.is_none() {
                step.end(Status::Faulted, Some(failing::timed_out()));
            }
        }
        Event::CancelNode { seq } => {
            let (scope, seq) = step.state.find(seq).ok_or(Stale)?;
            step.cancel(scope, seq);
        }
        // What is being undone is not cancelled: that would leave it half done.
        Event::Cancel if step.state.undoing.is_some() => {}
        Event::Cancel => step.end(Status::Cancelled, None),
        Event::Pause if step.state.status == Status::Paused => return Err(Stale),
        Event::Pause => step.state.status = Status::Paused,
        Event::Unpause if step.state.status != Status::Paused => return Err(Stale),
        Event::Unpause => step.state.status = Status::Running,
        Event::Broken { failure } => step.fault(failure),
    }
    Ok(step.conclude(cx.max_steps))
}

/// Takes a completed run back, because its output could not be made: it is faulted, and what
/// can be undone is undone first. The commands take the place of the [`Command::Finish`] that
/// said otherwise.
pub fn fail_output(
    graph: &Graph,
    state: &mut RunState,
    failure: Failure,
    cx: &Cx<'_>,
) -> Vec<Command> {
    state.status = Status::Running;
    state.output = None;
    let mut step = Step::new(graph, state, cx.now_ms);
    step.end(Status::Faulted, Some(failure));
    step.conclude(cx.max_steps)
}

/// A moment so long after another, or the end of time.
pub(crate) fn after(now_ms: i64, ms: u64) -> i64 {
    now_ms.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))
}
