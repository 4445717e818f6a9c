//! Finds the backward edges and the loops of a body in the simplest way.
//!
//! A loop is a set of nodes in which each leads to every other. The edges inside it that lead to
//! its only entry are backward; without them it may fall apart into inner loops.

use std::collections::BTreeSet;

use super::flow::{Edge, Node};

/// The loops of a body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    /// Backward edges, by position.
    pub(crate) backward: BTreeSet<usize>,
    /// The nodes of each loop, by position; outer loops before inner ones.
    pub(crate) loops: Vec<BTreeSet<usize>>,
}

impl Shape {
    /// None: a loop has several entries.
    pub(crate) fn of(nodes: &[Node], edges: &[Edge]) -> Option<Self> {
        let at = |name: &str| nodes.iter().position(|node| node.name == name).unwrap();
        let ends: Vec<(usize, usize)> = edges
            .iter()
            .map(|edge| (at(&edge.from), at(&edge.to)))
            .collect();
        let mut shape = Self::default();
        shape.split(&(0..nodes.len()).collect(), &ends)?;
        Some(shape)
    }

    fn split(&mut self, nodes: &BTreeSet<usize>, ends: &[(usize, usize)]) -> Option<()> {
        let mut left = nodes.clone();
        while let Some(first) = left.pop_first() {
            let around = self.around(first, nodes, ends);
            if around.is_empty() {
                continue;
            }
            left.retain(|node| !around.contains(node));
            let entries: BTreeSet<usize> = self
                .alive(ends)
                .filter(|(_, (from, to))| !around.contains(from) && around.contains(to))
                .map(|(_, (_, to))| to)
                .collect();
            let entry = match entries.len() {
                // Nodes lead to later nodes, so the loop begins with the first.
                0 => *around.first()?,
                1 => *entries.first()?,
                _ => return None,
            };
            let back: Vec<usize> = self
                .alive(ends)
                .filter(|(_, (from, to))| around.contains(from) && *to == entry)
                .map(|(at, _)| at)
                .collect();
            self.backward.extend(back);
            self.loops.push(around.clone());
            self.split(&around, ends)?;
        }
        Some(())
    }

    fn alive<'a>(
        &'a self,
        ends: &'a [(usize, usize)],
    ) -> impl Iterator<Item = (usize, (usize, usize))> + 'a {
        let all = ends.iter().copied().enumerate();
        all.filter(|(at, _)| !self.backward.contains(at))
    }

    /// Of these nodes, those that lead to `node` and back; none if it does not lead to itself.
    fn around(
        &self,
        node: usize,
        nodes: &BTreeSet<usize>,
        ends: &[(usize, usize)],
    ) -> BTreeSet<usize> {
        let reach = |turned: bool| {
            let mut found = BTreeSet::new();
            let mut todo = vec![node];
            while let Some(at) = todo.pop() {
                for (_, (from, to)) in self.alive(ends) {
                    let (from, to) = if turned { (to, from) } else { (from, to) };
                    if from == at && nodes.contains(&to) && found.insert(to) {
                        todo.push(to);
                    }
                }
            }
            found
        };
        reach(false).intersection(&reach(true)).copied().collect()
    }
}

/// The edges that are not backward.
pub(crate) fn forward(nodes: &[Node], edges: &[Edge]) -> Vec<Edge> {
    let backward = Shape::of(nodes, edges).unwrap_or_default().backward;
    let edges = edges.iter().enumerate();
    edges
        .filter(|(at, _)| !backward.contains(at))
        .map(|(_, edge)| edge.clone())
        .collect()
}

/// Removes edges until the first of these two nodes is the only entry of their loop. None: there is
/// no such loop, or another loop has several entries then.
pub(crate) fn with_one_entry(
    nodes: &[Node],
    edges: &[Edge],
    entry: usize,
    last: usize,
) -> Option<Vec<Edge>> {
    let name = |at: usize| nodes.get(at).map(|node| node.name.as_str());
    let mut ends = Vec::new();
    for edge in edges {
        let at = |name: &str| nodes.iter().position(|node| node.name == name);
        ends.push((at(&edge.from)?, at(&edge.to)?));
    }
    let all = (0..nodes.len()).collect();
    let around = Shape::default().around(entry, &all, &ends);
    if !around.contains(&last) {
        return None;
    }
    let inside = |wanted: &str| around.iter().any(|at| name(*at) == Some(wanted));
    let kept: Vec<Edge> = edges
        .iter()
        .filter(|edge| inside(&edge.from) || !inside(&edge.to) || name(entry) == Some(&edge.to))
        .cloned()
        .collect();
    Shape::of(nodes, &kept).map(|_| kept)
}
