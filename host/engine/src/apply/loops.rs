//! When loops begin and end.
//!
//! A loop is active from the moment a node inside is opened or skipped until no node inside is
//! open. Edges that leave the loop and were not taken by then are dead. Each loop counts its own
//! open executions and the active loops directly inside, so that the cost of a step does not depend
//! on the depth of nested loops.

use std::collections::btree_map::Entry;

use super::step::Step;
use crate::graph::{EdgeIx, LoopIx, NodeIx};
use crate::state::{Decision, Looping};
use windlass_model::ScopeNo;

impl Step<'_> {
    /// Makes a loop, and the loops around it, active.
    pub(super) fn touch(&mut self, scope: ScopeNo, at: LoopIx) {
        let graph = self.graph;
        let Some(local) = self.state.quietly(scope) else {
            return;
        };
        if local.loops.contains_key(&at) {
            return;
        }
        let Some(local) = self.state.local(scope) else {
            return;
        };
        local.loops.insert(at, Looping::default());
        let mut at = at;
        while let Some(parent) = graph.loops.get(at.at()).and_then(|inner| inner.parent) {
            match local.loops.entry(parent) {
                Entry::Occupied(mut looping) => {
                    looping.get_mut().inside = looping.get().inside.saturating_add(1);
                    return;
                }
                Entry::Vacant(place) => {
                    place.insert(Looping {
                        inside: 1,
                        ..Looping::default()
                    });
                }
            }
            at = parent;
        }
    }

    /// Counts one more execution in the loop of a node.
    pub(super) fn enter(&mut self, scope: ScopeNo, node: NodeIx) {
        let Some(at) = self.graph.node(node).and_then(|plan| plan.innermost) else {
            return;
        };
        self.touch(scope, at);
        if let Some(looping) = self.looping(scope, at) {
            looping.inside = looping.inside.saturating_add(1);
        }
    }

    /// Counts one execution fewer in the loop of a node.
    pub(super) fn leave(&mut self, scope: ScopeNo, node: NodeIx) {
        if let Some(at) = self.graph.node(node).and_then(|plan| plan.innermost) {
            self.leave_loop(scope, at);
        }
    }

    fn leave_loop(&mut self, scope: ScopeNo, at: LoopIx) {
        if let Some(looping) = self.looping(scope, at) {
            looping.inside = looping.inside.saturating_sub(1);
            if looping.inside == 0 {
                self.idle.insert((scope, at));
            }
        }
    }

    /// Records that an edge which leaves a loop was taken.
    pub(super) fn exit(&mut self, scope: ScopeNo, at: LoopIx, edge: EdgeIx) {
        if let Some(looping) = self.looping(scope, at)
            && let Err(place) = looping.taken.binary_search(&edge)
        {
            looping.taken.insert(place, edge);
        }
    }

    fn looping(&mut self, scope: ScopeNo, at: LoopIx) -> Option<&mut Looping> {
        self.state.local(scope)?.loops.get_mut(&at)
    }

    /// Counts a decision that arrives from outside the loop, if the node is in a loop with several
    /// entries. Such a loop stays active until all its entries are decided: a late entry belongs to
    /// it.
    pub(super) fn arrive_at_loop_of(&mut self, scope: ScopeNo, node: NodeIx) {
        let Some(at) = self.graph.node(node).and_then(|plan| plan.innermost) else {
            return;
        };
        let Some(around) = self.graph.loops.get(at.at()) else {
            return;
        };
        if around.arrivals.is_none() {
            return;
        }
        self.touch(scope, at);
        let bears = self.looping(scope, at).is_none_or(|looping| {
            looping.arrived = looping.arrived.saturating_add(1);
            around.bears(looping.arrived)
        });
        if !bears {
            self.overflow = Some(node);
        }
        self.idle.insert((scope, at));
    }

    /// Ends a loop if nothing is open inside. With `certain` (nothing is open in the whole scope),
    /// ends it in any case.
    pub(super) fn empty(&mut self, scope: ScopeNo, at: LoopIx, certain: bool) {
        let Some(around) = self.graph.loops.get(at.at()) else {
            return;
        };
        let looping = self.state.peek(scope).and_then(|l| l.loops.get(&at));
        let Some(looping) = looping else {
            return;
        };
        let arrivals = around.arrivals.unwrap_or_default();
        if !certain && (looping.inside > 0 || looping.arrived < arrivals) {
            return;
        }
        let next = looping.arrived.saturating_sub(arrivals);
        let Some(local) = self.state.local(scope) else {
            return;
        };
        let Some(looping) = local.loops.remove(&at) else {
            return;
        };
        // Rounds of different edges do not correspond in this loop, so remaining decisions are
        // meaningless.
        for node in &around.joins {
            local.joins.remove(node);
        }
        if next > 0 && !certain {
            local.loops.insert(
                at,
                Looping {
                    arrived: next,
                    ..Looping::default()
                },
            );
            self.idle.insert((scope, at));
        } else if let Some(parent) = around.parent {
            self.leave_loop(scope, parent);
        }
        for &edge in &around.exits {
            if looping.taken.binary_search(&edge).is_err() {
                self.work.push_back((scope, edge, Decision::Dead));
            }
        }
    }
}
