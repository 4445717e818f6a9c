//! Who is in a critical section and who waits for one, read from what is stored: for those who
//! look at a run without its graph.

use std::collections::BTreeMap;

use windlass_model::{ScopeNo, Seq};

use super::head::Standing;
use super::{Corrupt, Open};
use crate::graph::NodeIx;

/// An execution that is in a critical section, or that waits for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its trigger; for a for-each the one that made its list.
    pub seq: Seq,
    /// The node.
    pub node: NodeIx,
    /// The places of the items that it is inside of, the outermost first.
    pub items: Vec<u32>,
}

/// Who is where in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// Executions that wait until nobody is in their section, first come first. They have no
    /// triggers.
    pub queued: Vec<Section>,
    /// For-each nodes whose items are being worked on.
    pub lists: Vec<Section>,
    /// Executions that have triggers.
    pub open: Vec<Section>,
}

/// Who is where, from the head of a run, its stored scopes and what its triggers stand for.
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
            // A scope is younger than the one around it, so that this ends.
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
