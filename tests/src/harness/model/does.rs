//! The behaviour of the nodes of a plan: in the workflow, and in the records.

use serde_json::{Value, json};
use windlass_model::ExecutionStatus;

use super::{CHILD, GO};
use crate::harness::Dice;

/// The behaviour of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    /// Has a side effect, identified by its idempotency key.
    Effect,
    /// Calls the smallest plugin.
    Echo,
    /// Fails until this attempt.
    Flaky(u32),
    /// Asks so many times to be called again.
    Poll(u32),
    /// Waits for so many milliseconds.
    Wait(u64),
    /// Assigns a variable.
    Set,
    /// Takes the port `left`, and not `done`.
    Choose,
    /// Fails, and continues at its port `error`.
    Fail,
    /// Waits for a stimulus.
    Ask,
    /// Has a side effect for each of so many items.
    Each(u32),
    /// Calls the child workflow, and waits for it.
    Call,
}

impl Does {
    pub(super) fn random(dice: &mut Dice) -> Self {
        let times = u32::try_from(dice.between(1, 3)).unwrap_or(1);
        match dice.between(0, 13) {
            0..=2 => Self::Effect,
            3 => Self::Echo,
            4..=5 => Self::Flaky(times + 1),
            6 => Self::Poll(times),
            7 => Self::Wait(dice.between(1, 80)),
            8 => Self::Set,
            9 => Self::Choose,
            10 => Self::Ask,
            11 => Self::Each(times),
            12 => Self::Call,
            _ => Self::Fail,
        }
    }

    /// The node in the workflow file; the node in its body, if it has one, is named `item`.
    pub(super) fn written(self, title: &str, item: &str) -> Value {
        match self {
            Self::Effect => json!({ "use": "steps/effect" }),
            Self::Echo => json!({ "use": "echo/echo", "input": { "n": "{{ input.n }}" } }),
            Self::Flaky(until) => json!({
                "use": "steps/flaky",
                "with": { "until": until },
                "retry": { "max-attempts": until, "delay": "1ms", "backoff": "fixed" },
            }),
            Self::Poll(times) => json!({
                "use": "steps/poll",
                "with": { "times": times, "after-ms": 1 },
            }),
            Self::Wait(ms) => json!({ "wait": format!("{ms}ms") }),
            Self::Set => json!({ "set": { "last": "{{ input.n }}" } }),
            Self::Choose => json!({
                "use": "steps/port",
                "with": { "ports": ["left"] },
                "input": { "n": "{{ input.n }}" },
            }),
            Self::Fail => json!({
                "use": "steps/fail",
                "with": { "class": "permanent", "message": "as it should" },
                "on-error": "route",
            }),
            Self::Ask => json!({ "event": GO, "match": title }),
            Self::Each(items) => json!({
                "for-each": (0..items).collect::<Vec<_>>(),
                "concurrency": 2,
                "nodes": { item: { "use": "steps/effect" } },
                "output": format!("{{{{ nodes.{item}.output }}}}"),
            }),
            Self::Call => json!({ "workflow": CHILD, "input": { "n": "{{ input.n }}" } }),
        }
    }

    /// Whether an edge of this port is taken after the node has run.
    pub(super) fn takes(self, port: Option<&str>) -> bool {
        match self {
            Self::Choose => port == Some("left"),
            Self::Fail => port == Some("error"),
            _ => port.is_none(),
        }
    }

    /// The recorded executions after the node has run, as attempt and status.
    pub(super) fn records(self) -> Vec<(u32, ExecutionStatus)> {
        match self {
            Self::Flaky(until) => {
                let mut records: Vec<_> = (1..until)
                    .map(|attempt| (attempt, ExecutionStatus::WaitingRetry))
                    .collect();
                records.push((until, ExecutionStatus::Completed));
                records
            }
            Self::Poll(times) => suspended(times),
            Self::Wait(_) | Self::Ask | Self::Each(_) | Self::Call => suspended(1),
            Self::Fail => vec![(1, ExecutionStatus::Failed)],
            Self::Effect | Self::Echo | Self::Set | Self::Choose => {
                vec![(1, ExecutionStatus::Completed)]
            }
        }
    }
}

/// Suspended so many times, and then completed.
fn suspended(times: u32) -> Vec<(u32, ExecutionStatus)> {
    let mut records = vec![(1, ExecutionStatus::Suspended); times as usize];
    records.push((1, ExecutionStatus::Completed));
    records
}
