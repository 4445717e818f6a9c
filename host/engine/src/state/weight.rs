//! The memory that the state of a run takes, as an estimate that is never far too low.
//!
//! The sum of all scopes but the root is kept up to date: a step weighs only the scopes that it
//! changes, when they are encoded, and the root.

use windlass_model::{ExecutionNo, Payload, ScopeNo, Seq};

use super::{Decision, Joining, Local, Looping, Open, OpenForEach, RunState, Scope, Slot, Visits};
use crate::graph::NodeIx;

/// What an entry of type `T` takes in a B-tree, about: nodes that were filled in order are half full.
const fn entry<T>() -> usize {
    2 * size_of::<T>() + 2 * size_of::<u64>()
}

/// What an allocation takes beside its content, about.
const ALLOCATION: usize = 16;

/// A scope without joins and loops: itself, its place in its list, and its set of open executions,
/// whose first node has room for eleven.
const SCOPE: usize = entry::<Scope>() + entry::<ScopeNo>() + ALLOCATION + 12 * size_of::<Seq>();

/// An open execution, its entry in its scope, and the executions before it, in all but rare cases.
const OPEN: usize = entry::<Open>() + entry::<Seq>() + ALLOCATION + 4 * size_of::<ExecutionNo>();

/// A page of decisions: its place, beside the decisions themselves.
const PAGE: usize = entry::<(ScopeNo, NodeIx, u32)>() + entry::<ScopeNo>();

/// A node run that waits for a critical section, beside itself.
const WAITER: usize = entry::<(Seq, ScopeNo)>();

impl RunState {
    /// The memory of the state, in bytes, about. The payloads of open executions do not count: they
    /// are in the details of their triggers.
    pub fn bytes(&self) -> usize {
        self.root.bytes()
            + self.scope_bytes
            + self.scopes.len() * SCOPE
            + (self.open.len() + self.external.len()) * OPEN
            + self.pages.len() * PAGE
            + self.waiters.len() * WAITER
            + 2 * self.ledger.entries.len() * size_of::<(NodeIx, ExecutionNo)>()
            + self.remains.open.len() * OPEN
    }

    /// Weighs a scope again, if it is open.
    pub(super) fn weigh(&mut self, no: ScopeNo) {
        if let Some(scope) = self.scopes.get_mut(&no) {
            let before = std::mem::replace(&mut scope.bytes, scope.local.bytes());
            self.scope_bytes = (self.scope_bytes + scope.bytes).saturating_sub(before);
        }
    }
}

impl Local {
    /// The memory of the joins, loops, lists and waiting node runs, and of the latest executions.
    fn bytes(&self) -> usize {
        let joins = self.joins.values().map(Joining::bytes);
        let waiting = self.queued.values().map(|open| OPEN + open.payload_bytes());
        let visits = self.visits.values();
        let visits = visits.map(|all| entry::<Visits>() + all.open.len() * size_of::<(Seq, u32)>());
        let loops = self.loops.values();
        let loops = loops.map(|at| entry::<Looping>() + at.taken.len() * size_of::<u32>());
        joins.sum::<usize>()
            + waiting.sum::<usize>()
            + visits.sum::<usize>()
            + loops.sum::<usize>()
            + self.latest.len() * entry::<ExecutionNo>()
            + self.lists.len() * entry::<OpenForEach>()
    }
}

impl Joining {
    fn bytes(&self) -> usize {
        let waiting = self.slots.iter().map(|slot| slot.rest.len());
        entry::<Self>()
            + self.slots.len() * size_of::<Slot>()
            + waiting.sum::<usize>() * 2 * size_of::<Decision>()
    }
}

impl Open {
    fn payload_bytes(&self) -> usize {
        let payloads = self.left.iter().chain(&self.input);
        payloads
            .filter_map(Payload::inline)
            .map(|bytes| bytes.len())
            .sum()
    }
}
