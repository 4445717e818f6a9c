//! Finds mistakes in bodies, critical sections, repetition and compensation.

use windlass_model::definition::{ErrorEffect, NodeKind};
use windlass_model::{Diagnostic, Place};

use super::BodyIx;
use super::flat::{Flat, FlatNode};
use crate::codes;

/// Nodes whose name another node has already.
pub(super) fn doubled(flat: &Flat<'_>) -> Vec<Diagnostic> {
    let doubled = flat.doubled.iter();
    doubled
        .map(|(name, pointer)| {
            let message = format!("another node is called `{name}`, too");
            Diagnostic::new(codes::DOUBLED_NODE, message, Place::at(pointer.as_str()))
                .help("names are unique in the whole workflow, for-each bodies included")
        })
        .collect()
}

/// The mistakes in nodes that depend on their position.
pub(super) fn of_nodes(flat: &Flat<'_>) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for node in &flat.nodes {
        found.extend(repeat(node));
        found.extend(mutex(flat, node));
        found.extend(compensate(flat, node));
        if flat.compensating.contains(node.name) {
            found.extend(compensating(flat, node));
        }
    }
    found
}

fn repeat(node: &FlatNode<'_>) -> Option<Diagnostic> {
    let repeat = node.node.repeat.as_ref()?;
    let message = match (repeat.max, &repeat.until) {
        (Some(0), _) => "the repetition allows no execution at all",
        (None, None) => "nothing ends the repetition",
        _ => return None,
    };
    let place = Place::at(format!("{}/repeat", node.pointer));
    Some(
        Diagnostic::new(codes::REPEAT, message, place)
            .help("give it `max`, the executions in total, or `until`, an expression"),
    )
}

/// A node that waits for a critical section held by the for-each around it waits for ever.
fn mutex(flat: &Flat<'_>, node: &FlatNode<'_>) -> Option<Diagnostic> {
    let key = node.node.mutex.as_deref()?;
    let around = flat.around(node.body).filter_map(|body| flat.body(body));
    let mut containers = around.filter_map(|body| flat.find(body.container?));
    let (_, held) = containers.find(|(_, each)| each.node.mutex.as_deref() == Some(key))?;
    let message = format!(
        "node `{}` waits for `{key}`, which the for-each `{}` around it keeps until all its items are \
         done: it would wait for ever",
        node.name, held.name
    );
    let place = Place::at(format!("{}/mutex", node.pointer));
    Some(Diagnostic::new(codes::MUTEX, message, place).help("give one of them another key"))
}

fn compensate(flat: &Flat<'_>, node: &FlatNode<'_>) -> Option<Diagnostic> {
    let undo = node.node.compensate.as_deref()?;
    let (message, help) = match flat.find(undo) {
        None => {
            let names = flat.nodes.iter().map(|node| node.name);
            let help = windlass_model::nearest::did_you_mean(undo, names);
            (format!("there is no node `{undo}`"), help)
        }
        Some((_, found)) if found.body != BodyIx::ROOT => (
            format!("node `{undo}` is inside of a for-each, whose items are gone by then"),
            Some("put it at the top level".to_owned()),
        ),
        Some(_) if flat.compensating.contains(node.name) => (
            format!(
                "node `{}` undoes another, so it is not undone itself",
                node.name
            ),
            None,
        ),
        Some(_) => return None,
    };
    let place = Place::at(format!("{}/compensate", node.pointer));
    let mut diagnostic = Diagnostic::new(codes::COMPENSATE, message, place);
    diagnostic.help = help;
    Some(diagnostic)
}

/// A compensating node is reached by no edge, and cannot end the run.
fn compensating(flat: &Flat<'_>, node: &FlatNode<'_>) -> Option<Diagnostic> {
    let wired = flat.edges.iter().any(|edge| {
        (edge.edge.from == node.name || edge.edge.to == node.name) && edge.body == node.body
    });
    let reason = if wired {
        "edges lead to it or from it"
    } else if node.node.start {
        "the workflow begins with it"
    } else if matches!(node.node.kind, NodeKind::End { .. }) {
        "it is an `end`"
    } else if node.node.on_error.has(ErrorEffect::Route) {
        "it routes its failures"
    } else {
        return None;
    };
    let message = format!("node `{}` undoes another, but {reason}", node.name);
    let place = Place::at(node.pointer.as_str());
    Some(
        Diagnostic::new(codes::COMPENSATE, message, place)
            .help("it runs after the rest is over, by itself"),
    )
}
