//! Pictures of a workflow.

mod dot;
mod mermaid;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use windlass_model::definition::{ANY_PORT, DONE, Edge, Join, Node, NodeKind, When};

pub(crate) use dot::dot;
pub(crate) use mermaid::mermaid;
pub(crate) use text::text;

/// A short description of a node's kind.
fn kind(node: &Node) -> String {
    match &node.kind {
        NodeKind::Use { node_type, .. } => node_type.to_string(),
        NodeKind::ForEach(each) => format!("for each of {}", written(&each.list)),
        NodeKind::Workflow { name } => format!("workflow {name}"),
        NodeKind::Wait(value) => format!("wait {}", written(value)),
        NodeKind::Event { name, .. } => format!("event {}", written(name)),
        NodeKind::Set(values) => {
            let names: Vec<_> = values.keys().map(String::as_str).collect();
            format!("set {}", names.join(", "))
        }
        NodeKind::End {
            terminate: true, ..
        } => "end, terminates".to_owned(),
        NodeKind::End { .. } => "end".to_owned(),
        NodeKind::Fail { .. } => "fail".to_owned(),
    }
}

/// A template as the file writes it.
fn written(template: &Value) -> String {
    match template.as_str() {
        Some(text) => text.to_owned(),
        None => template.to_string(),
    }
}

/// How a node joins, unless it is the default.
fn join(node: &Node) -> Option<String> {
    match node.join {
        Join::AllActive => None,
        Join::All => Some("join all".to_owned()),
        Join::Any => Some("join any".to_owned()),
        Join::Race => Some("join race".to_owned()),
        Join::Count(count) => Some(format!("join {count}")),
        Join::Each => Some("join each".to_owned()),
    }
}

/// The port and the condition of an edge; none if it is always taken.
fn condition(edge: &Edge) -> String {
    let mut parts = Vec::new();
    match edge.port.as_str() {
        DONE => {}
        ANY_PORT => parts.push("on any answer".to_owned()),
        port => parts.push(format!("on {port}")),
    }
    match &edge.when {
        When::Always => {}
        When::If(expression) => parts.push(format!("if {expression}")),
        When::Else => parts.push("else".to_owned()),
    }
    parts.join(", ")
}

/// The nodes in an order in which forward edges lead downwards, and the backward edges by their
/// index.
struct Order<'a> {
    nodes: Vec<&'a str>,
    backward: BTreeSet<usize>,
}

impl<'a> Order<'a> {
    fn of(nodes: &'a BTreeMap<String, Node>, edges: &'a [Edge]) -> Self {
        let mut leaving: BTreeMap<&str, Vec<(usize, &'a str)>> = BTreeMap::new();
        let mut entered = BTreeSet::new();
        for (at, edge) in edges.iter().enumerate() {
            leaving.entry(&edge.from).or_default().push((at, &edge.to));
            entered.insert(edge.to.as_str());
        }
        let named = |marked: bool| {
            nodes
                .iter()
                .filter(move |(_, node)| node.start == marked)
                .map(|(name, _)| name.as_str())
        };
        // Marked starts come first, then nodes that no edge leads to. The remaining nodes are in
        // cycles that no edge leads into; they are drawn, too.
        let entries = named(true)
            .chain(named(false).filter(|name| !entered.contains(name)))
            .chain(named(false));
        let mut walk = Walk {
            leaving,
            ..Walk::default()
        };
        for entry in entries {
            walk.from(entry);
        }
        walk.finished.reverse();
        let ordered = walk
            .finished
            .into_iter()
            .filter(|name| nodes.contains_key(*name))
            .collect();
        Self {
            nodes: ordered,
            backward: walk.backward,
        }
    }
}

/// A depth-first walk without recursion: a workflow may be a chain of ten thousand nodes.
#[derive(Default)]
struct Walk<'a> {
    leaving: BTreeMap<&'a str, Vec<(usize, &'a str)>>,
    open: BTreeSet<&'a str>,
    seen: BTreeSet<&'a str>,
    finished: Vec<&'a str>,
    backward: BTreeSet<usize>,
}

impl<'a> Walk<'a> {
    fn from(&mut self, entry: &'a str) {
        if !self.seen.insert(entry) {
            return;
        }
        self.open.insert(entry);
        // Each entry is a node and the number of its remaining edges. The last edge is taken first,
        // so that the branches come out in the order of the file.
        let count = |walk: &Self, name: &str| walk.leaving.get(name).map_or(0, Vec::len);
        let mut stack = vec![(entry, count(self, entry))];
        while let Some((name, left)) = stack.last_mut() {
            let name = *name;
            let next = left.checked_sub(1).and_then(|at| {
                *left = at;
                self.leaving.get(name)?.get(at).copied()
            });
            match next {
                None => {
                    stack.pop();
                    self.open.remove(name);
                    self.finished.push(name);
                }
                Some((edge, to)) if self.open.contains(to) => {
                    self.backward.insert(edge);
                }
                Some((_, to)) => {
                    if self.seen.insert(to) {
                        self.open.insert(to);
                        stack.push((to, count(self, to)));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
