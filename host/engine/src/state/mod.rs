//! The state that a run keeps between steps.
//!
//! The head is small. Its size is bounded by the graph and not by the history, because it is
//! written with every step. Open executions are not part of it: each is stored as a trigger row and
//! read back from that row.

mod detail;
mod failure;
mod head;
mod inputs;
mod joining;
mod ledger;
mod moving;
mod queue;
mod refit;
mod scope;
mod sections;
mod weight;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use windlass_model::{ExecutionNo, Failure, Payload, ScopeNo, Seq, Status, TriggerType};

use crate::graph::{EdgeIx, MutexIx, NodeIx};

pub use detail::OpenRow;
pub(crate) use detail::WirePayload;
pub(crate) use failure::WireFailure;
pub use inputs::{Inputs, Mark, READ_BYTES, Read, check, mark};
pub(crate) use joining::{Joining, Slot};
pub(crate) use ledger::Ledger;
pub(crate) use moving::{Renumber, one};
pub use refit::{Misfit, Missing};
pub(crate) use scope::Visits;
pub(crate) use scope::{Local, OpenForEach};
pub use scope::{Refused, Scope, Visit};
pub use sections::{Section, Sections, sections};

/// The state of a run.
///
/// It is stored in three ways: the head by [`RunState::encode`], each scope other than the root by
/// [`RunState::drain_scopes`], and each open execution as a trigger row. All other fields derive
/// from these.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunState {
    /// The status of the run.
    pub status: Status,
    /// The sequence number of the next trigger.
    pub next_seq: Seq,
    /// The number of executions so far.
    pub steps: u64,
    /// The number of failures so far that no later attempt repaired.
    pub incidents: u32,
    /// The open executions of all scopes, by sequence number. They are not in the encoded head: a
    /// caller that decodes a head decodes each trigger row with [`Open::decode_detail`] and passes
    /// the result to [`RunState::restore`].
    pub open: BTreeMap<Seq, Open>,
    /// How many of `open` wait for an instant, a bookmark or a child.
    pub waiting: u32,
    /// When the run times out, in epoch milliseconds.
    pub deadline_ms: Option<i64>,
    /// The timeout trigger, once it exists.
    pub timeout: Option<Seq>,
    /// The execution record whose output is the run's, in place of the workflow's own output.
    pub output: Option<ExecutionNo>,
    /// The root scope.
    pub(crate) root: Local,
    /// The other scopes that are open.
    pub(crate) scopes: BTreeMap<ScopeNo, Scope>,
    /// The sum of [`Scope::bytes`].
    pub(crate) scope_bytes: usize,
    /// How many scopes and pages have been numbered so far. Pages are stored like scopes.
    pub(crate) numbered: u64,
    /// The join of each page of decisions: scope, node and slot.
    pub(crate) pages: BTreeMap<ScopeNo, (ScopeNo, NodeIx, u32)>,
    /// Completed nodes that can be undone.
    pub(crate) ledger: Ledger,
    /// How the run ends once its completed nodes are undone.
    pub(crate) undoing: Option<Undoing>,
    /// The node runs that were cut off when the run ended without completing.
    pub(crate) remains: Remains,
    /// External triggers that are being executed.
    pub(crate) external: BTreeMap<Seq, Open>,
    /// Critical sections that a node holds.
    pub(crate) held: BTreeSet<MutexIx>,
    /// The node runs that wait for a critical section, with their scope, in the order of arrival.
    pub(crate) waiters: BTreeMap<(MutexIx, Seq), ScopeNo>,
    /// Scopes whose output is being rendered. Empty between steps.
    pub(crate) emitting: BTreeSet<ScopeNo>,
    /// Scopes and pages that differ from the store; true: nothing is stored for it yet.
    pub(crate) changes: BTreeMap<ScopeNo, bool>,
}

/// The node runs of a faulted or cancelled run from which it can be reopened.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Remains {
    /// In the root scope: the node runs that failed or were open.
    pub(crate) open: Vec<Open>,
    /// Whether completed nodes were undone, so that the run cannot be reopened.
    pub(crate) undone: bool,
}

/// How a run ends after its completed nodes have been undone.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Undoing {
    /// Faulted or cancelled.
    pub(crate) status: u8,
    /// The failure of a faulted run.
    pub(crate) failure: Option<Failure>,
}

/// An open execution: it waits for its due time or is in progress, and has a trigger row.
#[derive(Clone, Debug, PartialEq)]
pub struct Open {
    /// Its sequence number.
    pub seq: Seq,
    /// The sequence number of the first trigger of this node run, over all its attempts and phases.
    pub first: Seq,
    /// The scope it runs in.
    pub scope: ScopeNo,
    /// The node.
    pub node: NodeIx,
    /// The edge that led to it.
    pub edge: Option<EdgeIx>,
    /// The type of its trigger.
    pub kind: TriggerType,
    /// Which attempt of this phase it is, from 1.
    pub attempt: u32,
    /// How often the node has waited or asked to be called again; 0 at first.
    pub phase: u32,
    /// When it is due, in epoch milliseconds; `i64::MAX` if only a stimulus or another run can end
    /// its wait. `None`: at once.
    pub due_ms: Option<i64>,
    /// The deadline of the node run over all attempts, in epoch milliseconds. An execution after
    /// the deadline reports a failure of class `deadline` instead.
    pub give_up_ms: Option<i64>,
    /// The deadline of the suspension, in epoch milliseconds. If the wait is still open then, the
    /// caller reports [`crate::apply::waited_too_long`] instead of executing the node.
    pub give_up_wait_ms: Option<i64>,
    /// When the first of its bookmarks expires, in epoch milliseconds. If the wait is still open
    /// then, the caller executes the node and passes on the expiry.
    pub expires_ms: Option<i64>,
    /// The executions whose outputs make the default input. Empty at an entry, which gets the input
    /// of the run, or the item in a for-each.
    pub from: Vec<(NodeIx, ExecutionNo)>,
    /// The node's own state from its last call, if it asked to be called again.
    pub left: Option<Payload>,
    /// The input that a user has edited; it replaces the default input and the definition's
    /// `input`.
    pub input: Option<Payload>,
    /// For a node with `repeat`: the round.
    pub round: Option<Round>,
    /// For a for-each whose items are done: the outputs to collect.
    pub collect: Option<Box<Collect>>,
    /// Whether it waits for an instant, a bookmark or a child, and not for a worker or for another
    /// attempt.
    pub waiting: bool,
}

impl Open {
    /// The first execution of an external trigger: see [`RunState::admit`].
    pub fn external(seq: Seq, node: NodeIx, kind: TriggerType) -> Self {
        Self {
            seq,
            first: seq,
            scope: ScopeNo::ROOT,
            node,
            edge: None,
            kind,
            attempt: 1,
            phase: 0,
            due_ms: None,
            give_up_ms: None,
            give_up_wait_ms: None,
            expires_ms: None,
            from: Vec::new(),
            left: None,
            input: None,
            round: None,
            collect: None,
            waiting: false,
        }
    }
}

/// One round of a node with `repeat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// The number of the round, from 1.
    pub count: u32,
    /// The planned start, in epoch milliseconds.
    pub planned_ms: i64,
}

/// The outputs that a for-each collects once all its items are done. The execution results in an
/// array with one value per item, in their order; a missing value is `null`.
#[derive(Clone, Debug, PartialEq)]
pub struct Collect {
    /// The list under which the outputs were stored.
    pub list: Seq,
    /// The execution record whose output is the list.
    pub run: ExecutionNo,
    /// The number of items.
    pub count: u32,
    /// The failure of an item that fails the for-each: report it and collect nothing.
    pub fault: Option<Failure>,
}

/// The decision about an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Decision {
    /// The edge is not taken in this round.
    Dead,
    /// The edge is taken after this execution of its source.
    Taken(ExecutionNo),
}

/// An active loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Looping {
    /// The open executions of nodes directly in the loop, and the active loops directly in it.
    pub(crate) inside: u32,
    /// For a loop with several entries: the decisions that arrived from outside.
    pub(crate) arrived: u32,
    /// The exits taken in this activation, sorted.
    pub(crate) taken: Vec<EdgeIx>,
}

/// Stored bytes that cannot be decoded: they are damaged or belong to another definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stored {what} of a run cannot be read: {reason}")]
pub struct Corrupt {
    /// `state` or `trigger`.
    pub what: &'static str,
    /// The mistake that was found.
    pub reason: &'static str,
}
