//! Joins in the middle of a round, and their stored form.
//!
//! Numbers of execution records are written as differences from the number before, since the
//! numbers of one run lie close together: a join over a hundred branches then costs a few hundred
//! bytes.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use windlass_model::{ExecutionNo, ScopeNo};

use super::queue::{PAGE, Queue};
use super::{Decision, RunState};
use crate::graph::NodeIx;

/// A join in the middle of a round.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Joining {
    /// One for each inbound forward edge.
    pub(crate) slots: Vec<Slot>,
    /// How many slots have a waiting decision.
    pub(crate) filled: u32,
    /// In how many of those slots the oldest decision is a taken edge.
    pub(crate) taken: u32,
    /// How many slots owe a decision.
    pub(crate) owing: u32,
}

/// The decisions of one inbound edge, relative to the rounds of its join that are over.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Slot {
    /// Decisions still to come that belong to rounds which closed without them.
    pub(crate) owed: u32,
    /// The oldest waiting decision. Never set while `owed` is above 0.
    pub(crate) head: Option<Decision>,
    /// The decisions behind `head`.
    pub(crate) rest: Queue,
}

impl Joining {
    /// A join at rest, with this many inbound edges.
    pub(crate) fn of(len: usize) -> Self {
        Self {
            slots: vec![Slot::default(); len],
            ..Self::default()
        }
    }

    /// The pages of its edges, each with the position of its edge.
    pub(super) fn pages(&self) -> impl Iterator<Item = (ScopeNo, u32)> {
        let slots = (0..).zip(&self.slots);
        slots.flat_map(|(at, slot)| slot.rest.parts().1.iter().map(move |page| (*page, at)))
    }
}

impl RunState {
    /// Moves waiting decisions of one edge into a page if there are many.
    pub(crate) fn put_away(&mut self, scope: ScopeNo, node: NodeIx, slot: u32) {
        let local = self.peek(scope);
        let joining = local.and_then(|local| local.joins.get(&node));
        let found = joining.and_then(|joining| joining.slots.get(slot as usize));
        if !found.is_some_and(|found| found.rest.is_long()) {
            return;
        }
        let page = self.number();
        let local = self.local(scope);
        let joining = local.and_then(|local| local.joins.get_mut(&node));
        if let Some(found) = joining.and_then(|joining| joining.slots.get_mut(slot as usize)) {
            found.rest.put_away(page);
            self.pages.insert(page, (scope, node, slot));
        }
    }

    /// Deletes a page.
    pub(crate) fn drop_page(&mut self, page: ScopeNo) {
        self.pages.remove(&page);
        self.changes.entry(page).or_insert(false);
    }

    /// Deletes the joins of a scope that is closed.
    pub(crate) fn drop_joins(&mut self, scope: ScopeNo) {
        let joins = self
            .quietly(scope)
            .map(|local| std::mem::take(&mut local.joins));
        for joining in joins.unwrap_or_default().values() {
            self.drop_pages(joining);
        }
    }

    /// Deletes the join of a node in the root scope.
    pub(super) fn drop_join(&mut self, node: NodeIx) {
        if let Some(joining) = self.root.joins.remove(&node) {
            self.drop_pages(&joining);
        }
    }

    fn drop_pages(&mut self, joining: &Joining) {
        for (page, _) in joining.pages() {
            self.drop_page(page);
        }
    }

    /// The decisions in a page.
    pub(super) fn page(&self, page: ScopeNo) -> Option<Vec<Option<i64>>> {
        let (scope, node, slot) = self.pages.get(&page)?;
        let joining = self.peek(*scope)?.joins.get(node)?;
        let slot = joining.slots.get(*slot as usize)?;
        let mut near = Near::default();
        let all = slot.rest.page(page);
        Some(all.map(|d| near.shrink_decision(*d)).collect())
    }
}

/// One slot that is not at rest.
#[derive(Serialize, Deserialize)]
pub(super) struct WireSlot {
    at: u32,
    kind: WireKind,
}

#[derive(Serialize, Deserialize)]
enum WireKind {
    Owed(u32),
    Dead,
    Taken(i64),
    Waiting(Vec<Option<i64>>),
    /// The decisions before the pages, the pages, and the decisions behind them.
    Paged(Vec<Option<i64>>, Vec<ScopeNo>, Vec<Option<i64>>),
}

/// Decoded pages.
pub(super) type Pages = BTreeMap<ScopeNo, Vec<Option<i64>>>;

/// Converts record numbers to differences and back.
#[derive(Default)]
pub(super) struct Near(i64);

impl Near {
    pub(super) fn shrink(&mut self, run: ExecutionNo) -> i64 {
        let difference = run.0.wrapping_sub(self.0);
        self.0 = run.0;
        difference
    }

    pub(super) fn grow(&mut self, difference: i64) -> ExecutionNo {
        self.0 = self.0.wrapping_add(difference);
        ExecutionNo(self.0)
    }

    fn shrink_decision(&mut self, decision: Decision) -> Option<i64> {
        match decision {
            Decision::Dead => None,
            Decision::Taken(run) => Some(self.shrink(run)),
        }
    }

    fn grow_decision(&mut self, difference: Option<i64>) -> Decision {
        difference.map_or(Decision::Dead, |difference| {
            Decision::Taken(self.grow(difference))
        })
    }
}

pub(super) fn shrink_slots(slots: &[Slot], near: &mut Near) -> Vec<WireSlot> {
    let mut wire = Vec::new();
    for (at, slot) in (0..).zip(slots) {
        let kind = match slot {
            Slot {
                head: Some(head),
                rest,
                ..
            } if !rest.is_empty() => {
                let (front, pages, back) = rest.parts();
                let front = std::iter::once(head).chain(front);
                let mut shrink = |decision: &Decision| near.shrink_decision(*decision);
                if pages.is_empty() {
                    WireKind::Waiting(front.chain(back).map(shrink).collect())
                } else {
                    let front = front.map(&mut shrink).collect();
                    let pages = pages.iter().copied().collect();
                    WireKind::Paged(front, pages, back.map(shrink).collect())
                }
            }
            Slot {
                head: Some(Decision::Dead),
                ..
            } => WireKind::Dead,
            Slot {
                head: Some(Decision::Taken(run)),
                ..
            } => WireKind::Taken(near.shrink(*run)),
            Slot { owed: 0, .. } => continue,
            Slot { owed, .. } => WireKind::Owed(*owed),
        };
        wire.push(WireSlot { at, kind });
    }
    wire
}

pub(super) fn grow_slots(
    wire: Vec<WireSlot>,
    len: usize,
    near: &mut Near,
    pages: &mut Pages,
) -> Option<Joining> {
    let mut joining = Joining::of(len);
    for WireSlot { at, kind } in wire {
        let mut slot = Slot::default();
        match kind {
            WireKind::Owed(owed) => slot.owed = owed,
            WireKind::Dead => slot.head = Some(Decision::Dead),
            WireKind::Taken(run) => slot.head = Some(Decision::Taken(near.grow(run))),
            WireKind::Waiting(all) => {
                let mut all = all.into_iter().map(|run| near.grow_decision(run));
                slot.head = all.next();
                slot.rest = Queue::of(all.collect(), 0, VecDeque::new())?;
            }
            WireKind::Paged(front, numbers, back) => {
                let mut all: VecDeque<Decision> = front
                    .into_iter()
                    .map(|run| near.grow_decision(run))
                    .collect();
                slot.head = all.pop_front();
                let before = all.len();
                for page in &numbers {
                    let page = pages.remove(page).filter(|page| page.len() == PAGE)?;
                    let mut near = Near::default();
                    all.extend(page.into_iter().map(|run| near.grow_decision(run)));
                }
                all.extend(back.into_iter().map(|run| near.grow_decision(run)));
                slot.rest = Queue::of(all, before, numbers.into())?;
            }
        }
        let place = joining.slots.get_mut(at as usize)?;
        if *place != Slot::default() || slot == Slot::default() {
            return None;
        }
        joining.filled += u32::from(slot.head.is_some());
        joining.taken += u32::from(matches!(slot.head, Some(Decision::Taken(_))));
        joining.owing += u32::from(slot.owed > 0);
        *place = slot;
    }
    Some(joining)
}
