//! Moves the state of a run that ended without completing to a newer version of its workflow.
//!
//! Both graphs number the nodes of the older one alike
//! ([`windlass_model::Definition::node_order`]), so records of executions keep their meaning; the
//! numbers of nodes that the newer one lacks stay unused. The rest of the state has to find an equal
//! place in the new graph: node runs that were cut off with the edges that led to them, joins in the
//! middle of a round, active loops. A state without an equal place is refused, because the run would
//! wait forever, leave a node out in silence, or run a finished node again.

use std::collections::{BTreeMap, BTreeSet};

use super::{Joining, RunState};
use crate::graph::{BodyIx, Edge, EdgeIx, Graph, LoopIx, NodeIx};

/// Why the state of a run does not fit another graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node `{node}`: {why}")]
pub struct Misfit {
    /// The node that prevents it.
    pub node: String,
    /// The reason.
    pub why: String,
}

/// What the state of the new graph needs from the records of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Nodes whose output only the new graph names: see [`RunState::supply`].
    pub outputs: BTreeSet<NodeIx>,
    /// Nodes whose visits only the new graph counts: they must not have been executed.
    pub visits: BTreeSet<NodeIx>,
}

impl RunState {
    /// Moves the state of an ended run from its graph to another one. With `over`, the run starts
    /// over from a node, so no join, no loop and no cut-off node run continues.
    ///
    /// # Errors
    ///
    /// A live part of the state has no equal place in the new graph. The state may be changed then.
    pub fn refit(&mut self, old: &Graph, new: &Graph, over: bool) -> Result<Missing, Misfit> {
        let fit = Fit::of(old, new);
        fit.nodes()?;
        if !over {
            let begins: BTreeSet<NodeIx> = self.remains.open.iter().map(|open| open.node).collect();
            self.refit_remains(&fit)?;
            self.refit_joins(&fit)?;
            self.refit_loops(&fit)?;
            let spent = fit.spent(&self.root.joins, &begins);
            fit.ways(&begins, &spent, &|node| self.root.joins.contains_key(&node))?;
        }
        self.forget_former(&fit)?;
        let mut missing = Missing::default();
        let known = new.nodes().take_while(|(at, _)| at.at() < old.node_count());
        for (at, now) in known.filter(|(_, now)| now.body == BodyIx::ROOT) {
            let (named, linked) = old
                .node(at)
                .map_or((false, false), |plan| (plan.named, plan.linked));
            if now.named && !named {
                missing.outputs.insert(at);
            }
            if now.linked && !linked {
                missing.visits.insert(at);
            }
        }
        Ok(missing)
    }

    /// Removes the nodes that the new graph lacks.
    fn forget_former(&mut self, fit: &Fit<'_>) -> Result<(), Misfit> {
        let is_former = |node: &NodeIx| fit.new.node(*node).is_none();
        let mut undone = self.ledger.entries.iter().map(|(node, _)| *node);
        if let Some(node) = undone.find(is_former) {
            let why = "it would be undone, and the new version does not have it";
            return Err(fit.misfit(node, why));
        }
        self.root.latest.retain(|node, _| !is_former(node));
        self.root.visits.retain(|node, _| !is_former(node));
        let joins: Vec<NodeIx> = self.root.joins.keys().copied().filter(is_former).collect();
        joins.into_iter().for_each(|node| self.drop_join(node));
        Ok(())
    }

    /// Records the latest successful execution of a node in the root scope.
    pub fn supply(&mut self, node: NodeIx, run: windlass_model::ExecutionNo) {
        self.root.latest.insert(node, run);
    }

    /// Whether the node run of a node was cut off when the run ended.
    pub fn cut_off(&self, node: NodeIx) -> bool {
        self.remains.open.iter().any(|open| open.node == node)
    }

    fn refit_remains(&mut self, fit: &Fit<'_>) -> Result<(), Misfit> {
        for open in &mut self.remains.open {
            if fit.new.node(open.node).is_none() {
                let why = "the run ended in it, and the new version does not have it";
                return Err(fit.misfit(open.node, why));
            }
            fit.same_loops(open.node)?;
            if let Some(edge) = open.edge {
                let why = "the edge that led to it does not exist any more";
                let edge = fit.edge(edge).ok_or_else(|| fit.misfit(open.node, why))?;
                open.edge = Some(edge);
            }
            // An output that no edge leads to the node any more is no part of its input.
            let sources = fit.sources(open.node);
            let first = open.from.first().map(|(node, _)| *node);
            open.from.retain(|(node, _)| sources.contains(node));
            if let Some(first) = first.filter(|_| open.from.is_empty() && open.input.is_none()) {
                let from = name_of(fit.old, first);
                let why = format!("its input is the output of `{from}`, which does not lead to it");
                return Err(fit.misfit(open.node, &why));
            }
            let repeats = fit
                .new
                .node(open.node)
                .is_some_and(|it| it.repeat.is_some());
            open.round = open.round.filter(|_| repeats);
        }
        Ok(())
    }

    fn refit_joins(&self, fit: &Fit<'_>) -> Result<(), Misfit> {
        let joins = self.root.joins.keys();
        joins.copied().try_for_each(|node| {
            // What comes to a node that the new version lacks is dropped.
            if fit.new.node(node).is_none() || fit.same_join(node) {
                Ok(())
            } else {
                let why = "some of its edges are decided, and it has other edges or another `join`";
                Err(fit.misfit(node, why))
            }
        })
    }

    fn refit_loops(&mut self, fit: &Fit<'_>) -> Result<(), Misfit> {
        let mut loops = BTreeMap::new();
        for (at, mut looping) in std::mem::take(&mut self.root.loops) {
            let nodes = members(fit.old, at);
            let misfit = || {
                let former = nodes.iter().find(|node| fit.new.node(**node).is_none());
                match (former, nodes.first()) {
                    (Some(node), _) => {
                        let why = "its loop is active, and the new version does not have it";
                        fit.misfit(*node, why)
                    }
                    (None, node) => fit.misfit(
                        node.copied().unwrap_or(NodeIx(0)),
                        "its loop is active, and is another one in the new version",
                    ),
                }
            };
            let now = fit.same_loop(at).ok_or_else(misfit)?;
            let taken = looping.taken.iter().map(|edge| fit.edge(*edge));
            let taken: Option<Vec<EdgeIx>> = taken.collect();
            looping.taken = taken.ok_or_else(misfit)?;
            looping.taken.sort_unstable();
            loops.insert(now, looping);
        }
        self.root.loops = loops;
        Ok(())
    }
}

struct Fit<'a> {
    old: &'a Graph,
    new: &'a Graph,
    /// The edges of the old graph.
    known: BTreeSet<Key<'a>>,
}

/// What makes an edge the same in two graphs: its name, its source, its target, and whether it is
/// backward.
type Key<'a> = (&'a str, NodeIx, NodeIx, bool);

fn key(edge: &Edge) -> Key<'_> {
    (&edge.id, edge.from, edge.to, edge.backward)
}

impl<'a> Fit<'a> {
    fn of(old: &'a Graph, new: &'a Graph) -> Self {
        let known = old.edges().iter().map(key).collect();
        Self { old, new, known }
    }

    fn misfit(&self, node: NodeIx, why: &str) -> Misfit {
        let plan = self.old.node(node).or_else(|| self.new.node(node));
        Misfit {
            node: plan.map(|plan| plan.name.clone()).unwrap_or_default(),
            why: why.to_owned(),
        }
    }

    /// Every node of the old graph that the new one has is in the same body there.
    fn nodes(&self) -> Result<(), Misfit> {
        let container = |graph: &Graph, body: BodyIx| {
            let container = graph.body(body)?.container?;
            Some(graph.node(container)?.name.clone())
        };
        for (at, plan) in self.old.nodes() {
            let Some(now) = self.new.node(at) else {
                continue;
            };
            if now.name != plan.name {
                return Err(self.misfit(at, "its number is that of another node"));
            }
            if container(self.old, plan.body) != container(self.new, now.body) {
                return Err(self.misfit(at, "it is in another for-each in the new version"));
            }
        }
        Ok(())
    }

    /// The nodes from which an edge of the new graph leads to a node.
    fn sources(&self, node: NodeIx) -> BTreeSet<NodeIx> {
        let plan = self.new.node(node).into_iter();
        let edges = plan.flat_map(|plan| plan.inbound.iter().chain(&plan.reentries));
        let edges = edges.filter_map(|at| self.new.edge(*at));
        edges.map(|edge| edge.from).collect()
    }

    /// Whether a node has the same `join` and the same edges into it, in the same order.
    fn same_join(&self, node: NodeIx) -> bool {
        let inbound = |graph: &Graph, edges: &[EdgeIx]| {
            let all = edges.iter().filter_map(|at| graph.edge(*at));
            all.map(|edge| (edge.id.clone(), edge.from))
                .collect::<Vec<_>>()
        };
        let (Some(before), Some(now)) = (self.old.node(node), self.new.node(node)) else {
            return false;
        };
        before.join == now.join
            && inbound(self.old, &before.inbound) == inbound(self.new, &now.inbound)
    }

    /// The equal edge of the new graph.
    fn edge(&self, edge: EdgeIx) -> Option<EdgeIx> {
        let edge = self.old.edge(edge)?;
        let same = |other: &Edge| key(other) == key(edge);
        let at = self.new.edges().iter().position(same)?;
        u32::try_from(at).ok().map(EdgeIx)
    }

    /// The equal loop of the new graph: the same nodes inside, the same exits and loops around it.
    fn same_loop(&self, at: LoopIx) -> Option<LoopIx> {
        let node = members(self.old, at).first().copied()?;
        let depth = self.old.loops().get(at.0 as usize)?.depth;
        let now = self.new.loops_of(node).find(|now| {
            let found = self.new.loops().get(now.0 as usize);
            found.is_some_and(|found| found.depth == depth)
        })?;
        let (before, after) = (
            self.old.loops().get(at.0 as usize)?,
            self.new.loops().get(now.0 as usize)?,
        );
        let ids = |graph: &Graph, edges: &[EdgeIx]| {
            let edges = edges.iter().filter_map(|at| graph.edge(*at));
            edges
                .map(|edge| (edge.id.clone(), edge.from, edge.to))
                .collect::<BTreeSet<_>>()
        };
        let same = members(self.old, at) == members(self.new, now)
            && ids(self.old, &before.exits) == ids(self.new, &after.exits)
            && before.arrivals == after.arrivals
            && before.joins == after.joins;
        same.then_some(now)
    }

    /// A node run that continues is in equal loops.
    fn same_loops(&self, node: NodeIx) -> Result<(), Misfit> {
        let loops = |graph: &Graph| {
            let loops = graph.loops_of(node);
            loops.map(|at| members(graph, at)).collect::<Vec<_>>()
        };
        if loops(self.old) == loops(self.new) {
            return Ok(());
        }
        Err(self.misfit(node, "it is in another loop in the new version"))
    }

    /// The nodes outside of loops that have run or were left out, although some of their edges are
    /// not decided: the rest of their round is ignored.
    fn spent(
        &self,
        joins: &BTreeMap<NodeIx, Joining>,
        begins: &BTreeSet<NodeIx>,
    ) -> BTreeSet<NodeIx> {
        let in_loop = |graph: &Graph, node| graph.loops_of(node).next().is_some();
        let spent = joins.iter().filter(|(node, joining)| {
            let node = **node;
            joining.owing > 0
                && !begins.contains(&node)
                && !in_loop(self.old, node)
                && !in_loop(self.new, node)
        });
        spent.map(|(node, _)| *node).collect()
    }

    /// From the nodes that continue, every node ahead gets a decision for each of its edges, every
    /// new node is ahead, and every other node is ahead only if it was before. `waits`: some edges
    /// of this node are decided.
    fn ways(
        &self,
        begins: &BTreeSet<NodeIx>,
        spent: &BTreeSet<NodeIx>,
        waits: &dyn Fn(NodeIx) -> bool,
    ) -> Result<(), Misfit> {
        let before = ahead(self.old, begins, spent);
        let now = ahead(self.new, begins, spent);
        for edge in self.new.edges() {
            if !now.contains(&edge.to) || now.contains(&edge.from) || edge.backward {
                continue;
            }
            // The source has ended or was left out. Its edges were decided then.
            if !self.is_known(edge) || before.contains(&edge.from) {
                let from = name_of(self.new, edge.from);
                let why = format!("its edge from `{from}` is new, and `{from}` does not run again");
                return Err(self.misfit(edge.to, &why));
            }
        }
        for &node in &now {
            self.comes_once(node, begins, &before, &now, waits)?;
        }
        self.left_out(&before, &now)?;
        let undoes: BTreeSet<NodeIx> = {
            let plans = self.new.nodes();
            plans.filter_map(|(_, plan)| plan.compensate).collect()
        };
        for (at, plan) in self.new.nodes() {
            let is_new = self.old.node(at).is_none();
            if is_new && plan.body == BodyIx::ROOT && !now.contains(&at) && !undoes.contains(&at) {
                return Err(self.misfit(at, "it is new, and the run would never reach it"));
            }
        }
        Ok(())
    }

    /// A node ahead gets the decisions of one round: its decided edges are not decided again, and
    /// those that are not decided are ahead.
    fn comes_once(
        &self,
        node: NodeIx,
        begins: &BTreeSet<NodeIx>,
        before: &BTreeSet<NodeIx>,
        now: &BTreeSet<NodeIx>,
        waits: &dyn Fn(NodeIx) -> bool,
    ) -> Result<(), Misfit> {
        let Some(plan) = self.new.node(node) else {
            return Ok(());
        };
        if self.old.node(node).is_some() && !before.contains(&node) {
            let all = plan.inbound.iter().chain(&plan.reentries);
            let mut all = all.filter_map(|at| self.new.edge(*at));
            let next = all.find(|edge| now.contains(&edge.from));
            let from = next.map_or("", |edge| name_of(self.new, edge.from));
            let why = format!("it has ended or was left out, and `{from}` would lead to it again");
            return Err(self.misfit(node, &why));
        }
        let edges = plan.inbound.iter().filter_map(|at| self.new.edge(*at));
        let (coming, decided): (Vec<&Edge>, Vec<&Edge>) =
            edges.partition(|edge| now.contains(&edge.from));
        if coming.is_empty() {
            return Ok(());
        }
        let is_clean = decided.is_empty() && !waits(node) && !begins.contains(&node);
        if is_clean || self.same_join(node) {
            return Ok(());
        }
        let why = "some of its edges are decided, and it has other edges or another `join`";
        Err(self.misfit(node, why))
    }

    /// A node that was ahead, and is not any more, has run or was left out before.
    fn left_out(&self, before: &BTreeSet<NodeIx>, now: &BTreeSet<NodeIx>) -> Result<(), Misfit> {
        let lost = before.difference(now).copied();
        let mut lost: BTreeSet<NodeIx> =
            lost.filter(|node| self.new.node(*node).is_some()).collect();
        let known = |at: &EdgeIx| self.new.edge(*at).filter(|edge| self.is_known(edge));
        let has_ended = |edge: &Edge| !before.contains(&edge.from) && !now.contains(&edge.from);
        let is_decided = |node: &NodeIx| {
            let plan = self.new.node(*node).into_iter();
            let mut edges = plan.flat_map(|plan| &plan.inbound).filter_map(known);
            edges.any(has_ended)
        };
        let mut decided: Vec<NodeIx> = lost.iter().copied().filter(is_decided).collect();
        // If a node has run or was left out, so have the nodes to which its edges led.
        while let Some(node) = decided.pop() {
            if lost.remove(&node) {
                let plan = self.new.node(node).into_iter();
                let edges = plan.flat_map(|plan| &plan.outbound).filter_map(known);
                decided.extend(edges.map(|edge| edge.to));
            }
        }
        match lost.first() {
            None => Ok(()),
            Some(node) => {
                let why = "no node that runs again leads to it in the new version";
                Err(self.misfit(*node, why))
            }
        }
    }

    fn is_known(&self, edge: &Edge) -> bool {
        self.known.contains(&key(edge))
    }
}

fn name_of(graph: &Graph, node: NodeIx) -> &str {
    graph.node(node).map_or("", |plan| plan.name.as_str())
}

/// The nodes in a loop, those of the loops inside it included.
fn members(graph: &Graph, at: LoopIx) -> Vec<NodeIx> {
    let inside = |node: &NodeIx| graph.loops_of(*node).any(|found| found == at);
    graph.nodes().map(|(node, _)| node).filter(inside).collect()
}

/// These nodes, and all to which they lead by nodes that are not spent.
fn ahead(graph: &Graph, begins: &BTreeSet<NodeIx>, spent: &BTreeSet<NodeIx>) -> BTreeSet<NodeIx> {
    let mut next: Vec<NodeIx> = begins.iter().copied().collect();
    let mut found = begins.clone();
    while let Some(plan) = next.pop().and_then(|node| graph.node(node)) {
        let targets = plan.outbound.iter().filter_map(|at| graph.edge(*at));
        next.extend(
            targets
                .map(|edge| edge.to)
                .filter(|target| !spent.contains(target) && found.insert(*target)),
        );
    }
    found
}
