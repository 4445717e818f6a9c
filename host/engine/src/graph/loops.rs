//! Finds the backward edges and the loops of a graph.
//!
//! A loop is a strongly connected component. If it has one entry (its header), the edges from
//! inside to the header are backward. Without them the component falls apart, and the loops that
//! remain in it are nested in the loop. If it has several entries, it is irreducible: a depth-first
//! walk from the entries finds the edges that return to the walk's own path; these are backward,
//! and the loop has no nested loops.
//!
//! Nothing here recurses, and each level of nesting costs one walk over its edges.

use super::table::Table;
use super::{EdgeIx, LOOP_DEPTH, LoopIx, NodeIx};

/// The graph without anything but its edges.
pub(super) struct Shape {
    /// The source and the target of each edge.
    pub(super) ends: Vec<(NodeIx, NodeIx)>,
    /// By node, in the order of the file.
    pub(super) out: Vec<Vec<EdgeIx>>,
    /// By node, in the order of the file.
    pub(super) into: Vec<Vec<EdgeIx>>,
    /// Nodes at which a walk can begin, in order: entries, and others without inbound edges.
    pub(super) roots: Vec<NodeIx>,
}

impl Shape {
    pub(super) fn out(&self, node: NodeIx) -> &[EdgeIx] {
        self.out.get(node.at()).map_or(&[], Vec::as_slice)
    }

    pub(super) fn into(&self, node: NodeIx) -> &[EdgeIx] {
        self.into.get(node.at()).map_or(&[], Vec::as_slice)
    }

    pub(super) fn from(&self, edge: EdgeIx) -> NodeIx {
        self.ends
            .get(edge.at())
            .map_or(NodeIx(0), |(from, _)| *from)
    }

    pub(super) fn to(&self, edge: EdgeIx) -> NodeIx {
        self.ends.get(edge.at()).map_or(NodeIx(0), |(_, to)| *to)
    }

    /// The nodes that can be reached from `from`.
    pub(super) fn reach(&self, from: &[NodeIx]) -> Table<bool> {
        let mut seen: Table<bool> = Table::of(self.out.len());
        let mut todo = from.to_vec();
        while let Some(node) = todo.pop() {
            if !seen.get(node.at()) {
                seen.set(node.at(), true);
                todo.extend(self.out(node).iter().map(|edge| self.to(*edge)));
            }
        }
        seen
    }
}

/// The loops and backward edges of a graph.
pub(super) struct Found {
    pub(super) loops: Vec<FoundLoop>,
    /// By edge.
    pub(super) backward: Table<bool>,
    /// By node.
    pub(super) innermost: Table<Option<LoopIx>>,
    /// Whether loops nest deeper than [`LOOP_DEPTH`]; then the rest is incomplete.
    pub(super) too_deep: bool,
}

/// One loop.
pub(super) struct FoundLoop {
    pub(super) parent: Option<LoopIx>,
    pub(super) depth: u32,
    /// All of its nodes, those of inner loops included, in order.
    pub(super) nodes: Vec<NodeIx>,
    /// Its nodes with edges from outside, and roots, in order.
    pub(super) entries: Vec<NodeIx>,
}

/// Finds loops and backward edges.
pub(super) fn find(shape: &Shape) -> Found {
    let mut search = Search {
        shape,
        found: Found {
            loops: Vec::new(),
            backward: Table::of(shape.ends.len()),
            innermost: Table::of(shape.out.len()),
            too_deep: false,
        },
        index: Table::of(shape.out.len()),
        low: Table::of(shape.out.len()),
        stacked: Table::of(shape.out.len()),
    };
    let all = (0..).map(NodeIx).take(shape.out.len()).collect();
    let mut todo: Vec<(Option<LoopIx>, Vec<NodeIx>)> = vec![(None, all)];
    while let Some((around, nodes)) = todo.pop() {
        for mut component in search.components(&nodes, around) {
            component.sort_unstable();
            let Some(at) = search.add(around, component) else {
                continue;
            };
            if let Some(body) = search.open_up(at) {
                todo.push((Some(at), body));
            }
        }
    }
    search.found
}

struct Search<'a> {
    shape: &'a Shape,
    found: Found,
    /// The order in which the walk meets nodes, counted from 1.
    index: Table<u32>,
    low: Table<u32>,
    stacked: Table<bool>,
}

impl Search<'_> {
    /// Whether an edge stays inside this loop and is not backward.
    fn inside(&self, edge: EdgeIx, around: Option<LoopIx>) -> bool {
        !self.found.backward.get(edge.at())
            && self.found.innermost.get(self.shape.to(edge).at()) == around
            && self.found.innermost.get(self.shape.from(edge).at()) == around
    }

    /// The strongly connected components among these nodes that have an edge inside (Tarjan).
    fn components(&mut self, nodes: &[NodeIx], around: Option<LoopIx>) -> Vec<Vec<NodeIx>> {
        let shape = self.shape;
        for node in nodes {
            self.index.set(node.at(), 0);
        }
        let mut components = Vec::new();
        let mut count = 0;
        let mut stack: Vec<NodeIx> = Vec::new();
        let mut path: Vec<(NodeIx, std::slice::Iter<'_, EdgeIx>)> = Vec::new();
        for &root in nodes {
            if self.index.get(root.at()) != 0 {
                continue;
            }
            self.meet(root, &mut count, &mut stack);
            path.push((root, shape.out(root).iter()));
            while let Some((node, edges)) = path.last_mut() {
                let node = *node;
                if let Some(&edge) = edges.next() {
                    let to = shape.to(edge);
                    if !self.inside(edge, around) {
                        continue;
                    }
                    if self.index.get(to.at()) == 0 {
                        self.meet(to, &mut count, &mut stack);
                        path.push((to, shape.out(to).iter()));
                    } else if self.stacked.get(to.at()) {
                        self.lower(node, self.index.get(to.at()));
                    }
                    continue;
                }
                path.pop();
                if let Some((before, _)) = path.last() {
                    self.lower(*before, self.low.get(node.at()));
                }
                if self.low.get(node.at()) == self.index.get(node.at()) {
                    let component = self.unstack(node, &mut stack);
                    let cyclic = component.len() > 1
                        || shape
                            .out(node)
                            .iter()
                            .any(|edge| shape.to(*edge) == node && self.inside(*edge, around));
                    if cyclic {
                        components.push(component);
                    }
                }
            }
        }
        components
    }

    fn meet(&mut self, node: NodeIx, count: &mut u32, stack: &mut Vec<NodeIx>) {
        *count += 1;
        self.index.set(node.at(), *count);
        self.low.set(node.at(), *count);
        self.stacked.set(node.at(), true);
        stack.push(node);
    }

    fn lower(&mut self, node: NodeIx, to: u32) {
        self.low.set(node.at(), self.low.get(node.at()).min(to));
    }

    fn unstack(&mut self, until: NodeIx, stack: &mut Vec<NodeIx>) -> Vec<NodeIx> {
        let mut component = Vec::new();
        while let Some(node) = stack.pop() {
            self.stacked.set(node.at(), false);
            component.push(node);
            if node == until {
                break;
            }
        }
        component
    }

    /// Adds a loop of these nodes.
    fn add(&mut self, parent: Option<LoopIx>, nodes: Vec<NodeIx>) -> Option<LoopIx> {
        let at = u32::try_from(self.found.loops.len()).ok().map(LoopIx)?;
        let depth = parent
            .and_then(|parent| self.found.loops.get(parent.at()))
            .map_or(0, |around| around.depth + 1);
        for node in &nodes {
            self.found.innermost.set(node.at(), Some(at));
        }
        let mut entries: Vec<NodeIx> = nodes
            .iter()
            .copied()
            .filter(|node| {
                self.shape.roots.binary_search(node).is_ok()
                    || self.shape.into(*node).iter().any(|edge| {
                        self.found.innermost.get(self.shape.from(*edge).at()) != Some(at)
                    })
            })
            .collect();
        if entries.is_empty() {
            // No edge leads into this component, which is reported elsewhere.
            entries.extend(nodes.first());
        }
        self.found.loops.push(FoundLoop {
            parent,
            depth,
            nodes,
            entries,
        });
        Some(at)
    }

    /// Marks the backward edges of a loop. Returns its nodes if they may contain further loops.
    fn open_up(&mut self, at: LoopIx) -> Option<Vec<NodeIx>> {
        let around = self.found.loops.get(at.at())?;
        match around.entries.as_slice() {
            [header] => {
                for &edge in self.shape.into(*header) {
                    if self.inside(edge, Some(at)) {
                        self.found.backward.set(edge.at(), true);
                    }
                }
                if around.depth >= LOOP_DEPTH {
                    self.found.too_deep = true;
                    return None;
                }
                Some(around.nodes.clone())
            }
            _ => {
                for edge in self.retreating(at, &around.entries) {
                    self.found.backward.set(edge.at(), true);
                }
                None
            }
        }
    }

    /// The edges of a loop by which a walk from `entries` returns to its own path.
    fn retreating(&self, at: LoopIx, entries: &[NodeIx]) -> Vec<EdgeIx> {
        let mut retreating = Vec::new();
        let mut met: Table<bool> = Table::of(self.shape.out.len());
        let mut on_path: Table<bool> = Table::of(self.shape.out.len());
        for &entry in entries {
            if met.get(entry.at()) {
                continue;
            }
            met.set(entry.at(), true);
            on_path.set(entry.at(), true);
            let mut path = vec![(entry, self.shape.out(entry).iter())];
            while let Some((node, edges)) = path.last_mut() {
                let Some(&edge) = edges.next() else {
                    on_path.set(node.at(), false);
                    path.pop();
                    continue;
                };
                let to = self.shape.to(edge);
                if !self.inside(edge, Some(at)) {
                    continue;
                }
                if on_path.get(to.at()) {
                    retreating.push(edge);
                } else if !met.get(to.at()) {
                    met.set(to.at(), true);
                    on_path.set(to.at(), true);
                    path.push((to, self.shape.out(to).iter()));
                }
            }
        }
        retreating
    }
}
