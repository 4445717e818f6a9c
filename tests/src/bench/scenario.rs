//! The measured workflows.

use serde_json::{Map, Value, json};

/// Flushes that one run cannot avoid: one to create it, and one for all of its nodes, which are
/// pure.
pub const FLUSHES: u32 = 2;

/// A workflow to be measured.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name in the results.
    pub name: &'static str,
    /// Executions of nodes in one run.
    pub nodes: u64,
    /// The workflow, as JSON.
    pub workflow: Value,
}

/// Every scenario.
pub fn all() -> Vec<Scenario> {
    vec![
        chain("one-step", 1),
        chain("three-steps", 3),
        chain("hundred-steps", 100),
        fan_out(100),
    ]
}

/// `length` nodes, one after another.
pub(super) fn chain(name: &'static str, length: u32) -> Scenario {
    let names: Vec<String> = (0..length).map(|index| format!("n{index:03}")).collect();
    let nodes: Map<String, Value> = names.iter().map(|name| (name.clone(), node())).collect();
    let edges: Vec<String> = names
        .iter()
        .zip(names.iter().skip(1))
        .map(|(from, to)| format!("{from} -> {to}"))
        .collect();
    Scenario {
        name,
        nodes: u64::from(length),
        workflow: json!({ "workflow": name.replace('-', "_"), "nodes": nodes, "edges": edges }),
    }
}

/// One node, `width` parallel nodes, and one that waits for all of them.
fn fan_out(width: u32) -> Scenario {
    let mut nodes = Map::new();
    let mut edges = Vec::new();
    nodes.insert("first".to_owned(), node());
    nodes.insert("last".to_owned(), node());
    for index in 0..width {
        let name = format!("n{index:03}");
        edges.push(format!("first -> {name}"));
        edges.push(format!("{name} -> last"));
        nodes.insert(name, node());
    }
    Scenario {
        name: "fan-out-100",
        nodes: u64::from(width) + 2,
        workflow: json!({ "workflow": "fan_out_100", "nodes": nodes, "edges": edges }),
    }
}

/// One node for each of `items` items of a list, and the array of their results.
pub fn for_each(items: u32) -> Scenario {
    Scenario {
        name: "for-each-10000",
        nodes: u64::from(items) + 2,
        workflow: json!({
            "workflow": "for_each_10000",
            "nodes": {
                "each": {
                    "for-each": format!("{{{{ range({items}) | list }}}}"),
                    "nodes": { "work": node() },
                    "output": "{{ index }}",
                },
            },
            "output": "{{ nodes.each.output | length }}",
        }),
    }
}

/// A node with a negligible cost of its own, so that the host is measured.
fn node() -> Value {
    json!({ "use": "data/set", "with": { "ok": true } })
}
