//! What a run remembers between steps.
//!
//! The head is small and bounded by the graph, not by history: it is written with every step.
//! Open runs are not in it. Each is a trigger row, from which it can be read back.

mod detail;
mod head;

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use windlass_model::{Payload, RunNo, Seq, Status, TriggerType};

use crate::graph::{EdgeIx, LoopIx, NodeIx};

pub use detail::OpenRow;

/// The state of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Where it is in its life.
    pub status: Status,
    /// The sequence number that the next trigger gets.
    pub next_seq: Seq,
    /// Executions so far.
    pub steps: u64,
    /// Failures so far that no attempt made good.
    pub incidents: u32,
    /// What is going on, by sequence number. Not in the encoded head: whoever decodes that
    /// puts in what [`Open::decode_detail`] makes of the trigger rows.
    pub open: BTreeMap<Seq, Open>,
    /// How many of `open` wait for an instant.
    pub waiting: u32,
    /// When the time-out of the run is due, in epoch milliseconds.
    pub deadline_ms: Option<i64>,
    /// The trigger of that time-out, once there is one.
    pub timeout: Option<Seq>,
    /// The run record whose output is the run's, in place of the workflow's own.
    pub output: Option<RunNo>,
    /// Joins that are not at rest.
    pub(crate) joins: BTreeMap<NodeIx, Joining>,
    /// Loops that are going on.
    pub(crate) loops: BTreeMap<LoopIx, Looping>,
    /// The latest run record of each node that an expression names; none if it was skipped,
    /// failed or cancelled since.
    pub latest: BTreeMap<NodeIx, RunNo>,
}

/// An execution that is to come, or that is going on: what a trigger row stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Open {
    /// Its sequence number.
    pub seq: Seq,
    /// The sequence number of the first trigger of this node run, over all its attempts and
    /// phases.
    pub first: Seq,
    /// The node.
    pub node: NodeIx,
    /// The edge that led to it.
    pub edge: Option<EdgeIx>,
    /// What brought it about.
    pub kind: TriggerType,
    /// Which attempt of this phase it is, from 1.
    pub attempt: u32,
    /// How often the node has waited or asked to be called again: 0 at first.
    pub phase: u32,
    /// When it is due, in epoch milliseconds. None: at once.
    pub due_ms: Option<i64>,
    /// When the node run has taken too long over all attempts, in epoch milliseconds. Whoever
    /// executes it after that reports a failure of class `deadline` instead.
    pub give_up_ms: Option<i64>,
    /// Whose outputs the default input comes from; none at an entry, which gets the run's.
    pub from: Vec<(NodeIx, RunNo)>,
    /// What the node left for itself when it asked to be called again.
    pub left: Option<Payload>,
    /// Whether it waits for an instant, rather than for a worker or for another attempt.
    pub waiting: bool,
}

/// A join in the middle of a round.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Joining {
    /// One for each inbound forward edge.
    pub(crate) slots: Vec<Slot>,
    /// How many slots have a decision waiting.
    pub(crate) filled: u32,
    /// In how many of those the one that waits longest is a taken edge.
    pub(crate) taken: u32,
    /// How many slots owe a decision.
    pub(crate) owing: u32,
}

/// What is known of one inbound edge, relative to the rounds of its join that are over.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Slot {
    /// Decisions still to come that belong to rounds which closed without them.
    pub(crate) owed: u32,
    /// The decision that waits longest. Never together with `owed`.
    pub(crate) head: Option<Decision>,
    /// Those behind it.
    pub(crate) rest: VecDeque<Decision>,
}

/// What became of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Decision {
    /// It was not taken, and will not be in this round.
    Dead,
    /// It was taken, after this run of its node.
    Taken(RunNo),
}

/// A loop that is going on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Looping {
    /// Open runs of nodes directly in it, and loops directly in it that are going on.
    pub(crate) inside: u32,
    /// For a loop with several entries: decisions that arrived from outside.
    pub(crate) arrived: u32,
    /// Which of its exits were taken in this activation, sorted.
    pub(crate) taken: Vec<EdgeIx>,
}

/// Stored bytes that do not make sense: they are damaged, or of another definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stored {what} of a run cannot be read: {reason}")]
pub struct Corrupt {
    /// `state` or `trigger`.
    pub what: &'static str,
    /// What is wrong.
    pub reason: &'static str,
}

impl Joining {
    /// A join at rest, with this many inbound edges.
    pub(crate) fn of(len: usize) -> Self {
        Self {
            slots: vec![Slot::default(); len],
            ..Self::default()
        }
    }
}
