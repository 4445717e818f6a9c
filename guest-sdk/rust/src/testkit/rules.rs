//! The rules of `DESCRIBE.md` that the types of this crate do not enforce.

use serde_json::Value;
use std::collections::HashSet;

const CAPABILITIES: [&str; 3] = ["http", "secrets", "events"];
const INSTANCES: [&str; 3] = ["warm", "run", "call"];
const NAME_CHARS: usize = 64;

/// Every rule that a document breaks.
pub(super) fn faults(document: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    name(text(document, "package"), "package", &mut faults);
    if text(document, "version").split('.').count() != 3 {
        faults.push("version is no semantic version".to_owned());
    }
    let nodes = list(document, "nodes");
    if nodes.is_empty() && document.get("consumer").is_none() {
        faults.push("there is neither a node nor a consumer".to_owned());
    }
    let mut seen = HashSet::new();
    for node in nodes {
        let node_name = text(node, "name");
        if !seen.insert(node_name) {
            faults.push(format!("there are two nodes {node_name}"));
        }
        self::node(node, node_name, &mut faults);
    }
    faults
}

fn node(node: &Value, node_name: &str, faults: &mut Vec<String>) {
    name(node_name, "node", faults);
    for role in ["config", "input", "output"] {
        let schema = node.get(role).unwrap_or(&Value::Bool(true));
        if let Err(error) = jsonschema::validator_for(schema) {
            faults.push(format!(
                "{node_name}: the schema of {role} is broken: {error}"
            ));
        }
    }
    let ports = list(node, "ports");
    if ports.is_empty() || ports.iter().any(|port| port == "error") {
        faults.push(format!(
            "{node_name}: there has to be a port, and `error` is the host's"
        ));
    }
    for capability in list(node, "capabilities") {
        if !CAPABILITIES.iter().any(|known| capability == known) {
            faults.push(format!("{node_name}: unknown capability {capability}"));
        }
    }
    let instance = node.pointer("/resources/instance");
    if instance.is_some_and(|given| !INSTANCES.iter().any(|known| given == known)) {
        faults.push(format!("{node_name}: instance is one of {INSTANCES:?}"));
    }
}

fn name(name: &str, what: &str, faults: &mut Vec<String>) {
    let fits = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.len() <= NAME_CHARS
        && name
            .chars()
            .all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-');
    if !fits {
        faults.push(format!(
            "the name {name:?} of the {what} is not [a-z][a-z0-9-]*"
        ));
    }
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value
        .get(member)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn list<'a>(value: &'a Value, member: &str) -> &'a [Value] {
    let list = value.get(member).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}
