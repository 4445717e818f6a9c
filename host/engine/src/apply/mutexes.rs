//! Critical sections: of the nodes with one `mutex`, one executes at a time in a run.
//!
//! A node run holds its section from the moment it is opened until it is done, has failed for good
//! or is cancelled. It keeps the section while it waits for a retry, an instant, a bookmark or a
//! child, and between two rounds of `repeat`: the protected work is half done then. A node run that
//! waits for a section has no trigger and is kept in the state of its scope. Waiting node runs
//! enter in the order of their arrival.

use windlass_model::{ScopeNo, Seq};

use super::step::Step;
use super::{Command, after};
use crate::graph::{MutexIx, NodeIx};
use crate::state::Open;

impl Step<'_> {
    /// Whether a node may enter now: the section is free and no node run waits for it.
    pub(super) fn is_free(&self, mutex: MutexIx) -> bool {
        !self.state.held.contains(&mutex) && self.state.waiter(mutex).is_none()
    }

    /// Marks the section of a node as held, if the node has a section.
    pub(super) fn hold(&mut self, node: NodeIx) {
        self.state.held.extend(self.graph.mutex_of(node));
    }

    /// Frees the section of a node. The next waiting node run enters when the step settles, unless
    /// the same node has entered again by then.
    pub(super) fn free(&mut self, node: NodeIx) {
        if let Some(mutex) = self.graph.mutex_of(node) {
            self.state.held.remove(&mutex);
            self.freed.insert(mutex);
        }
    }

    /// Puts a node run into the queue of its section.
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

    /// Takes a node run out of the queue.
    pub(super) fn unqueue(&mut self, scope: ScopeNo, seq: Seq) -> Option<Open> {
        let open = self.state.local(scope)?.queued.remove(&seq)?;
        if let Some(mutex) = self.graph.mutex_of(open.node) {
            self.state.waiters.remove(&(mutex, seq));
        }
        self.leave(scope, open.node);
        self.quiet.insert(scope);
        Some(open)
    }

    /// Lets the next waiting node run enter, if the section is free.
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
        // `total-timeout` counts from here: the wait for the section does not use up the node's
        // time.
        let plan = self.graph.node(open.node);
        let total_timeout_ms = plan.and_then(|plan| plan.total_timeout_ms);
        self.reopen(Open {
            give_up_ms: total_timeout_ms.map(|ms| after(self.now_ms, ms)),
            ..open
        });
    }

    /// Cancels all node runs that wait for a section.
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
