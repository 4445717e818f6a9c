//! A workflow, and its options.

use std::collections::BTreeMap;

use super::reader::{Reader, cut, is_name, repair, stands_for};
use super::tree::{Entry, Kind, Node};
use super::{edge, format, node, trigger};
use crate::definition::{Activation, CommitStrategy, Incidents, Options, Record};
use crate::schema::Schema;
use crate::template::is_template;
use crate::{Definition, codes, limits, valid};

pub(super) fn read(reader: &mut Reader, tree: &Node) -> Definition {
    const LIKE: &str = "a workflow is like `workflow: order`, below it `nodes:` with the nodes by \
                        name, and `edges:` with a list like `- a -> b`";
    let entries = reader.map_like(tree, "a map with `workflow`, `nodes` and `edges`", LIKE);
    if entries.is_empty() && !matches!(tree.kind, Kind::Map(_)) {
        return Definition::default();
    }
    let belongs = |key: &str| {
        let of_node = format::node();
        let node_key = of_node.common.contains(&key) || of_node.names.contains(&key);
        node_key.then(|| format!("`{key}` belongs to a node, below `nodes`"))
    };
    // Nodes that are not indented look like keys of the workflow.
    let nothing = |node: &Node| matches!(node.kind, Kind::Null);
    let flat = tree.get("nodes").is_some_and(nothing);
    let is_node = |entry: &Entry| {
        !format::workflow().contains(&entry.key.as_str())
            && format::node()
                .names
                .iter()
                .any(|kind| entry.value.get(kind).is_some())
    };
    if flat && let Some(first) = entries.iter().find(|entry| is_node(entry)) {
        let message = format!("`{}` is not below `nodes`, which is empty", cut(&first.key));
        let report = reader.report_key(codes::WRONG_TYPE, message, first);
        report.help("indent the nodes by two spaces");
        return Definition::default();
    }
    reader.known_keys(entries, "a workflow", format::workflow(), belongs);
    for (key, example) in [
        ("workflow", "workflow: my-workflow"),
        ("nodes", "nodes: { … }"),
    ] {
        // A misspelt key has its own mistake.
        let misspelt = || {
            entries
                .iter()
                .any(|entry| stands_for("a workflow", entry, key))
        };
        if tree.get(key).is_none() && !misspelt() {
            let message = format!("the key `{key}` is missing");
            reader
                .report(codes::MISSING_KEY, message, tree)
                .help(format!("add `{example}`"));
        }
    }
    if !reader.stored {
        name_nodes(reader, tree);
    }
    let mut definition = Definition::default();
    for entry in entries {
        let value = &entry.value;
        reader.at(&entry.key, |reader| match entry.key.as_str() {
            "workflow" => definition.name = name(reader, value),
            "description" => definition.description = reader.text(value).map(str::to_owned),
            "input" => definition.input = Some(schema(reader, value)),
            "triggers" => definition.triggers = trigger::all(reader, value),
            "tags" => definition.tags = tags(reader, value),
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

/// Collects the names of the nodes in all bodies.
fn name_nodes(reader: &mut Reader, tree: &Node) {
    let Some(Kind::Map(entries)) = tree.get("nodes").map(|nodes| &nodes.kind) else {
        return;
    };
    for entry in entries {
        reader.all_nodes.insert(entry.key.clone());
        name_nodes(reader, &entry.value);
    }
}

pub(super) fn name(reader: &mut Reader, node: &Node) -> String {
    let Some(text) = reader.text(node) else {
        return String::new();
    };
    if !is_name(text, true) {
        let message = match text {
            "" => "the name of the workflow is empty".to_owned(),
            text => format!("`{}` cannot be the name of a workflow", cut(text)),
        };
        let fixed = repair(text, '-');
        let fixed = is_name(&fixed, true).then(|| format!("; write `{fixed}`"));
        let help = format!(
            "names of workflows consist of a-z, 0-9, `_` and `-`, begin with a letter or `_`, and \
             have at most 128 characters{}",
            fixed.unwrap_or_default()
        );
        reader.report(codes::BAD_NAME, message, node).help(help);
    }
    text.to_owned()
}

pub(super) fn schema(reader: &mut Reader, node: &Node) -> serde_json::Value {
    let value = node.to_value();
    match node.kind {
        Kind::Map(_) | Kind::Bool(_) if reader.stored => {}
        Kind::Map(_) | Kind::Bool(_) => {
            let compiled = Schema::compile(&value);
            if let Err(error) = compiled.and_then(|schema| schema.defaults_fit()) {
                let message = if error.code == codes::BAD_SCHEMA {
                    format!("this is not a JSON Schema: {error}")
                } else {
                    error.to_string()
                };
                let part = value.pointer(&error.pointer);
                let like = match (part, error.pointer.rsplit('/').next()) {
                    _ if error.code != codes::BAD_SCHEMA => None,
                    (Some(_), Some("type")) => Some(
                        "types are `object`, `array`, `string`, `number`, `integer`, `boolean` and `null`"
                            .to_owned(),
                    ),
                    (Some(serde_json::Value::String(text)), Some(name)) => {
                        Some(format!("a schema is a map, like `{name}: {{ type: {} }}`", cut(text)))
                    }
                    _ => None,
                };
                reader
                    .report_below(error.code, message, &error.pointer)
                    .maybe_help(error.help.or(like));
            }
        }
        _ => reader
            .wrong_type(node, "a JSON Schema")
            .help("like `{ type: object }`"),
    }
    value
}

fn tags(reader: &mut Reader, node: &Node) -> BTreeMap<String, serde_json::Value> {
    let like = "like `tags: { customer: '{{ input.customer }}' }`";
    let entries = reader.map_like(node, "a map of names and values", like);
    if entries.len() > limits::TAGS {
        let (most, here) = (limits::TAGS, entries.len());
        let message = format!("a run has at most {most} tags; here are {here}");
        reader.report(codes::TOO_LARGE, message, node);
    }
    for entry in entries {
        let name = &entry.key;
        if !is_name(name, true) || name.len() > limits::TAG_NAME_BYTES {
            let message = format!("`{}` cannot be the name of a tag", cut(name));
            let help = format!(
                "names of tags consist of a-z, 0-9, `_` and `-`, begin with a letter or `_`, and \
                 have at most {} characters",
                limits::TAG_NAME_BYTES
            );
            reader
                .report_key(codes::BAD_NAME, message, entry)
                .help(help);
        }
        reader.at(name, |reader| tag(reader, &entry.value));
    }
    let entries = entries.iter();
    entries
        .map(|entry| (entry.key.clone(), entry.value.to_value()))
        .collect()
}

fn tag(reader: &mut Reader, node: &Node) {
    match &node.kind {
        Kind::Text { text, .. } if is_template(text) => {}
        Kind::Text { text, .. } => {
            if let Err(wrong) = valid::TAG.check(text) {
                reader.report(codes::BAD_VALUE, wrong.to_string(), node);
            }
        }
        Kind::List(_) | Kind::Map(_) | Kind::Null => {
            reader
                .wrong_type(node, "a text, a number, `true` or `false`")
                .help("like `'{{ input.customer }}'`");
        }
        _ => {}
    }
}

fn vars(reader: &mut Reader, node: &Node) -> BTreeMap<String, serde_json::Value> {
    let like = "like `vars: { currency: EUR }`";
    let entries = reader.map_like(node, "a map of names and values", like);
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
    reader.known_keys(entries, "`options`", format::keys("Options"), |_| None);
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
            "descendants" => options.descendants = Some(reader.count(value)),
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
            "record" => {
                let choices = [("outputs", Record::Outputs), ("inputs", Record::Inputs)];
                options.record = reader.choice(value, &choices).unwrap_or_default();
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
