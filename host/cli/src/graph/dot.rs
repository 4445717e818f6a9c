//! A workflow for Graphviz.

use std::fmt::Write as _;

use windlass_model::Definition;

use super::{condition, join, kind};

/// The workflow as a `digraph`.
pub(crate) fn dot(definition: &Definition) -> String {
    let mut text = format!("digraph {} {{\n", quoted(&definition.name));
    text.push_str("  rankdir=TB;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n");
    text.push_str("  edge [fontname=\"sans-serif\", fontsize=10];\n");
    for (name, node) in &definition.nodes {
        let mut label = format!("{name}\n{}", kind(node));
        if let Some(join) = join(node) {
            label = format!("{label}\n{join}");
        }
        // Writing into a string cannot fail.
        let _ = writeln!(text, "  {} [label={}];", quoted(name), quoted(&label));
    }
    for edge in &definition.edges {
        let _ = write!(text, "  {} -> {}", quoted(&edge.from), quoted(&edge.to));
        let condition = condition(edge);
        if !condition.is_empty() {
            let _ = write!(text, " [label={}]", quoted(&condition));
        }
        text.push_str(";\n");
    }
    text.push_str("}\n");
    text
}

fn quoted(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("\"{escaped}\"")
}
