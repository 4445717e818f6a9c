//! Evaluations that would occupy the thread of a shard for long.
//!
//! They wait in one queue, by the policy of [`windlass_fair`], and few of them run at a time: each
//! may take the memory of all values of a step.

use std::sync::Arc;

use parking_lot::Mutex;
use windlass_fair::{Caller, Queue};

use crate::shared::RuntimeShared;

/// An evaluation, with the message that follows it.
type Evaluate = Box<dyn FnOnce() + Send>;

/// The queue of evaluations.
pub(crate) struct Evaluators {
    /// How many run at a time.
    places: usize,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    waiting: Queue<Arc<str>, (), Evaluate>,
    running: usize,
}

impl Evaluators {
    /// A queue for a process with this many worker threads: half as many evaluations run beside
    /// them.
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            places: workers.div_ceil(2).max(1),
            line: Mutex::default(),
        }
    }

    /// Queues an evaluation of a flow. It runs on another thread, as soon as there is a place.
    pub(crate) fn submit(
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
        let mut line = self.line.lock();
        let now_ms = shared.base.now().monotonic_ms;
        line.waiting.push(caller, evaluate, now_ms);
        let metrics = &shared.base.metrics;
        metrics.evaluations_aside.add(1);
        metrics.evaluations_waiting.add(1);
        if line.running < self.places {
            line.running += 1;
            drop(line);
            let all = Arc::clone(shared);
            let run = move || all.bursts.evaluators.run(&all);
            (shared.bursts.aside)(&shared.base.io, Box::new(run));
        }
    }

    /// Runs evaluations until none waits.
    fn run(&self, shared: &RuntimeShared) {
        loop {
            let now_ms = shared.base.now().monotonic_ms;
            let taken = {
                let mut line = self.line.lock();
                let taken = line.waiting.take(now_ms, |()| true, |_| false);
                match taken {
                    Some(_) => shared.base.metrics.evaluations_waiting.sub(1),
                    None => line.running -= 1,
                }
                taken
            };
            let Some(taken) = taken else { return };
            (taken.item)();
            self.line.lock().waiting.give_back(&taken.caller.flow);
        }
    }
}
