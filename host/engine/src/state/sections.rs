//! The node runs that hold or await critical sections, read from stored bytes without the graph.

use std::collections::BTreeMap;

use windlass_model::{ScopeNo, Seq};

use super::head::Standing;
use super::{Corrupt, Open};
use crate::graph::NodeIx;

/// An execution that holds a critical section or waits for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its trigger; for a for-each, the trigger that made its list.
    pub seq: Seq,
    /// The node.
    pub node: NodeIx,
    /// The indexes of the items that contain it, the outermost first.
    pub items: Vec<u32>,
}

/// The executions of a run, by their relation to critical sections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// Executions that wait until their section is free, in the order of arrival. They have no
    /// triggers.
    pub queued: Vec<Section>,
    /// For-each nodes with items in progress.
    pub lists: Vec<Section>,
    /// Executions that have triggers.
    pub open: Vec<Section>,
}

/// Reads the sections from the head of a run, its stored scopes and its trigger rows.
///
/// # Errors
///
/// The bytes are damaged, or of an unknown version.
pub fn sections<'a>(
    head: &[u8],
    scopes: impl IntoIterator<Item = (ScopeNo, &'a [u8])>,
    open: &[Open],
) -> Result<Sections, Corrupt> {
    let mut standing = BTreeMap::from([(ScopeNo::ROOT, Standing::of_head(head)?)]);
    for (no, bytes) in scopes {
        if let Some(inside) = Standing::of_row(bytes)? {
            standing.insert(no, inside);
        }
    }
    let items = |scope: ScopeNo| {
        let mut items = Vec::new();
        let mut at = scope;
        while let Some((parent, index)) = standing.get(&at).and_then(|inside| inside.item) {
            // A scope has a higher number than the scope around it, so this loop ends.
            if parent >= at {
                break;
            }
            items.push(index);
            at = parent;
        }
        items.reverse();
        items
    };
    let section = |scope: ScopeNo, (seq, node): (Seq, NodeIx)| Section {
        seq,
        node,
        items: items(scope),
    };
    let mut found = Sections::default();
    for (scope, inside) in &standing {
        let queued = inside.queued.iter();
        found
            .queued
            .extend(queued.map(|waits| section(*scope, *waits)));
        let lists = inside.lists.iter();
        found.lists.extend(lists.map(|list| section(*scope, *list)));
    }
    found.queued.sort_by_key(|section| section.seq);
    found.open = open
        .iter()
        .map(|open| section(open.scope, (open.seq, open.node)))
        .collect();
    Ok(found)
}
