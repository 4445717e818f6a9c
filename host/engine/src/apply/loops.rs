//! When loops begin and end.
//!
//! A loop is going on from the moment something inside is opened or skipped until nothing
//! inside is open any more. Edges that leave it and were not taken by then are dead.
//! Each loop counts its own open runs and the loops directly inside that are going on, so
//! that a step costs the same however deep loops nest.

use std::collections::btree_map::Entry;

use super::step::Step;
use crate::graph::{EdgeIx, LoopIx, NodeIx};
use crate::state::{Decision, Looping};

impl Step<'_> {
    /// Makes a loop, and those around it, go on.
    pub(super) fn touch(&mut self, at: LoopIx) {
        if self.state.loops.contains_key(&at) {
            return;
        }
        self.state.loops.insert(at, Looping::default());
        let mut at = at;
        while let Some(parent) = self.graph.loops.get(at.at()).and_then(|inner| inner.parent) {
            match self.state.loops.entry(parent) {
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

    /// One more is inside.
    pub(super) fn enter(&mut self, at: LoopIx) {
        self.touch(at);
        if let Some(looping) = self.state.loops.get_mut(&at) {
            looping.inside = looping.inside.saturating_add(1);
        }
    }

    /// One less is inside.
    pub(super) fn leave(&mut self, at: LoopIx) {
        if let Some(looping) = self.state.loops.get_mut(&at) {
            looping.inside = looping.inside.saturating_sub(1);
            if looping.inside == 0 {
                self.idle.insert(at);
            }
        }
    }

    /// Notes that an edge which leaves a loop was taken.
    pub(super) fn exit(&mut self, at: LoopIx, edge: EdgeIx) {
        if let Some(looping) = self.state.loops.get_mut(&at)
            && let Err(place) = looping.taken.binary_search(&edge)
        {
            looping.taken.insert(place, edge);
        }
    }

    /// Notes a decision from outside, if the node is in a loop with several entries. Such a
    /// loop goes on until all its entries are decided: one that comes late belongs to it.
    pub(super) fn arrive_at_loop_of(&mut self, node: NodeIx) {
        let Some(at) = self.graph.node(node).and_then(|plan| plan.innermost) else {
            return;
        };
        let Some(around) = self.graph.loops.get(at.at()) else {
            return;
        };
        if around.arrivals.is_none() {
            return;
        }
        self.touch(at);
        if let Some(looping) = self.state.loops.get_mut(&at) {
            looping.arrived = looping.arrived.saturating_add(1);
            if !around.bears(looping.arrived) {
                self.overflow = Some(node);
            }
        }
        self.idle.insert(at);
    }

    /// Ends a loop if nothing is inside any more, or for certain if nothing is open at all.
    pub(super) fn empty(&mut self, at: LoopIx, certain: bool) {
        let Some(around) = self.graph.loops.get(at.at()) else {
            return;
        };
        let Some(looping) = self.state.loops.get(&at) else {
            return;
        };
        let arrivals = around.arrivals.unwrap_or_default();
        if !certain && (looping.inside > 0 || looping.arrived < arrivals) {
            return;
        }
        let next = looping.arrived.saturating_sub(arrivals);
        let Some(looping) = self.state.loops.remove(&at) else {
            return;
        };
        // Rounds of different edges do not go in step here, so what is left means nothing.
        for node in &around.joins {
            self.state.joins.remove(node);
        }
        if next > 0 && !certain {
            self.state.loops.insert(
                at,
                Looping {
                    arrived: next,
                    ..Looping::default()
                },
            );
            self.idle.insert(at);
        } else if let Some(parent) = around.parent {
            self.leave(parent);
        }
        for &edge in &around.exits {
            if looping.taken.binary_search(&edge).is_err() {
                self.work.push_back((edge, Decision::Dead));
            }
        }
    }
}
