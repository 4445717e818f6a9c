//! The graph of a definition.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Serialize;
use utoipa::ToSchema;
use windlass_model::Definition;
use windlass_model::definition::{Edge, Node, NodeKind, When, entries};

use crate::named::NodeWork;

/// The nodes of a definition, and the edges between them, those of bodies included.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Graph {
    /// The nodes, in the order of their names, and for a run that continued with another version, in
    /// that of its first one.
    nodes: Vec<GraphNode>,
    /// The edges, in the order of the file, those of outer bodies first.
    edges: Vec<GraphEdge>,
}

/// A node.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GraphNode {
    /// Its name.
    name: String,
    /// What it does.
    #[schema(value_type = NodeWork)]
    kind: &'static str,
    /// The node type that it uses, or the workflow that it calls; null for other kinds.
    #[schema(required = true)]
    uses: Option<String>,
    /// The for-each in whose body it runs.
    #[schema(required = true)]
    body: Option<String>,
    /// Whether its body, or the run, begins with it.
    entry: bool,
    /// Its title.
    #[schema(required = true)]
    title: Option<String>,
}

/// An edge. Its ends are in the same body.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GraphEdge {
    /// Its name, which is unique in its body.
    id: String,
    /// The node that it leaves.
    from: String,
    /// The port of that node; `*` stands for all ports.
    port: String,
    /// The node that it leads to.
    to: String,
    /// Its condition: an expression, or `else`; null if it has none.
    #[schema(required = true)]
    when: Option<String>,
}

impl Graph {
    pub(crate) fn of(definition: &Definition) -> Self {
        let mut nodes = BTreeMap::new();
        let mut edges = Vec::new();
        let outermost = (None, &definition.nodes, &definition.edges);
        let mut bodies = VecDeque::from([outermost]);
        while let Some((body, inside, between)) = bodies.pop_front() {
            let begins: BTreeSet<&str> = entries(inside, between).collect();
            for (name, node) in inside {
                if let NodeKind::ForEach(each) = &node.kind {
                    bodies.push_back((Some(name), &each.body.nodes, &each.body.edges));
                }
                nodes.insert(
                    name.as_str(),
                    GraphNode {
                        name: name.clone(),
                        kind: node.kind.name(),
                        uses: uses(node),
                        body: body.cloned(),
                        entry: begins.contains(name.as_str()),
                        title: node.title.clone(),
                    },
                );
            }
            edges.extend(between.iter().map(GraphEdge::from));
        }
        let numbered = definition.node_names().into_iter();
        Self {
            nodes: numbered.filter_map(|name| nodes.remove(name)).collect(),
            edges,
        }
    }
}

fn uses(node: &Node) -> Option<String> {
    match &node.kind {
        NodeKind::Use { node_type, .. } => Some(node_type.to_string()),
        NodeKind::Workflow { name } => Some(name.clone()),
        _ => None,
    }
}

impl From<&Edge> for GraphEdge {
    fn from(edge: &Edge) -> Self {
        Self {
            id: edge.id.clone(),
            from: edge.from.clone(),
            port: edge.port.clone(),
            to: edge.to.clone(),
            when: match &edge.when {
                When::Always => None,
                When::If(expression) => Some(expression.clone()),
                When::Else => Some("else".to_owned()),
            },
        }
    }
}
