//! A workflow for Graphviz.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use windlass_model::Definition;
use windlass_model::definition::{Body, Edge, Node, NodeKind, entries};

use super::{condition, join, kind};

/// The workflow as a `digraph`.
pub(crate) fn dot(definition: &Definition) -> String {
    let mut text = format!("digraph {} {{\n", quoted(&definition.name));
    text.push_str("  rankdir=TB;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n");
    text.push_str("  edge [fontname=\"sans-serif\", fontsize=10];\n");
    part(&definition.nodes, &definition.edges, "  ", &mut text);
    text.push_str("}\n");
    text
}

/// The nodes of a workflow or of a body, and their edges.
fn part(nodes: &BTreeMap<String, Node>, edges: &[Edge], indent: &str, text: &mut String) {
    for (name, node) in nodes {
        let mut label = format!("{name}\n{}", kind(node));
        if let Some(join) = join(node) {
            label = format!("{label}\n{join}");
        }
        let label = quoted(&label);
        // Writing into a string cannot fail.
        let _ = match &node.kind {
            NodeKind::ForEach(each) => {
                let name = quoted(name);
                body(&each.body, (&name, &label), indent, text);
                Ok(())
            }
            NodeKind::Workflow { .. } => {
                let name = quoted(name);
                writeln!(text, "{indent}{name} [label={label}, peripheries=2];")
            }
            _ => writeln!(text, "{indent}{} [label={label}];", quoted(name)),
        };
    }
    for edge in edges {
        let _ = write!(
            text,
            "{indent}{} -> {}",
            quoted(&edge.from),
            quoted(&edge.to)
        );
        let condition = condition(edge);
        if !condition.is_empty() {
            let _ = write!(text, " [label={}]", quoted(&condition));
        }
        text.push_str(";\n");
    }
}

/// A box with the container in it, and dashed lines from there to the first nodes of its body.
fn body(body: &Body, (name, label): (&str, &str), indent: &str, text: &mut String) {
    let inner = format!("{indent}  ");
    let _ = writeln!(
        text,
        "{indent}subgraph {} {{",
        quoted(&format!("cluster_{}", name.trim_matches('"')))
    );
    let _ = writeln!(text, "{inner}style=dashed;");
    let _ = writeln!(text, "{inner}{name} [label={label}];");
    part(&body.nodes, &body.edges, &inner, text);
    for entry in entries(&body.nodes, &body.edges) {
        let _ = writeln!(text, "{inner}{name} -> {} [style=dashed];", quoted(entry));
    }
    let _ = writeln!(text, "{indent}}}");
}

fn quoted(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("\"{escaped}\"")
}
