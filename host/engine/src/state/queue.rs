//! Decisions of one edge that wait for the others of its join.
//!
//! There may be many, and a head that had all of them would cost as much with every step. So
//! the head has some from the front and some from the back, and those between are in pages
//! that are stored like scopes: each is written once and removed once.

use std::collections::VecDeque;

use windlass_model::ScopeNo;

use super::Decision;

/// Decisions in one page.
pub(crate) const PAGE: usize = 64;

/// First in, first out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Queue {
    all: VecDeque<Decision>,
    /// How many there are before the first page. Some, if there is a page.
    front: usize,
    /// The pages of [`PAGE`] decisions each, the first to come first.
    pages: VecDeque<ScopeNo>,
}

impl Queue {
    /// One that was stored; none if its parts do not fit together.
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

    /// Whether so many are behind the pages that some should go into one.
    pub(crate) fn is_long(&self) -> bool {
        let most = if self.pages.is_empty() { 2 } else { 1 };
        self.back() >= most * PAGE
    }

    /// Puts the last ones into a page.
    pub(crate) fn put_away(&mut self, page: ScopeNo) {
        if self.pages.is_empty() {
            self.front = self.all.len().saturating_sub(PAGE);
        }
        self.pages.push_back(page);
    }

    /// The first, and the page that is not needed any more because of that.
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

    /// What is before the pages, the pages, and what is behind them.
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

    /// What is in a page.
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
