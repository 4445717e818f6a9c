//! A workflow, and its options.

use std::collections::BTreeMap;

use super::reader::{Reader, is_name};
use super::tree::{Kind, Node};
use super::{edge, keys, node, trigger};
use crate::definition::{Activation, CommitStrategy, Incidents, Options};
use crate::schema::Schema;
use crate::{Definition, codes, limits};

pub(super) fn read(reader: &mut Reader, tree: &Node) -> Definition {
    let entries = reader.map(tree, "a map with `workflow`, `nodes` and `edges`");
    if entries.is_empty() && !matches!(tree.kind, Kind::Map(_)) {
        return Definition::default();
    }
    let belongs = |key: &str| {
        let node_key = keys::NODE.contains(&key) || keys::KINDS.contains(&key);
        node_key.then(|| format!("`{key}` belongs to a node, below `nodes`"))
    };
    reader.known_keys(entries, "a workflow", keys::WORKFLOW, belongs);
    for (key, example) in [
        ("workflow", "workflow: my-workflow"),
        ("nodes", "nodes: { … }"),
    ] {
        if tree.get(key).is_none() {
            let message = format!("the key `{key}` is missing");
            reader
                .report(codes::MISSING_KEY, message, tree)
                .help(format!("add `{example}`"));
        }
    }
    let mut definition = Definition::default();
    for entry in entries {
        let value = &entry.value;
        reader.at(&entry.key, |reader| match entry.key.as_str() {
            "workflow" => definition.name = name(reader, value),
            "description" => definition.description = reader.text(value).map(str::to_owned),
            "input" => definition.input = Some(schema(reader, value)),
            "triggers" => definition.triggers = trigger::all(reader, value),
            "vars" => definition.vars = vars(reader, value),
            "nodes" => definition.nodes = node::all(reader, value, "a workflow"),
            "edges" => definition.edges = edge::all(reader, value),
            "output" => definition.output = Some(value.to_value()),
            "options" => definition.options = options(reader, value),
            _ => {}
        });
    }
    definition
}

pub(super) fn name(reader: &mut Reader, node: &Node) -> String {
    let Some(text) = reader.text(node) else {
        return String::new();
    };
    if !is_name(text, true) {
        let message = format!("`{text}` cannot be the name of a workflow");
        let help = "names of workflows consist of a-z, 0-9, `_` and `-`, begin with a letter or \
                    `_`, and have at most 128 characters";
        reader.report(codes::BAD_NAME, message, node).help(help);
    }
    text.to_owned()
}

fn schema(reader: &mut Reader, node: &Node) -> serde_json::Value {
    let value = node.to_value();
    match node.kind {
        Kind::Map(_) | Kind::Bool(_) if reader.stored => {}
        Kind::Map(_) | Kind::Bool(_) => {
            if let Err(error) = Schema::compile(&value) {
                let message = if error.code == codes::BAD_SCHEMA {
                    format!("this is not a JSON Schema: {error}")
                } else {
                    error.to_string()
                };
                let report = reader.report(error.code, message, node);
                if let Some(help) = error.help {
                    report.help(help);
                }
            }
        }
        _ => reader
            .wrong_type(node, "a JSON Schema")
            .help("like `{ type: object }`"),
    }
    value
}

fn vars(reader: &mut Reader, node: &Node) -> BTreeMap<String, serde_json::Value> {
    let entries = reader.map(node, "a map of names and values");
    for entry in entries {
        reader.name(entry, "a variable");
        reader.at(&entry.key, |reader| {
            constant(reader, &entry.value, VARIABLE)
        });
    }
    entries
        .iter()
        .map(|entry| (entry.key.clone(), entry.value.to_value()))
        .collect()
}

/// The message about a value that has to be a constant, and the remedy.
pub(super) type Constant = (&'static str, &'static str);

const VARIABLE: Constant = (
    "a variable begins as a constant, not as an expression",
    "compute it in a node with `set`",
);

/// The value is used as it is written: an expression would be used as text.
pub(super) fn constant(reader: &mut Reader, node: &Node, (message, help): Constant) {
    match &node.kind {
        Kind::Text { text, .. } if text.contains("{{") || text.contains("{%") => {
            reader.report(codes::BAD_VALUE, message, node).help(help);
        }
        Kind::List(items) => {
            for (index, item) in items.iter().enumerate() {
                let at = index.to_string();
                reader.at(at, |reader| constant(reader, item, (message, help)));
            }
        }
        Kind::Map(entries) => {
            for entry in entries {
                let value = &entry.value;
                reader.at(&entry.key, |reader| {
                    constant(reader, value, (message, help))
                });
            }
        }
        _ => {}
    }
}

fn options(reader: &mut Reader, node: &Node) -> Options {
    let mut options = Options::default();
    let entries = reader.map(node, "a map of options");
    reader.known_keys(entries, "`options`", keys::OPTIONS, |_| None);
    for entry in entries {
        let value = &entry.value;
        reader.at(&entry.key, |reader| match entry.key.as_str() {
            "incidents" => {
                let choices = [
                    ("fault", Incidents::Fault),
                    ("continue", Incidents::Continue),
                ];
                options.incidents = reader.choice(value, &choices).unwrap_or_default();
            }
            "timeout" => options.timeout_ms = Some(reader.duration(value)),
            "retention" => options.retention_ms = Some(reader.duration(value)),
            "activation" => {
                let choices = [
                    ("always", Activation::Always),
                    ("singleton", Activation::Singleton),
                    ("correlated-singleton", Activation::CorrelatedSingleton),
                    ("correlation", Activation::Correlation),
                ];
                options.activation = reader.choice(value, &choices).unwrap_or_default();
            }
            "commit" => {
                let choices = [
                    ("every-node", CommitStrategy::EveryNode),
                    ("burst", CommitStrategy::Burst),
                ];
                options.commit = reader.choice(value, &choices).unwrap_or_default();
            }
            _ => {}
        });
    }
    options
}

/// Reports a count that exceeds the bound of a whole workflow.
pub(super) fn check_count(reader: &mut Reader, node: &Node, count: usize, what: &str) {
    let (before, limit) = match what {
        "nodes" => (&mut reader.nodes, limits::NODES),
        _ => (&mut reader.edges, limits::EDGES),
    };
    let within = *before <= limit;
    *before += count;
    let now = *before;
    if within && now > limit {
        let message = format!("a workflow has at most {limit} {what}; here are {now}");
        reader.report(codes::TOO_LARGE, message, node);
    }
}
