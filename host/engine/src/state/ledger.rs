//! The completed nodes that can be undone, in the order in which they completed.
//!
//! The list grows with the run, so the head contains only its end. The rest is in pages that are
//! stored like scopes: each page is written once when it is full, and once more when its nodes are
//! undone.

use windlass_model::{ExecutionNo, ScopeNo};

use super::RunState;
use crate::graph::NodeIx;

/// Entries in one page.
pub(crate) const PAGE: usize = 32;

/// The completed nodes that can be undone.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ledger {
    /// All entries. The head contains those behind the pages.
    pub(crate) entries: Vec<(NodeIx, ExecutionNo)>,
    /// The pages of [`PAGE`] entries each, from the first entry on.
    pub(crate) pages: Vec<ScopeNo>,
}

impl Ledger {
    /// The entries that are in no page.
    pub(crate) fn tail(&self) -> &[(NodeIx, ExecutionNo)] {
        self.entries
            .get(self.pages.len() * PAGE..)
            .unwrap_or_default()
    }

    /// The entries in a page.
    pub(crate) fn page(&self, at: usize) -> &[(NodeIx, ExecutionNo)] {
        self.entries
            .get(at * PAGE..(at + 1) * PAGE)
            .unwrap_or_default()
    }
}

impl RunState {
    /// Records the completion of a node that can be undone.
    pub(crate) fn note(&mut self, node: NodeIx, run: ExecutionNo) {
        self.ledger.entries.push((node, run));
        // A page is written only when there is one entry more than it holds, so that undoing one
        // node does not remove the page again.
        if self.ledger.tail().len() > PAGE {
            let page = self.number();
            self.ledger.pages.push(page);
        }
    }

    /// Removes the entry that is undone next.
    pub(crate) fn undone(&mut self) -> Option<(NodeIx, ExecutionNo)> {
        let entry = self.ledger.entries.pop()?;
        while self.ledger.entries.len() < self.ledger.pages.len() * PAGE {
            let Some(page) = self.ledger.pages.pop() else {
                break;
            };
            self.changes.entry(page).or_insert(false);
        }
        Some(entry)
    }
}
