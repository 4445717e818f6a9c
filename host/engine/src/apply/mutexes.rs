//! Critical sections: of the nodes with one `mutex`, one runs at a time in an instance.
//!
//! A node run is in its section from when it is opened until it is done, has failed for good
//! or is cancelled. While it waits for a retry, for an instant, a bookmark or a child, or is
//! between two rounds of `repeat`, it stays in: what it protects is half done then. Who waits
//! has no trigger, is kept in the state of its scope, and comes in the order of arrival.

use windlass_model::{ScopeNo, Seq};

use super::step::Step;
use super::{Command, after};
use crate::graph::{MutexIx, NodeIx};
use crate::state::Open;

impl Step<'_> {
    /// Whether a node may enter, nobody having come before it.
    pub(super) fn is_free(&self, mutex: MutexIx) -> bool {
        !self.state.held.contains(&mutex) && self.state.waiter(mutex).is_none()
    }

    /// A node is in the section that it has, if it has one.
    pub(super) fn hold(&mut self, node: NodeIx) {
        self.state.held.extend(self.graph.mutex_of(node));
    }

    /// A node is out of the section that it has. Who is next enters when the step comes to
    /// rest, unless the same node is back by then.
    pub(super) fn free(&mut self, node: NodeIx) {
        if let Some(mutex) = self.graph.mutex_of(node) {
            self.state.held.remove(&mutex);
            self.freed.insert(mutex);
        }
    }

    /// Lines a node run up.
    pub(super) fn queue(&mut self, mutex: MutexIx, mut open: Open) {
        open.seq = self.next_seq();
        open.first = open.seq;
        let (scope, node, seq) = (open.scope, open.node, open.seq);
        let Some(local) = self.state.local(scope) else {
            return;
        };
        local.queued.insert(seq, open);
        self.state.waiters.insert((mutex, seq), scope);
        self.enter(scope, node);
    }

    /// Takes a node run out of the line.
    pub(super) fn unqueue(&mut self, scope: ScopeNo, seq: Seq) -> Option<Open> {
        let open = self.state.local(scope)?.queued.remove(&seq)?;
        if let Some(mutex) = self.graph.mutex_of(open.node) {
            self.state.waiters.remove(&(mutex, seq));
        }
        self.leave(scope, open.node);
        self.quiet.insert(scope);
        Some(open)
    }

    /// Lets in who is next, if the section is free.
    pub(super) fn admit_next(&mut self, mutex: MutexIx) {
        if self.state.held.contains(&mutex) {
            return;
        }
        let Some((seq, scope)) = self.state.waiter(mutex) else {
            return;
        };
        let Some(open) = self.unqueue(scope, seq) else {
            return;
        };
        // Its time begins now: it could not have done anything about the wait.
        let plan = self.graph.node(open.node);
        let total_timeout_ms = plan.and_then(|plan| plan.total_timeout_ms);
        self.reopen(Open {
            give_up_ms: total_timeout_ms.map(|ms| after(self.now_ms, ms)),
            ..open
        });
    }

    /// Removes whoever waits anywhere.
    pub(super) fn dismiss(&mut self) {
        let waiters = std::mem::take(&mut self.state.waiters);
        for ((_, seq), scope) in waiters {
            let local = self.state.local(scope);
            if let Some(open) = local.and_then(|local| local.queued.remove(&seq)) {
                self.commands.push(Command::Cancel(open));
            }
        }
    }
}
