//! Random graphs that compile.

use proptest::prelude::*;
use windlass_model::Definition;
use windlass_model::definition::{Join, When};

use crate::kit;

/// A sequence of numbers determined by a seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        // splitmix64 (Steele, Lea, Flood 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.roll() % most.max(1) as u64).expect("a small number")
    }
}

/// An edge: positions of its ends, port, condition.
type WildEdge = (usize, usize, u8, u8);

/// The parts of a graph. The first node leads to all others.
#[derive(Clone, Debug)]
pub(crate) struct Wild {
    /// For every node but the first, an edge from an earlier node, selected by its position.
    tree: Vec<(usize, u8, u8)>,
    /// Forward edges; `any` has edges in any direction.
    forward: Vec<WildEdge>,
    any: Vec<WildEdge>,
    joins: Vec<u8>,
    firsts: Vec<bool>,
    /// Rotates the names, so that they need not follow the order of the graph.
    names: usize,
    single: bool,
}

/// Graphs with at most `back` edges that may go back. With `single`, each node takes at most one
/// edge.
pub(crate) fn wild(back: usize, single: bool) -> impl Strategy<Value = Wild> {
    let edge = || (0..64_usize, 0..64_usize, 0..4_u8, 0..6_u8);
    (
        prop::collection::vec((0..64_usize, 0..4_u8, 0..6_u8), 1..10),
        prop::collection::vec(edge(), 0..8),
        prop::collection::vec(edge(), 0..=back),
        prop::collection::vec(0..12_u8, 10),
        prop::collection::vec(prop::bool::weighted(0.15), 10),
        0..10_usize,
    )
        .prop_map(move |(tree, forward, any, joins, firsts, names)| Wild {
            tree,
            forward,
            any,
            joins,
            firsts,
            names,
            single,
        })
}

impl Wild {
    /// The definition with every broken rule repaired; none if that is impossible.
    pub(crate) fn repair(self) -> Option<Definition> {
        let mut definition = self.definition();
        for _ in 0..20 {
            let Err(found) = kit::compile(&definition) else {
                return Some(definition);
            };
            for diagnostic in found {
                let mut parts = diagnostic.place.pointer.split('/').skip(2);
                let key = parts.next().unwrap_or_default().to_owned();
                let single = self.single;
                let node = definition.nodes.get_mut(&key);
                match (diagnostic.code.as_str(), node) {
                    ("WL-D074", _) => {
                        let at: usize = key.parse().expect("an edge");
                        definition.edges[at].when = When::Always;
                    }
                    ("WL-D075", Some(node)) => node.join = Join::AllActive,
                    ("WL-D076", Some(node)) if single => node.join = Join::Any,
                    ("WL-D076", Some(node)) => {
                        node.join = [Join::Any, Join::Race, Join::Each][key.len() % 3];
                    }
                    ("WL-D072", _) => {
                        let first = self.name(0);
                        definition.nodes.get_mut(&first).expect("a node").start = true;
                    }
                    _ => return None,
                }
            }
        }
        None
    }

    fn name(&self, at: usize) -> String {
        let n = self.tree.len() + 1;
        // A rotation, with names of several lengths.
        let at = (at + self.names) % n;
        format!("n{}{}", at, "x".repeat(at % 3))
    }

    fn definition(&self) -> Definition {
        let n = self.tree.len() + 1;
        let mut definition = Definition::default();
        for at in 0..n {
            let mut node = kit::node();
            node.join = match self.joins[at] {
                0..=4 => Join::AllActive,
                5 => Join::All,
                6 | 7 => Join::Any,
                8 => Join::Race,
                9 => Join::Count(2),
                10 => Join::Count(1),
                _ if self.single => Join::Any,
                _ => Join::Each,
            };
            node.first = self.single || self.firsts[at];
            definition.nodes.insert(self.name(at), node);
        }
        let tree = self.tree.iter().enumerate();
        let tree = tree.map(|(at, (from, port, when))| (from % (at + 1), at + 1, *port, *when));
        let forward = self.forward.iter().filter_map(|(a, b, port, when)| {
            let (a, b) = (a % n, b % n);
            (a != b).then_some((a.min(b), a.max(b), *port, *when))
        });
        let any = self
            .any
            .iter()
            .map(|(a, b, port, when)| (a % n, b % n, *port, *when));
        for (at, (from, to, port, when)) in tree.chain(forward).chain(any).enumerate() {
            let port = ["done", "done", "p", "q"][usize::from(port)];
            let when = match when {
                0..=2 => When::Always,
                3 => When::If("vars.x".into()),
                4 => When::If("vars.y".into()),
                _ => When::Else,
            };
            definition
                .edges
                .push(kit::edge(at, &self.name(from), port, &self.name(to), when));
        }
        definition
    }
}
