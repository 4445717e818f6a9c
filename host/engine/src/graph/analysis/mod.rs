//! Finds what can be known of a run before it begins: values that cannot be there, and ways through
//! the graph that the author can hardly intend.
//!
//! A mistake cannot work in any run: an output is read where it is always null, or a member that a
//! closed schema rules out. What may work is a warning. Published definitions are never refused for
//! either, because only new ones are analysed.
//!
//! The analysis does not need a definition without other mistakes. An edge to a misspelt node counts
//! as leading to the node that it probably means; if one leads to no node at all, nothing is said
//! about ways. Definitions come from strangers: everything takes time and memory that grow with the
//! size, except that the ways between loops take one bit for each pair.

mod cycles;
mod inputs;
mod islands;
mod order;
mod readings;
mod sites;
mod wanted;

pub use inputs::Start;
use serde_json::Value;
use windlass_model::definition::UseRef;
use windlass_model::nearest::nearest;
use windlass_model::{Definition, Diagnostic, limits};

use super::flat::Flat;
use super::loops::{self, Found, Shape};
use super::{NodeIx, compile};

/// The limit of mistakes, and of warnings.
const MOST: usize = 100;

/// Unknown ends of edges that are repaired: finding the meant node compares all names.
const REPAIRED: usize = 20;

/// What the host knows of a node type.
pub struct Facts<'a> {
    /// Its ports, without `error`.
    pub ports: &'a [String],
    /// The members of its configuration that are passed as written.
    pub raw: Vec<String>,
    /// The schema of its output.
    pub output: &'a Value,
    /// Whether it may wait for something outside.
    pub suspends: bool,
}

/// The results of an analysis.
#[derive(Debug, Default)]
pub struct Analysis {
    /// What cannot work in any run; at most 100.
    pub mistakes: Vec<Diagnostic>,
    /// What may not be intended; at most 100.
    pub warnings: Vec<Diagnostic>,
}

impl Analysis {
    /// Whether further mistakes and warnings would not be told.
    fn is_full(&self) -> bool {
        self.mistakes.len() >= MOST && self.warnings.len() >= MOST
    }

    fn mistake(&mut self, found: Diagnostic) {
        add(&mut self.mistakes, found);
    }

    fn warning(&mut self, found: Diagnostic) {
        add(&mut self.warnings, found);
    }
}

/// Adds a diagnostic, unless it was told or there are too many.
fn add(list: &mut Vec<Diagnostic>, found: Diagnostic) {
    if list.len() < MOST && !list.contains(&found) {
        list.push(found);
    }
}

/// The ways through a definition.
struct Ways {
    shape: Shape,
    loops: Found,
}

/// Analyses a definition, which may have mistakes of other kinds. `facts` knows the node types.
pub fn analyse<'a>(
    definition: &'a Definition,
    facts: &dyn Fn(&UseRef) -> Option<Facts<'a>>,
) -> Analysis {
    let flat = Flat::of(definition);
    let mut analysis = Analysis::default();
    if flat.count() > limits::NODES || flat.edges.len() > limits::EDGES {
        return analysis;
    }
    let ways = ways(&flat);
    if let Some(ways) = &ways {
        cycles::check(definition, &flat, ways, facts, &mut analysis);
        islands::check(&flat, &ways.shape, &mut analysis);
    }
    readings::check(definition, &flat, ways.as_ref(), facts, &mut analysis);
    analysis
}

/// The ways, if every edge leads to a node or probably means one.
fn ways(flat: &Flat<'_>) -> Option<Ways> {
    if !flat.doubled.is_empty() {
        return None;
    }
    let mut repairs = 0;
    let mut end = |name: &str, body| {
        let here = |found: Option<(NodeIx, &super::flat::FlatNode<'_>)>| {
            found
                .filter(|(_, node)| node.body == body)
                .map(|(at, _)| at)
        };
        here(flat.find(name)).or_else(|| {
            repairs += 1;
            if repairs > REPAIRED {
                return None;
            }
            let near = flat.nodes.iter().filter(|node| node.body == body);
            here(flat.find(nearest(name, near.map(|node| node.name))?))
        })
    };
    let ends: Option<Vec<_>> = flat
        .edges
        .iter()
        .map(|edge| end(&edge.edge.from, edge.body).zip(end(&edge.edge.to, edge.body)))
        .collect();
    let shape = compile::shape(flat, ends?);
    let loops = loops::find(&shape);
    (!loops.too_deep).then_some(Ways { shape, loops })
}
