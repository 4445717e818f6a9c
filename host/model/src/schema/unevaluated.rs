//! The cost of preparing `unevaluatedProperties` and `unevaluatedItems`.
//!
//! The validator prepares them by walking through all parts that apply to the same value, again for
//! each path to them, and through the parts written below. So a schema in which little applies to
//! any one value may take exponential time to prepare. The same walk is made here first, without
//! preparing anything, and stops at the bound.

use std::collections::HashSet;

use super::plan::{Here, Plan};
use crate::limits;

/// Adds the visits of all such walks.
pub(super) fn prepare(plan: &Plan, visits: &mut u64) {
    for (part, content) in (0_u32..).zip(&plan.parts) {
        if content.unevaluated() {
            let mut walk = Walk {
                plan,
                visits,
                open: Vec::new(),
            };
            walk.applied(part, &mut HashSet::new(), 0);
        }
    }
}

/// How deep a walk may be.
const DEEPEST: usize = 128;

struct Walk<'a> {
    plan: &'a Plan,
    visits: &'a mut u64,
    /// The parts that the walk is in; it does not enter them again.
    open: Vec<u32>,
}

impl Walk<'_> {
    /// Counts a step. Returns whether the walk may continue.
    fn step(&mut self, depth: usize) -> bool {
        *self.visits = self.visits.saturating_add(1);
        if depth > DEEPEST {
            *self.visits = u64::MAX;
        }
        *self.visits <= limits::SCHEMA_PREPARATION
    }

    /// Visits a part for the parts that it applies to the same value. A part that is written in one
    /// place is compiled once there; a reference leads to another place.
    fn applied(&mut self, part: u32, place: &mut HashSet<u32>, depth: usize) {
        if self.open.contains(&part) || !self.step(depth) {
            return;
        }
        self.open.push(part);
        let content = self.plan.part(part);
        for (to, kind) in &content.here {
            match kind {
                Here::Ref => self.applied(*to, &mut HashSet::new(), depth + 1),
                Here::Not => {}
                Here::Along => self.applied(*to, place, depth + 1),
                Here::Each | Here::Choice | Here::If => {
                    self.compiled(*to, place, depth + 1);
                    self.applied(*to, place, depth + 1);
                }
            }
        }
        let lone = [
            content.rest,
            content.other_members,
            content.contains,
            content.other_items,
        ];
        for to in content
            .patterned
            .iter()
            .copied()
            .chain(lone.into_iter().flatten())
        {
            self.compiled(to, place, depth + 1);
        }
        self.open.pop();
    }

    /// Visits a part that is compiled with all parts that are written in it.
    fn compiled(&mut self, part: u32, place: &mut HashSet<u32>, depth: usize) {
        if !place.insert(part) || !self.step(depth) {
            return;
        }
        let content = self.plan.part(part);
        if content.unevaluated() {
            self.applied(part, place, depth + 1);
        }
        let written = content.here.iter().filter(|(_, kind)| *kind != Here::Ref);
        let written: Vec<u32> = written.map(|(to, _)| *to).chain(content.below()).collect();
        for to in written {
            self.compiled(to, place, depth + 1);
        }
    }
}
