//! Moves the state of a run that ended without completing to a newer version of its workflow.
//!
//! Both graphs number the nodes of the older one alike
//! ([`windlass_model::Definition::node_order`]), so records of executions keep their meaning. The
//! rest of the state has to find an equal place in the new graph: node runs that were cut off with
//! the edges that led to them, joins in the middle of a round, active loops. What has no equal place
//! is refused, because the run would wait forever or leave a node out in silence.

use std::collections::{BTreeMap, BTreeSet};

use super::RunState;
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
        let fit = Fit { old, new };
        fit.nodes()?;
        if !over {
            self.refit_remains(&fit)?;
            self.refit_joins(&fit)?;
            self.refit_loops(&fit)?;
            fit.ways(self.remains.open.iter().map(|open| open.node))?;
        }
        let mut missing = Missing::default();
        for (at, plan) in old.nodes().filter(|(_, plan)| plan.body == BodyIx::ROOT) {
            let Some(now) = new.node(at) else { continue };
            if now.named && !plan.named {
                missing.outputs.insert(at);
            }
            if now.linked && !plan.linked {
                missing.visits.insert(at);
            }
        }
        Ok(missing)
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
            fit.same_loops(open.node)?;
            if let Some(edge) = open.edge {
                let why = "the edge that led to it does not exist any more";
                let edge = fit.edge(edge).ok_or_else(|| fit.misfit(open.node, why))?;
                open.edge = Some(edge);
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
            let (Some(before), Some(now)) = (fit.old.node(node), fit.new.node(node)) else {
                return Err(fit.misfit(node, "it does not exist any more"));
            };
            let inbound = |graph: &Graph, edges: &[EdgeIx]| {
                let all = edges.iter().filter_map(|at| graph.edge(*at));
                all.map(|edge| (edge.id.clone(), edge.from))
                    .collect::<Vec<_>>()
            };
            let same = before.join == now.join
                && inbound(fit.old, &before.inbound) == inbound(fit.new, &now.inbound);
            if same {
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
                let node = nodes.first().copied().unwrap_or(NodeIx(0));
                fit.misfit(
                    node,
                    "its loop is active, and is another one in the new version",
                )
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
}

impl Fit<'_> {
    fn misfit(&self, node: NodeIx, why: &str) -> Misfit {
        let plan = self.old.node(node).or_else(|| self.new.node(node));
        Misfit {
            node: plan.map(|plan| plan.name.clone()).unwrap_or_default(),
            why: why.to_owned(),
        }
    }

    /// Every node of the old graph is in the new one, with the same number and in the same body.
    fn nodes(&self) -> Result<(), Misfit> {
        let container = |graph: &Graph, body: BodyIx| {
            let container = graph.body(body)?.container?;
            Some(graph.node(container)?.name.clone())
        };
        for (at, plan) in self.old.nodes() {
            let now = self.new.node(at).filter(|now| now.name == plan.name);
            let Some(now) = now else {
                return Err(self.misfit(at, "the new version does not have it"));
            };
            if container(self.old, plan.body) != container(self.new, now.body) {
                return Err(self.misfit(at, "it is in another for-each in the new version"));
            }
        }
        Ok(())
    }

    /// The equal edge of the new graph.
    fn edge(&self, edge: EdgeIx) -> Option<EdgeIx> {
        let edge = self.old.edge(edge)?;
        let same = |other: &Edge| is_same(edge, other);
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

    /// From the nodes that continue, every node ahead gets a decision for each of its edges, and
    /// every new node is ahead.
    fn ways(&self, begins: impl Iterator<Item = NodeIx> + Clone) -> Result<(), Misfit> {
        let before = ahead(self.old, begins.clone());
        let now = ahead(self.new, begins);
        for edge in self.new.edges() {
            if !now.contains(&edge.to) || now.contains(&edge.from) || edge.backward {
                continue;
            }
            // The source has ended or was left out. Its edges were decided then.
            let known = self.old.edges().iter().any(|old| is_same(old, edge));
            if !known || before.contains(&edge.from) {
                let from = self.new.node(edge.from);
                let from = from.map(|plan| plan.name.as_str()).unwrap_or_default();
                let why = format!("its edge from `{from}` is new, and `{from}` does not run again");
                return Err(self.misfit(edge.to, &why));
            }
        }
        let undoes: BTreeSet<NodeIx> = {
            let plans = self.new.nodes();
            plans.filter_map(|(_, plan)| plan.compensate).collect()
        };
        let count = self.old.nodes().count();
        for (at, plan) in self.new.nodes().skip(count) {
            if plan.body == BodyIx::ROOT && !now.contains(&at) && !undoes.contains(&at) {
                return Err(self.misfit(at, "it is new, and the run would never reach it"));
            }
        }
        Ok(())
    }
}

fn is_same(edge: &Edge, other: &Edge) -> bool {
    edge.id == other.id
        && edge.from == other.from
        && edge.to == other.to
        && edge.backward == other.backward
}

/// The nodes in a loop, those of the loops inside it included.
fn members(graph: &Graph, at: LoopIx) -> Vec<NodeIx> {
    let inside = |node: &NodeIx| graph.loops_of(*node).any(|found| found == at);
    graph.nodes().map(|(node, _)| node).filter(inside).collect()
}

/// These nodes, and all to which they lead.
fn ahead(graph: &Graph, begins: impl Iterator<Item = NodeIx>) -> BTreeSet<NodeIx> {
    let mut next: Vec<NodeIx> = begins.collect();
    let mut found: BTreeSet<NodeIx> = next.iter().copied().collect();
    while let Some(plan) = next.pop().and_then(|node| graph.node(node)) {
        let targets = plan.outbound.iter().filter_map(|at| graph.edge(*at));
        next.extend(
            targets
                .map(|edge| edge.to)
                .filter(|target| found.insert(*target)),
        );
    }
    found
}
