//! The consequences of an execution.

use serde_json::Value;

use super::{At, Mistake, Net, State};

impl State {
    /// Carries out all consequences: edges are decided, and races, loops, items and the run end.
    pub(super) fn settle(&mut self, net: &Net<'_>) {
        while self.ended.is_none() {
            if let Some((scope, edge, decision)) = self.work.pop_front() {
                self.arrive(net, scope, edge, decision);
            } else if self.cancel_losers(net) {
                // The cancellation may have opened other executions: look at all queues again.
            } else if let Some((scope, around)) = self.empty_loop(net) {
                self.leave_loop(net, scope, around);
            } else if let Some(scope) = self.quiet_scope() {
                self.emit(net, scope);
            } else if self.open.is_empty() {
                self.rest(net);
            } else {
                break;
            }
        }
        self.won.clear();
    }

    fn arrive(&mut self, net: &Net<'_>, scope: u32, edge: usize, decision: Option<Value>) {
        if !self.scopes.contains_key(&scope) {
            return;
        }
        let link = net.link(edge);
        let single = net.place(link.to).into.len() <= 1;
        match decision {
            Some(output) if link.backward || single => {
                self.open(net, scope, link.to, "next", vec![(link.from, output)]);
            }
            None if single => self.skip(net, scope, link.to),
            decision => self.join(net, scope, edge, decision),
        }
    }

    /// Skips a node in this round.
    pub(super) fn skip(&mut self, net: &Net<'_>, scope: u32, node: At) {
        self.skipped.push(node);
        self.touch(net, scope, node);
        if !net.makes(Mistake::SkipsOne) {
            self.fruitless(net, scope, node);
        }
    }

    /// Ends a node without a result: none of its edges is taken, and it has no output.
    pub(super) fn fruitless(&mut self, net: &Net<'_>, scope: u32, node: At) {
        if let Some(local) = self.scopes.get_mut(&scope) {
            local.latest.remove(&node);
        }
        for edge in &net.place(node).out {
            self.decide(net, scope, *edge, None);
        }
    }

    /// Records the decision about an edge after its source node.
    pub(super) fn decide(
        &mut self,
        net: &Net<'_>,
        scope: u32,
        edge: usize,
        decision: Option<Value>,
    ) {
        let link = net.link(edge);
        let undecided = link.backward || link.leaves.is_some();
        if decision.is_none() && undecided {
            // Another round may take the edge.
            return;
        }
        if let (Some(around), Some(local)) = (link.leaves, self.scopes.get_mut(&scope))
            && let Some(taken) = local.loops.get_mut(&around)
        {
            taken.insert(edge);
        }
        self.work.push_back((scope, edge, decision));
    }

    /// Makes the loops of a node active.
    pub(super) fn touch(&mut self, net: &Net<'_>, scope: u32, node: At) {
        for around in net.loops_of(node) {
            self.scope_mut(scope).loops.entry(around).or_default();
        }
    }

    /// A loop in which nothing is open any more, inner ones first.
    fn empty_loop(&self, net: &Net<'_>) -> Option<(u32, usize)> {
        self.scopes.iter().find_map(|(scope, local)| {
            let mut going_on = local.loops.keys().rev();
            let empty = going_on.find(|around| {
                let nodes = &net.loops.get(**around).unwrap().nodes;
                let mut open = self.open.values();
                !open.any(|open| open.scope == *scope && nodes.contains(&open.node))
            });
            Some((*scope, *empty?))
        })
    }

    /// The exits of a loop that were not taken by its end can no longer be taken.
    fn leave_loop(&mut self, net: &Net<'_>, scope: u32, around: usize) {
        let taken = self
            .scope_mut(scope)
            .loops
            .remove(&around)
            .unwrap_or_default();
        for (edge, link) in net.edges.iter().enumerate() {
            let is_exit = link.leaves == Some(around) && !link.backward;
            if is_exit && !taken.contains(&edge) && !net.makes(Mistake::LoopsStayOpen) {
                self.work.push_back((scope, edge, None));
            }
        }
    }
}
