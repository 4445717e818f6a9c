//! What can be wrong with a graph whose edges all lead somewhere.

use std::collections::{BTreeMap, BTreeSet};

use windlass_model::definition::{Definition, Join, Node, NodeKind, OnError, When};
use windlass_model::{Diagnostic, Place};

use super::loops::{Found, FoundLoop, Shape};
use super::{EdgeIx, NodeIx, compile};
use crate::codes;

/// How many nodes of a cycle a message names.
const NAMED: usize = 5;

/// What is wrong with nodes, each by itself.
pub(super) fn of_nodes(definition: &Definition) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let errors = definition.edges.iter().filter(|edge| edge.port == "error");
    let routed: BTreeSet<&str> = errors.map(|edge| edge.from.as_str()).collect();
    for (name, node) in &definition.nodes {
        if node
            .retry
            .as_ref()
            .is_some_and(|retry| retry.max_attempts == 0)
        {
            let message = format!("the retry policy of node `{name}` allows no execution at all");
            let place = Place::at(format!("/nodes/{name}/retry/max-attempts"));
            found.push(
                Diagnostic::new(codes::ATTEMPTS, message, place)
                    .help("`max-attempts` counts all executions: 1 is the first one alone"),
            );
        }
        if node.on_error == OnError::Route && !routed.contains(name.as_str()) {
            let message = format!("node `{name}` routes its failures, but no edge takes them on");
            let place = Place::at(format!("/nodes/{name}/on-error"));
            found.push(
                Diagnostic::new(codes::PORT, message, place)
                    .help(format!("add an edge like `{name}.error -> …`")),
            );
        }
    }
    found
}

/// What is wrong with edges, by themselves and with their siblings.
pub(super) fn of_edges(definition: &Definition) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut ids: BTreeMap<&str, usize> = BTreeMap::new();
    let mut siblings: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for (at, edge) in definition.edges.iter().enumerate() {
        if let Some(before) = ids.insert(&edge.id, at) {
            let message = format!("two edges have the id `{}`", edge.id);
            let mut diagnostic = Diagnostic::new(codes::DUPLICATE_EDGE, message, place_of(at))
                .help("give one of them an id of its own: `{ from: …, to: …, id: … }`");
            diagnostic
                .related
                .push((place_of(before), "the other one".to_owned()));
            found.push(diagnostic);
        }
        siblings
            .entry((&edge.from, &edge.port))
            .or_default()
            .push(at);
        let node = definition.nodes.get(&edge.from);
        found.extend(node.and_then(|node| misplaced(node, &edge.from, &edge.port, at)));
    }
    for ((node, port), edges) in siblings {
        found.extend(misplaced_else(definition, node, port, &edges));
    }
    found
}

/// An edge that its node can never take.
fn misplaced(node: &Node, name: &str, port: &str, at: usize) -> Option<Diagnostic> {
    match (&node.kind, port) {
        (NodeKind::Use { .. }, _) => None,
        (NodeKind::End { .. }, _) if port != "error" => Some(Diagnostic::new(
            codes::EDGE_AFTER_END,
            format!("node `{name}` ends its branch, so nothing can come after it"),
            place_of(at),
        )),
        (_, "error") if node.on_error == OnError::Route => None,
        (_, "error") => Some(
            Diagnostic::new(
                codes::PORT,
                format!("node `{name}` does not route its failures, so this edge is never taken"),
                place_of(at),
            )
            .help(format!("write `on-error: route` at node `{name}`")),
        ),
        (NodeKind::Fail(_), "done") if node.on_error != OnError::Continue => Some(
            Diagnostic::new(
                codes::PORT,
                format!("node `{name}` always fails, so this edge is never taken"),
                place_of(at),
            )
            .help(format!("what follows a failure leaves by `{name}.error`")),
        ),
        (_, "done") => None,
        _ => Some(Diagnostic::new(
            codes::PORT,
            format!("node `{name}` has no port `{port}`, only `done` and `error`"),
            place_of(at),
        )),
    }
}

fn misplaced_else(
    definition: &Definition,
    node: &str,
    port: &str,
    siblings: &[usize],
) -> Option<Diagnostic> {
    let whens = || {
        let edges = siblings
            .iter()
            .filter_map(|at| Some((*at, definition.edges.get(*at)?)));
        edges.map(|(at, edge)| (at, &edge.when))
    };
    let mut elses = whens()
        .filter(|(_, when)| **when == When::Else)
        .map(|(at, _)| at);
    let at = elses.next()?;
    let from = if port == "done" {
        format!("`{node}`")
    } else {
        format!("`{node}.{port}`")
    };
    let (at, message) = if let Some(second) = elses.next() {
        (second, format!("two edges from {from} are `else`"))
    } else if whens().any(|(_, when)| *when == When::Always) {
        (
            at,
            format!("another edge from {from} has no condition, so this `else` is never taken"),
        )
    } else if siblings.len() == 1 {
        (
            at,
            format!("no other edge from {from} has a condition, so `else` has no meaning"),
        )
    } else {
        return None;
    };
    Some(Diagnostic::new(codes::ELSE, message, place_of(at)))
}

/// What is wrong with the graph as a whole.
pub(super) fn of_graph(definition: &Definition, shape: &Shape, loops: &Found) -> Vec<Diagnostic> {
    let names: Vec<&str> = definition.nodes.keys().map(String::as_str).collect();
    let name = |node: NodeIx| names.get(node.at()).copied().unwrap_or_default();
    let (entries, _) = compile::roots(definition, shape);
    if entries.is_empty() {
        let (message, help) = if names.is_empty() {
            ("the workflow has no nodes", "give it at least one")
        } else {
            (
                "the workflow begins nowhere: an edge leads to every node",
                "write `start: true` at the node to begin with",
            )
        };
        return vec![Diagnostic::new(codes::NO_ENTRY, message, Place::at("/nodes")).help(help)];
    }
    let forward = |node: NodeIx| {
        let into = shape.into(node).iter().copied();
        into.filter(|edge: &EdgeIx| !loops.backward.get(edge.at()))
            .collect::<Vec<_>>()
    };
    let mut found = Vec::new();
    let reached = shape.reach(&shape.roots);
    let live = shape.reach(&entries);
    for (at, node) in (0..).map(NodeIx).zip(definition.nodes.values()) {
        let inbound = forward(at);
        if !reached.get(at.at()) {
            let message = format!("nothing leads to node `{}`", name(at));
            found.push(
                Diagnostic::new(codes::UNREACHABLE, message, place(name(at), "")).help(
                    "lead an edge to it, or write `start: true` if the workflow begins there",
                ),
            );
        }
        if let Join::Count(wanted) = node.join
            && (wanted == 0 || wanted as usize > inbound.len())
        {
            let message = format!(
                "node `{}` waits for {wanted} of its {} edges",
                name(at),
                inbound.len()
            );
            found.push(Diagnostic::new(
                codes::COUNT,
                message,
                place(name(at), "/join"),
            ));
        }
        let early = inbound
            .iter()
            .find(|edge| live.get(shape.from(**edge).at()));
        if let (true, Some(edge)) = (node.start, early) {
            let message = format!(
                "the workflow begins at node `{}`, but node `{}` leads there too",
                name(at),
                name(shape.from(*edge))
            );
            let mut diagnostic =
                Diagnostic::new(codes::START_REACHED, message, place(name(at), "/start"));
            diagnostic
                .related
                .push((place_of(edge.at()), "the edge".to_owned()));
            found.push(diagnostic);
        }
    }
    for around in loops.loops.iter().filter(|around| around.entries.len() > 1) {
        for node in &around.nodes {
            let join = definition.nodes.get(name(*node)).map(|node| node.join);
            if join.is_some_and(Join::counts) && forward(*node).len() > 1 {
                found.push(waits_on_cycle(around, *node, &name));
            }
        }
    }
    found
}

fn waits_on_cycle<'a>(
    around: &FoundLoop,
    node: NodeIx,
    name: &dyn Fn(NodeIx) -> &'a str,
) -> Diagnostic {
    let list = |nodes: &[NodeIx]| {
        let named: BTreeSet<&str> = nodes.iter().take(NAMED).map(|node| name(*node)).collect();
        let mut text = named
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", ");
        if let Some(more) = nodes.len().checked_sub(NAMED).filter(|more| *more > 0) {
            text.push_str(&format!(" and {more} more"));
        }
        text
    };
    let message = format!(
        "node `{}` waits for several edges on a cycle that can be entered in several places: \
         the cycle is {}, its entries are {}",
        name(node),
        list(&around.nodes),
        list(&around.entries),
    );
    Diagnostic::new(codes::JOIN_ON_CYCLE, message, place(name(node), ""))
        .help("write `join: any`, `race` or `each` at the node, or let all edges enter at one node")
}

fn place(node: &str, key: &str) -> Place {
    Place::at(format!("/nodes/{node}{key}"))
}

fn place_of(edge: usize) -> Place {
    Place::at(format!("/edges/{edge}"))
}
