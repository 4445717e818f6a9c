//! The states of runs in memory: what they take, and what the process does when they take too much.
//!
//! A step may open a thousand scopes, so a run may grow from a few kilobytes to megabytes at once, and
//! a claim may bring hundreds of such runs. They have a budget. While it is used up:
//!
//! - nothing is claimed but control triggers, unless nothing is in flight, and then only as much as there
//!   is room for,
//! - the successors of a run with a large state are written as pending, so that the run leaves the
//!   process when its claimed triggers are carried out,
//! - a shard begins a step of a large run only if little of large runs is not durable yet, so that runs
//!   leave before others grow; the work of large runs takes turns with other work,
//! - a workflow whose runs take much together counts as large with all its runs: a small run may grow in
//!   its next step,
//! - other runs go on as before.
//!
//! Nothing fails: runs leave, and are claimed again when there is room. One run is always admitted.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use windlass_model::RunNo;
use windlass_model::metrics::Metrics;

use super::Elsewhere;
use super::memory::Memory;
use super::ready::Entry;
use super::shard_state::ShardState;
use crate::catalog::for_definitions;
use crate::shared::RuntimeShared;

/// A run with at most this part of the budget goes on while the budget is used up: with the default
/// settings, as many small runs as may be in flight take twice the budget together.
const SMALL_PART: u64 = 2_048;

/// The bytes of large runs with writes in progress with which a shard begins a step of another large
/// run, while the states of runs take more than their budget.
const FEW_UNWRITTEN: u64 = 64 * 1024;

/// Runs of a workflow in one shard that take more than this part of the budget count as large.
const FLOW_PART: u64 = 16;

/// How many executions begin before the runs of each workflow are weighed anew.
const WEIGHED_EVERY: u32 = 64;

/// The work of small runs that goes before a control trigger, a result or an execution of a large one,
/// which may remove thousands of rows of the store.
const TURN: u32 = 16;

/// The accuracy of the estimate, in bytes.
const STEP: u64 = 1024;

/// The budget of the states of runs in one process.
#[derive(Clone, Default)]
pub(crate) struct States {
    metrics: Arc<Metrics>,
    most: u64,
}

impl States {
    /// A budget of so many bytes.
    pub(crate) fn new(most: u64, metrics: &Arc<Metrics>) -> Self {
        metrics.run_states.set_limit(most);
        let metrics = Arc::clone(metrics);
        Self { metrics, most }
    }

    /// Whether it is used up.
    pub(crate) fn is_full(&self) -> bool {
        self.metrics.run_states.get() >= self.most
    }

    /// The bytes that are left.
    pub(crate) fn room(&self) -> u64 {
        self.most.saturating_sub(self.metrics.run_states.get())
    }

    /// Whether there is room for another large definition, if those of runs in memory are so many bytes
    /// beyond their own bound.
    pub(crate) fn admits_definition(&self, beyond: u64) -> bool {
        beyond == 0 || (!self.is_full() && beyond < for_definitions(self.most))
    }

    /// The largest state of a small run, in bytes.
    pub(crate) fn small(&self) -> u64 {
        self.most / SMALL_PART
    }

    /// The bytes that are left for runs with control triggers, which go beyond the budget by a quarter.
    pub(crate) fn room_for_control(&self) -> u64 {
        let most = self.most.saturating_add(self.most / 4);
        most.saturating_sub(self.metrics.run_states.get())
    }

    /// Whether a quarter of it is left, so that it is worth while to claim again.
    pub(crate) fn has_much_room(&self) -> bool {
        self.metrics.run_states.get() < self.most / 4 * 3
    }
}

/// The work of large runs that stands back while the states of runs take more than their budget.
#[derive(Default)]
pub(super) struct StoodBack {
    control: VecDeque<Entry>,
    results: VecDeque<Elsewhere>,
    ready: VecDeque<Entry>,
    /// The work of small runs that went before the next of what stands back.
    others: u32,
    /// What the runs of each workflow take, while states take more than their budget.
    flows: FxHashMap<Arc<str>, u64>,
    /// The executions until the runs of each workflow are weighed anew.
    weighed_for: u32,
}

impl StoodBack {
    fn pop(&mut self, control_only: bool) -> Option<Next> {
        let mut next = self.control.pop_front().map(Next::Begin);
        if !control_only {
            next = next.or_else(|| self.results.pop_front().map(Next::Take));
            next = next.or_else(|| self.ready.pop_front().map(Next::Begin));
        }
        if next.is_some() {
            self.others = 0;
        }
        next
    }

    /// Forgets the triggers that have not begun.
    pub(super) fn clear_ready(&mut self) {
        self.control.clear();
        self.ready.clear();
    }

    fn is_empty(&self, control_only: bool) -> bool {
        self.control.is_empty()
            && (control_only || (self.results.is_empty() && self.ready.is_empty()))
    }
}

/// What a shard does next.
pub(super) enum Next {
    /// Begins the execution of a trigger.
    Begin(Entry),
    /// Takes the result of a call or an evaluation.
    Take(Elsewhere),
}

impl Memory {
    /// Tells the metrics of the process what the state of the run takes, and its triggers.
    pub(super) fn count_state(&mut self, bytes: usize, metrics: &Arc<Metrics>) {
        // All workers count here: few changes of small runs reach the next multiple.
        let now = (bytes as u64).next_multiple_of(STEP);
        self.state_before = self.state;
        match now.checked_sub(self.state) {
            Some(0) => return,
            Some(more) => metrics.run_states.add(more),
            None => metrics.run_states.sub(self.state - now),
        }
        self.state = now;
        if self.metrics.is_none() {
            self.metrics = Some(Arc::clone(metrics));
        }
    }

    /// Whether the run begins nothing more here, because its state is large and states take too much.
    pub(super) fn is_to_leave(&self, states: &States) -> bool {
        states.is_full() && self.state > states.small()
    }
}

impl ShardState {
    /// What the shard does next: control triggers, then results, then executions. Nothing besides
    /// control triggers while too much data is not durable yet.
    pub(super) fn next_of_all(&mut self, shared: &RuntimeShared) -> Option<Next> {
        let (is_full, is_held_back) = (self.states.is_full(), self.is_held_back());
        self.weigh_flows(is_full);
        let begins_large = !is_full || self.large_unwritten <= FEW_UNWRITTEN;
        if begins_large && (!is_full || self.stood_back.others >= TURN) {
            let next = self.stood_back.pop(is_held_back);
            if next.is_some() {
                return next;
            }
        }
        let next = self.next_of_small(is_full, begins_large, is_held_back, shared);
        if next.is_some() {
            self.stood_back.others = self.stood_back.others.saturating_add(1);
            return next;
        }
        if !begins_large {
            return None;
        }
        self.stood_back.pop(is_held_back)
    }

    /// What the shard does next without what stands back. Sets back what belongs to large runs, if
    /// their turn has not come.
    fn next_of_small(
        &mut self,
        is_full: bool,
        begins_large: bool,
        is_held_back: bool,
        shared: &RuntimeShared,
    ) -> Option<Next> {
        while let Some(entry) = self.ready.pop_control() {
            if !is_full || !self.is_large(entry.0) {
                return Some(Next::Begin(entry));
            }
            self.stood_back.control.push_back(entry);
        }
        if is_held_back {
            return None;
        }
        while let Some(result) = self.result() {
            if begins_large || !self.is_large(result.run()) {
                return Some(Next::Take(result));
            }
            self.stood_back.results.push_back(result);
        }
        while let Some(entry) = self.ready.pop(|| shared.base.now().monotonic_ms) {
            if begins_large || !self.is_large(entry.0) {
                return Some(Next::Begin(entry));
            }
            self.stood_back.ready.push_back(entry);
        }
        None
    }

    /// Whether nothing that stands back may go on before a write is durable.
    pub(super) fn stands_back(&self) -> bool {
        let begins_large = !self.states.is_full() || self.large_unwritten <= FEW_UNWRITTEN;
        !begins_large || self.stood_back.is_empty(self.is_held_back())
    }

    /// Whether so much data waits to become durable that the shard makes no more until some of it
    /// has: a store can be slower than the steps that fill it.
    pub(super) fn is_held_back(&self) -> bool {
        self.unwritten > self.most_unwritten
    }

    /// The bytes for which a write of a run counts while states take too much: all of a large run,
    /// because a small write may remove all its rows.
    pub(super) fn counts_as_large(&mut self, run: RunNo, bytes: u64) -> u64 {
        if !self.states.is_full() {
            return 0;
        }
        let Some(owned) = self.owned.get(&run) else {
            return 0;
        };
        let (now, before) = (owned.memory.state, owned.memory.state_before);
        let most = now.max(before);
        if most <= self.states.small() {
            return 0;
        }
        // The run may have grown. If not, it counts twice until its workflow is weighed anew.
        let flow = self.stood_back.flows.entry(Arc::clone(&owned.flow));
        *flow.or_default() += most;
        most.max(bytes)
    }

    /// Weighs the runs of each workflow from time to time, while it matters.
    fn weigh_flows(&mut self, is_full: bool) {
        let back = &mut self.stood_back;
        if !is_full {
            if back.weighed_for > 0 {
                (back.flows, back.weighed_for) = (FxHashMap::default(), 0);
            }
            return;
        }
        if let Some(left) = back.weighed_for.checked_sub(1)
            && left > 0
        {
            back.weighed_for = left;
            return;
        }
        back.weighed_for = WEIGHED_EVERY;
        back.flows.clear();
        for owned in self.owned.values() {
            let flow = back.flows.entry(Arc::clone(&owned.flow));
            *flow.or_default() += owned.memory.state;
        }
    }

    /// Whether a run counts as large, by itself or with the others of its workflow.
    fn is_large(&self, run: RunNo) -> bool {
        self.owned.get(&run).is_some_and(|owned| {
            let flow = self.stood_back.flows.get(&owned.flow);
            owned.memory.state > self.states.small()
                || flow.is_some_and(|bytes| *bytes > self.states.most / FLOW_PART)
        })
    }
}

/// The claimed rows of a run, until the run is in memory.
pub(crate) struct Transit {
    bytes: u64,
    metrics: Arc<Metrics>,
}

impl Transit {
    /// Counts rows of so many bytes.
    pub(crate) fn new(bytes: u64, metrics: &Arc<Metrics>) -> Self {
        metrics.run_states.add(bytes);
        Self {
            bytes,
            metrics: Arc::clone(metrics),
        }
    }
}

impl Drop for Transit {
    fn drop(&mut self) {
        self.metrics.run_states.sub(self.bytes);
    }
}
