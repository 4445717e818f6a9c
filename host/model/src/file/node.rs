//! Nodes: their names, and the keys of all kinds.

use std::collections::BTreeMap;

use serde_json::Value;

use super::reader::{Reader, cut, is_name, stands_for};
use super::tree::{Entry, Kind, Node as Tree};
use super::{format, kind, policy, workflow};
use crate::definition::{Node, NodeKind};
use crate::{codes, limits};

/// Bytes of the key of a mutex.
const MUTEX_BYTES: usize = 128;

/// The nodes of a workflow, or of the body of a node.
pub(super) fn all(reader: &mut Reader, tree: &Tree, of: &str) -> BTreeMap<String, Node> {
    let wanted = "a map of names and nodes";
    if matches!(tree.kind, Kind::List(_)) {
        reader
            .wrong_type(tree, wanted)
            .help("write `name: { use: … }`, without dashes");
        return BTreeMap::new();
    }
    let like = "like `nodes: { first: { use: package/node } }`";
    let entries = reader.map_like(tree, wanted, like);
    workflow::check_count(reader, tree, entries.len(), "nodes");
    if entries.is_empty() && matches!(tree.kind, Kind::Map(_)) {
        let message = format!("{of} has at least one node");
        reader.report(codes::MISSING_KEY, message, tree);
    }
    let read = |reader: &mut Reader, entry: &Entry| {
        reader.name(entry, "a node");
        reader.take_node_name(entry);
        let node = reader.at(&entry.key, |reader| one(reader, &entry.value));
        let node = node.unwrap_or_else(|| {
            // The name stays, so that only this node is said to be wrong and not the edges to it.
            reader.unread.nodes.insert(entry.key.clone());
            Node::new(NodeKind::Wait(Value::Null))
        });
        (entry.key.clone(), node)
    };
    entries.iter().map(|entry| read(reader, entry)).collect()
}

fn one(reader: &mut Reader, tree: &Tree) -> Option<Node> {
    let Kind::Map(entries) = &tree.kind else {
        let help = match &tree.kind {
            Kind::Text { text, .. } => glued(text).or_else(|| {
                text.contains('/')
                    .then(|| format!("write `{{ use: {} }}`", cut(text)))
            }),
            Kind::List(_) if reader.is_at("edges") => {
                Some("`edges` stands beside `nodes`: indent it less".to_owned())
            }
            _ => None,
        };
        let help = help.unwrap_or_else(|| "like `{ use: package/node }`".to_owned());
        reader.wrong_type(tree, "a map").help(help);
        return None;
    };
    check_keys(reader, tree, entries);
    let kind = kind::read(reader, tree);
    // Without a kind there is no node, but its other keys are read to report their mistakes.
    let mut node = Node::new(kind.clone().unwrap_or(NodeKind::Wait(Value::Null)));
    for entry in entries {
        reader.at(&entry.key, |reader| key(reader, &mut node, entry));
    }
    kind.map(|_| node)
}

/// The remedy for `key:value`, which YAML takes for a text.
fn glued(text: &str) -> Option<String> {
    let (key, value) = text.split_once(':')?;
    let keys = format::node();
    let known = keys.names.contains(&key) || keys.common.contains(&key);
    known.then(|| format!("write a space after the colon: `{key}: {}`", cut(value)))
}

fn key(reader: &mut Reader, node: &mut Node, entry: &Entry) {
    let value = &entry.value;
    match entry.key.as_str() {
        "with" => check_with(reader, value),
        "input" => node.input = Some(value.to_value()),
        "join" => node.join = policy::join(reader, value),
        "first" => node.first = reader.boolean(value),
        "start" => node.start = reader.boolean(value),
        "retry" => node.retry = Some(policy::retry(reader, value)),
        "timeout" => node.timeout_ms = Some(reader.duration(value)),
        "total-timeout" => node.total_timeout_ms = Some(reader.duration(value)),
        "wait-timeout" => node.wait_timeout_ms = Some(reader.duration(value)),
        "on-error" => node.on_error = policy::on_error(reader, value),
        "repeat" => node.repeat = Some(policy::repeat(reader, value)),
        "mutex" => node.mutex = mutex(reader, value),
        "priority" => node.priority = reader.within(value, limits::PRIORITY),
        "route" => node.route = named(reader, value, "route", true),
        "compensate" => node.compensate = named(reader, value, "node", false),
        "title" => node.title = reader.text(value).map(str::to_owned),
        "description" => node.description = reader.text(value).map(str::to_owned),
        _ => {}
    }
}

fn check_keys(reader: &mut Reader, tree: &Tree, entries: &[Entry]) {
    let format::Kinds { names, own, common } = format::node();
    let has = |kind: &str| tree.get(kind).is_some();
    let belonging = own.iter().filter(|(kind, _)| has(kind));
    let belonging = belonging.flat_map(|(_, keys)| keys.iter());
    let known: Vec<&str> = names
        .iter()
        .chain(belonging)
        .chain(common)
        .copied()
        .collect();
    // A key of another kind is known, and has an error of its own.
    let stray = |key: &str| {
        own.iter()
            .find(|(kind, keys)| !has(kind) && keys.contains(&key))
    };
    let shared = |key: &str| format::workflow().contains(&key);
    let strays: Vec<&str> = entries
        .iter()
        .map(|entry| entry.key.as_str())
        .filter(|key| stray(key).is_some() && !shared(key) && !known.contains(key))
        .collect();
    let hint = |key: &str| {
        if shared(key) {
            let each = own.get("for-each").is_some_and(|keys| keys.contains(&key));
            let or = if each {
                ", or to a node with `for-each`"
            } else {
                ", beside `nodes`"
            };
            return Some(format!("`{key}` belongs to the workflow{or}"));
        }
        has("use").then(|| format!("if the node type is configured by it, write it below `with`: `with: {{ {key}: … }}`"))
    };
    let mut all = known.clone();
    all.extend(&strays);
    let kindless = !names.iter().any(|kind| has(kind));
    let is_unknown = |entry: &&Entry| !all.contains(&entry.key.as_str()) && !shared(&entry.key);
    let unknown = entries.iter().find(is_unknown);
    // A node whose kind is misspelt has that mistake, and its other keys belong to the kind.
    if let Some(unknown) = unknown.filter(|_| kindless) {
        let meant = |kind: &&&str| stands_for("a node", unknown, kind);
        let of = names.iter().find(meant).copied();
        let belonging = own
            .iter()
            .filter(|(kind, _)| of.is_none_or(|of| of == **kind));
        all.extend(belonging.flat_map(|(_, keys)| keys.iter()));
    }
    reader.known_keys(entries, "a node", &all, hint);
    for entry in entries
        .iter()
        .filter(|entry| strays.contains(&entry.key.as_str()))
        .filter(|_| unknown.is_none() || !kindless)
    {
        let Some((kind, _)) = stray(&entry.key) else {
            continue;
        };
        let (message, help) = match *kind {
            "use" => (
                "`with` configures a node type, and this node uses none".to_owned(),
                "add `use: package/node`".to_owned(),
            ),
            kind => (
                format!(
                    "`{}` belongs to `{kind}`, which this node has not",
                    entry.key
                ),
                format!("add `{kind}: …`, or leave it out"),
            ),
        };
        reader
            .report_key(codes::NODE_KIND, message, entry)
            .help(help);
    }
}

/// Constant, because the engine decides about exclusion before it evaluates any expression.
fn mutex(reader: &mut Reader, tree: &Tree) -> Option<String> {
    let text = reader.text(tree)?;
    if text.is_empty() || text.len() > MUTEX_BYTES {
        let message = format!("the key of a mutex has 1 to {MUTEX_BYTES} bytes");
        reader.report(codes::BAD_VALUE, message, tree);
    } else if text.contains("{{") || text.contains("{%") {
        let message = "the key of a mutex is a constant, not an expression";
        let report = reader.report(codes::BAD_VALUE, message, tree);
        report.help("it excludes nodes of one run from each other; between runs use `options: { activation: … }`");
    }
    Some(text.to_owned())
}

/// The name of another object.
fn named(reader: &mut Reader, tree: &Tree, what: &str, hyphens: bool) -> Option<String> {
    let text = reader.text(tree)?;
    if !is_name(text, hyphens) {
        let message = format!("`{text}` cannot be the name of a {what}");
        let report = reader.report(codes::BAD_NAME, message, tree);
        report.help(match hyphens {
            true => "such names consist of a-z, 0-9, `_` and `-`, and begin with a letter or `_`",
            false => "names consist of a-z, 0-9 and `_`, and do not begin with a digit",
        });
    }
    Some(text.to_owned())
}

fn check_with(reader: &mut Reader, tree: &Tree) {
    match &tree.kind {
        Kind::Map(_) => {}
        Kind::Text { text, .. } if text.contains("{{") => {}
        _ => reader
            .wrong_type(tree, "a map, or an expression that gives one")
            .help("like `with: { url: https://example.com }`"),
    }
}
