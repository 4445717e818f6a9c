//! What a run remembers between steps.
//!
//! The head is small and bounded by the graph, not by history: it is written with every step.
//! Open runs are not in it. Each is a trigger row, from which it can be read back.

mod detail;
mod head;
mod joining;
mod ledger;
mod moving;
mod queue;
mod scope;
mod sections;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use windlass_model::{ExecutionNo, Failure, Payload, ScopeNo, Seq, Status, TriggerType};

use crate::graph::{EdgeIx, MutexIx, NodeIx};

pub use detail::OpenRow;
pub(crate) use joining::{Joining, Slot};
pub(crate) use ledger::Ledger;
pub(crate) use scope::Visits;
pub(crate) use scope::{Listing, Local};
pub use scope::{Refused, Scope, Visit};
pub use sections::{Section, Sections, sections};

/// The state of a run.
///
/// It is stored in three ways: the head by [`RunState::encode`], each scope other than the root
/// by [`RunState::drain_scopes`], and each open run as a trigger row. What else is in here
/// follows from these.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunState {
    /// Where it is in its life.
    pub status: Status,
    /// The sequence number that the next trigger gets.
    pub next_seq: Seq,
    /// Executions so far.
    pub steps: u64,
    /// Failures so far that no attempt made good.
    pub incidents: u32,
    /// What is going on in all scopes, by sequence number. Not in the encoded head: whoever
    /// decodes that gives what [`Open::decode_detail`] makes of the trigger rows to
    /// [`RunState::restore`].
    pub open: BTreeMap<Seq, Open>,
    /// How many of `open` wait for an instant, a bookmark or a child.
    pub waiting: u32,
    /// When the time-out of the run is due, in epoch milliseconds.
    pub deadline_ms: Option<i64>,
    /// The trigger of that time-out, once there is one.
    pub timeout: Option<Seq>,
    /// The run record whose output is the run's, in place of the workflow's own.
    pub output: Option<ExecutionNo>,
    /// The root scope.
    pub(crate) root: Local,
    /// The other scopes that are open.
    pub(crate) scopes: BTreeMap<ScopeNo, Scope>,
    /// How many scopes, and pages that are stored like scopes, there have been.
    pub(crate) numbered: u64,
    /// Where the pages are of joins at which much waits: scope, node and slot.
    pub(crate) pages: BTreeMap<ScopeNo, (ScopeNo, NodeIx, u32)>,
    /// Completed nodes that can be undone.
    pub(crate) ledger: Ledger,
    /// How the run ends once everything that can be undone is.
    pub(crate) undoing: Option<Undoing>,
    /// What was cut off when the run ended, if it did not complete.
    pub(crate) remains: Remains,
    /// Triggers from outside that are being executed.
    pub(crate) outside: BTreeMap<Seq, Open>,
    /// Critical sections that a node is in.
    pub(crate) held: BTreeSet<MutexIx>,
    /// Who waits for a critical section, in which scope, first come first.
    pub(crate) waiters: BTreeMap<(MutexIx, Seq), ScopeNo>,
    /// Scopes whose output is being made. Only inside a step.
    pub(crate) emitting: BTreeSet<ScopeNo>,
    /// Scopes and pages that differ from what is stored; true: nothing is stored of it yet.
    pub(crate) changes: BTreeMap<ScopeNo, bool>,
}

/// What is left of a run that is faulted or cancelled, so that it can be taken up again.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Remains {
    /// Of the root scope: what failed, and what was open beside it.
    pub(crate) open: Vec<Open>,
    /// What it did was undone, so that there is nothing to go on from.
    pub(crate) undone: bool,
}

/// How a run ends after what it did has been undone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Undoing {
    /// Faulted or cancelled.
    pub(crate) status: u8,
    /// Why it is faulted.
    pub(crate) failure: Option<Failure>,
}

/// An execution that is to come, or that is going on: what a trigger row stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Open {
    /// Its sequence number.
    pub seq: Seq,
    /// The sequence number of the first trigger of this node run, over all its attempts and
    /// phases.
    pub first: Seq,
    /// The scope it runs in.
    pub scope: ScopeNo,
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
    /// When it is due, in epoch milliseconds; `i64::MAX` if only somebody else can end its
    /// wait. None: at once.
    pub due_ms: Option<i64>,
    /// When the node run has taken too long over all attempts, in epoch milliseconds. Whoever
    /// executes it after that reports a failure of class `deadline` instead.
    pub give_up_ms: Option<i64>,
    /// When it has been suspended for too long, in epoch milliseconds. Whoever finds it still
    /// waiting then reports [`crate::apply::waited_too_long`] instead of executing it.
    pub give_up_wait_ms: Option<i64>,
    /// When the first of its bookmarks expires, in epoch milliseconds. Whoever finds it still
    /// waiting then executes it, and tells it so.
    pub expires_ms: Option<i64>,
    /// Whose outputs the default input comes from; none at an entry, which gets the run's, or
    /// the item in a for-each.
    pub from: Vec<(NodeIx, ExecutionNo)>,
    /// What the node left for itself when it asked to be called again.
    pub left: Option<Payload>,
    /// What it works on, in place of what came before or of what its definition says: somebody
    /// has edited it.
    pub input: Option<Payload>,
    /// For a node with `repeat`: which of its executions it is.
    pub round: Option<Round>,
    /// For a for-each whose items are done: what to collect.
    pub collect: Option<Box<Collect>>,
    /// Whether it waits for an instant, a bookmark or a child, rather than for a worker or for
    /// another attempt.
    pub waiting: bool,
}

/// Which execution of a node with `repeat` it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// From 1.
    pub count: u32,
    /// When it was to start, in epoch milliseconds.
    pub planned_ms: i64,
}

/// What a for-each has to collect, now that nothing of its items is open any more. Its
/// execution results in an array of as many values as there are items, in their order; where
/// none was kept the value is `null`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Collect {
    /// Names what was kept for its items.
    pub list: Seq,
    /// The run record whose output is the list.
    pub run: ExecutionNo,
    /// How many items there are.
    pub count: u32,
    /// An item failed, and the for-each with it: report this failure and collect nothing.
    pub fault: Option<Failure>,
}

/// What became of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Decision {
    /// It was not taken, and will not be in this round.
    Dead,
    /// It was taken, after this run of its node.
    Taken(ExecutionNo),
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
