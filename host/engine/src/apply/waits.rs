//! Nodes that are called again: at their own request, after a wait, or because they repeat.

use windlass_model::{ExecutionNo, Failure, Payload, TriggerType};

use super::step::Step;
use super::{Command, Cx, after};
use crate::codes;
use crate::graph::Graph;
use crate::state::{Open, Round};

impl Step<'_> {
    pub(super) fn again(&mut self, open: Open, after_ms: u64, left: Option<Payload>) {
        let due_ms = (after_ms > 0).then(|| after(self.now_ms, after_ms));
        self.reopen(Open {
            left,
            due_ms,
            waiting: due_ms.is_some(),
            ..called_again(open, TriggerType::Loop)
        });
    }

    pub(super) fn wait(&mut self, open: Open, until_ms: i64) {
        let left = open.left.clone();
        self.reopen(Open {
            left,
            due_ms: Some(until_ms),
            waiting: true,
            ..called_again(open, TriggerType::Timer)
        });
    }

    /// Waits for a stimulus or a child until `expires_ms`, or until the time limit of the wait or
    /// of the node run has passed.
    pub(super) fn suspended(
        &mut self,
        open: Open,
        kind: TriggerType,
        expires_ms: Option<i64>,
        left: Option<Payload>,
    ) {
        let plan = self.graph.node(open.node);
        let give_up_wait_ms = plan
            .and_then(|plan| plan.wait_timeout_ms)
            .map(|ms| after(self.now_ms, ms));
        let ends = [expires_ms, give_up_wait_ms, open.give_up_ms];
        let due_ms = ends.into_iter().flatten().min().unwrap_or(i64::MAX);
        self.reopen(Open {
            left,
            due_ms: Some(due_ms),
            expires_ms,
            give_up_wait_ms,
            waiting: true,
            ..called_again(open, kind)
        });
    }

    pub(super) fn later(&mut self, open: Open, until_ms: i64) {
        // Nothing was executed, so no execution can report that it is too late. The trigger is due
        // at the deadline at the latest, and its next execution reports it.
        let due_ms = open
            .give_up_ms
            .map_or(until_ms, |give_up_ms| until_ms.min(give_up_ms));
        let open = Open {
            due_ms: Some(due_ms),
            waiting: true,
            ..open
        };
        if open.seq.is_external() {
            // The external trigger has not begun, so the run does not wait for it.
            self.commands.push(Command::Schedule(open));
        } else {
            self.reopen(open);
        }
    }

    pub(super) fn repeat(&mut self, open: Open, run: ExecutionNo, round: Round) {
        let due_ms = round.due_ms(self.now_ms);
        self.remember(open.scope, open.node, run);
        self.note(open.node, run);
        self.reopen(Open {
            due_ms,
            round: Some(round),
            waiting: due_ms.is_some(),
            ..called_again(open, TriggerType::Loop)
        });
    }
}

/// The next round of the node, if the node repeats.
///
/// # Errors
///
/// `until` could not be evaluated.
pub(super) fn next_round(
    graph: &Graph,
    open: &Open,
    cx: &Cx<'_>,
) -> Result<Option<Round>, Failure> {
    let plan = graph.node(open.node);
    let (Some(repeat), Some(round)) = (plan.and_then(|p| p.repeat.as_ref()), open.round) else {
        return Ok(None);
    };
    if repeat.max.is_some_and(|max| round.count >= max) {
        return Ok(None);
    }
    if let Some(until) = &repeat.until {
        let met = until.test(cx.values).map_err(|error| {
            let message = format!("`until` could not be evaluated: {error}");
            Failure::new(error.class(), codes::CONDITION, message)
        })?;
        if met {
            return Ok(None);
        }
    }
    let every_ms = repeat.every_ms.unwrap_or_default();
    Ok(Some(Round {
        count: round.count.saturating_add(1),
        // Counted from the planned time, so that intervals do not drift. Missed rounds are not
        // caught up.
        planned_ms: after(round.planned_ms, every_ms).max(cx.now_ms),
    }))
}

impl Round {
    /// When the round begins, unless that is now, in epoch milliseconds.
    pub(super) fn due_ms(self, now_ms: i64) -> Option<i64> {
        (self.planned_ms > now_ms).then_some(self.planned_ms)
    }
}

/// The same node run in its next phase, due at once.
///
/// A retry that begins to wait has not succeeded yet: its attempt number is kept, so that a wait
/// that fails each time uses up the attempts. Every other phase is progress and restarts the
/// attempts.
fn called_again(open: Open, kind: TriggerType) -> Open {
    let waits_anew = open.kind == TriggerType::Retry && kind != TriggerType::Loop;
    Open {
        kind,
        attempt: if waits_anew { open.attempt } else { 1 },
        phase: open.phase.saturating_add(1),
        due_ms: None,
        give_up_wait_ms: None,
        expires_ms: None,
        left: None,
        waiting: false,
        ..open
    }
}

/// Whether an execution that is due then comes after the `total-timeout` of its node run.
pub(super) fn late(open: &Open, due_ms: Option<i64>) -> bool {
    let late = |due_ms| {
        open.give_up_ms
            .is_some_and(|give_up_ms| due_ms >= give_up_ms)
    };
    due_ms.is_some_and(late)
}
