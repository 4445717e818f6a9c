//! The kind of a node.

use std::collections::BTreeMap;

use serde_json::Value;

use super::duration::moment_ms;
use super::reader::{Reader, cut, is_name, list, stands_for};
use super::tree::{Entry, Kind, Node as Tree};
use super::{edge, format, node};
use crate::codes;
use crate::definition::{Body, ForEach, NodeKind, OnItemError, UseRef};
use crate::template::is_template;
use crate::{limits, valid};

/// Items processed at the same time by default.
const CONCURRENCY: u32 = 16;

/// The kind: exactly one of those that [`format::node`] names.
pub(super) fn read(reader: &mut Reader, tree: &Tree) -> Option<NodeKind> {
    let entry = only(reader, tree)?;
    let value = &entry.value;
    if entry.key == "for-each" {
        return Some(for_each(reader, tree, value));
    }
    if entry.key == "event" {
        return event(reader, tree, value);
    }
    reader.at(&entry.key, |reader| match entry.key.as_str() {
        "use" => node_type(reader, value).map(|node_type| NodeKind::Use {
            node_type,
            with: with(tree),
        }),
        "workflow" => Some(NodeKind::Workflow {
            name: super::workflow::name(reader, value),
        }),
        "wait" => Some(NodeKind::Wait(wait(reader, value))),
        "set" => Some(NodeKind::Set(set(reader, value))),
        "end" => Some(end(reader, value)),
        _ => fail(reader, value),
    })
}

/// The one entry that names the kind of the node.
fn only<'t>(reader: &mut Reader, tree: &'t Tree) -> Option<&'t Entry> {
    let Kind::Map(entries) = &tree.kind else {
        return None;
    };
    let is_kind = |entry: &&Entry| format::node().names.contains(&entry.key.as_str());
    let mut kinds = entries.iter().filter(is_kind);
    let Some(first) = kinds.next() else {
        // An unknown key, a key of a kind that is missing and a merge key have their own errors.
        let excused = |entry: &Entry| !format::node().common.contains(&entry.key.as_str());
        if !entries.iter().any(excused) {
            let message = format!("a node does one of {}", list(&format::node().names));
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
            let message = format!("`{}` does not name a node type", cut(text));
            let fixed = text.to_ascii_lowercase().replacen('.', "/", 1);
            let is_type = |text: &str| {
                let path = text.split_once('@').map_or(text, |(path, _)| path);
                let parts = path.split_once('/');
                parts.is_some_and(|(a, b)| is_name(a, true) && is_name(b, true))
            };
            let help = match (is_type(&fixed), path.split_once(':')) {
                (true, _) => format!("write `{}`", cut(&fixed)),
                (_, Some((path, version))) if is_type(path) => {
                    format!("the version stands behind `@`: `{path}@{}`", cut(version))
                }
                _ if path.contains("//") || path.starts_with(['.', '/']) => format!(
                    "{HELP}; components are found in the plugin folder and not by an address"
                ),
                _ => format!("{HELP}; `windlass plugin list` shows all"),
            };
            reader.report(codes::BAD_USE, message, tree).help(help);
            return None;
        }
    };
    if let Some(requirement) = requirement
        && let Err(error) = semver::VersionReq::parse(requirement)
    {
        let message = format!(
            "`{}` is no requirement on a version: {error}",
            cut(requirement)
        );
        let number = requirement.strip_prefix(['v', 'V']);
        let number = number.filter(|number| semver::VersionReq::parse(number).is_ok());
        let help = match number {
            Some(number) => format!("write `{path}@{number}`"),
            None => "write `@1` for any 1.x, or `@1.2` for 1.2 and later 1.x; without it any \
                     version fits"
                .to_owned(),
        };
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

/// `for-each` and the keys that belong to it.
fn for_each(reader: &mut Reader, tree: &Tree, items: &Tree) -> NodeKind {
    let mut each = ForEach {
        list: reader.at("for-each", |reader| item_list(reader, items)),
        concurrency: CONCURRENCY,
        on_item_error: OnItemError::default(),
        body: Body::default(),
    };
    if tree.get("nodes").is_none() {
        let message = "the nodes that work on an item are missing";
        let report = reader.report(codes::MISSING_KEY, message, tree);
        report.help("add `nodes: { … }`");
    }
    let Kind::Map(entries) = &tree.kind else {
        return NodeKind::ForEach(Box::new(each));
    };
    for entry in entries {
        let value = &entry.value;
        reader.at(&entry.key, |reader| match entry.key.as_str() {
            "nodes" => each.body.nodes = node::all(reader, value, "a for-each"),
            "edges" => each.body.edges = edge::all(reader, value),
            "output" => each.body.output = Some(value.to_value()),
            "concurrency" => each.concurrency = reader.at_most(value, limits::CONCURRENCY),
            "on-item-error" => {
                let choices = [
                    ("fail", OnItemError::Fail),
                    ("continue", OnItemError::Continue),
                ];
                each.on_item_error = reader.choice(value, &choices).unwrap_or_default();
            }
            _ => {}
        });
    }
    NodeKind::ForEach(Box::new(each))
}

fn item_list(reader: &mut Reader, tree: &Tree) -> Value {
    match &tree.kind {
        Kind::List(_) => {}
        Kind::Text { text, .. } if text.contains("{{") => {}
        Kind::Text { text, .. } if text.len() <= 80 => reader
            .wrong_type(tree, "a list, or an expression that gives one")
            .help(format!(
                "an expression stands in braces: `\"{{{{ {text} }}}}\"`"
            )),
        Kind::Number(number) => reader
            .wrong_type(tree, "a list, or an expression that gives one")
            .help(format!(
                "for {number} rounds write `\"{{{{ range({number}) }}}}\"`"
            )),
        _ => reader
            .wrong_type(tree, "a list, or an expression that gives one")
            .help("like `\"{{ input.lines }}\"`"),
    }
    tree.to_value()
}

/// `event: name` with `match` and `correlation` beside it, or a map with all three.
fn event(reader: &mut Reader, tree: &Tree, value: &Tree) -> Option<NodeKind> {
    let Kind::Map(entries) = &value.kind else {
        return event_of(reader, tree);
    };
    reader.at("event", |reader| {
        reader.known_keys(entries, "`event`", format::keys("EventMap"), |_| None);
        let misspelt = |entry: &Entry| stands_for("`event`", entry, "event");
        if entries.iter().any(misspelt) && value.get("event").is_none() {
            return None;
        }
        if value.get("event").is_none() {
            let message = "the name of the event is missing";
            let report = reader.report(codes::MISSING_KEY, message, value);
            report.help("write `event: name`");
            return None;
        }
        event_of(reader, value)
    })
}

fn event_of(reader: &mut Reader, tree: &Tree) -> Option<NodeKind> {
    if let Some(name) = tree.get("event") {
        reader.at("event", |reader| event_name(reader, name));
    }
    let name = tree.get("event")?.to_value();
    Some(NodeKind::Event {
        name,
        matches: tree.get("match").map_or(Value::Null, Tree::to_value),
        correlation: tree
            .get("correlation")
            .and_then(|tree| reader.at("correlation", |reader| correlation(reader, tree))),
    })
}

/// A correlation id, or the template of one.
fn correlation(reader: &mut Reader, tree: &Tree) -> Option<Value> {
    let text = reader.text(tree)?;
    let template = is_template(text);
    if !template
        && !reader.stored
        && let Err(wrong) = valid::CORRELATION.check(text)
    {
        reader.report(codes::BAD_NAME, wrong.to_string(), tree);
    }
    Some(Value::from(text))
}

/// The name of a stimulus.
pub(super) fn event_name(reader: &mut Reader, tree: &Tree) -> String {
    let Some(text) = reader.text(tree) else {
        return String::new();
    };
    // A definition that was accepted before is read again, even if the rules were different then.
    if let Err(wrong) = valid::EVENT.check(text)
        && !reader.stored
    {
        reader
            .report(codes::BAD_NAME, wrong.to_string(), tree)
            .help("like `order.placed`");
    }
    text.to_owned()
}

fn wait(reader: &mut Reader, tree: &Tree) -> Value {
    match &tree.kind {
        Kind::Text { text, .. } => {
            // The instant does not matter: only a run needs it.
            if !is_template(text)
                && let Err(mut wrong) = moment_ms(text, 0)
            {
                if text.contains("${") {
                    "an expression stands in `{{ … }}`, without a dollar sign"
                        .clone_into(&mut wrong.help);
                }
                reader.no_time(wrong, tree);
            }
        }
        Kind::Map(_) if tree.get("event").is_some() => reader
            .wrong_type(tree, "a duration or an instant")
            .help("a node that waits for an event is `{ event: NAME }`, without `wait`"),
        // Another value gets the error of a duration.
        _ => drop(reader.duration(tree)),
    }
    tree.to_value()
}

fn set(reader: &mut Reader, tree: &Tree) -> BTreeMap<String, Value> {
    let like = "like `set: { total: \"{{ input.total }}\" }`";
    let entries = reader.map_like(tree, "a map of names and values", like);
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
        _ => {
            let like = "`end:` alone ends the branch, `end: { terminate: true }` the run";
            reader.map_like(tree, "a map", like)
        }
    };
    reader.known_keys(entries, "`end`", format::keys("End"), |_| None);
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

/// A message, or a map with the message and data.
fn fail(reader: &mut Reader, tree: &Tree) -> Option<NodeKind> {
    let Kind::Map(entries) = &tree.kind else {
        if matches!(tree.kind, Kind::Null) {
            let message = "the message of the failure is missing";
            let report = reader.report(codes::MISSING_KEY, message, tree);
            report.help("write `fail: \"the message\"`");
            return None;
        }
        let message = Value::from(reader.text(tree)?);
        return Some(NodeKind::Fail {
            message,
            data: None,
        });
    };
    reader.known_keys(entries, "`fail`", format::keys("FailMap"), |_| None);
    let Some(message) = tree.get("message") else {
        let message = "the message of the failure is missing";
        let report = reader.report(codes::MISSING_KEY, message, tree);
        report.help("add `message: …`");
        return None;
    };
    let message = reader.at("message", |reader| reader.text(message).map(Value::from))?;
    Some(NodeKind::Fail {
        message,
        data: tree.get("data").map(Tree::to_value),
    })
}
