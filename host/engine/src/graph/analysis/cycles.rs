//! Cycles that nothing ends: each round takes an edge that begins the next one.
//!
//! All edges of a port are taken, so an edge that leaves a cycle does not end it, if the edge back
//! has no condition. Such a cycle ends only with a failure, or at the limit of executions.

use std::collections::BTreeMap;

use windlass_model::definition::{ANY_PORT, DONE, ErrorEffect, Join, NodeKind, UseRef, When};
use windlass_model::{Definition, Diagnostic, Place};

use super::super::flat::{Flat, FlatEdge, FlatNode};
use super::super::loops::{self, FoundLoop, Shape};
use super::super::table::Table;
use super::super::{EdgeIx, NodeIx};
use super::{Analysis, Facts, Ways};
use crate::codes;

/// How many nodes of a cycle a message names.
const NAMED: usize = 5;

pub(super) fn check<'a>(
    definition: &Definition,
    flat: &Flat<'a>,
    ways: &Ways,
    facts: &dyn Fn(&UseRef) -> Option<Facts<'a>>,
    analysis: &mut Analysis,
) {
    if ways.loops.loops.is_empty() || definition.options.timeout_ms.is_some() {
        return;
    }
    let mut known: BTreeMap<&UseRef, (bool, bool)> = BTreeMap::new();
    for node in &flat.nodes {
        if let NodeKind::Use { node_type, .. } = &node.node.kind {
            known
                .entry(node_type)
                .or_insert_with(|| match facts(node_type) {
                    Some(facts) => (facts.ports == [DONE], facts.suspends),
                    None => (false, true),
                });
        }
    }
    let only_done = |node_type: &UseRef| known.get(node_type).is_some_and(|known| known.0);
    let suspends = |node_type: &UseRef| known.get(node_type).is_none_or(|known| known.1);
    let always = |at: EdgeIx, edge: &FlatEdge<'_>| is_always(flat, ways, &only_done, at, edge);
    let kept = (0..).map(EdgeIx).zip(&flat.edges);
    let kept: Vec<EdgeIx> = kept
        .filter(|(at, edge)| always(*at, edge))
        .map(|(at, _)| at)
        .collect();
    let certain = loops::find(&part(&ways.shape, &kept));
    let ends = ending(flat, &ways.shape);
    let reached = ways.shape.reach(&ways.shape.roots);
    for cycle in certain.loops.iter().filter(|cycle| cycle.parent.is_none()) {
        let nodes = || cycle.nodes.iter().filter_map(|at| flat.node(*at));
        let waits = nodes().any(|node| match &node.node.kind {
            NodeKind::Event { .. } | NodeKind::Workflow { .. } => true,
            NodeKind::Use { node_type, .. } => suspends(node_type),
            _ => false,
        });
        let ended = cycle.nodes.iter().any(|at| ends.get(at.at()));
        let runs = cycle.nodes.first().is_some_and(|at| reached.get(at.at()));
        if waits || ended || !runs {
            continue;
        }
        let computes = nodes().all(|node| matches!(node.node.kind, NodeKind::Set(_)));
        let leaves = cycle.nodes.iter().any(|at| {
            let mut out = ways.shape.out(*at).iter();
            out.any(|edge| cycle.nodes.binary_search(&ways.shape.to(*edge)).is_err())
        });
        let found = diagnostic(flat, cycle, &kept, &ways.shape, leaves);
        match computes {
            true => analysis.mistake(found),
            false => analysis.warning(found),
        }
    }
}

/// Whether an edge is taken whenever its node has run.
fn is_always(
    flat: &Flat<'_>,
    ways: &Ways,
    only_done: &dyn Fn(&UseRef) -> bool,
    at: EdgeIx,
    edge: &FlatEdge<'_>,
) -> bool {
    let shape = &ways.shape;
    let (from, to) = (shape.from(at), shape.to(at));
    let Some((node, target)) = flat.node(from).zip(flat.node(to)) else {
        return false;
    };
    let (edge, node) = (edge.edge, node.node);
    let one_port = match &node.kind {
        NodeKind::Use { node_type, .. } => only_done(node_type),
        NodeKind::End { .. } => false,
        NodeKind::Fail { .. } => node.on_error.has(ErrorEffect::Continue),
        _ => true,
    };
    let earlier = || {
        let mut out = shape.out(from).iter().take_while(|other| **other != at);
        out.any(|other| {
            flat.edge(*other)
                .is_some_and(|other| other.edge.port == edge.port)
        })
    };
    let forward = || {
        let into = shape.into(to).iter();
        into.filter(|edge| !ways.loops.backward.get(edge.at()))
            .count()
    };
    let joins = matches!(target.node.join, Join::All | Join::Count(_)) && forward() > 1;
    edge.when == When::Always
        && matches!(edge.port.as_str(), DONE | ANY_PORT)
        && one_port
        && !node.on_error.has(ErrorEffect::Route)
        && !(node.first && earlier())
        && !joins
}

/// The graph with only some of its edges.
fn part(shape: &Shape, kept: &[EdgeIx]) -> Shape {
    let mut out = vec![Vec::new(); shape.out.len()];
    let mut into = out.clone();
    for edge in kept {
        if let Some(out) = out.get_mut(shape.from(*edge).at()) {
            out.push(*edge);
        }
        if let Some(into) = into.get_mut(shape.to(*edge).at()) {
            into.push(*edge);
        }
    }
    Shape {
        ends: shape.ends.clone(),
        out,
        into,
        roots: shape.roots.clone(),
    }
}

/// The nodes from which a way leads to an end of the whole run.
fn ending(flat: &Flat<'_>, shape: &Shape) -> Table<bool> {
    let terminates = |node: &FlatNode<'_>| match node.node.kind {
        NodeKind::End { terminate, .. } => terminate,
        _ => false,
    };
    let mut todo: Vec<NodeIx> = Vec::new();
    let mut ends: Table<bool> = Table::of(flat.count());
    for (at, node) in flat.nodes().filter(|(_, node)| terminates(node)) {
        todo.push(at);
        // A body can end the run, too.
        let around = flat.around(node.body).filter_map(|body| flat.body(body));
        let containers = around.filter_map(|body| flat.find(body.container?));
        todo.extend(containers.map(|(at, _)| at));
    }
    while let Some(node) = todo.pop() {
        if !ends.get(node.at()) {
            ends.set(node.at(), true);
            todo.extend(shape.into(node).iter().map(|edge| shape.from(*edge)));
        }
    }
    ends
}

fn diagnostic(
    flat: &Flat<'_>,
    cycle: &FoundLoop,
    kept: &[EdgeIx],
    shape: &Shape,
    leaves: bool,
) -> Diagnostic {
    let named = cycle.nodes.iter().take(NAMED);
    let mut names: Vec<String> = named.map(|at| format!("`{}`", flat.name(*at))).collect();
    if let Some(more) = cycle
        .nodes
        .len()
        .checked_sub(NAMED)
        .filter(|more| *more > 0)
    {
        names.push(format!("{more} more"));
    }
    let inside = |node: NodeIx| cycle.nodes.binary_search(&node).is_ok();
    // The last edge of the file is most likely the one that leads back.
    let back = kept.iter().rev();
    let mut back = back.filter(|edge| inside(shape.from(**edge)) && inside(shape.to(**edge)));
    let place = back.next().and_then(|edge| flat.edge(*edge));
    let place = Place::at(place.map_or("", |edge| edge.pointer.as_str()));
    let what = match names.as_slice() {
        [only] => format!("the cycle of node {only}"),
        _ => format!("the cycle of the nodes {}", names.join(", ")),
    };
    let (why, help) = match leaves {
        true => (
            "all edges whose condition is true are taken, and the edges of the cycle have none",
            "give the edge that leads back a condition, or write `first: true` at the node that \
             decides, with the edge that leaves the cycle before the one that leads back",
        ),
        false => (
            "no edge leaves it, and its edges have no condition",
            "give the edge that leads back a condition; a run that shall go on for ever has an \
             `options: { timeout: … }`",
        ),
    };
    let message = format!("nothing ends {what}: {why}");
    Diagnostic::new(codes::ENDLESS, message, place).help(help)
}
