//! Decisions of one edge that wait for the other edges of their join.
//!
//! There may be many decisions, and a head with all of them would make every step expensive. So the
//! head contains only the first and the last of them. The others are in pages that are stored like
//! scopes: each page is written once and removed once.

use std::collections::VecDeque;

use windlass_model::ScopeNo;

use super::Decision;

/// Decisions in one page.
pub(crate) const PAGE: usize = 64;

/// First in, first out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Queue {
    all: VecDeque<Decision>,
    /// The number of decisions before the first page. Above 0 if there is a page.
    front: usize,
    /// The pages of [`PAGE`] decisions each, oldest first.
    pages: VecDeque<ScopeNo>,
}

impl Queue {
    /// Restores a stored queue; none if its parts do not fit together.
    pub(crate) fn of(
        all: VecDeque<Decision>,
        front: usize,
        pages: VecDeque<ScopeNo>,
    ) -> Option<Self> {
        let fits =
            pages.is_empty() && front == 0 || front > 0 && front + pages.len() * PAGE <= all.len();
        fits.then_some(Self { all, front, pages })
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Decision> {
        self.all.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Decision> {
        self.all.iter_mut()
    }

    pub(crate) fn push(&mut self, decision: Decision) {
        self.all.push_back(decision);
    }

    /// Whether there are enough decisions behind the pages to fill another page.
    pub(crate) fn is_long(&self) -> bool {
        let most = if self.pages.is_empty() { 2 } else { 1 };
        self.back() >= most * PAGE
    }

    /// Moves the last decisions into a page.
    pub(crate) fn put_away(&mut self, page: ScopeNo) {
        if self.pages.is_empty() {
            self.front = self.all.len().saturating_sub(PAGE);
        }
        self.pages.push_back(page);
    }

    /// Removes the oldest decision. Also returns the page that is no longer needed afterwards.
    pub(crate) fn pop(&mut self) -> (Option<Decision>, Option<ScopeNo>) {
        let first = self.all.pop_front();
        let mut unneeded = None;
        if !self.pages.is_empty() {
            self.front -= 1;
            if self.front == 0 {
                unneeded = self.pages.pop_front();
                self.front = if self.pages.is_empty() { 0 } else { PAGE };
            }
        }
        (first, unneeded)
    }

    /// The decisions before the pages, the pages, and the decisions behind them.
    pub(crate) fn parts(
        &self,
    ) -> (
        impl Iterator<Item = &Decision>,
        &VecDeque<ScopeNo>,
        impl Iterator<Item = &Decision>,
    ) {
        let back = self.all.len() - self.back();
        let front = self.all.iter().take(self.front);
        (front, &self.pages, self.all.iter().skip(back))
    }

    /// The decisions in a page.
    pub(crate) fn page(&self, page: ScopeNo) -> impl Iterator<Item = &Decision> {
        let at = self.pages.iter().position(|known| *known == page);
        let skip = self.front + at.unwrap_or_default() * PAGE;
        let len = if at.is_some() { PAGE } else { 0 };
        self.all.iter().skip(skip).take(len)
    }

    fn back(&self) -> usize {
        self.all.len() - self.front - self.pages.len() * PAGE
    }
}
