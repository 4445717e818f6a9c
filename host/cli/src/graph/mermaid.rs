//! A workflow for Mermaid, which GitHub and many editors draw.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use windlass_model::Definition;
use windlass_model::definition::{Edge, Node, NodeKind};

use super::{condition, join, kind};

/// The workflow as a `flowchart`.
pub(crate) fn mermaid(definition: &Definition) -> String {
    let mut text = String::from("flowchart TD\n");
    part(&definition.nodes, &definition.edges, "    ", &mut text);
    text
}

/// The nodes of a workflow or of a body, and their edges.
fn part(nodes: &BTreeMap<String, Node>, edges: &[Edge], indent: &str, text: &mut String) {
    for (name, node) in nodes {
        let mut label = format!("<b>{name}</b><br/>{}", escaped(&kind(node)));
        if let Some(join) = join(node) {
            label = format!("{label}<br/><i>{join}</i>");
        }
        let (open, close) = match &node.kind {
            NodeKind::Use { .. } => ("[", "]"),
            NodeKind::ForEach(each) => {
                let _ = writeln!(text, "{indent}subgraph n_{name}[\"{label}\"]");
                let inner = format!("{indent}    ");
                part(&each.body.nodes, &each.body.edges, &inner, text);
                let _ = writeln!(text, "{indent}end");
                continue;
            }
            NodeKind::Workflow { .. } => ("[[", "]]"),
            NodeKind::Wait(_) | NodeKind::Event { .. } => ("([", "])"),
            NodeKind::Set(_) => ("[/", "/]"),
            NodeKind::End { .. } | NodeKind::Fail { .. } => ("((", "))"),
        };
        // Writing into a string cannot fail. The prefix avoids Mermaid's keywords: a node may be
        // called `end`.
        let _ = writeln!(text, "{indent}n_{name}{open}\"{label}\"{close}");
    }
    for edge in edges {
        let condition = condition(edge);
        let arrow = match condition.as_str() {
            "" => "-->".to_owned(),
            condition => format!("-->|\"{}\"|", escaped(condition)),
        };
        let _ = writeln!(text, "{indent}n_{} {arrow} n_{}", edge.from, edge.to);
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('"', "&quot;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
