//! Nodes that several forward edges lead to.
//!
//! Decisions about an edge belong to rounds in the order in which they come. A round that
//! closes before an edge is decided leaves that edge owing: its next decision is for nothing.
//! All this is relative to the rounds that are over, so it works alike in every round of a
//! loop, and a join at rest needs no memory at all.

use std::collections::BTreeMap;

use windlass_model::definition::Join;
use windlass_model::{ExecutionNo, ScopeNo, limits};

use super::step::Step;
use crate::graph::{EdgeIx, NodeIx, Plan};
use crate::state::{Decision, Joining, Slot};

/// What becomes of the round that a join is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    /// It goes on.
    Open,
    /// The node runs.
    Runs,
    /// The node is skipped.
    Skips,
    /// It is over, and the node has run for each of its edges already.
    Over,
}

/// A race that was won. It runs once all that follows from the same execution has been decided,
/// so that the order of edges does not say what it cancels.
pub(super) struct Won {
    scope: ScopeNo,
    node: NodeIx,
    edge: Option<EdgeIx>,
    from: Vec<(NodeIx, ExecutionNo)>,
}

impl Step<'_> {
    /// Takes a decision to a join.
    pub(super) fn join(&mut self, scope: ScopeNo, node: NodeIx, slot: u32, decision: Decision) {
        let Some(plan) = self.graph.node(node) else {
            return;
        };
        let (len, loose) = (plan.inbound.len(), self.loose(plan));
        let Some(local) = self.state.local(scope) else {
            return;
        };
        let joining = local.joins.entry(node).or_insert_with(|| Joining::of(len));
        let Some(waiting) = joining.add(slot as usize, decision, loose) else {
            return;
        };
        if waiting > limits::WAITING_DECISIONS {
            self.overflow = Some(node);
            return;
        }
        if let (Join::Each, Decision::Taken(run)) = (plan.join, decision)
            && let Some((edge, from)) = self.source(plan, slot as usize)
        {
            self.open(scope, node, Some(edge), vec![(from, run)]);
        }
        self.state.put_away(scope, node, slot);
        loop {
            let Some(joining) = self.joining(scope, node) else {
                return;
            };
            let round = joining.round(plan.join);
            if round == Round::Open {
                break;
            }
            let (taken, unneeded) = joining.close();
            for page in unneeded {
                self.state.drop_page(page);
            }
            match round {
                Round::Runs => self.run_joined(scope, node, plan, &taken),
                Round::Skips => self.skip(scope, node),
                Round::Over | Round::Open => {}
            }
        }
        if let Some(local) = self.state.local(scope)
            && local.joins.get(&node).is_some_and(Joining::rests)
        {
            local.joins.remove(&node);
        }
    }

    fn joining(&mut self, scope: ScopeNo, node: NodeIx) -> Option<&mut Joining> {
        self.state.local(scope)?.joins.get_mut(&node)
    }

    /// Whether the node is on a cycle with several entries, where rounds of different edges
    /// do not go in step.
    fn loose(&self, plan: &Plan) -> bool {
        let innermost = plan.innermost.and_then(|at| self.graph.loops.get(at.at()));
        innermost.is_some_and(|around| around.arrivals.is_some())
    }

    fn source(&self, plan: &Plan, slot: usize) -> Option<(EdgeIx, NodeIx)> {
        let edge = *plan.inbound.get(slot)?;
        Some((edge, self.graph.edge(edge)?.from))
    }

    fn run_joined(
        &mut self,
        scope: ScopeNo,
        node: NodeIx,
        plan: &Plan,
        taken: &[(usize, ExecutionNo)],
    ) {
        let sources: Vec<(EdgeIx, NodeIx, ExecutionNo)> = taken
            .iter()
            .filter_map(|(slot, run)| {
                let (edge, from) = self.source(plan, *slot)?;
                Some((edge, from, *run))
            })
            .collect();
        let edge = sources.first().map(|(edge, ..)| *edge);
        let from = if plan.gathers {
            // By name, and the later run where two edges lead here from one node.
            let mut runs = BTreeMap::new();
            for (_, from, run) in sources {
                let latest = runs.entry(from).or_insert(run);
                *latest = run.max(*latest);
            }
            runs.into_iter().collect()
        } else {
            sources
                .first()
                .map(|(_, from, run)| (*from, *run))
                .into_iter()
                .collect()
        };
        let won = Won {
            scope,
            node,
            edge,
            from,
        };
        if plan.join == Join::Race {
            self.won.push(won);
        } else {
            self.open(scope, node, edge, won.from);
        }
    }

    /// Runs a race that was won, in place of what could still reach it. Of several, one to which
    /// no other leads.
    pub(super) fn run_winner(&mut self) {
        let leads_on = |from: &Won, to: &Won| {
            let upstream = self.graph.race_losers(to.node);
            from.scope == to.scope
                && from.node != to.node
                && upstream.is_some_and(|nodes| nodes.contains(from.node))
        };
        let is_first = |won: &Won| !self.won.iter().any(|other| leads_on(other, won));
        // Races of one loop may lead to each other.
        let first = self.won.iter().position(is_first).unwrap_or_default();
        let won = self.won.remove(first);
        if self.state.peek(won.scope).is_some() {
            self.cancel_race_losers(won.scope, won.node, None);
            let follows = self.state.next_seq;
            self.raced.push((won.scope, won.node, follows));
            self.open(won.scope, won.node, won.edge, won.from);
        }
    }

    /// Cancels what began after a race was won in this step, and leads there. Says whether
    /// something did.
    pub(super) fn cancel_race_losers_again(&mut self) -> bool {
        let raced = self.raced.clone();
        let mut lost = raced
            .iter()
            .map(|(scope, node, follows)| self.cancel_race_losers(*scope, *node, Some(*follows)));
        lost.any(|lost| lost)
    }

    /// A join that will not get what it waits for, if nothing is open any more.
    pub(super) fn half_decided(&self, scope: ScopeNo) -> Option<NodeIx> {
        let mut joins = self.state.peek(scope)?.joins.iter();
        let found = joins.find(|(node, joining)| {
            match self.graph.node(**node).map(|plan| plan.join) {
                Some(join) if join.counts() => joining.filled > 0,
                // An edge was taken, behind decisions of rounds that never closed.
                Some(Join::Any | Join::Race) => joining.holds_taken(),
                _ => false,
            }
        });
        found.map(|(node, _)| *node)
    }
}

impl Joining {
    /// Adds a decision. Says how many of its edge wait now, or nothing if it came too late
    /// for its round.
    fn add(&mut self, slot: usize, decision: Decision, loose: bool) -> Option<usize> {
        let slot = self.slots.get_mut(slot)?;
        if slot.owed > 0 {
            slot.owed -= 1;
            self.owing -= u32::from(slot.owed == 0);
            return Some(0);
        }
        match slot.head {
            None => {
                slot.head = Some(decision);
                self.filled += 1;
                self.taken += u32::from(decision != Decision::Dead);
            }
            // What is newer counts, and that it was taken counts more.
            Some(Decision::Dead) if loose => {
                slot.head = Some(decision);
                self.taken += u32::from(decision != Decision::Dead);
            }
            Some(Decision::Taken(_)) if loose => {}
            Some(_) => slot.rest.push(decision),
        }
        Some(slot.rest.len() + 1)
    }

    fn round(&self, join: Join) -> Round {
        let len = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        let decided = self.filled == len;
        let undecided = len.saturating_sub(self.filled);
        match join {
            Join::AllActive if decided && self.taken > 0 => Round::Runs,
            Join::All if decided && self.taken == len => Round::Runs,
            Join::Any | Join::Race if self.taken > 0 => Round::Runs,
            Join::Count(n) if self.taken >= n => Round::Runs,
            Join::Count(n) if self.taken + undecided < n => Round::Skips,
            Join::Each if decided && self.taken > 0 => Round::Over,
            _ if decided => Round::Skips,
            _ => Round::Open,
        }
    }

    /// Closes a round. Says which of its edges were taken, and which pages are not needed any
    /// more.
    fn close(&mut self) -> (Vec<(usize, ExecutionNo)>, Vec<ScopeNo>) {
        let mut taken = Vec::with_capacity(self.taken as usize);
        let mut unneeded = Vec::new();
        (self.filled, self.taken, self.owing) = (0, 0, 0);
        for (at, slot) in self.slots.iter_mut().enumerate() {
            match slot.head.take() {
                None => slot.owed = slot.owed.saturating_add(1),
                Some(decision) => {
                    if let Decision::Taken(run) = decision {
                        taken.push((at, run));
                    }
                    let (next, page) = slot.rest.pop();
                    slot.head = next;
                    unneeded.extend(page);
                }
            }
            self.filled += u32::from(slot.head.is_some());
            self.taken += u32::from(matches!(slot.head, Some(Decision::Taken(_))));
            self.owing += u32::from(slot.owed > 0);
        }
        (taken, unneeded)
    }

    /// Whether it is as if nothing had ever arrived.
    fn rests(&self) -> bool {
        self.filled == 0 && self.owing == 0
    }

    fn holds_taken(&self) -> bool {
        let taken = |decision: &Decision| matches!(decision, Decision::Taken(_));
        self.slots
            .iter()
            .any(|Slot { head, rest, .. }| head.iter().chain(rest.iter()).any(taken))
    }
}
