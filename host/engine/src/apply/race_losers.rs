//! The executions that a race cancels: those that can still reach the race in the round that it has
//! won.
//!
//! A join `any`, `race` or `count` that has run absorbs the decisions that its round still owes. An
//! execution that leads to the race only through such a join cannot reach it any more, and
//! continues as if there were no race. The same holds behind a join `all` whose round cannot run.
//!
//! Decisions of one edge differ only by their order. So an edge is spent only if all decisions that
//! may still come over it are absorbed: if more may come, one of them gets through, and all
//! executions that lead to the edge are cancelled.
//!
//! Most races have no spent edge in front of them and use the set of nodes that the graph keeps.
//! Otherwise a race costs one walk over the nodes in front of it.

use windlass_model::definition::Join;
use windlass_model::{ScopeNo, Seq};

use super::step::Step;
use crate::graph::{EdgeIx, NodeIx, NodeSet, Plan};
use crate::state::{Joining, Local};

/// An unbounded number of executions, or of decisions of one edge: an active loop can make any
/// number.
const MANY: u32 = u32::MAX;

impl Step<'_> {
    /// Cancels the executions that can still reach a node in the round that it has won, except
    /// `follows`, the execution of the node itself. Returns whether any were cancelled.
    pub(super) fn cancel_race_losers(
        &mut self,
        scope: ScopeNo,
        node: NodeIx,
        follows: Option<Seq>,
    ) -> bool {
        let Some(local) = self.state.peek(scope).filter(|local| !local.is_idle()) else {
            return false;
        };
        let Some(upstream) = self.graph.race_losers(node) else {
            return false;
        };
        let spent = |(at, joining): (&NodeIx, &Joining)| {
            *at != node
                && upstream.contains(*at)
                && self
                    .graph
                    .node(*at)
                    .is_some_and(|p| joining.absorbs(p.join))
        };
        let passing;
        let race_losers = if local.joins.iter().any(spent) {
            passing = self.unspent(scope, local, node, upstream);
            &passing
        } else {
            upstream
        };
        let open = self.opened(local);
        let lost: Vec<_> = open
            .filter(|(seq, node)| Some(*seq) != follows && race_losers.contains(*node))
            .map(|(seq, _)| seq)
            .collect();
        let found = !lost.is_empty();
        for seq in lost {
            self.cancel(scope, seq);
        }
        found
    }

    /// The open executions, for-each nodes and queued node runs of a scope.
    fn opened(&self, local: &Local) -> impl Iterator<Item = (Seq, NodeIx)> {
        let open = local.open.iter();
        let open = open.filter_map(|seq| Some((*seq, self.state.open.get(seq)?.node)));
        let lists = local.lists.iter().map(|(seq, list)| (*seq, list.node));
        let queued = local.queued.values().map(|open| (open.seq, open.node));
        open.chain(lists).chain(queued)
    }

    /// The nodes in front of a race that can still reach it.
    fn unspent(&self, scope: ScopeNo, local: &Local, race: NodeIx, upstream: &NodeSet) -> NodeSet {
        let coming = self.coming(scope, local, race, upstream);
        let passes = |at: EdgeIx| {
            let Some(edge) = self.graph.edge(at).filter(|edge| !edge.backward) else {
                return true;
            };
            let join = self.graph.node(edge.to).map(|plan| plan.join);
            let joining = local.joins.get(&edge.to).filter(|_| edge.to != race);
            let (Some(join), Some(joining)) = (join, joining) else {
                return true;
            };
            coming.over(at) > joining.absorbed(edge.slot as usize, join)
        };
        self.graph.upstream(race, &passes)
    }

    /// An upper bound of the decisions that may still come over the edges in front of a race.
    fn coming(&self, scope: ScopeNo, local: &Local, race: NodeIx, upstream: &NodeSet) -> Coming {
        let mut coming = Coming {
            edges: vec![0; self.graph.edges.len()],
        };
        let mut runs = vec![0_u32; self.graph.nodes.len()];
        let external = self.state.external.values();
        let external = external.filter(|open| open.scope == scope);
        let open = self.opened(local).map(|(_, node)| node);
        for node in open.chain(external.map(|open| open.node)) {
            if let Some(runs) = runs.get_mut(node.at()) {
                *runs = runs.saturating_add(1);
            }
        }
        for (_, edge, _) in self.work.iter().filter(|(at, ..)| *at == scope) {
            coming.add(*edge, 1);
        }
        let loops = self.graph.loops_without(race);
        for &node in self.graph.forward() {
            if !upstream.contains(node) {
                continue;
            }
            let Some(plan) = self.graph.node(node) else {
                continue;
            };
            let more = arriving(plan, local.joins.get(&node), &coming);
            let mut runs = runs.get(node.at()).copied().unwrap_or_default();
            runs = runs.saturating_add(more);
            let around = plan.innermost.and_then(|at| loops.get(at.at()));
            if let Some(around) = around.copied().flatten()
                && (runs > 0 || local.loops.contains_key(&around))
            {
                runs = MANY;
            }
            if runs > 0 {
                for edge in &plan.outbound {
                    coming.add(*edge, runs);
                }
            }
        }
        coming
    }
}

/// How often a node may still run or be skipped through its forward edges.
fn arriving(plan: &Plan, joining: Option<&Joining>, coming: &Coming) -> u32 {
    let all = || plan.inbound.iter().map(|edge| coming.over(*edge));
    if plan.join == Join::Each || plan.inbound.len() <= 1 {
        return all().fold(0, u32::saturating_add);
    }
    let absorbed = |slot| joining.map_or(0, |it| it.owed(slot));
    let waiting = |slot| joining.map_or(0, |it| it.waiting(slot));
    // Each round needs a decision of at least one edge, and takes one decision of each edge that
    // has any.
    let rounds = all().enumerate().map(|(slot, coming)| {
        let fresh = coming.saturating_sub(absorbed(slot));
        (fresh, fresh.saturating_add(waiting(slot)))
    });
    let (fresh, most) = rounds.fold((0, 0), |(fresh, most), (new, all)| {
        (new.max(fresh), all.max(most))
    });
    if fresh == 0 { 0 } else { most }
}

/// By edge, how many decisions may still come over it.
struct Coming {
    edges: Vec<u32>,
}

impl Coming {
    fn over(&self, edge: EdgeIx) -> u32 {
        self.edges.get(edge.at()).copied().unwrap_or_default()
    }

    fn add(&mut self, edge: EdgeIx, more: u32) {
        if let Some(coming) = self.edges.get_mut(edge.at()) {
            *coming = coming.saturating_add(more);
        }
    }
}

impl Joining {
    /// Whether some future decisions lead to no run of the join.
    fn absorbs(&self, join: Join) -> bool {
        self.owing > 0 || self.misses(join)
    }

    /// How many of the next decisions of one edge lead to no run of the join.
    fn absorbed(&self, slot: usize, join: Join) -> u32 {
        let undecided = self.slots.get(slot).is_some_and(|slot| slot.head.is_none());
        self.owed(slot) + u32::from(undecided && self.misses(join))
    }

    /// Whether a join `all` cannot run in this round.
    fn misses(&self, join: Join) -> bool {
        join == Join::All && self.taken < self.filled
    }

    fn owed(&self, slot: usize) -> u32 {
        self.slots.get(slot).map_or(0, |slot| slot.owed)
    }

    fn waiting(&self, slot: usize) -> u32 {
        let waiting = self
            .slots
            .get(slot)
            .map_or(0, |slot| usize::from(slot.head.is_some()) + slot.rest.len());
        u32::try_from(waiting).unwrap_or(MANY)
    }
}
