//! Nodes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::duration::{parse_duration_ms, parse_instant_ms};
use super::reader::{Reader, is_name, list};
use super::tree::{Entry, Kind, Node as Tree};
use super::{keys, workflow};
use crate::definition::{Backoff, Join, Node, NodeKind, OnError, Retry, UseRef};
use crate::nearest::nearest;
use crate::{Class, codes};

pub(super) fn all(reader: &mut Reader, tree: &Tree) -> BTreeMap<String, Node> {
    let wanted = "a map of names and nodes";
    if matches!(tree.kind, Kind::List(_)) {
        reader
            .wrong_type(tree, wanted)
            .help("write `name: { use: … }`, without dashes");
        return BTreeMap::new();
    }
    let entries = reader.map(tree, wanted);
    workflow::check_count(reader, tree, entries.len(), "nodes");
    if entries.is_empty() && matches!(tree.kind, Kind::Map(_)) {
        reader.report(codes::MISSING_KEY, "a workflow has at least one node", tree);
    }
    let read = |reader: &mut Reader, entry: &Entry| {
        reader.name(entry, "a node");
        let node = reader.at(&entry.key, |reader| one(reader, &entry.value));
        node.map(|node| (entry.key.clone(), node))
    };
    entries
        .iter()
        .filter_map(|entry| read(reader, entry))
        .collect()
}

fn one(reader: &mut Reader, tree: &Tree) -> Option<Node> {
    let Kind::Map(entries) = &tree.kind else {
        reader
            .wrong_type(tree, "a map")
            .help("like `{ use: package/node }`");
        return None;
    };
    check_keys(reader, tree, entries);
    let kind = kind(reader, tree);
    // Without a kind there is no node, but the rest of it is read for its mistakes.
    let mut node = Node::new(kind.clone().unwrap_or(NodeKind::Fail(Value::Null)));
    for entry in entries {
        let value = &entry.value;
        reader.at(&entry.key, |reader| match entry.key.as_str() {
            "with" => check_with(reader, value),
            "input" => node.input = Some(value.to_value()),
            "join" => node.join = join(reader, value),
            "first" => node.first = reader.boolean(value),
            "start" => node.start = reader.boolean(value),
            "retry" => node.retry = Some(retry(reader, value)),
            "timeout" => node.timeout_ms = Some(reader.duration(value)),
            "total-timeout" => node.total_timeout_ms = Some(reader.duration(value)),
            "on-error" => {
                let choices = [
                    ("fail", OnError::Fail),
                    ("continue", OnError::Continue),
                    ("route", OnError::Route),
                ];
                node.on_error = reader.choice(value, &choices).unwrap_or_default();
            }
            "title" => node.title = reader.text(value).map(str::to_owned),
            "description" => node.description = reader.text(value).map(str::to_owned),
            _ => {}
        });
    }
    kind.map(|_| node)
}

fn check_keys(reader: &mut Reader, tree: &Tree, entries: &[Entry]) {
    let for_each = tree.get("for-each").is_some();
    let known: Vec<&str> = match for_each {
        true => keys::NODE.iter().chain(keys::FOR_EACH).copied().collect(),
        false => keys::NODE.to_vec(),
    };
    let uses = tree.get("use").is_some();
    let hint = |key: &str| {
        let workflow_key = keys::WORKFLOW.contains(&key) || key == "triggers";
        if workflow_key {
            return Some(format!("`{key}` belongs to the workflow, beside `nodes`"));
        }
        uses.then(|| format!("if the node type is configured by it, write it below `with`: `with: {{ {key}: … }}`"))
    };
    reader.known_keys(entries, "a node", &known, keys::NODE_LATER, hint);
    if let Some(entry) = entries.iter().find(|entry| entry.key == "with")
        && !uses
        && !for_each
    {
        let message = "`with` configures a node type, and this node uses none";
        reader
            .report_key(codes::NODE_KIND, message, entry)
            .help("add `use: package/node`");
    }
}

/// What it does: exactly one of [`keys::KINDS`].
fn kind(reader: &mut Reader, tree: &Tree) -> Option<NodeKind> {
    let entry = only_kind(reader, tree)?;
    let value = &entry.value;
    reader.at(&entry.key, |reader| match entry.key.as_str() {
        "use" => node_type(reader, value).map(|node_type| NodeKind::Use {
            node_type,
            with: with(tree),
        }),
        "wait" => Some(NodeKind::Wait(wait(reader, value))),
        "set" => Some(NodeKind::Set(set(reader, value))),
        "end" => Some(end(reader, value)),
        _ => reader
            .text(value)
            .map(|text| NodeKind::Fail(Value::from(text))),
    })
}

/// The one entry that says what the node does.
fn only_kind<'t>(reader: &mut Reader, tree: &'t Tree) -> Option<&'t Entry> {
    let Kind::Map(entries) = &tree.kind else {
        return None;
    };
    let is_kind = |entry: &&Entry| keys::KINDS.contains(&entry.key.as_str());
    let mut kinds = entries.iter().filter(is_kind);
    let Some(first) = kinds.next() else {
        // What is not built yet, misspelt or a merge key has its error already.
        let excused = |entry: &Entry| {
            ["for-each", "workflow", "event", keys::MERGE].contains(&entry.key.as_str())
                || nearest(&entry.key, keys::KINDS.iter().copied()).is_some()
        };
        if !entries.iter().any(excused) {
            let message = format!("a node does one of {}", list(keys::KINDS));
            let report = reader.report(codes::NODE_KIND, message, tree);
            report.help("add `use: package/node`");
        }
        return None;
    };
    if let Some(second) = kinds.find(|entry| entry.key != first.key) {
        let (a, b) = (&first.key, &second.key);
        let message = format!("a node does one thing; this has `{a}` and `{b}`");
        reader
            .report_key(codes::NODE_KIND, message, second)
            .help("make two nodes of it");
        return None;
    }
    Some(first)
}

/// `package/node@requirement`.
fn node_type(reader: &mut Reader, tree: &Tree) -> Option<UseRef> {
    const HELP: &str = "a node type is like `http/request` or `http/request@1.2`";
    let text = reader.text(tree)?;
    let (path, requirement) = match text.split_once('@') {
        Some((path, requirement)) => (path, Some(requirement)),
        None => (text, None),
    };
    let (package, name) = match path.split_once('/') {
        Some((package, name)) if is_name(package, true) && is_name(name, true) => (package, name),
        _ => {
            let message = format!("`{text}` does not name a node type");
            reader.report(codes::BAD_USE, message, tree).help(HELP);
            return None;
        }
    };
    if let Some(requirement) = requirement
        && let Err(error) = semver::VersionReq::parse(requirement)
    {
        let message = format!("`{requirement}` is no requirement on a version: {error}");
        let help = "write `@1` for any 1.x, or `@1.2` for 1.2 and later 1.x";
        reader.report(codes::BAD_USE, message, tree).help(help);
        return None;
    }
    Some(UseRef {
        package: package.to_owned(),
        name: name.to_owned(),
        requirement: requirement.map(str::to_owned),
    })
}

/// The configuration of a node type.
fn with(tree: &Tree) -> Value {
    let none = || Value::Object(serde_json::Map::new());
    tree.get("with").map_or_else(none, Tree::to_value)
}

fn check_with(reader: &mut Reader, tree: &Tree) {
    match &tree.kind {
        Kind::Map(_) => {}
        Kind::Text { text, .. } if text.contains("{{") => {}
        _ => {
            reader.wrong_type(tree, "a map, or an expression that gives one");
        }
    }
}

fn wait(reader: &mut Reader, tree: &Tree) -> Value {
    match &tree.kind {
        Kind::Text { text, .. } => {
            let template = text.contains("{{") || text.contains("{%");
            let moment = parse_duration_ms(text).is_some() || parse_instant_ms(text).is_some();
            if !template && !moment {
                let message = format!("`{text}` is neither a duration nor an instant");
                let help =
                    "write a duration like `5s` or `3d`, or an instant like `2026-01-31T12:00:00Z`";
                reader.report(codes::BAD_DURATION, message, tree).help(help);
            }
        }
        // Its error is that of a duration.
        _ => drop(reader.duration(tree)),
    }
    tree.to_value()
}

fn set(reader: &mut Reader, tree: &Tree) -> BTreeMap<String, Value> {
    let entries = reader.map(tree, "a map of names and values");
    for entry in entries {
        reader.name(entry, "a variable");
    }
    entries
        .iter()
        .map(|entry| (entry.key.clone(), entry.value.to_value()))
        .collect()
}

fn end(reader: &mut Reader, tree: &Tree) -> NodeKind {
    let (mut terminate, mut output) = (false, None);
    let entries = match &tree.kind {
        Kind::Null => &[],
        _ => reader.map(tree, "a map"),
    };
    reader.known_keys(entries, "`end`", keys::END, &[], |_| None);
    for entry in entries {
        match entry.key.as_str() {
            "terminate" => {
                terminate = reader.at("terminate", |reader| reader.boolean(&entry.value));
            }
            "output" => output = Some(entry.value.to_value()),
            _ => {}
        }
    }
    NodeKind::End { terminate, output }
}

fn join(reader: &mut Reader, tree: &Tree) -> Join {
    if let Kind::Map(entries) = &tree.kind {
        reader.known_keys(entries, "`join`", &["count"], &[], |_| None);
        let count = tree.get("count");
        return count.map_or(Join::default(), |count| {
            Join::Count(reader.at("count", |reader| reader.count(count)))
        });
    }
    if let Kind::Number(number) = &tree.kind {
        let help = format!("write `join: {{ count: {number} }}`");
        reader.wrong_type(tree, "a way to join").help(help);
        return Join::default();
    }
    let choices = [
        ("all-active", Join::AllActive),
        ("all", Join::All),
        ("any", Join::Any),
        ("race", Join::Race),
        ("each", Join::Each),
    ];
    reader.choice(tree, &choices).unwrap_or_default()
}

fn retry(reader: &mut Reader, tree: &Tree) -> Retry {
    let mut retry = Retry {
        max_attempts: 3,
        delay_ms: 1_000,
        backoff: Backoff::default(),
        max_delay_ms: 300_000,
        jitter: true,
        classes: vec![Class::Retryable, Class::Deadline],
    };
    let entries = reader.map(tree, "a map");
    reader.known_keys(entries, "`retry`", keys::RETRY, &[], |_| None);
    for entry in entries {
        let value = &entry.value;
        reader.at(&entry.key, |reader| match entry.key.as_str() {
            "max-attempts" => retry.max_attempts = reader.count(value),
            "delay" => retry.delay_ms = reader.duration(value),
            "max-delay" => retry.max_delay_ms = reader.duration(value),
            "jitter" => retry.jitter = reader.boolean(value),
            "backoff" => {
                let choices = [
                    ("fixed", Backoff::Fixed),
                    ("exponential", Backoff::Exponential),
                ];
                retry.backoff = reader.choice(value, &choices).unwrap_or_default();
            }
            "classes" => retry.classes = classes(reader, value),
            _ => {}
        });
    }
    retry
}

fn classes(reader: &mut Reader, tree: &Tree) -> Vec<Class> {
    let Kind::List(items) = &tree.kind else {
        reader
            .wrong_type(tree, "a list of failure classes")
            .help("like `[retryable, deadline]`");
        return Vec::new();
    };
    let choices = Class::ALL.map(|class| (class.name(), class));
    let read = |(index, item): (usize, &Tree)| {
        reader.at(index.to_string(), |reader| reader.choice(item, &choices))
    };
    items.iter().enumerate().filter_map(read).collect()
}
