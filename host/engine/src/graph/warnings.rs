//! Warns of behaviour that the author may not expect: steps of a cron expression beyond their field,
//! and nodes that wait in a critical section.
//!
//! A node holds its section while it waits for an event, an instant, a person or another workflow.
//! The other nodes with that key wait meanwhile. An author may intend this, so it is a warning and
//! not an error.

use std::collections::BTreeMap;

use windlass_model::definition::{Definition, Join, Node, NodeKind, UseRef};
use windlass_model::file::duration_ms;
use windlass_model::{Diagnostic, Place, schedule};

use super::flat::{Flat, FlatNode};
use crate::codes;

/// A wait that surely ends within this time gives no warning.
const LONG_WAIT_MS: u64 = 60_000;

/// How many of the delayed nodes a message names.
const NAMED: usize = 5;

/// The limit of warnings for one workflow.
const MOST: usize = 100;

/// Steps of cron expressions beyond their field, and nodes that may wait long in a critical section
/// that other nodes may need; at most 100 warnings of each kind.
/// `suspends` tells which node types of plugins wait for an external event.
pub fn warnings(definition: &Definition, suspends: &dyn Fn(&UseRef) -> bool) -> Vec<Diagnostic> {
    let triggers = definition.triggers.iter();
    let mut found: Vec<Diagnostic> = triggers
        .flat_map(|(name, trigger)| schedule::warnings(trigger, &format!("/triggers/{name}")))
        .take(MOST)
        .collect();
    found.extend(sections(definition, suspends));
    found
}

fn sections(definition: &Definition, suspends: &dyn Fn(&UseRef) -> bool) -> Vec<Diagnostic> {
    let flat = Flat::of(definition);
    let mut sections: BTreeMap<&str, Vec<&FlatNode<'_>>> = BTreeMap::new();
    for node in &flat.nodes {
        if let Some(key) = node.node.mutex.as_deref() {
            sections.entry(key).or_default().push(node);
        }
    }
    if sections.is_empty() {
        return Vec::new();
    }
    let waits = waits(&flat, suspends);
    let mut found = Vec::new();
    for (key, nodes) in sections {
        for node in &nodes {
            if found.len() == MOST {
                return found;
            }
            if let Some(wait) = waits.get(node.name)
                && (nodes.len() > 1 || repeats(&flat, node))
            {
                found.push(warning(key, node, wait, &nodes));
            }
        }
    }
    found
}

fn warning(
    key: &str,
    node: &FlatNode<'_>,
    wait: &Wait<'_>,
    section: &[&FlatNode<'_>],
) -> Diagnostic {
    let name = node.name;
    let others = section.iter().map(|other| other.name);
    let others = others.filter(|other| *other != name).take(NAMED);
    let others: Vec<String> = others.map(|other| format!("`{other}`")).collect();
    let held = match (section.len().saturating_sub(1), others.len()) {
        (0, _) => format!("other executions of `{name}`"),
        (all, named) if all > named => {
            format!("{} and {} more", others.join(", "), all - named)
        }
        _ => others.join(", "),
    };
    let inside = match wait.inside {
        Some(inside) => format!(" in node `{inside}`"),
        None => String::new(),
    };
    let what = &wait.what;
    let message = format!(
        "node `{name}` keeps the mutex `{key}` while it waits{inside} for {what}; until then \
         these do not begin: {held}"
    );
    let place = Place::at(format!("{}/mutex", node.pointer));
    Diagnostic::new(codes::WAITS_IN_MUTEX, message, place).help(
        "wait in a node of its own without `mutex`, or bound the wait with `wait-timeout` or \
         `total-timeout`",
    )
}

/// Whether several executions of one node can be open at the same time.
fn repeats(flat: &Flat<'_>, node: &FlatNode<'_>) -> bool {
    let around = flat.around(node.body).filter_map(|body| flat.body(body));
    let mut containers = around.filter_map(|body| flat.find(body.container?));
    node.node.join == Join::Each
        || containers.any(|(_, each)| match &each.node.kind {
            NodeKind::ForEach(each) => each.concurrency > 1,
            _ => false,
        })
}

/// The wait of a node.
#[derive(Clone)]
struct Wait<'a> {
    what: String,
    /// The node in its body that waits.
    inside: Option<&'a str>,
}

/// By name, the nodes that may wait for long, themselves or in their bodies.
fn waits<'a>(flat: &Flat<'a>, suspends: &dyn Fn(&UseRef) -> bool) -> BTreeMap<&'a str, Wait<'a>> {
    let mut waits = BTreeMap::new();
    for node in &flat.nodes {
        let Some(what) = of_node(node.node, suspends) else {
            continue;
        };
        let mut wait = Wait { what, inside: None };
        waits.insert(node.name, wait.clone());
        wait.inside = Some(node.name);
        for body in flat.around(node.body).filter_map(|body| flat.body(body)) {
            let Some((_, each)) = body.container.and_then(|name| flat.find(name)) else {
                break;
            };
            if is_short(each.node.total_timeout_ms) || is_short(each.node.timeout_ms) {
                break;
            }
            waits.entry(each.name).or_insert_with(|| wait.clone());
        }
    }
    waits
}

/// Whether a time limit is so short that the wait delays other nodes only briefly.
fn is_short(ms: Option<u64>) -> bool {
    ms.is_some_and(|ms| ms < LONG_WAIT_MS)
}

/// The reason why a node itself may wait for long.
fn of_node(node: &Node, suspends: &dyn Fn(&UseRef) -> bool) -> Option<String> {
    if is_short(node.total_timeout_ms) {
        return None;
    }
    let every = node.repeat.as_ref().and_then(|repeat| repeat.every_ms);
    let rounds = every.filter(|every| *every >= LONG_WAIT_MS);
    let own = match &node.kind {
        NodeKind::Event { .. } if is_short(node.wait_timeout_ms) => None,
        NodeKind::Event { name, .. } => Some(match name.as_str() {
            Some(name) => format!("the event `{name}`"),
            None => "an event".to_owned(),
        }),
        NodeKind::Wait(value) => match value.as_str().map(duration_ms) {
            Some(Ok(ms)) if ms < LONG_WAIT_MS => None,
            _ => Some(match value.as_str() {
                Some(text) => format!("`{text}`"),
                None => "a time".to_owned(),
            }),
        },
        NodeKind::Workflow { .. } if is_short(node.timeout_ms) => None,
        NodeKind::Workflow { name } => Some(format!("the workflow `{name}`")),
        NodeKind::Use { .. } if is_short(node.wait_timeout_ms) => None,
        NodeKind::Use { node_type, .. } if suspends(node_type) => {
            Some(format!("the resumption of `{node_type}`"))
        }
        _ => None,
    };
    own.or_else(|| rounds.map(|_| "the next round of its `repeat`".to_owned()))
}
