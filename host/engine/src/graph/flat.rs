//! A definition as flat lists: the bodies of its for-each nodes stand beside each other.
//!
//! Nodes are in the order of their numbers ([`Definition::node_names`]); former nodes have a number
//! and are in no list. Edges are in the order of the file, those of inner bodies after those of outer
//! bodies.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use windlass_model::definition::{Body, Definition, Edge, Node, NodeKind};

use super::{BodyIx, EdgeIx, NodeIx};

/// The flat definition.
pub(super) struct Flat<'a> {
    pub(super) nodes: Vec<FlatNode<'a>>,
    /// By number: the position of the node in `nodes`. None for a former node.
    places: Vec<Option<usize>>,
    /// The position of each node in `nodes`, by its name.
    by_name: BTreeMap<&'a str, usize>,
    pub(super) edges: Vec<FlatEdge<'a>>,
    pub(super) bodies: Vec<FlatBody<'a>>,
    /// Names that two nodes have, with the pointer to the second node.
    pub(super) doubled: Vec<(&'a str, String)>,
    /// The tags of a run.
    pub(super) tags: &'a BTreeMap<String, Value>,
    /// Nodes that run only to undo another node.
    pub(super) compensating: BTreeSet<&'a str>,
}

pub(super) struct FlatNode<'a> {
    pub(super) at: NodeIx,
    pub(super) name: &'a str,
    pub(super) node: &'a Node,
    pub(super) body: BodyIx,
    /// The pointer to the node, such as `/nodes/lines/nodes/quote`.
    pub(super) pointer: String,
}

pub(super) struct FlatEdge<'a> {
    pub(super) edge: &'a Edge,
    pub(super) body: BodyIx,
    pub(super) pointer: String,
}

pub(super) struct FlatBody<'a> {
    /// The name of the for-each; none for the root.
    pub(super) container: Option<&'a str>,
    pub(super) parent: Option<BodyIx>,
    pub(super) output: Option<&'a Value>,
    pub(super) pointer: String,
}

impl<'a> Flat<'a> {
    pub(super) fn of(definition: &'a Definition) -> Self {
        let mut flat = Self {
            nodes: Vec::new(),
            places: Vec::new(),
            by_name: BTreeMap::new(),
            edges: Vec::new(),
            bodies: vec![FlatBody {
                container: None,
                parent: None,
                output: definition.output.as_ref(),
                pointer: String::new(),
            }],
            doubled: Vec::new(),
            tags: &definition.tags,
            compensating: BTreeSet::new(),
        };
        let mut names: BTreeMap<&str, FlatNode<'a>> = BTreeMap::new();
        let mut todo = vec![(&definition.nodes, &definition.edges)];
        let mut at = 0;
        while let Some((nodes, edges)) = todo.get(at).copied() {
            let Some(body) = u32::try_from(at).ok().map(BodyIx) else {
                break;
            };
            let around = flat
                .bodies
                .get(at)
                .map(|body| body.pointer.clone())
                .unwrap_or_default();
            at += 1;
            for (place, edge) in edges.iter().enumerate() {
                flat.edges.push(FlatEdge {
                    edge,
                    body,
                    pointer: format!("{around}/edges/{place}"),
                });
            }
            for (name, node) in nodes {
                let pointer = format!("{around}/nodes/{name}");
                flat.compensating.extend(node.compensate.as_deref());
                if let NodeKind::ForEach(each) = &node.kind {
                    let Body {
                        nodes,
                        edges,
                        output,
                    } = &each.body;
                    todo.push((nodes, edges));
                    flat.bodies.push(FlatBody {
                        container: Some(name),
                        parent: Some(body),
                        output: output.as_ref(),
                        pointer: pointer.clone(),
                    });
                }
                if names.contains_key(name.as_str()) {
                    flat.doubled.push((name, pointer));
                    continue;
                }
                names.insert(
                    name,
                    FlatNode {
                        at: NodeIx(0),
                        name,
                        node,
                        body,
                        pointer,
                    },
                );
            }
        }
        let ordered = definition.node_order.iter();
        let ordered = ordered.map(|name| names.remove(name.as_str()));
        let ordered: Vec<_> = ordered.collect();
        let all = ordered.into_iter().chain(names.into_values().map(Some));
        for (at, node) in (0..).map(NodeIx).zip(all) {
            flat.places.push(node.is_some().then_some(flat.nodes.len()));
            flat.nodes.extend(node.map(|node| FlatNode { at, ..node }));
        }
        let places = flat.nodes.iter().enumerate();
        flat.by_name = places.map(|(at, node)| (node.name, at)).collect();
        flat
    }

    /// How many numbers of nodes there are, those of former nodes included.
    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    /// Every node with its number.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (NodeIx, &FlatNode<'a>)> {
        self.nodes.iter().map(|node| (node.at, node))
    }

    pub(super) fn node(&self, at: NodeIx) -> Option<&FlatNode<'a>> {
        self.nodes.get((*self.places.get(at.at())?)?)
    }

    pub(super) fn name(&self, at: NodeIx) -> &'a str {
        self.node(at).map_or("", |node| node.name)
    }

    pub(super) fn edge(&self, at: EdgeIx) -> Option<&FlatEdge<'a>> {
        self.edges.get(at.at())
    }

    pub(super) fn find(&self, name: &str) -> Option<(NodeIx, &FlatNode<'a>)> {
        let node = self.nodes.get(*self.by_name.get(name)?)?;
        Some((node.at, node))
    }

    pub(super) fn body(&self, at: BodyIx) -> Option<&FlatBody<'a>> {
        self.bodies.get(at.at())
    }

    /// A body and those around it, the root last.
    pub(super) fn around(&self, at: BodyIx) -> impl Iterator<Item = BodyIx> {
        std::iter::successors(Some(at), |at| self.body(*at)?.parent)
    }

    pub(super) fn is_compensating(&self, at: NodeIx) -> bool {
        self.compensating.contains(self.name(at))
    }
}
