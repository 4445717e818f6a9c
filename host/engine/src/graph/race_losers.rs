//! The nodes from which a node can be reached in one round.

use super::{EdgeIx, Graph, LoopIx, NodeIx, Plan};

/// A set of nodes.
#[derive(Debug, Default)]
pub(crate) struct NodeSet(Box<[u64]>);

impl NodeSet {
    fn of(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)].into())
    }

    /// Whether the set contains a node.
    pub(crate) fn contains(&self, node: NodeIx) -> bool {
        self.0
            .get(node.at() / 64)
            .is_some_and(|word| word >> (node.at() % 64) & 1 == 1)
    }

    /// Adds a node. Returns whether it is new.
    fn insert(&mut self, node: NodeIx) -> bool {
        let Some(word) = self.0.get_mut(node.at() / 64) else {
            return false;
        };
        let before = *word;
        *word |= 1 << (node.at() % 64);
        before != *word
    }
}

impl Graph {
    /// The nodes from which a path leads to this node in the same round: over all edges except the
    /// backward edges of the loops that contain it.
    pub(crate) fn race_losers(&self, node: NodeIx) -> Option<&NodeSet> {
        let plan = self.node(node)?;
        Some(
            plan.race_losers
                .get_or_init(|| self.upstream(node, &|_| true)),
        )
    }

    /// As [`Graph::race_losers`], only over edges for which `passes` is true.
    pub(crate) fn upstream(&self, node: NodeIx, passes: &dyn Fn(EdgeIx) -> bool) -> NodeSet {
        let around: Vec<_> = self.loops_of(node).collect();
        let mut race_losers = NodeSet::of(self.nodes.len());
        let mut todo = vec![node];
        while let Some(at) = todo.pop() {
            let Some(plan) = self.node(at) else { continue };
            // A backward edge belongs to the innermost loop of its target.
            let next_round = plan.innermost.is_some_and(|at| around.contains(&at));
            let backward = if next_round {
                &[]
            } else {
                plan.reentries.as_slice()
            };
            let sources = plan
                .inbound
                .iter()
                .chain(backward)
                .filter(|edge| passes(**edge))
                .filter_map(|edge| self.edge(*edge));
            todo.extend(
                sources
                    .map(|edge| edge.from)
                    .filter(|from| race_losers.insert(*from)),
            );
        }
        race_losers
    }

    /// All nodes. Each comes after the nodes from which forward edges lead to it.
    pub(crate) fn forward(&self) -> &[NodeIx] {
        self.forward.get_or_init(|| {
            let forward = |edge: &&EdgeIx| self.edge(**edge).is_some_and(|edge| !edge.backward);
            let inbound = |plan: &Option<Plan>| plan.as_ref().map_or(0, |plan| plan.inbound.len());
            let mut missing: Vec<usize> = self.nodes.iter().map(inbound).collect();
            let mut order: Vec<NodeIx> = self
                .nodes()
                .filter(|(_, plan)| plan.inbound.is_empty())
                .map(|(node, _)| node)
                .collect();
            let mut at = 0;
            while let Some(plan) = order.get(at).and_then(|node| self.node(*node)) {
                at += 1;
                for edge in plan.outbound.iter().filter(forward) {
                    let Some(edge) = self.edge(*edge) else {
                        continue;
                    };
                    if let Some(missing) = missing.get_mut(edge.to.at()) {
                        *missing = missing.saturating_sub(1);
                        if *missing == 0 {
                            order.push(edge.to);
                        }
                    }
                }
            }
            order
        })
    }

    /// By loop: the outermost loop, counting the loop itself and those around it, that does not
    /// contain the node; none if the loop contains the node.
    pub(crate) fn loops_without(&self, node: NodeIx) -> Vec<Option<LoopIx>> {
        let around: Vec<_> = self.loops_of(node).collect();
        let mut outermost: Vec<Option<LoopIx>> = Vec::with_capacity(self.loops.len());
        for (at, inner) in (0..).map(LoopIx).zip(&self.loops) {
            let parent = inner.parent.and_then(|parent| outermost.get(parent.at()));
            let found = match parent.copied().flatten() {
                Some(outer) => Some(outer),
                None => (!around.contains(&at)).then_some(at),
            };
            outermost.push(found);
        }
        outermost
    }
}
