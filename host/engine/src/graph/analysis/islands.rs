//! Parts of a body that no edge connects with the rest, so that they begin at once. Most likely an
//! edge was forgotten.
//!
//! Nodes that are meant to begin side by side say so: each with `start: true`. A body without any
//! edge is a set of nodes side by side, too.

use std::collections::BTreeMap;

use windlass_model::{Diagnostic, Place};

use super::super::flat::Flat;
use super::super::loops::Shape;
use super::super::{BodyIx, NodeIx};
use super::Analysis;
use crate::codes;

pub(super) fn check(flat: &Flat<'_>, shape: &Shape, analysis: &mut Analysis) {
    let mut parts = Parts::of(flat.count());
    let mut connected: BTreeMap<BodyIx, NodeIx> = BTreeMap::new();
    for (edge, (from, to)) in flat.edges.iter().zip(&shape.ends) {
        parts.join(from.at(), to.at());
        connected.entry(edge.body).or_insert(*from);
    }
    let mut started: BTreeMap<BodyIx, bool> = BTreeMap::new();
    let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
    for (at, node) in flat.nodes() {
        *started.entry(node.body).or_default() |= node.node.start;
        *sizes.entry(parts.root(at.at())).or_default() += 1;
    }
    // By body: the largest part, and of several the one with the first edge.
    let mut main: BTreeMap<BodyIx, (usize, usize)> = BTreeMap::new();
    for (edge, (from, _)) in flat.edges.iter().zip(&shape.ends) {
        let part = parts.root(from.at());
        let size = sizes.get(&part).copied().unwrap_or_default();
        let largest = main.entry(edge.body).or_insert((part, size));
        if size > largest.1 {
            *largest = (part, size);
        }
    }
    let mut told: BTreeMap<usize, ()> = BTreeMap::new();
    for root in &shape.roots {
        let Some(node) = flat.node(*root) else {
            continue;
        };
        let Some((main, _)) = main.get(&node.body) else {
            continue;
        };
        let part = parts.root(root.at());
        if part == *main
            || started.get(&node.body) == Some(&true)
            || told.insert(part, ()).is_some()
        {
            continue;
        }
        let entries = beginnings(flat, shape, node.body, *main, &mut parts);
        analysis.warning(warning(flat, *root, sizes.get(&part), entries));
    }
}

/// The first node at which the main part of a body begins, and whether there are more.
fn beginnings<'a>(
    flat: &Flat<'a>,
    shape: &Shape,
    body: BodyIx,
    main: usize,
    parts: &mut Parts,
) -> (Option<&'a str>, bool) {
    let mut entries = shape.roots.iter().filter(|root| {
        parts.root(root.at()) == main && flat.node(**root).is_some_and(|node| node.body == body)
    });
    let first = entries.next().map(|root| flat.name(*root));
    (first, entries.next().is_some())
}

fn warning(
    flat: &Flat<'_>,
    root: NodeIx,
    size: Option<&usize>,
    (entry, more_entries): (Option<&str>, bool),
) -> Diagnostic {
    let name = flat.name(root);
    let more = match size.copied().unwrap_or(1) - 1 {
        0 => String::new(),
        more => format!(", with {more} more after it,"),
    };
    let beside = match entry {
        Some(entry) => format!("side by side with `{entry}`"),
        None => "on its own".to_owned(),
    };
    let message = format!(
        "no edge connects node `{name}`{more} with the rest, so it begins at once, {beside}"
    );
    let both = match (entry, more_entries) {
        (Some(entry), false) => format!(" and at `{entry}`"),
        (Some(entry), true) => format!(" and at each other beginning, like `{entry}`"),
        (None, _) => String::new(),
    };
    let help = format!(
        "lead an edge to `{name}`; if it shall begin at once, write `start: true` at `{name}`{both}"
    );
    let pointer = flat.node(root).map(|node| node.pointer.as_str());
    let place = Place::at(pointer.unwrap_or_default());
    Diagnostic::new(codes::ISLAND, message, place).help(help)
}

/// Connected nodes, found by joining them.
struct Parts(Vec<usize>);

impl Parts {
    fn of(len: usize) -> Self {
        Self((0..len).collect())
    }

    fn root(&mut self, mut at: usize) -> usize {
        loop {
            let above = self.0.get(at).copied().unwrap_or(at);
            if above == at {
                return at;
            }
            let farther = self.0.get(above).copied().unwrap_or(above);
            if let Some(place) = self.0.get_mut(at) {
                *place = farther;
            }
            at = farther;
        }
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        if let Some(place) = self.0.get_mut(a) {
            *place = b;
        }
    }
}
