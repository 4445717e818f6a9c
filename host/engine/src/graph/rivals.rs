//! What a race cancels.

use super::{Graph, NodeIx};

/// A set of nodes.
#[derive(Debug, Default)]
pub(crate) struct NodeSet(Box<[u64]>);

impl NodeSet {
    fn of(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)].into())
    }

    /// Whether a node is in it.
    pub(crate) fn contains(&self, node: NodeIx) -> bool {
        self.0
            .get(node.at() / 64)
            .is_some_and(|word| word >> (node.at() % 64) & 1 == 1)
    }

    /// Adds a node. Says whether it is new.
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
    /// The nodes from which a way leads to this one in the same round: over any edge but the
    /// backward ones of the loops that it is in.
    pub(crate) fn rivals(&self, node: NodeIx) -> Option<&NodeSet> {
        let plan = self.node(node)?;
        Some(plan.rivals.get_or_init(|| {
            let around: Vec<_> = self.loops_of(node).collect();
            let mut rivals = NodeSet::of(self.nodes.len());
            let mut todo = vec![node];
            while let Some(at) = todo.pop() {
                let Some(plan) = self.node(at) else { continue };
                // A backward edge belongs to the innermost loop of the node that it leads to.
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
                    .filter_map(|edge| self.edge(*edge));
                todo.extend(
                    sources
                        .map(|edge| edge.from)
                        .filter(|from| rivals.insert(*from)),
                );
            }
            rivals
        }))
    }
}
