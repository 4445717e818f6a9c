//! The names of the nodes of definitions, which answers show in place of their positions.
//!
//! A definition takes many times the memory of its names, and reading one takes time. So a few of
//! them are kept, within a bound.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use windlass_model::{Definition, Digest};

use crate::app::AppInner;
use crate::problem::Problem;

/// The memory of all names that are kept, in bytes.
const KEPT_BYTES: usize = 16 * 1024 * 1024;

/// The definitions whose names are kept.
const KEPT: usize = 256;

/// The memory of a name beside its text, in bytes.
const NAME_BYTES: usize = 32;

/// The names of a definition.
#[derive(Debug)]
pub(crate) struct Nodes {
    pub(crate) workflow: String,
    names: Vec<Box<str>>,
    /// Their memory.
    pub(crate) bytes: usize,
}

/// The names that were used last, in the order of their use.
#[derive(Debug, Default)]
pub(crate) struct KnownNodes(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    known: VecDeque<(Digest, Arc<Nodes>)>,
    bytes: usize,
}

impl Nodes {
    fn of(definition: &Definition) -> Self {
        let names = definition.node_names().into_iter();
        let names: Vec<Box<str>> = names.map(Box::from).collect();
        let bytes = names.iter().map(|name| name.len() + NAME_BYTES).sum();
        Self {
            workflow: definition.name.clone(),
            names,
            bytes,
        }
    }
}

impl Nodes {
    /// The position of the node with this name.
    pub(crate) fn position(&self, name: &str) -> Option<u32> {
        let at = self.names.iter().position(|known| **known == *name)?;
        u32::try_from(at).ok()
    }
}

/// The name of a node by its position.
pub(crate) fn node_name(nodes: Option<&Nodes>, position: u32) -> String {
    let name = nodes.and_then(|nodes| nodes.names.get(position as usize));
    name.map_or_else(|| format!("#{position}"), |name| String::from(&**name))
}

impl Kept {
    fn find(&mut self, digest: Digest) -> Option<Arc<Nodes>> {
        let at = self.known.iter().position(|(known, _)| *known == digest)?;
        let found = self.known.remove(at)?;
        let nodes = Arc::clone(&found.1);
        self.known.push_back(found);
        Some(nodes)
    }

    fn keep(&mut self, digest: Digest, nodes: &Arc<Nodes>) {
        if self.find(digest).is_some() {
            return;
        }
        self.bytes += nodes.bytes;
        self.known.push_back((digest, Arc::clone(nodes)));
        while self.known.len() > KEPT || self.bytes > KEPT_BYTES {
            let Some((_, gone)) = self.known.pop_front() else {
                break;
            };
            self.bytes -= gone.bytes;
        }
    }
}

impl AppInner {
    /// The names of the nodes of a stored definition.
    pub(crate) fn nodes(&self, digest: Digest) -> Result<Option<Arc<Nodes>>, Box<Problem>> {
        if let Some(nodes) = self.known_nodes.0.lock().find(digest) {
            return Ok(Some(nodes));
        }
        let Some(definition) = self.definition(digest)? else {
            return Ok(None);
        };
        let nodes = Arc::new(Nodes::of(&definition));
        self.known_nodes.0.lock().keep(digest, &nodes);
        Ok(Some(nodes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_were_used_longest_ago_are_dropped_first() {
        let mut kept = Kept::default();
        let digest = |n: usize| Digest::of(&n.to_le_bytes());
        let quarter = Arc::new(Nodes {
            workflow: String::new(),
            names: Vec::new(),
            bytes: KEPT_BYTES / 4,
        });
        (0..4).for_each(|n| kept.keep(digest(n), &quarter));
        assert!(kept.find(digest(0)).is_some());
        kept.keep(digest(4), &quarter);
        kept.keep(digest(4), &quarter);
        assert_eq!((kept.known.len(), kept.bytes), (4, KEPT_BYTES));
        assert!(kept.find(digest(1)).is_none());
        assert!(kept.find(digest(0)).is_some());
        let small = Arc::new(Nodes {
            workflow: String::new(),
            names: Vec::new(),
            bytes: 0,
        });
        (5..1000).for_each(|n| kept.keep(digest(n), &small));
        assert_eq!((kept.known.len(), kept.bytes), (KEPT, 0));
    }
}
