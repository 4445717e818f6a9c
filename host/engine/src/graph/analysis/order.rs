//! Which node can have run before another.
//!
//! Nodes and edges are both vertices of the graph of ways, so that its dominators tell which edge
//! every way to a node takes. The dominators are found as by Lengauer and Tarjan (1979), in their
//! simple form.

use windlass_model::definition::{Join, When};

use super::super::flat::Flat;
use super::super::table::Table;
use super::super::{EdgeIx, LoopIx, NodeIx};
use super::Ways;

/// The relation of a node `x` to a node `y` that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It may have run, because a way leads from it to `y`.
    Before,
    /// It may have run only by chance: no way leads from it to `y`.
    Chance,
    /// It cannot have run: every way to it goes through `y`.
    After,
    /// It cannot have run: at this node, a run goes either to it or to `y`.
    Instead(NodeIx),
    /// It is `y`, which has not run before.
    Own,
    /// One of both is never reached.
    Unreached,
}

pub(super) struct Order<'a> {
    flat: &'a Flat<'a>,
    ways: &'a Ways,
    reached: Table<bool>,
    /// Whether a node may run several times in a scope.
    repeated: Table<bool>,
    tree: Tree,
    reach: Reach,
}

impl<'a> Order<'a> {
    pub(super) fn of(flat: &'a Flat<'a>, ways: &'a Ways) -> Self {
        let (shape, loops) = (&ways.shape, &ways.loops);
        let repeats = |(at, node): (NodeIx, &super::super::flat::FlatNode<'_>)| {
            let each = node.node.join == Join::Each && shape.into(at).len() > 1;
            (each || loops.innermost.get(at.at()).is_some()).then_some(at)
        };
        let repeating: Vec<NodeIx> = flat.nodes().filter_map(repeats).collect();
        Self {
            flat,
            ways,
            reached: shape.reach(&shape.roots),
            repeated: shape.reach(&repeating),
            tree: Tree::of(flat.count(), ways),
            reach: Reach::of(flat.count(), ways),
        }
    }

    /// The relation of `x` to `y` when `y` begins. Both are in one body.
    pub(super) fn of_pair(&self, x: NodeIx, y: NodeIx) -> Known {
        if !self.reached.get(x.at()) || !self.reached.get(y.at()) {
            return Known::Unreached;
        }
        let several = self.repeated.get(y.at());
        if x == y {
            let node = self.flat.node(x).map(|node| node.node);
            let again = several || node.is_some_and(|node| node.repeat.is_some());
            return if again { Known::Before } else { Known::Own };
        }
        if self.reach.leads(x, y) {
            return Known::Before;
        }
        if several {
            return Known::Chance;
        }
        let (above, to_x, to_y) = self.tree.fork(1 + x.at(), 1 + y.at());
        if above == 1 + y.at() {
            return Known::After;
        }
        match self.edge_of(to_x).zip(self.edge_of(to_y)) {
            Some((a, b)) if self.excludes(a, b) => Known::Instead(self.ways.shape.from(a)),
            _ => Known::Chance,
        }
    }

    fn edge_of(&self, vertex: usize) -> Option<EdgeIx> {
        let at = vertex.checked_sub(1 + self.flat.count())?;
        u32::try_from(at).ok().map(EdgeIx)
    }

    /// Whether of two edges, which leave one node, a run takes at most one.
    fn excludes(&self, a: EdgeIx, b: EdgeIx) -> bool {
        let from = self.ways.shape.from(a);
        if from != self.ways.shape.from(b) || self.repeated.get(from.at()) {
            return false;
        }
        let first = self.flat.node(from).is_some_and(|node| node.node.first);
        let edges = self.flat.edge(a).zip(self.flat.edge(b));
        edges.is_some_and(|(a, b)| {
            let (a, b) = (a.edge, b.edge);
            if a.port != b.port {
                return a.port == "error" || b.port == "error";
            }
            first || (a.when == When::Else) != (b.when == When::Else)
        })
    }
}

/// The dominators: every way from the beginning to a vertex goes through its parent. Vertex 0 is the
/// beginning; then come the nodes, and then the edges.
struct Tree {
    parent: Vec<usize>,
    depth: Vec<u32>,
    /// A vertex farther above, so that ascending takes a logarithmic number of steps.
    jump: Vec<usize>,
}

impl Tree {
    fn of(nodes: usize, ways: &Ways) -> Self {
        let shape = &ways.shape;
        let len = 1 + nodes + shape.ends.len();
        let after = |vertex: usize| -> Vec<usize> {
            match vertex.checked_sub(1) {
                None => shape.roots.iter().map(|root| 1 + root.at()).collect(),
                Some(at) if at < nodes => {
                    let out = u32::try_from(at).map(|at| shape.out(NodeIx(at)));
                    let out = out.unwrap_or_default();
                    out.iter().map(|edge| 1 + nodes + edge.at()).collect()
                }
                Some(at) => {
                    let to = shape.ends.get(at - nodes).map(|(_, to)| 1 + to.at());
                    to.into_iter().collect()
                }
            }
        };
        let parent = dominators(len, &after);
        let mut tree = Self {
            depth: vec![0; len],
            jump: vec![0; len],
            parent: parent.parent,
        };
        for vertex in parent.order.into_iter().skip(1) {
            tree.add(vertex);
        }
        tree
    }

    /// Sets the depth and the jump of a vertex whose parent has them.
    fn add(&mut self, vertex: usize) {
        let parent = self.parent_of(vertex);
        let depth = |vertex: usize| self.depth.get(vertex).copied().unwrap_or_default();
        let above = self.jump_of(parent);
        let even = depth(parent) - depth(above) == depth(above) - depth(self.jump_of(above));
        let jump = if even { self.jump_of(above) } else { parent };
        let depth = depth(parent) + 1;
        set(&mut self.jump, vertex, jump);
        set(&mut self.depth, vertex, depth);
    }

    fn parent_of(&self, vertex: usize) -> usize {
        self.parent.get(vertex).copied().unwrap_or_default()
    }

    fn jump_of(&self, vertex: usize) -> usize {
        self.jump.get(vertex).copied().unwrap_or_default()
    }

    fn depth_of(&self, vertex: usize) -> u32 {
        self.depth.get(vertex).copied().unwrap_or_default()
    }

    /// The vertex above `from` at this depth.
    fn ascend(&self, mut from: usize, depth: u32) -> usize {
        while self.depth_of(from) > depth {
            let jump = self.jump_of(from);
            from = if self.depth_of(jump) >= depth {
                jump
            } else {
                self.parent_of(from)
            };
        }
        from
    }

    /// The lowest vertex above both, or one of both, and the vertices below it on the ways to each.
    fn fork(&self, x: usize, y: usize) -> (usize, usize, usize) {
        let depth = self.depth_of(x).min(self.depth_of(y));
        let (mut a, mut b) = (self.ascend(x, depth), self.ascend(y, depth));
        while a != b {
            let (jump_a, jump_b) = (self.jump_of(a), self.jump_of(b));
            (a, b) = if jump_a == jump_b {
                (self.parent_of(a), self.parent_of(b))
            } else {
                (jump_a, jump_b)
            };
        }
        let below = self.depth_of(a) + 1;
        (a, self.ascend(x, below), self.ascend(y, below))
    }
}

fn set<T>(list: &mut [T], at: usize, value: T) {
    if let Some(place) = list.get_mut(at) {
        *place = value;
    }
}

struct Dominators {
    /// By vertex; 0 for the beginning and for what cannot be reached.
    parent: Vec<usize>,
    /// What can be reached, each after its parent.
    order: Vec<usize>,
}

/// The dominators of what can be reached from vertex 0.
fn dominators(len: usize, after: &dyn Fn(usize) -> Vec<usize>) -> Dominators {
    // Numbers in the order of a depth-first walk, from 1; 0 is a vertex that the walk did not meet.
    let mut number = vec![0; len];
    let mut order: Vec<usize> = Vec::with_capacity(len);
    let mut above: Vec<usize> = Vec::with_capacity(len);
    let mut before: Vec<Vec<usize>> = Vec::with_capacity(len);
    let mut path = vec![(0, after(0).into_iter())];
    set(&mut number, 0, 1);
    order.push(0);
    above.push(0);
    before.push(Vec::new());
    while let Some((vertex, edges)) = path.last_mut() {
        let from = number.get(*vertex).copied().unwrap_or(1) - 1;
        let Some(to) = edges.next() else {
            path.pop();
            continue;
        };
        let met = number.get(to).copied().unwrap_or_default();
        if met == 0 {
            order.push(to);
            above.push(from);
            before.push(vec![from]);
            set(&mut number, to, order.len());
            path.push((to, after(to).into_iter()));
        } else if let Some(before) = before.get_mut(met - 1) {
            before.push(from);
        }
    }
    let mut forest = Forest::of(order.len());
    let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); order.len()];
    let mut found = vec![0; order.len()];
    let get = |list: &[usize], at: usize| list.get(at).copied().unwrap_or_default();
    for vertex in (1..order.len()).rev() {
        for from in before.get(vertex).into_iter().flatten() {
            let lowest = forest.lowest(*from);
            let semi = forest.semi(lowest).min(forest.semi(vertex));
            set(&mut forest.semi, vertex, semi);
        }
        if let Some(list) = waiting.get_mut(forest.semi(vertex)) {
            list.push(vertex);
        }
        let parent = get(&above, vertex);
        set(&mut forest.parent, vertex, Some(parent));
        for other in waiting
            .get_mut(parent)
            .map(std::mem::take)
            .into_iter()
            .flatten()
        {
            let lowest = forest.lowest(other);
            let smaller = forest.semi(lowest) < forest.semi(other);
            set(&mut found, other, if smaller { lowest } else { parent });
        }
    }
    for vertex in 1..order.len() {
        if get(&found, vertex) != forest.semi(vertex) {
            let farther = get(&found, get(&found, vertex));
            set(&mut found, vertex, farther);
        }
    }
    let mut parent = vec![0; len];
    for (vertex, dominator) in order.iter().zip(&found) {
        set(&mut parent, *vertex, get(&order, *dominator));
    }
    Dominators { parent, order }
}

/// The part of the walk's tree that has been linked, with shortened paths.
struct Forest {
    parent: Vec<Option<usize>>,
    semi: Vec<usize>,
    best: Vec<usize>,
}

impl Forest {
    fn of(len: usize) -> Self {
        Self {
            parent: vec![None; len],
            semi: (0..len).collect(),
            best: (0..len).collect(),
        }
    }

    fn semi(&self, vertex: usize) -> usize {
        self.semi.get(vertex).copied().unwrap_or_default()
    }

    fn best(&self, vertex: usize) -> usize {
        self.best.get(vertex).copied().unwrap_or_default()
    }

    fn parent(&self, vertex: usize) -> Option<usize> {
        self.parent.get(vertex).copied().flatten()
    }

    /// The vertex with the smallest semidominator between `vertex` and the root of its tree.
    fn lowest(&mut self, vertex: usize) -> usize {
        let mut path = vec![vertex];
        while let Some(parent) = path.last().and_then(|last| self.parent(*last)) {
            path.push(parent);
        }
        // The last one is a root, and the one before it is a child of the root: neither changes.
        let Some(root) = path.pop() else {
            return vertex;
        };
        if path.is_empty() {
            return vertex;
        }
        let mut above = path.pop();
        while let (Some(upper), Some(lower)) = (above, path.pop()) {
            if self.semi(self.best(upper)) < self.semi(self.best(lower)) {
                let best = self.best(upper);
                set(&mut self.best, lower, best);
            }
            set(&mut self.parent, lower, Some(root));
            above = Some(lower);
        }
        self.best(vertex)
    }
}

/// Which nodes lead to which. Nodes of one loop lead to each other, so loops count as one.
struct Reach {
    /// The loop or the single node, by node.
    part: Vec<usize>,
    words: usize,
    bits: Vec<u64>,
}

impl Reach {
    fn of(nodes: usize, ways: &Ways) -> Self {
        // Outer loops stand before inner ones, so each parent's outermost loop is known.
        let mut outer: Vec<LoopIx> = Vec::with_capacity(ways.loops.loops.len());
        for (at, found) in (0..).map(LoopIx).zip(&ways.loops.loops) {
            let around = found
                .parent
                .and_then(|parent| outer.get(parent.at()).copied());
            outer.push(around.unwrap_or(at));
        }
        let mut of_loop: Vec<Option<usize>> = vec![None; outer.len()];
        let (mut part, mut parts) = (Vec::with_capacity(nodes), 0);
        for node in 0..nodes {
            let at = ways.loops.innermost.get(node);
            let at = at.and_then(|at| outer.get(at.at()).copied());
            let known = at.and_then(|at| of_loop.get(at.at()).copied().flatten());
            part.push(known.unwrap_or(parts));
            if known.is_none() {
                if let Some(place) = at.and_then(|at| of_loop.get_mut(at.at())) {
                    *place = Some(parts);
                }
                parts += 1;
            }
        }
        let mut reach = Self {
            part,
            words: parts.div_ceil(64),
            bits: Vec::new(),
        };
        reach.bits = vec![0; parts.saturating_mul(reach.words)];
        reach.fill(parts, ways);
        reach
    }

    fn fill(&mut self, parts: usize, ways: &Ways) {
        let mut into: Vec<Vec<usize>> = vec![Vec::new(); parts];
        let mut open = vec![0_usize; parts];
        for (from, to) in &ways.shape.ends {
            let (from, to) = (self.part_of(*from), self.part_of(*to));
            if from != to {
                if let Some(into) = into.get_mut(to) {
                    into.push(from);
                }
                if let Some(open) = open.get_mut(from) {
                    *open += 1;
                }
            }
        }
        let mut ready: Vec<usize> = (0..parts).filter(|at| open.get(*at) == Some(&0)).collect();
        while let Some(part) = ready.pop() {
            if let Some(word) = self.bits.get_mut(part * self.words + part / 64) {
                *word |= 1 << (part % 64);
            }
            for from in into.get(part).into_iter().flatten() {
                for at in 0..self.words {
                    let word = self.bits.get(part * self.words + at).copied();
                    if let Some(place) = self.bits.get_mut(from * self.words + at) {
                        *place |= word.unwrap_or_default();
                    }
                }
                if let Some(open) = open.get_mut(*from) {
                    *open -= 1;
                    if *open == 0 {
                        ready.push(*from);
                    }
                }
            }
        }
    }

    fn part_of(&self, node: NodeIx) -> usize {
        self.part.get(node.at()).copied().unwrap_or_default()
    }

    /// Whether a way leads from `x` to another node `y`.
    fn leads(&self, x: NodeIx, y: NodeIx) -> bool {
        let (x, y) = (self.part_of(x), self.part_of(y));
        let word = self.bits.get(x * self.words + y / 64).copied();
        word.unwrap_or_default() >> (y % 64) & 1 == 1
    }
}
