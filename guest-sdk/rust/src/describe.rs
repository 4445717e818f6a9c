//! The describe document; its format is in `DESCRIBE.md`.

use crate::bindings::node::windlass::types::types::Payload;
use crate::data::{Incoming, Nothing, Outgoing, Raw};
use crate::node::{Node, NodeEntry};
use serde_json::{Map, Value, json};

/// The version of the document's format.
const FORMAT: u32 = 1;

/// Hints about a node's needs. None is a guarantee, and the operator's limits
/// take precedence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resources {
    /// The memory of one instance.
    pub memory_bytes: Option<u64>,
    /// A reasonable duration of one call.
    pub deadline_ms: Option<u64>,
    /// How long an instance may be reused: `warm`, `run` or `call`.
    pub instance: Option<&'static str>,
}

impl Resources {
    /// No hints.
    pub const NONE: Self = Self {
        memory_bytes: None,
        deadline_ms: None,
        instance: None,
    };
}

/// A component as a whole; [`crate::plugin!`] implements it.
pub trait Plugin {
    /// First half of each node type.
    const PACKAGE: &'static str;
    /// Semantic version.
    const VERSION: &'static str;
    /// Its title, for people; empty means the package.
    const TITLE: &'static str;
    /// Its description, for people.
    const DESCRIPTION: &'static str;
    /// The node types.
    const NODES: &'static [NodeEntry];
    /// The triggers of the consumer, if there is one.
    const CONSUMER: Option<ConsumerInfo>;
}

/// The triggers of a consumer.
pub struct ConsumerInfo {
    /// Types of triggers; `*` is every type.
    pub types: &'static [&'static str],
    /// Names of routes.
    pub routes: &'static [&'static str],
}

/// The document as a payload.
pub fn describe<P: Plugin>() -> Payload {
    Raw::json(document::<P>().to_string()).0
}

/// The document.
pub(crate) fn document<P: Plugin>() -> Value {
    let mut document = object(json!({
        "windlass": FORMAT,
        "package": P::PACKAGE,
        "version": P::VERSION,
    }));
    put_text(&mut document, "title", P::TITLE);
    put_text(&mut document, "description", P::DESCRIPTION);
    if !P::NODES.is_empty() {
        let nodes = P::NODES.iter().map(|entry| (entry.describe)()).collect();
        document.insert("nodes".to_owned(), Value::Array(nodes));
    }
    if let Some(ConsumerInfo { types, routes }) = P::CONSUMER {
        document.insert(
            "consumer".to_owned(),
            json!({ "types": types, "routes": routes }),
        );
    }
    Value::Object(document)
}

/// The description of a function, which follows from its types.
pub(crate) fn describe_function<I: Incoming, O: Outgoing>(name: &str) -> Value {
    json!({
        "name": name.replace('_', "-"),
        "config": Nothing::schema(),
        "input": I::schema(),
        "output": O::schema(),
        "ports": ["done"],
        "capabilities": [],
        "suspends": false,
        "by-reference": I::BY_REFERENCE,
    })
}

pub(crate) fn describe_node<N: Node>() -> Value {
    let mut node = object(json!({
        "name": N::NAME,
        "config": closed(N::Config::schema()),
        "input": N::Input::schema(),
        "output": N::Output::schema(),
        "ports": N::PORTS,
        "capabilities": N::CAPABILITIES,
        "suspends": N::SUSPENDS,
        "by-reference": N::BY_REFERENCE,
    }));
    put_text(&mut node, "title", N::TITLE);
    put_text(&mut node, "description", N::DESCRIPTION);
    put_text(&mut node, "icon", N::ICON);

    let Resources {
        memory_bytes,
        deadline_ms,
        instance,
    } = N::RESOURCES;
    let mut resources = Map::new();
    let hints = [
        ("memory-bytes", memory_bytes.map(Value::from)),
        ("deadline-ms", deadline_ms.map(Value::from)),
        ("instance", instance.map(Value::from)),
    ];
    for (name, hint) in hints {
        if let Some(hint) = hint {
            resources.insert(name.to_owned(), hint);
        }
    }
    if !resources.is_empty() {
        node.insert("resources".to_owned(), Value::Object(resources));
    }
    Value::Object(node)
}

/// A configuration with named fields accepts no others, so that a misspelt key
/// is found when a workflow is published. A type may say otherwise.
fn closed(mut schema: Value) -> Value {
    if let Value::Object(members) = &mut schema
        && members.contains_key("properties")
        && !["allOf", "anyOf", "oneOf", "$ref", "additionalProperties"]
            .iter()
            .any(|keyword| members.contains_key(*keyword))
    {
        members.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    schema
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn put_text(members: &mut Map<String, Value>, name: &str, text: &str) {
    if !text.is_empty() {
        members.insert(name.to_owned(), Value::String(text.to_owned()));
    }
}
