//! What the conditions of a node decide when an execution ends, before anything changes.

use windlass_model::definition::ERROR;
use windlass_model::{Failure, TriggerType};

use super::edges::choose;
use super::failing::{out_of_time, policy, verdict};
use super::step::Step;
use super::waits::{late, next_round};
use super::{Cx, Event, Verdict};
use crate::expr::Values;
use crate::graph::Graph;
use crate::state::{Open, Round};

/// What the conditions of a node decide about the end of an execution: see [`judge`].
#[derive(Debug, Default)]
pub struct Judged(pub(super) Option<Judgement>);

#[derive(Debug)]
pub(super) struct Judgement {
    /// The failure that replaces the outcome.
    pub(super) refuted: Option<Failure>,
    pub(super) way: Way,
}

#[derive(Debug)]
pub(super) enum Way {
    /// The node is executed again.
    Repeat(Round),
    /// It is done. Says of each outbound edge whether it is taken.
    Done(Vec<bool>),
    /// It is tried again at this time, in epoch milliseconds.
    Retry { due_ms: i64 },
    /// It has failed, and counts as done.
    Handled(Failure, Vec<bool>),
    /// It has failed.
    Failed(Failure),
}

/// An evaluation was interrupted ([`crate::expr::Interrupt`]): nothing is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the evaluation was interrupted")]
pub struct Interrupted;

/// Evaluates the conditions that decide about the end of an execution: those of the edges, and
/// `until`, and for a failure that only this event finds, those of `retry` and `on-error`. `open` is
/// the execution.
///
/// # Errors
///
/// An evaluation was interrupted.
pub fn judge(
    graph: &Graph,
    open: &Open,
    event: &Event,
    cx: &Cx<'_>,
) -> Result<Judged, Interrupted> {
    let judgement = match event {
        Event::Done { ports, end, .. } => Some(Judgement::done(graph, open, ports, *end, cx)),
        Event::Failed { verdict, .. } => {
            let way = Way::of(graph, open, verdict.clone(), cx.values);
            Some(Judgement { refuted: None, way })
        }
        Event::Again { after_ms, .. } => {
            let due_ms = (*after_ms > 0).then(|| super::after(cx.now_ms, *after_ms));
            late(open, due_ms).then(|| Judgement::late(graph, open, cx))
        }
        Event::Wait { until_ms, .. } => {
            late(open, Some(*until_ms)).then(|| Judgement::late(graph, open, cx))
        }
        _ => None,
    };
    let was_interrupted = |values: &Values| values.was_interrupted();
    if was_interrupted(cx.values) || cx.failing.is_ok_and(was_interrupted) {
        return Err(Interrupted);
    }
    Ok(Judged(judgement))
}

impl Judgement {
    fn done(graph: &Graph, open: &Open, ports: &[String], end: Option<bool>, cx: &Cx<'_>) -> Self {
        let again = match end {
            Some(_) => Ok(None),
            None => next_round(graph, open, cx),
        };
        let failure = match again {
            Ok(Some(round)) if late(open, round.due_ms(cx.now_ms)) => {
                return Self::late(graph, open, cx);
            }
            Ok(Some(round)) => return Self::so(Way::Repeat(round)),
            Ok(None) => match choose(graph, open.node, ports, cx.values) {
                Ok(taken) => return Self::so(Way::Done(taken)),
                Err(failure) => failure,
            },
            Err(failure) => failure,
        };
        let verdict = verdict(graph, open, &failure, cx.now_ms, cx.random, cx.failing);
        Self {
            refuted: Some(failure),
            way: Way::of(graph, open, verdict, cx.values),
        }
    }

    /// The time of the node run leaves none for the next call.
    fn late(graph: &Graph, open: &Open, cx: &Cx<'_>) -> Self {
        let failure = out_of_time(None);
        let verdict = match graph.node(open.node) {
            Some(plan) => policy(plan, failure.clone(), cx.failing),
            None => Verdict::Fail(failure.clone()),
        };
        Self {
            refuted: Some(failure),
            way: Way::of(graph, open, verdict, cx.values),
        }
    }

    fn so(way: Way) -> Self {
        Self { refuted: None, way }
    }
}

impl Way {
    fn of(graph: &Graph, open: &Open, verdict: Verdict, values: &Values) -> Self {
        let error = [ERROR.to_owned()];
        let (failure, ports): (_, &[String]) = match verdict {
            Verdict::Retry { due_ms } => return Self::Retry { due_ms },
            Verdict::Fail(failure) => return Self::Failed(failure),
            Verdict::Continue(failure) => (failure, &[]),
            Verdict::Route(failure) => (failure, &error),
        };
        // If the conditions of the policy's edges cannot be evaluated, the node fails.
        match choose(graph, open.node, ports, values) {
            Ok(taken) => Self::Handled(failure, taken),
            Err(failure) => Self::Failed(failure),
        }
    }
}

impl Judged {
    /// Whether the execution fails although its node did not.
    pub fn refutes(&self) -> bool {
        let refuted = self.0.as_ref().map(|judgement| &judgement.refuted);
        refuted.is_some_and(Option::is_some)
    }

    /// The decision about the outcome, unless the node just waits.
    pub(super) fn outcome(self) -> Option<Judgement> {
        self.0
    }
}

impl Step<'_> {
    /// Carries out the decision about an execution.
    pub(super) fn carry_out(
        &mut self,
        open: Open,
        run: windlass_model::ExecutionNo,
        judgement: Judgement,
        end: Option<bool>,
    ) {
        if let Some(failure) = judgement.refuted {
            let seq = open.seq;
            self.commands.push(super::Command::Refuted { seq, failure });
        }
        match judgement.way {
            Way::Repeat(round) => self.repeat(open, run, round),
            Way::Done(taken) => self.complete(&open, run, &taken, end),
            Way::Retry { due_ms } => self.reopen(Open {
                kind: TriggerType::Retry,
                attempt: open.attempt.saturating_add(1),
                due_ms: Some(due_ms),
                give_up_wait_ms: None,
                expires_ms: None,
                waiting: false,
                ..open
            }),
            Way::Handled(failure, taken) => {
                self.incident(open.seq, open.node, failure);
                self.complete(&open, run, &taken, None);
            }
            Way::Failed(failure) => self.fail(&open, failure),
        }
    }
}
