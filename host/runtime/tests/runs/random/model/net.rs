//! A workflow whose nodes and edges are numbered.

use std::collections::{BTreeMap, BTreeSet};

use super::mistake::Mistake;
use crate::random::flow::{Body, Edge, Kind, Node, Workflow};
use crate::random::shape::Shape;

/// A node, by its position in the order of the names of all nodes.
pub(crate) type At = usize;

pub(crate) struct Net<'a> {
    pub(crate) workflow: &'a Workflow,
    pub(crate) nodes: Vec<Place<'a>>,
    pub(crate) edges: Vec<Link<'a>>,
    /// The root first.
    pub(crate) bodies: Vec<&'a Body>,
    pub(crate) loops: Vec<Loop>,
    /// The mistake that the interpreter makes on purpose.
    pub(crate) mistake: Option<Mistake>,
    by_name: BTreeMap<&'a str, At>,
}

pub(crate) struct Place<'a> {
    pub(crate) node: &'a Node,
    pub(crate) body: usize,
    /// The body of a for-each.
    pub(crate) inner: Option<usize>,
    /// The inbound edges without the backward ones.
    pub(crate) into: Vec<usize>,
    pub(crate) out: Vec<usize>,
    /// Whether it undoes other nodes, so that no edge leads to it.
    pub(crate) undoes: bool,
}

pub(crate) struct Link<'a> {
    pub(crate) edge: &'a Edge,
    pub(crate) from: At,
    pub(crate) to: At,
    pub(crate) backward: bool,
    /// The outermost loop that it leaves.
    pub(crate) leaves: Option<usize>,
}

/// Outer loops before inner ones.
pub(crate) struct Loop {
    pub(crate) nodes: BTreeSet<At>,
}

impl<'a> Net<'a> {
    pub(crate) fn of(workflow: &'a Workflow) -> Self {
        let mut names: Vec<&str> = workflow
            .body
            .all()
            .iter()
            .map(|n| n.name.as_str())
            .collect();
        names.sort_unstable();
        let by_name = names.iter().enumerate().map(|(at, name)| (*name, at));
        let mut net = Self {
            workflow,
            nodes: Vec::new(),
            edges: Vec::new(),
            bodies: Vec::new(),
            loops: Vec::new(),
            mistake: None,
            by_name: by_name.collect(),
        };
        let mut places = BTreeMap::new();
        net.add(&workflow.body, &mut places);
        net.nodes = places.into_values().collect();
        let undone = |place: &Place<'_>| place.node.compensate.clone();
        let undoing: BTreeSet<String> = net.nodes.iter().filter_map(undone).collect();
        for place in &mut net.nodes {
            place.undoes = undoing.contains(&place.node.name);
        }
        net
    }

    fn add(&mut self, body: &'a Body, places: &mut BTreeMap<At, Place<'a>>) -> usize {
        let number = self.bodies.len();
        self.bodies.push(body);
        let shape = Shape::of(&body.nodes, &body.edges).unwrap();
        let named = |at: &usize| self.at(&body.nodes.get(*at).unwrap().name);
        let loops: Vec<BTreeSet<At>> = shape
            .loops
            .iter()
            .map(|nodes| nodes.iter().map(named).collect())
            .collect();
        for node in &body.nodes {
            let inner = match &node.kind {
                Kind::ForEach(each) => Some(self.add(&each.body, places)),
                _ => None,
            };
            let place = Place {
                node,
                body: number,
                inner,
                into: Vec::new(),
                out: Vec::new(),
                undoes: false,
            };
            places.insert(self.at(&node.name), place);
        }
        let first = self.loops.len();
        self.loops
            .extend(loops.into_iter().map(|nodes| Loop { nodes }));
        for (at, edge) in body.edges.iter().enumerate() {
            let (from, to) = (self.at(&edge.from), self.at(&edge.to));
            let left = |it: &&usize| {
                let nodes = &self.loops.get(**it).unwrap().nodes;
                nodes.contains(&from) && !nodes.contains(&to)
            };
            let range: Vec<usize> = (first..self.loops.len()).collect();
            let link = Link {
                edge,
                from,
                to,
                backward: shape.backward.contains(&at),
                leaves: range.iter().find(left).copied(),
            };
            let number = self.edges.len();
            places.get_mut(&from).unwrap().out.push(number);
            if !link.backward {
                places.get_mut(&to).unwrap().into.push(number);
            }
            self.edges.push(link);
        }
        number
    }

    pub(crate) fn at(&self, name: &str) -> At {
        *self.by_name.get(name).unwrap()
    }

    pub(crate) fn place(&self, at: At) -> &Place<'a> {
        self.nodes.get(at).unwrap()
    }

    pub(crate) fn name(&self, at: At) -> &'a str {
        &self.place(at).node.name
    }

    pub(crate) fn link(&self, edge: usize) -> &Link<'a> {
        self.edges.get(edge).unwrap()
    }

    /// Whether a node leads to another one over edges that are not backward.
    pub(crate) fn leads(&self, from: At, to: At) -> bool {
        let (mut seen, mut todo) = (BTreeSet::new(), vec![to]);
        while let Some(at) = todo.pop() {
            let into = self.place(at).into.iter().map(|edge| self.link(*edge));
            for link in into.filter(|link| !link.backward) {
                if seen.insert(link.from) {
                    todo.push(link.from);
                }
            }
        }
        from != to && seen.contains(&from)
    }

    /// The nodes at which a body begins.
    pub(crate) fn entries(&self, body: usize) -> Vec<At> {
        let own = (0..self.nodes.len()).filter(|at| self.place(*at).body == body);
        let own: Vec<At> = own.filter(|at| !self.place(*at).undoes).collect();
        let named: Vec<At> = own
            .iter()
            .copied()
            .filter(|at| self.place(*at).node.start)
            .collect();
        if !named.is_empty() {
            return named;
        }
        let led_to = |at: &At| self.edges.iter().any(|link| link.to == *at);
        own.into_iter().filter(|at| !led_to(at)).collect()
    }

    /// The loops that a node is in.
    pub(crate) fn loops_of(&self, at: At) -> Vec<usize> {
        let all = self.loops.iter().enumerate();
        all.filter(|(_, around)| around.nodes.contains(&at))
            .map(|(number, _)| number)
            .collect()
    }
}
