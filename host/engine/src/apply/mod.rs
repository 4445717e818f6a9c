//! Takes a run from one state to the next.

mod edges;
mod ending;
mod failing;
mod joins;
mod judging;
mod lists;
mod loops;
mod mutexes;
mod race_losers;
mod recorded;
mod recording;
mod reopen;
mod replaying;
mod step;
mod waits;

use windlass_model::{ExecutionNo, Failure, Payload, ScopeNo, Seq, Status, TriggerType, limits};

use crate::expr::Values;
use crate::graph::{BodyIx, Graph, NodeIx};
use crate::state::{Open, RunState};

pub use failing::{timed_out, verdict, waited_too_long};
pub use judging::{Interrupted, Judged, judge};
pub use recorded::{Carrier, Recorded};
pub use recording::{Altered, Recording};
pub use reopen::{Closed, Reopening, reopen};
pub use replaying::replay;
use step::Step;

/// An event of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An execution succeeded.
    Done {
        /// Its trigger.
        seq: Seq,
        /// Its execution record.
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
        /// Its execution record.
        run: ExecutionNo,
        /// The answer of [`verdict`] to the failure, at the time of this event.
        verdict: Verdict,
    },
    /// A node asked to be called again.
    Again {
        /// Its trigger.
        seq: Seq,
        /// Its execution record.
        run: ExecutionNo,
        /// The delay from now, in milliseconds.
        after_ms: u64,
        /// The node's own state for its next call.
        left: Option<Payload>,
    },
    /// A node waits for an instant. The trigger that follows has type `timer`; when that trigger is
    /// executed, the wait is over and the caller reports `Done`.
    Wait {
        /// Its trigger.
        seq: Seq,
        /// Its execution record.
        run: ExecutionNo,
        /// When the wait ends, in epoch milliseconds.
        until_ms: i64,
    },
    /// A node waits for one of its bookmarks. The trigger that follows has type `resume` and is due
    /// when the wait times out: [`Open::expires_ms`] and [`Open::give_up_wait_ms`] tell which limit
    /// has passed then.
    Suspended {
        /// Its trigger.
        seq: Seq,
        /// Its execution record.
        run: ExecutionNo,
        /// When the first of its bookmarks expires, in epoch milliseconds.
        until_ms: Option<i64>,
        /// The node's own state for its next call.
        left: Option<Payload>,
    },
    /// A node waits for a sub-workflow. The trigger that follows has type `child`.
    Child {
        /// Its trigger.
        seq: Seq,
        /// Its execution record.
        run: ExecutionNo,
    },
    /// A for-each has made its list, which is the output of this execution.
    Listed {
        /// Its trigger.
        seq: Seq,
        /// Its execution record.
        run: ExecutionNo,
        /// The number of items.
        count: u32,
    },
    /// The output of one item of a for-each is rendered, as [`Command::Emit`] asks.
    Emitted {
        /// The scope of the item.
        scope: ScopeNo,
        /// The failure if the output could not be rendered.
        result: Result<(), Failure>,
    },
    /// A user cancels one node.
    CancelNode {
        /// The node's open trigger, or the first trigger of its node run.
        seq: Seq,
    },
    /// A trigger is postponed without an execution.
    Later {
        /// The trigger.
        seq: Seq,
        /// The new due time, in epoch milliseconds.
        until_ms: i64,
    },
    /// The `timeout` of the run has passed.
    TimedOut {
        /// The timeout trigger.
        seq: Seq,
    },
    /// A user cancels the run.
    Cancel,
    /// A user pauses the run. Executions in progress continue, and may end the run.
    Pause,
    /// A user continues a paused run.
    Unpause,
    /// The results of an execution cannot be stored: the run is faulted. While nodes are being
    /// undone, the remaining compensations are dropped.
    Broken {
        /// The failure.
        failure: Failure,
    },
}

/// An action that the caller carries out after a step.
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
        /// The due time, in epoch milliseconds.
        due_ms: i64,
    },
    /// Cancel this open execution: stop it if it runs, and record it as cancelled.
    Cancel(Open),
    /// Open a scope for an item of a for-each.
    OpenScope {
        /// The scope.
        scope: ScopeNo,
        /// The execution record whose output is the list.
        list: ExecutionNo,
        /// The position of the item in the list.
        index: u32,
    },
    /// Close this scope and delete its variables.
    CloseScope(ScopeNo),
    /// Nothing is open any more in the scope of an item. Render the output of the body in that
    /// scope, store it under this list and index, and report [`Event::Emitted`] in the same step.
    Emit {
        /// The scope.
        scope: ScopeNo,
        /// The list: see [`crate::state::Collect::list`].
        list: Seq,
        /// The position of the item.
        index: u32,
        /// The execution record whose output is the item's, in place of the body's `output`.
        output: Option<ExecutionNo>,
    },
    /// Delete the item outputs stored under this list.
    DropList(Seq),
    /// Record this node as skipped.
    Skip(NodeIx),
    /// Record the execution as failed although it was reported otherwise: a condition of an edge
    /// could not be evaluated, or the wait that the node asked for exceeds its limit.
    Refuted {
        /// Its trigger.
        seq: Seq,
        /// The failure.
        failure: Failure,
    },
    /// Record a failure that is not tried again.
    Incident {
        /// The trigger whose execution failed.
        seq: Seq,
        /// Its node.
        node: NodeIx,
        /// The failure.
        failure: Failure,
    },
    /// End the run. Always the last command.
    Finish {
        /// The final status.
        status: Status,
        /// The failure of a faulted run.
        failure: Option<Failure>,
        /// The execution record whose output is the run's. Otherwise the caller renders the
        /// workflow's `output`, if the run completed.
        output: Option<ExecutionNo>,
    },
}

/// The inputs of a step besides the state.
#[derive(Clone, Copy, Debug)]
pub struct Cx<'a> {
    /// The wall clock, in epoch milliseconds.
    pub now_ms: i64,
    /// A random number: it spreads retries over time.
    pub random: u64,
    /// The values that the conditions of the node's outbound edges need; see
    /// [`crate::Plan::needs`].
    pub values: &'a Values,
    /// The values that the conditions about a failure of the node need, for a failure that only
    /// this step finds.
    pub failing: Failing<'a>,
    /// The limit of executions of one run; [`MAX_STEPS`] unless configured.
    pub max_steps: u64,
}

/// The values that the conditions of `retry` and `on-error` need, see [`crate::Plan::failing`], or
/// why they cannot be read. They are those from before the execution.
pub type Failing<'a> = Result<&'a Values, &'a Failure>;

/// The default limit of executions of one run.
pub const MAX_STEPS: u64 = 1_000_000;

/// The trigger or scope of the event is no longer open. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the trigger is not open any more")]
pub struct Stale;

/// How a failure is treated.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The node is tried again at `due_ms`.
    Retry {
        /// When, in epoch milliseconds.
        due_ms: i64,
    },
    /// The node counts as done, with the output `null`.
    Continue(Failure),
    /// The port `error` is taken, with this failure as the output.
    Route(Failure),
    /// The node has failed.
    Fail(Failure),
}

/// The state of a new run, with an open execution of type `start` for each entry.
///
/// Nodes without inbound edges that are no entries are skipped, so that no join waits for them.
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
/// All of [`RunState::open`] has to be restored. The same state, event and context always give the
/// same new state and the same commands. No evaluation may be interrupted: see [`judge`].
///
/// # Errors
///
/// The trigger or scope of the event is not open: the state is unchanged.
pub fn apply(
    graph: &Graph,
    state: &mut RunState,
    event: Event,
    cx: &Cx<'_>,
) -> Result<Vec<Command>, Stale> {
    let open = event.execution().and_then(|seq| state.run_of(seq));
    let judged = open.map(|open| judge(graph, open, &event, cx).unwrap_or_default());
    let judged = judged.unwrap_or_default();
    apply_judged(graph, state, event, judged, (cx.now_ms, cx.max_steps))
}

/// Takes a run from one state to the next, as [`apply`] does, with the decision of [`judge`] about
/// the same state, event and time. It evaluates nothing.
///
/// # Errors
///
/// The trigger or scope of the event is not open: the state is unchanged.
pub fn apply_judged(
    graph: &Graph,
    state: &mut RunState,
    event: Event,
    judged: Judged,
    (now_ms, max_steps): (i64, u64),
) -> Result<Vec<Command>, Stale> {
    if state.status.is_final() {
        return Err(Stale);
    }
    let mut step = Step::new(graph, state, now_ms);
    let outcome = judged.outcome();
    match (event, outcome) {
        (Event::Done { seq, run, end, .. }, Some(outcome)) => {
            let open = step.executed(seq)?;
            step.carry_out(open, run, outcome, end);
        }
        (
            Event::Failed { seq, run, .. }
            | Event::Again { seq, run, .. }
            | Event::Wait { seq, run, .. },
            Some(outcome),
        ) => {
            let open = step.executed(seq)?;
            step.carry_out(open, run, outcome, None);
        }
        // Without an execution there is no decision.
        (Event::Done { .. } | Event::Failed { .. }, None) => return Err(Stale),
        (
            Event::Again {
                seq,
                after_ms,
                left,
                ..
            },
            None,
        ) => {
            let open = step.executed(seq)?;
            step.again(open, after_ms, left);
        }
        (Event::Wait { seq, until_ms, .. }, None) => {
            let open = step.executed(seq)?;
            step.wait(open, until_ms);
        }
        (event, _) => step.undecided(event, max_steps)?,
    }
    Ok(step.conclude(max_steps))
}

impl Event {
    /// The execution whose conditions decide about the event, if there are any.
    pub fn execution(&self) -> Option<Seq> {
        match self {
            Self::Done { seq, .. }
            | Self::Failed { seq, .. }
            | Self::Again { seq, .. }
            | Self::Wait { seq, .. } => Some(*seq),
            _ => None,
        }
    }
}

impl Step<'_> {
    /// Takes up an event about which no condition decides.
    fn undecided(&mut self, event: Event, max_steps: u64) -> Result<(), Stale> {
        match event {
            // Their conditions have decided.
            Event::Done { .. }
            | Event::Failed { .. }
            | Event::Again { .. }
            | Event::Wait { .. } => {}
            Event::Suspended {
                seq,
                run: _,
                until_ms,
                left,
            } => {
                let open = self.executed(seq)?;
                self.suspended(open, TriggerType::Resume, until_ms, left);
            }
            Event::Child { seq, run: _ } => {
                let open = self.executed(seq)?;
                let left = open.left.clone();
                self.suspended(open, TriggerType::Child, None, left);
            }
            Event::Listed { seq, run, count } => self.listed(seq, run, count, max_steps)?,
            Event::Emitted { scope, result } => self.emitted(scope, result)?,
            Event::Later { seq, until_ms } => {
                let open = self.take(seq)?;
                self.later(open, until_ms);
            }
            Event::TimedOut { seq } => {
                if self.state.timeout != Some(seq) {
                    return Err(Stale);
                }
                self.state.timeout = None;
                if self.state.undoing.is_none() {
                    self.end(Status::Faulted, Some(failing::timed_out()));
                }
            }
            Event::CancelNode { seq } => {
                let (scope, seq) = self.state.find(seq).ok_or(Stale)?;
                self.cancel(scope, seq);
            }
            // Compensations are not cancelled: the run would stay half undone.
            Event::Cancel if self.state.undoing.is_some() => {}
            Event::Cancel => self.end(Status::Cancelled, None),
            Event::Pause if self.state.status == Status::Paused => return Err(Stale),
            Event::Pause => self.state.status = Status::Paused,
            Event::Unpause if self.state.status != Status::Paused => return Err(Stale),
            Event::Unpause => self.state.status = Status::Running,
            Event::Broken { failure } => self.fault(failure),
        }
        Ok(())
    }
}

/// Ends a run that has completed but whose output could not be rendered: faults it, with completed
/// nodes undone first, or without a failure cancels it. The returned commands replace the
/// [`Command::Finish`] of the completion.
pub fn fail_output(
    graph: &Graph,
    state: &mut RunState,
    failure: Option<Failure>,
    (now_ms, max_steps): (i64, u64),
) -> Vec<Command> {
    state.status = Status::Running;
    state.output = None;
    let mut step = Step::new(graph, state, now_ms);
    let status = match failure {
        Some(_) => Status::Faulted,
        None => Status::Cancelled,
    };
    step.end(status, failure);
    step.conclude(max_steps)
}

/// The time `ms` milliseconds later. A delay is at most [`limits::DURATION_MS`]: a due time that no
/// clock reaches would leave a run open for ever.
pub(crate) fn after(now_ms: i64, ms: u64) -> i64 {
    now_ms.saturating_add_unsigned(ms.min(limits::DURATION_MS))
}
