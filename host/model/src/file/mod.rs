//! Reads workflow files: YAML 1.2 or JSON, into a [`Definition`].
//!
//! A file is first read into a tree in which every value has its position, and the tree then into a
//! definition. Both steps go to the end and report all mistakes, so that the author corrects a file
//! once. The engine checks the meaning of a definition (whether an edge leads to a node that
//! exists, whether an expression parses); [`SourceMap`] then gives the position in the file.
//!
//! Bounds: [`limits::WORKFLOW_BYTES`], [`limits::NESTING`], [`limits::NODES`], [`limits::EDGES`],
//! [`DIAGNOSTICS`]. Aliases may add as many bytes as a file may have.

mod completion;
mod decode;
mod duration;
mod edge;
mod foreign;
mod format;
mod hook;
mod kind;
mod node;
mod offsets;
mod parse;
mod policy;
mod reader;
mod scalar;
mod source_map;
mod syntax;
mod tree;
mod trigger;
mod workflow;

pub use completion::{NodeSchema, json_schema_with};
pub use decode::decode;
pub use duration::{NoTime, duration_ms, duration_text, instant_ms, moment_ms, past_ms};
pub use format::JSON_SCHEMA;
pub use source_map::SourceMap;

use std::collections::{BTreeMap, BTreeSet};

use crate::{Definition, Diagnostic, Place, codes, limits};
use reader::Reader;

/// The most mistakes reported for one file.
pub const DIAGNOSTICS: usize = 100;

/// The result of reading a file.
#[derive(Debug)]
pub struct Read {
    /// The workflow, if the file has no mistakes.
    pub definition: Option<Definition>,
    /// The mistakes, in the order of the file; at most [`DIAGNOSTICS`].
    pub diagnostics: Vec<Diagnostic>,
    /// The positions of values in the file.
    pub map: SourceMap,
    /// What could be read of a file with mistakes, to find further mistakes in it.
    pub partial: Option<Partial>,
}

/// A workflow that was read with mistakes: it does not run.
#[derive(Debug)]
pub struct Partial {
    /// The workflow, with a default for each value that could not be read.
    pub definition: Definition,
    /// The parts that are missing in it.
    pub unread: Unread,
}

/// The parts of a file that could not be read.
#[derive(Clone, Debug, Default)]
pub struct Unread {
    /// The names of nodes of an unknown kind. A node that waits stands for each.
    pub nodes: BTreeSet<String>,
    /// By the pointer of a list of edges: the places in the file of the edges that were read. Only
    /// lists with other edges are here.
    pub edges: BTreeMap<String, Vec<usize>>,
}

impl Read {
    /// The canonical form: JSON with sorted keys and without `layout`. Its SHA-256 is the
    /// content hash. None if the file could not be read as a tree.
    pub fn canonical(&self) -> Option<Vec<u8>> {
        self.map.tree().map(tree::canonical)
    }
}

/// Reads a workflow file. A file whose `name` ends in `.json` has to be JSON, others are YAML.
pub fn read(text: &str, name: &str) -> Read {
    let mut diagnostics = Vec::new();
    let tree = if text.len() > limits::WORKFLOW_BYTES {
        let message = format!(
            "a workflow file has at most {} bytes",
            limits::WORKFLOW_BYTES
        );
        let place = Place::spanning(0..0);
        diagnostics.push(Diagnostic::new(codes::TOO_LARGE, message, place));
        None
    } else {
        parse::parse(text, name.ends_with(".json"), &mut diagnostics)
    };
    let definition = tree.as_ref().map(|tree| {
        let mut reader = Reader::new();
        let definition = workflow::read(&mut reader, tree);
        diagnostics.append(&mut reader.diagnostics);
        (definition, reader.unread)
    });
    let map = SourceMap::new(tree, text);
    diagnostics
        .iter_mut()
        .for_each(|diagnostic| map.locate(diagnostic));
    diagnostics.sort_by_key(|diagnostic| diagnostic.place.span.as_ref().map(|span| span.start));
    diagnostics.truncate(DIAGNOSTICS);
    diagnostics.iter_mut().for_each(Diagnostic::shorten);
    let (definition, partial) = match definition {
        Some((definition, _)) if diagnostics.is_empty() => (Some(definition), None),
        Some((definition, unread)) => (None, Some(Partial { definition, unread })),
        None => (None, None),
    };
    Read {
        definition,
        diagnostics,
        map,
        partial,
    }
}

/// Reads the canonical form, which [`Read::canonical`] returns. The schema of the input is not
/// compiled: [`crate::schema::Schema::compile`] may refuse it.
///
/// # Errors
///
/// All mistakes; at most [`DIAGNOSTICS`].
pub fn read_canonical(json: &[u8]) -> Result<Definition, Vec<Diagnostic>> {
    let mut value: serde_json::Value = serde_json::from_slice(json).map_err(|error| {
        vec![Diagnostic::new(
            codes::SYNTAX,
            error.to_string(),
            Place::default(),
        )]
    })?;
    let order = value.as_object_mut().and_then(|map| map.remove(NODE_ORDER));
    let tree = tree::Node::from_value(value);
    let mut reader = Reader::new();
    reader.stored = true;
    let mut definition = workflow::read(&mut reader, &tree);
    if let Some(order) = order {
        definition.node_order = node_order(order, &definition)?;
    }
    reader.diagnostics.truncate(DIAGNOSTICS);
    if reader.diagnostics.is_empty() {
        Ok(definition)
    } else {
        Err(reader.diagnostics)
    }
}

/// The member of a stored definition with the names of its nodes in the order of their numbers.
const NODE_ORDER: &str = "node-order";

/// The canonical form of a definition whose nodes have these numbers.
///
/// # Errors
///
/// `json` is no canonical form, or the order is not that of its nodes.
pub fn with_node_order(json: &[u8], order: &[String]) -> Result<Vec<u8>, Vec<Diagnostic>> {
    let broken = |error: serde_json::Error| {
        vec![Diagnostic::new(
            codes::SYNTAX,
            error.to_string(),
            Place::default(),
        )]
    };
    let mut value: serde_json::Value = serde_json::from_slice(json).map_err(broken)?;
    if let Some(map) = value.as_object_mut() {
        map.insert(NODE_ORDER.to_owned(), serde_json::Value::from(order));
    }
    let json = tree::canonical(&tree::Node::from_value(value));
    read_canonical(&json).map(|_| json)
}

/// Reads the order of the nodes: each name once, those of all nodes among them.
fn node_order(
    order: serde_json::Value,
    definition: &Definition,
) -> Result<Vec<String>, Vec<Diagnostic>> {
    let read: Result<Vec<String>, _> = serde_json::from_value(order);
    let order = read.unwrap_or_default();
    let names: BTreeSet<&str> = order.iter().map(String::as_str).collect();
    let all = definition.all_nodes();
    let is_whole = names.len() == order.len()
        && all.iter().all(|(_, name, _)| names.contains(name))
        && names.iter().all(|name| reader::is_name(name, false));
    if is_whole && order.len() <= limits::NODES {
        return Ok(order);
    }
    let message = format!(
        "`{NODE_ORDER}` names each of the {} nodes once, and has at most {} names",
        all.len(),
        limits::NODES
    );
    let place = Place::at(format!("/{NODE_ORDER}"));
    Err(vec![Diagnostic::new(codes::WRONG_TYPE, message, place)])
}
