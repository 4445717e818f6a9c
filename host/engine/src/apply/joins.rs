//! Nodes with several forward inbound edges.
//!
//! The decisions about an edge belong to rounds, in the order in which they arrive. If a round
//! closes before an edge is decided, that edge owes a decision: its next decision is ignored. The
//! counters are relative to the rounds that are over. So they work alike in every round of a loop,
//! and a join at rest takes no memory.

use std::collections::BTreeMap;

use windlass_model::definition::Join;
use windlass_model::{ExecutionNo, ScopeNo, limits};

use super::step::Step;
use crate::graph::{EdgeIx, NodeIx, Plan};
use crate::state::{Decision, Joining, Slot};

/// The state of the current round of a join.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    /// More decisions are needed.
    Open,
    /// The node runs.
    Runs,
    /// The node is skipped.
    Skips,
    /// The round is over, and the node has already run for each taken edge.
    Over,
}

/// A race that was won. Its node runs once all consequences of the same execution are decided, so
/// that the order of edges does not affect which executions the race cancels.
pub(super) struct Won {
    scope: ScopeNo,
    node: NodeIx,
    edge: Option<EdgeIx>,
    from: Vec<(NodeIx, ExecutionNo)>,
}

impl Step<'_> {
    /// Adds a decision to a join, and closes the rounds that it completes.
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

    /// Whether the node is on a cycle with several entries. There, the rounds of different edges do
    /// not correspond.
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
            // Sources are ordered by name. If two edges lead here from one node, its later
            // execution counts.
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

    /// Runs the node of a race that was won, and cancels the executions that can still reach it. Of
    /// several races, one that no other race leads to runs first.
    pub(super) fn run_winner(&mut self) {
        let leads_on = |from: &Won, to: &Won| {
            let upstream = self.graph.race_losers(to.node);
            from.scope == to.scope
                && from.node != to.node
                && upstream.is_some_and(|nodes| nodes.contains(from.node))
        };
        let is_first = |won: &Won| !self.won.iter().any(|other| leads_on(other, won));
        // Races in one loop may lead to each other: then no race is the first, and any of them
        // runs.
        let first = self.won.iter().position(is_first).unwrap_or_default();
        let won = self.won.remove(first);
        if self.state.peek(won.scope).is_some() {
            self.cancel_race_losers(won.scope, won.node, None);
            let follows = self.state.next_seq;
            self.raced.push((won.scope, won.node, follows));
            self.open(won.scope, won.node, won.edge, won.from);
        }
    }

    /// Cancels executions that began after a race was won in this step and that lead to it. Returns
    /// whether any were cancelled.
    pub(super) fn cancel_race_losers_again(&mut self) -> bool {
        let raced = self.raced.clone();
        let mut lost = raced
            .iter()
            .map(|(scope, node, follows)| self.cancel_race_losers(*scope, *node, Some(*follows)));
        lost.any(|lost| lost)
    }

    /// A join whose round cannot complete once no execution is open.
    pub(super) fn half_decided(&self, scope: ScopeNo) -> Option<NodeIx> {
        let mut joins = self.state.peek(scope)?.joins.iter();
        let found = joins.find(|(node, joining)| {
            match self.graph.node(**node).map(|plan| plan.join) {
                Some(join) if join.counts() => joining.filled > 0,
                // A taken edge waits behind decisions of rounds that never closed.
                Some(Join::Any | Join::Race) => joining.holds_taken(),
                _ => false,
            }
        });
        found.map(|(node, _)| *node)
    }
}

impl Joining {
    /// Adds a decision. Returns how many decisions of its edge wait now, or `None` for an edge that
    /// does not exist. An owed decision belongs to a closed round and is dropped.
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
            // A newer decision replaces an older one, but `Dead` never replaces `Taken`.
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

    /// Closes a round. Returns the edges that were taken, and the pages that are no longer needed.
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

    /// Whether the join is as if no decision had ever arrived.
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
