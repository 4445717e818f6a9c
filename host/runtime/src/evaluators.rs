//! Evaluations that would occupy the thread of a shard for long.
//!
//! They wait in one queue, by the policy of [`windlass_fair`], and few of them run at a time: each
//! may take the memory of all values of a step. So the places are a budget of memory: a step takes
//! all that it may need with its place, before it reads, and a step that waits holds little. No step
//! needs a second place, so each one ends and lets the next begin.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use windlass_fair::{Caller, Queue};

use crate::heavy::Heavy;
use crate::shared::{RuntimeShared, Work};

/// An evaluation. Its step holds the place until its expressions are evaluated, and until its write is
/// durable if the write is large, so that few steps hold evaluated values.
type Evaluate = Box<dyn FnOnce(Place) + Send>;

/// The queue of evaluations.
pub(crate) struct Evaluators {
    /// One runs on each thread.
    threads: Arc<Heavy>,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    waiting: Queue<Arc<str>, (), Evaluate>,
    running: usize,
}

impl Evaluators {
    /// A queue for a process with this many worker threads: half as many evaluations run beside
    /// them, and at most `most`.
    pub(crate) fn new(workers: usize, most: usize) -> Self {
        let places = workers.div_ceil(2).min(most);
        Self {
            threads: Arc::new(Heavy::new("evaluate", places)),
            line: Mutex::default(),
        }
    }

    /// A place for an evaluation of a flow, if there is one and nothing waits for it.
    pub(crate) fn place(&self, flow: &Arc<str>, shared: &Arc<RuntimeShared>) -> Option<Place> {
        let mut line = self.line.lock();
        if line.running >= self.threads.threads() || !line.waiting.is_empty() {
            return None;
        }
        line.running += 1;
        line.waiting.hold(Arc::clone(flow));
        Some(Place {
            flow: Arc::clone(flow),
            since: shared.base.clock.monotonic(),
            shared: Arc::downgrade(shared),
        })
    }

    /// Runs an evaluation that has a place, on another thread.
    pub(crate) fn run(&self, place: Place, evaluate: Evaluate, shared: &Arc<RuntimeShared>) {
        let run = Box::new(move || evaluate(place));
        let work = Work::Evaluates(Arc::clone(&self.threads), run);
        (shared.bursts.aside)(&shared.base.io, work);
    }

    /// Queues an evaluation of a flow. It runs on another thread, as soon as there is a place.
    pub(crate) fn wait(
        &self,
        flow: Arc<str>,
        priority: i32,
        evaluate: Evaluate,
        shared: &Arc<RuntimeShared>,
    ) {
        let caller = Caller {
            priority,
            flow,
            lane: (),
        };
        let now_ms = shared.base.now().monotonic_ms;
        self.line.lock().waiting.push(caller, evaluate, now_ms);
        shared.base.metrics.evaluations_waiting.add(1);
        self.begin(shared);
    }

    /// Begins evaluations, as long as there are places.
    fn begin(&self, shared: &Arc<RuntimeShared>) {
        loop {
            let taken = {
                let mut line = self.line.lock();
                if line.running >= self.threads.threads() {
                    return;
                }
                let now_ms = shared.base.now().monotonic_ms;
                let Some(taken) = line.waiting.take(now_ms, |_, ()| true, |_| false) else {
                    return;
                };
                line.running += 1;
                taken
            };
            shared.base.metrics.evaluations_waiting.sub(1);
            let place = Place {
                flow: taken.caller.flow,
                since: shared.base.clock.monotonic(),
                shared: Arc::downgrade(shared),
            };
            self.run(place, taken.item, shared);
        }
    }
}

/// The place of an evaluation. Dropping it lets the next one begin.
pub(crate) struct Place {
    flow: Arc<str>,
    /// When it was given, on the monotonic clock.
    since: Duration,
    shared: Weak<RuntimeShared>,
}

impl Drop for Place {
    fn drop(&mut self) {
        // A process that has ended begins nothing.
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        let evaluators = &shared.bursts.evaluators;
        {
            let used = shared.base.clock.monotonic().saturating_sub(self.since);
            let used_us = u64::try_from(used.as_micros()).unwrap_or(u64::MAX);
            let mut line = evaluators.line.lock();
            line.waiting.give_back(&self.flow, used_us);
            line.running -= 1;
        }
        evaluators.begin(&shared);
    }
}
