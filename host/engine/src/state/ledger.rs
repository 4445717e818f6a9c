//! Which completed nodes can be undone, in the order in which they completed.
//!
//! It grows with the run, so the head has the end of it only. The rest is in pages that are
//! stored like scopes: each is written once when it is full, and once more when it is undone.

use windlass_model::{ExecutionNo, ScopeNo};

use super::RunState;
use crate::graph::NodeIx;

/// Entries in one page.
pub(crate) const PAGE: usize = 32;

/// What can be undone.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ledger {
    /// All of it. What is behind the pages is in the head.
    pub(crate) entries: Vec<(NodeIx, ExecutionNo)>,
    /// The pages of [`PAGE`] entries each, from the first entry on.
    pub(crate) pages: Vec<ScopeNo>,
}

impl Ledger {
    /// What is not in any page.
    pub(crate) fn tail(&self) -> &[(NodeIx, ExecutionNo)] {
        self.entries
            .get(self.pages.len() * PAGE..)
            .unwrap_or_default()
    }

    /// What is in a page.
    pub(crate) fn page(&self, at: usize) -> &[(NodeIx, ExecutionNo)] {
        self.entries
            .get(at * PAGE..(at + 1) * PAGE)
            .unwrap_or_default()
    }
}

impl RunState {
    /// Notes that a node completed which can be undone.
    pub(crate) fn note(&mut self, node: NodeIx, run: ExecutionNo) {
        self.ledger.entries.push((node, run));
        // One more than fits, so that a node undone after another does not rewrite a page.
        if self.ledger.tail().len() > PAGE {
            let page = self.number();
            self.ledger.pages.push(page);
        }
    }

    /// What is to be undone next.
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
