//! Finds mistakes in a graph whose edges all lead somewhere.

use std::collections::{BTreeMap, BTreeSet};

use windlass_model::definition::{
    ANY_PORT, DONE, ERROR, ErrorEffect, Join, NodeKind, UseRef, When,
};
use windlass_model::nearest::nearest;
use windlass_model::{Definition, Diagnostic, Place};

use super::flat::{Flat, FlatBody, FlatNode};
use super::loops::{Found, FoundLoop, Shape};
use super::{BodyIx, EdgeIx, NodeIx, compile};
use crate::codes;

/// How many nodes of a cycle a message names.
const NAMED: usize = 5;

/// The mistakes in single nodes.
pub(super) fn of_nodes(flat: &Flat<'_>) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let edges = flat.edges.iter().map(|edge| edge.edge);
    let errors = edges.filter(|edge| edge.port == "error");
    let routed: BTreeSet<&str> = errors.map(|edge| edge.from.as_str()).collect();
    for at in &flat.nodes {
        let (name, node) = (at.name, at.node);
        if node
            .retry
            .as_ref()
            .is_some_and(|retry| retry.max_attempts == 0)
        {
            let message = format!("the retry policy of node `{name}` allows no execution at all");
            let place = Place::at(format!("{}/retry/max-attempts", at.pointer));
            found.push(
                Diagnostic::new(codes::ATTEMPTS, message, place)
                    .help("`max-attempts` counts all executions: 1 is the first one alone"),
            );
        }
        let routes = node.on_error.has(ErrorEffect::Route) && !flat.compensating.contains(name);
        if routes && !routed.contains(name) {
            let message = format!("node `{name}` routes its failures, but no edge takes them on");
            let place = Place::at(format!("{}/on-error", at.pointer));
            found.push(
                Diagnostic::new(codes::PORT, message, place)
                    .help(format!("add an edge like `{name}.error -> …`")),
            );
        }
    }
    found
}

/// The mistakes in single edges and among the edges of one node.
pub(super) fn of_edges(flat: &Flat<'_>) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut ids: BTreeMap<(BodyIx, &str), EdgeIx> = BTreeMap::new();
    let mut siblings: BTreeMap<(&str, &str), Vec<EdgeIx>> = BTreeMap::new();
    for (at, inside) in (0..).map(EdgeIx).zip(&flat.edges) {
        let edge = inside.edge;
        if let Some(before) = ids.insert((inside.body, &edge.id), at) {
            let message = format!("two edges have the id `{}`", edge.id);
            let mut diagnostic = Diagnostic::new(
                codes::DUPLICATE_EDGE,
                message,
                place_of(flat, at),
            )
            .help(
                "leave one of them out, or give it an id of its own: `{ from: …, to: …, id: … }`",
            );
            diagnostic
                .related
                .push((place_of(flat, before), "the other one".to_owned()));
            found.push(diagnostic);
        }
        siblings
            .entry((&edge.from, &edge.port))
            .or_default()
            .push(at);
        let node = flat.find(&edge.from).map(|(_, node)| node);
        found.extend(node.and_then(|node| misplaced(flat, node, &edge.port, at)));
    }
    for ((node, port), edges) in siblings {
        found.extend(misplaced_else(flat, node, port, &edges));
    }
    found
}

/// The diagnostic for an edge that its node can never take.
fn misplaced(flat: &Flat<'_>, of: &FlatNode<'_>, port: &str, at: EdgeIx) -> Option<Diagnostic> {
    let (name, node) = (of.name, of.node);
    let place_of = |at| place_of(flat, at);
    match (&node.kind, port) {
        (NodeKind::Use { .. }, _) => None,
        (NodeKind::End { .. }, _) if port != "error" => Some(
            Diagnostic::new(
                codes::EDGE_AFTER_END,
                format!("node `{name}` ends its branch, so nothing can come after it"),
                place_of(at),
            )
            .help("leave the edge out, or the `end` node"),
        ),
        (_, ERROR) => unrouted(flat, of, at),
        (NodeKind::Fail { .. }, DONE | ANY_PORT) if !node.on_error.has(ErrorEffect::Continue) => {
            Some(
                Diagnostic::new(
                    codes::PORT,
                    format!("node `{name}` always fails, so this edge is never taken"),
                    place_of(at),
                )
                .help(format!("the path after a failure leaves by `{name}.error`")),
            )
        }
        (_, DONE | ANY_PORT) => None,
        _ => Some(Diagnostic::new(
            codes::PORT,
            format!("node `{name}` has no port `{port}`, only `done` and `error`"),
            place_of(at),
        )),
    }
}

/// The edges that leave nodes of plugins by ports that these do not have, and those that leave a
/// node that decides without naming its port. `declared` gives the ports of a node type, without
/// `error`; none if the type is unknown. Sorted as the edges are.
///
/// A node type decides if `done` is none of its ports: each of its outcomes is an answer, and an
/// edge that ignores the answer has to say so by `*`.
pub fn ports<'a>(
    definition: &Definition,
    declared: &dyn Fn(&UseRef) -> Option<&'a [String]>,
) -> Vec<Diagnostic> {
    let flat = Flat::of(definition);
    let mut found = Vec::new();
    let mut leaves: BTreeMap<&str, bool> = BTreeMap::new();
    for (at, inside) in (0..).map(EdgeIx).zip(&flat.edges) {
        let (name, port) = (inside.edge.from.as_str(), inside.edge.port.as_str());
        let Some((_, node)) = flat.find(name) else {
            continue;
        };
        let NodeKind::Use { node_type, .. } = &node.node.kind else {
            continue;
        };
        if port == ERROR {
            found.extend(unrouted(&flat, node, at));
            continue;
        }
        let Some(ports) = declared(node_type) else {
            continue;
        };
        if decides(ports) {
            *leaves.entry(node.name).or_default() |= port == ANY_PORT;
        }
        if port == ANY_PORT || ports.iter().any(|it| it == port) {
            continue;
        }
        let place = place_of(&flat, at);
        if decides(ports) && port == DONE {
            let message = format!(
                "node `{name}` (`{node_type}`) decides, so an edge from it names the answer: {}",
                either(ports)
            );
            let to = inside.edge.to.as_str();
            let edges = ports.iter().take(ANSWERS).map(String::as_str);
            let edges = edges.map(|port| format!("`{name}.{port} -> {to}`"));
            let help = format!(
                "write {}, or `{name}.* -> {to}` to go on after any answer",
                edges.collect::<Vec<_>>().join(" or ")
            );
            found.push(Diagnostic::new(codes::DECISION, message, place).help(help));
            continue;
        }
        let message = format!("node `{name}` (`{node_type}`) has no port `{port}`");
        let near = nearest(port, ports.iter().map(String::as_str).chain([ERROR]));
        let has = format!("it has `error` and {}", quoted(ports));
        let help = match (near, ports) {
            (Some(near), ports) if decides(ports) => {
                format!("did you mean `{name}.{near}`? {has}")
            }
            (Some(near), _) => format!("did you mean `{name}.{near}`?"),
            (None, [only]) if only == DONE => format!(
                "its only port besides `error` is `done`: write `{name} -> …`, or with a \
                 condition `{name} -> …: CONDITION`"
            ),
            (None, _) => has,
        };
        found.push(Diagnostic::new(codes::PORT, message, place).help(help));
    }
    for (name, by_any) in leaves {
        let node = flat.find(name).map(|(_, node)| node);
        found.extend(node.filter(|_| !by_any).and_then(leads_nowhere));
    }
    found
}

/// Answers of a node that a message shows as edges.
const ANSWERS: usize = 4;

/// Whether every outcome of a node type with these ports is an answer.
fn decides(ports: &[String]) -> bool {
    !ports.is_empty() && !ports.iter().any(|port| port == DONE)
}

fn either(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(" or ")
}

/// The diagnostic for a node that decides and continues after a failure, which is no answer, though
/// each of its edges needs one.
fn leads_nowhere(node: &FlatNode<'_>) -> Option<Diagnostic> {
    if !node.node.on_error.has(ErrorEffect::Continue) {
        return None;
    }
    let name = node.name;
    let message =
        format!("node `{name}` continues after a failure, but each of its edges needs an answer");
    let place = Place::at(format!("{}/on-error", node.pointer));
    let found = Diagnostic::new(codes::DECISION, message, place);
    Some(found.help(format!(
        "write `on-error: route` and an edge from `{name}.error`, or an edge from `{name}.*`"
    )))
}

fn quoted(names: &[String]) -> String {
    let names = names.iter().map(|name| format!("`{name}`"));
    names.collect::<Vec<_>>().join(", ")
}

/// The diagnostic for an edge from `error` of a node that does not route its failures.
fn unrouted(flat: &Flat<'_>, node: &FlatNode<'_>, at: EdgeIx) -> Option<Diagnostic> {
    if node.node.on_error.has(ErrorEffect::Route) {
        return None;
    }
    let name = node.name;
    let message = format!("node `{name}` does not route its failures, so this edge is never taken");
    let unrouted = Diagnostic::new(codes::PORT, message, place_of(flat, at));
    Some(unrouted.help(format!("write `on-error: route` at node `{name}`")))
}

fn misplaced_else(
    flat: &Flat<'_>,
    node: &str,
    port: &str,
    siblings: &[EdgeIx],
) -> Option<Diagnostic> {
    let whens = || {
        let edges = siblings
            .iter()
            .filter_map(|at| Some((*at, flat.edge(*at)?)));
        edges.map(|(at, edge)| (at, &edge.edge.when))
    };
    let mut elses = whens()
        .filter(|(_, when)| **when == When::Else)
        .map(|(at, _)| at);
    let at = elses.next()?;
    let from = if port == DONE {
        format!("`{node}`")
    } else {
        format!("`{node}.{port}`")
    };
    let (at, message, help) = if let Some(second) = elses.next() {
        (
            second,
            format!("two edges from {from} are `else`"),
            "give one of them a condition",
        )
    } else if whens().any(|(_, when)| *when == When::Always) {
        (
            at,
            format!("another edge from {from} has no condition, so this `else` is never taken"),
            "give the other edge a condition, or leave `: else` out to take both",
        )
    } else if siblings.len() == 1 {
        (
            at,
            format!("no other edge from {from} has a condition, so `else` has no meaning"),
            "leave `: else` out, or add an edge with a condition",
        )
    } else {
        return None;
    };
    let place = Place {
        within: Some(0.."else".len()),
        ..place_of(flat, at)
    };
    Some(Diagnostic::new(codes::ELSE, message, place).help(help))
}

/// The mistakes in the graph as a whole.
pub(super) fn of_graph(flat: &Flat<'_>, shape: &Shape, loops: &Found) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut all_entries = Vec::new();
    for (at, body) in (0..).map(BodyIx).zip(&flat.bodies) {
        let (entries, _) = compile::roots(flat, shape, at);
        if entries.is_empty() {
            found.push(begins_nowhere(flat, at, body));
        }
        all_entries.extend(entries);
    }
    if !found.is_empty() {
        return found;
    }
    let forward = |node: NodeIx| {
        let into = shape.into(node).iter().copied();
        into.filter(|edge: &EdgeIx| !loops.backward.get(edge.at()))
            .collect::<Vec<_>>()
    };
    let reached = shape.reach(&shape.roots);
    let live = shape.reach(&all_entries);
    for (at, inside) in flat.nodes() {
        let (name, node, inbound) = (inside.name, inside.node, forward(at));
        let place = |key: &str| Place::at(format!("{}{key}", inside.pointer));
        if !reached.get(at.at()) && !flat.is_compensating(at) {
            let message = format!("nothing leads to node `{name}`");
            found.push(
                Diagnostic::new(codes::UNREACHABLE, message, place("")).help(
                    "lead an edge to it, or write `start: true` if the workflow begins there",
                ),
            );
        }
        if let Join::Count(wanted) = node.join
            && (wanted == 0 || wanted as usize > inbound.len())
        {
            let message = format!(
                "node `{name}` waits for {wanted} of its {} edges",
                inbound.len()
            );
            found.push(Diagnostic::new(codes::COUNT, message, place("/join")));
        }
        let early = inbound
            .iter()
            .find(|edge| live.get(shape.from(**edge).at()));
        if let (true, Some(edge)) = (node.start, early) {
            let message = format!(
                "the workflow begins at node `{name}`, but node `{}` leads there too",
                flat.name(shape.from(*edge))
            );
            let mut diagnostic = Diagnostic::new(codes::START_REACHED, message, place("/start"));
            diagnostic
                .related
                .push((place_of(flat, *edge), "the edge".to_owned()));
            found.push(diagnostic);
        }
    }
    for around in loops.loops.iter().filter(|around| around.entries.len() > 1) {
        for node in &around.nodes {
            let join = flat.node(*node).map(|node| node.node.join);
            if join.is_some_and(Join::counts) && forward(*node).len() > 1 {
                found.push(waits_on_cycle(flat, around, *node));
            }
        }
    }
    found
}

fn begins_nowhere(flat: &Flat<'_>, at: BodyIx, body: &FlatBody<'_>) -> Diagnostic {
    let what = match body.container {
        Some(name) => format!("the body of for-each `{name}`"),
        None => "the workflow".to_owned(),
    };
    let (message, help) = if flat.nodes.iter().any(|node| node.body == at) {
        (
            format!("{what} begins nowhere: an edge leads to every node"),
            "write `start: true` at the node to begin with",
        )
    } else {
        (format!("{what} has no nodes"), "give it at least one")
    };
    let place = Place::at(format!("{}/nodes", body.pointer));
    Diagnostic::new(codes::NO_ENTRY, message, place).help(help)
}

fn waits_on_cycle(flat: &Flat<'_>, around: &FoundLoop, node: NodeIx) -> Diagnostic {
    let name = |node: NodeIx| flat.name(node);
    let pointer = flat.node(node).map(|node| node.pointer.as_str());
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
    let place = Place::at(pointer.unwrap_or_default());
    Diagnostic::new(codes::JOIN_ON_CYCLE, message, place)
        .help("write `join: any`, `race` or `each` at the node, or let all edges enter at one node")
}

fn place_of(flat: &Flat<'_>, edge: EdgeIx) -> Place {
    Place::at(flat.edge(edge).map_or("", |edge| edge.pointer.as_str()))
}
