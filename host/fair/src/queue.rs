//! The queue of the callers that wait for places: levels by priority, flows in each level, and the order in which they get places.

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hash;

use rustc_hash::FxHashMap;

use crate::STEP_MS;

/// Who asks for a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller<F, L> {
    /// Higher priorities go first.
    pub priority: i32,
    /// The workflow: flows share the places.
    pub flow: F,
    /// The plugin: a lane may be closed.
    pub lane: L,
}

/// A caller whose turn has come.
#[derive(Debug, PartialEq, Eq)]
pub struct Taken<F, L, T> {
    /// The caller; its flow holds one more place now.
    pub caller: Caller<F, L>,
    /// The value that was queued with it.
    pub item: T,
}

/// Callers that wait, and the places that each flow holds.
#[derive(Debug)]
pub struct Queue<F, L, T> {
    levels: BTreeMap<i32, Level<F, L, T>>,
    /// The shares of flows that hold places or have used more time than `floor_us`.
    shares: FxHashMap<F, Share>,
    /// The sum of the places that flows hold.
    held: usize,
    /// The used time from which a flow without a share begins: that of the flow that got a place
    /// last. So a flow saves up nothing while it asks for nothing.
    floor_us: u64,
    /// Counts the places that were given.
    turns: u64,
    /// Counts the callers that came.
    arrivals: u64,
}

/// What a flow holds, and what it has used.
#[derive(Debug)]
struct Share {
    held: u32,
    /// In microseconds.
    used_us: u64,
}

/// Flows without a place whose used time is remembered. Beyond that, it is forgotten for all of them.
const IDLE: usize = 1_024;

/// The callers of one priority.
#[derive(Debug)]
struct Level<F, L, T> {
    /// When it got a place, or began to wait, in milliseconds.
    since_ms: u64,
    flows: FxHashMap<F, Flow<L, T>>,
}

/// The callers of one flow in one level.
#[derive(Debug)]
struct Flow<L, T> {
    /// The turn in which it got a place, or in which it began to wait.
    served: u64,
    /// The callers of each lane, each with its number, in the order of their arrival.
    lanes: Vec<(L, VecDeque<(u64, T)>)>,
}

impl<F, L, T> Default for Queue<F, L, T> {
    fn default() -> Self {
        Self {
            levels: BTreeMap::new(),
            shares: FxHashMap::default(),
            held: 0,
            floor_us: 0,
            turns: 0,
            arrivals: 0,
        }
    }
}

impl<F: Clone + Eq + Hash, L: Clone + Eq, T> Queue<F, L, T> {
    /// Whether no caller waits.
    pub fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// Adds a caller. `now_ms` is the time on a clock that never goes back.
    pub fn push(&mut self, caller: Caller<F, L>, item: T, now_ms: u64) {
        let number = self.arrivals;
        self.arrivals += 1;
        let level = self.levels.entry(caller.priority).or_insert_with(|| Level {
            since_ms: now_ms,
            flows: FxHashMap::default(),
        });
        let served = self.turns;
        let flow = level.flows.entry(caller.flow).or_insert_with(|| Flow {
            served,
            lanes: Vec::with_capacity(1),
        });
        let lane = flow.lanes.iter_mut().find(|(lane, _)| *lane == caller.lane);
        match lane {
            Some((_, waiting)) => waiting.push_back((number, item)),
            None => flow
                .lanes
                .push((caller.lane, VecDeque::from([(number, item)]))),
        }
    }

    /// Counts a place that a flow got without waiting.
    pub fn hold(&mut self, flow: F) {
        let used_us = self.floor_us;
        let share = self.shares.entry(flow);
        share.or_insert(Share { held: 0, used_us }).held += 1;
        self.held += 1;
    }

    /// Counts a place that a flow has given back, and the time for which the flow used the place, in
    /// microseconds: 0 where flows share places and not time.
    pub fn give_back(&mut self, flow: &F, used_us: u64) {
        let Some(share) = self.shares.get_mut(flow).filter(|share| share.held > 0) else {
            return;
        };
        share.held -= 1;
        self.held -= 1;
        share.used_us = share.used_us.max(self.floor_us).saturating_add(used_us);
        if share.held == 0 && share.used_us <= self.floor_us {
            self.shares.remove(flow);
        }
        if self.shares.len() > self.held + IDLE {
            self.shares.retain(|_, share| share.held > 0);
        }
    }

    /// The places that a flow holds, and the time that it has used.
    fn share(&self, flow: &F) -> (u32, u64) {
        let share = self.shares.get(flow);
        share.map_or((0, self.floor_us), |share| {
            (share.held, share.used_us.max(self.floor_us))
        })
    }

    /// The number of callers that wait. Looks at each flow.
    pub fn len(&self) -> usize {
        let flows = self.levels.values().flat_map(|level| level.flows.values());
        let lanes = flows.flat_map(|flow| &flow.lanes);
        lanes.map(|(_, waiting)| waiting.len()).sum()
    }

    /// Takes the caller that goes next, of those whose lane is open for their flow. A caller that is
    /// gone is removed when it would be next, and counts for nothing.
    pub fn take(
        &mut self,
        now_ms: u64,
        is_open: impl Fn(&F, &L) -> bool,
        is_gone: impl Fn(&T) -> bool,
    ) -> Option<Taken<F, L, T>> {
        let mut order: Vec<(i64, i32)> = self
            .levels
            .iter()
            .map(|(priority, level)| (level.effective(*priority, now_ms), *priority))
            .collect();
        // A level is seldom without an open lane, so nearly always the first one is chosen.
        order.sort_unstable_by(|a, b| b.cmp(a));
        order
            .into_iter()
            .find_map(|(_, priority)| self.take_of(priority, now_ms, &is_open, &is_gone))
    }

    fn take_of(
        &mut self,
        priority: i32,
        now_ms: u64,
        is_open: &impl Fn(&F, &L) -> bool,
        is_gone: &impl Fn(&T) -> bool,
    ) -> Option<Taken<F, L, T>> {
        let level = self.levels.get_mut(&priority)?;
        level.flows.retain(|_, flow| flow.has_more(is_gone));
        if level.flows.is_empty() {
            self.levels.remove(&priority);
            return None;
        }
        let level = self.levels.get(&priority)?;
        let candidates = level.flows.iter().filter_map(|(name, flow)| {
            let (number, at) = flow.first(&|lane| is_open(name, lane))?;
            let (places, used_us) = self.share(name);
            Some(((places, used_us, flow.served, number), name, at))
        });
        let ((_, used_us, ..), name, at) = candidates.min_by_key(|(rank, ..)| *rank)?;
        let name = name.clone();
        self.floor_us = used_us;
        let level = self.levels.get_mut(&priority)?;
        let flow = level.flows.get_mut(&name)?;
        let (lane, waiting) = flow.lanes.get_mut(at)?;
        let (_, item) = waiting.pop_front()?;
        let lane = lane.clone();
        if waiting.is_empty() {
            flow.lanes.swap_remove(at);
        }
        self.turns += 1;
        flow.served = self.turns;
        level.since_ms = now_ms;
        if flow.lanes.is_empty() {
            level.flows.remove(&name);
        }
        if level.flows.is_empty() {
            self.levels.remove(&priority);
        }
        self.hold(name.clone());
        let caller = Caller {
            priority,
            flow: name,
            lane,
        };
        Some(Taken { caller, item })
    }
}

impl<F, L, T> Level<F, L, T> {
    fn effective(&self, priority: i32, now_ms: u64) -> i64 {
        let steps = now_ms.saturating_sub(self.since_ms) / STEP_MS;
        i64::from(priority).saturating_add_unsigned(steps)
    }
}

impl<L, T> Flow<L, T> {
    /// Removes callers at the front that are gone. Returns whether others wait.
    fn has_more(&mut self, is_gone: impl Fn(&T) -> bool) -> bool {
        self.lanes.retain_mut(|(_, waiting)| {
            while waiting.pop_front_if(|(_, item)| is_gone(item)).is_some() {}
            !waiting.is_empty()
        });
        !self.lanes.is_empty()
    }

    /// The number of the first caller whose lane is open, and the place of the lane.
    fn first(&self, is_open: &impl Fn(&L) -> bool) -> Option<(u64, usize)> {
        let lanes = self.lanes.iter().enumerate();
        let open = lanes.filter(|(_, (lane, _))| is_open(lane));
        open.filter_map(|(at, (_, waiting))| Some((waiting.front()?.0, at)))
            .min()
    }
}

#[cfg(test)]
mod tests;
