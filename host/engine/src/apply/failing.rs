//! How a failure of an execution affects its node and its run.

use windlass_model::definition::{Backoff, ErrorEffect, Incidents, Retry};
use windlass_model::{Class, Failure, ScopeNo, Seq, Status};

use super::step::Step;
use super::{Command, Failing, Verdict, after};
use crate::codes;
use crate::expr::{Condition, Values};
use crate::graph::{Graph, NodeIx, Plan};
use crate::state::Open;

/// How a failed execution is treated: [`super::Event::Failed`] brings the answer. The caller asks
/// before it collects the values for that event, because the output of the node is `null` for
/// `Continue`, and the failure for `Route`.
///
/// A condition that cannot be evaluated decides for the author: the failure is not tried again, or
/// the node fails. The message of the failure names the condition.
pub fn verdict(
    graph: &Graph,
    open: &Open,
    failure: &Failure,
    now_ms: i64,
    random: u64,
    values: Failing<'_>,
) -> Verdict {
    let Some(plan) = graph.node(open.node) else {
        return Verdict::Fail(failure.clone());
    };
    let retry = plan.retry.as_ref().filter(|retry| {
        open.attempt < retry.max_attempts && retry.classes.contains(&failure.class)
    });
    let Some(retry) = retry else {
        return policy(plan, failure.clone(), values);
    };
    let when = plan.retry_when.as_ref();
    match when.map(|when| test(when, &seen(failure, values))) {
        None | Some(Ok(true)) => {}
        Some(Ok(false)) => return policy(plan, failure.clone(), values),
        Some(Err(error)) => {
            // The rules see the failure as it is; the note is for people.
            let verdict = policy(plan, failure.clone(), values);
            return verdict.noting("the condition of its `retry`", &error);
        }
    }
    let due_ms = after(now_ms, delay_ms(retry, open.attempt, failure, random));
    match open.give_up_ms {
        Some(give_up_ms) if due_ms >= give_up_ms => {
            policy(plan, out_of_time(Some(failure)), values)
        }
        _ => Verdict::Retry { due_ms },
    }
}

/// How the node's `on-error` treats a failure that is not tried again.
pub(super) fn policy(plan: &Plan, failure: Failure, values: Failing<'_>) -> Verdict {
    let mut known = None;
    for (at, rule) in plan.on_error.iter().enumerate() {
        let fits = rule.when.as_ref().map(|when| {
            let known = known.get_or_insert_with(|| seen(&failure, values));
            test(when, known)
        });
        match fits {
            Some(Ok(false)) => continue,
            None | Some(Ok(true)) => {}
            Some(Err(error)) => {
                let what = format!("the condition of rule {} of its `on-error`", at + 1);
                return Verdict::Fail(failure).noting(&what, &error);
            }
        }
        return match rule.effect {
            ErrorEffect::Fail => Verdict::Fail(failure),
            ErrorEffect::Continue => Verdict::Continue(failure),
            ErrorEffect::Route => Verdict::Route(failure),
        };
    }
    Verdict::Fail(failure)
}

/// The values that conditions about a failure see, or why there are none.
fn seen(failure: &Failure, values: Failing<'_>) -> Result<Values, String> {
    let mut values = values.map_err(|unread| unread.message.clone())?.clone();
    values.error(failure).map_err(|error| error.to_string())?;
    Ok(values)
}

/// Whether a condition holds, or why that cannot be said.
fn test(condition: &Condition, seen: &Result<Values, String>) -> Result<bool, String> {
    let values = seen.as_ref().map_err(String::clone)?;
    condition.test(values).map_err(|error| error.to_string())
}

impl Verdict {
    /// Notes in the failure that a condition could not be evaluated.
    fn noting(mut self, what: &str, error: &str) -> Self {
        if let Self::Continue(failure) | Self::Route(failure) | Self::Fail(failure) = &mut self {
            let message = &mut failure.message;
            message.push_str(&format!("; {what} could not be evaluated: {error}"));
        }
        self
    }
}

/// The delay before the next attempt, at most `max-delay`. Within that bound, a node that names its
/// earliest next attempt is not called sooner, even if its policy says so.
fn delay_ms(retry: &Retry, attempt: u32, failure: &Failure, random: u64) -> u64 {
    let grown = match retry.backoff {
        Backoff::Fixed => retry.delay_ms,
        Backoff::Exponential => {
            let doublings = attempt.saturating_sub(1);
            retry
                .delay_ms
                .saturating_mul(2_u64.saturating_pow(doublings))
        }
    };
    let full = grown.min(retry.max_delay_ms);
    let spread = if retry.jitter {
        let half = full / 2;
        // `full - half + 1` is at least 1, and overflows only for the largest of all delays.
        half + random % (full - half).saturating_add(1)
    } else {
        full
    };
    let asked = failure.retry_after_ms.unwrap_or_default();
    spread.max(asked.min(retry.max_delay_ms))
}

impl Step<'_> {
    pub(super) fn fail(&mut self, open: &Open, failure: Failure) {
        self.incident(open.seq, open.node, failure.clone());
        if open.scope != ScopeNo::ROOT {
            // The for-each decides whether the failure of an item is its own failure.
            return self.item_failed(open.scope, failure);
        }
        if self.state.undoing.is_some() {
            return self.fruitless(open.scope, open.node);
        }
        match self.graph.options().incidents {
            Incidents::Fault => {
                self.state.remains.open.push(open.clone());
                self.end(Status::Faulted, Some(failure));
            }
            Incidents::Continue => self.fruitless(open.scope, open.node),
        }
    }

    pub(super) fn incident(&mut self, seq: Seq, node: NodeIx, failure: Failure) {
        self.state.incidents = self.state.incidents.saturating_add(1);
        self.commands.push(Command::Incident { seq, node, failure });
    }
}

/// The failure of a node whose `total-timeout` has passed, or would pass before the next call. It
/// has the details and the origin of the last failure.
pub(super) fn out_of_time(last: Option<&Failure>) -> Failure {
    let mut message = "the node's `total-timeout` leaves no time to call it again".to_owned();
    if let Some(last) = last {
        message.push_str("; it had failed: ");
        message.push_str(&last.message);
    }
    Failure {
        details: last.and_then(|last| last.details.clone()),
        origin: last.and_then(|last| last.origin.clone()),
        ..Failure::new(Class::Deadline, codes::TOTAL_TIMEOUT, message)
    }
}

/// The failure of a node that was suspended for longer than its `wait-timeout`.
pub fn waited_too_long() -> Failure {
    let message = "no stimulus and no answer resumed the node within its `wait-timeout`";
    Failure::new(Class::Deadline, codes::WAIT_TIMEOUT, message)
}

/// The failure of a run that took longer than its `timeout`.
pub fn timed_out() -> Failure {
    let message = "the run took longer than the workflow's `timeout`";
    Failure::new(Class::Deadline, codes::TIMED_OUT, message)
}

pub(super) fn half_decided(graph: &Graph, node: NodeIx) -> Failure {
    let message = format!(
        "nothing is left to run, but node `{}` still waits for some of its edges",
        name(graph, node)
    );
    Failure::new(Class::Permanent, codes::HALF_DECIDED, message)
}

pub(super) fn too_many_steps(max_steps: u64) -> Failure {
    let message = format!("the run has executed {max_steps} nodes, which is as many as it may");
    Failure::new(Class::Limit, codes::TOO_MANY_STEPS, message)
}

/// More open executions than the run may still execute.
pub(super) fn too_many_open(steps: u64, open: usize, max_steps: u64) -> Failure {
    let message = format!(
        "the run has executed {steps} nodes, and {open} executions are open: together more than \
         the {max_steps} that it may execute"
    );
    Failure::new(Class::Limit, codes::TOO_MANY_STEPS, message)
}

/// A list with more items than the run may still execute nodes.
pub(super) fn too_long(
    graph: &Graph,
    node: NodeIx,
    count: u32,
    left: u64,
    max_steps: u64,
) -> Failure {
    let message = format!(
        "the list of node `{}` has {count} items, and the run may execute only {left} more nodes of \
         {max_steps}",
        name(graph, node)
    );
    Failure::new(Class::Limit, codes::TOO_MANY_STEPS, message)
}

pub(super) fn too_many_decisions(graph: &Graph, node: NodeIx) -> Failure {
    let message = format!(
        "node `{}` waits for one of its edges while another has been decided too often",
        name(graph, node)
    );
    Failure::new(Class::Limit, codes::TOO_MANY_DECISIONS, message)
}

fn name(graph: &Graph, node: NodeIx) -> &str {
    graph.node(node).map_or("", |plan| plan.name.as_str())
}
