//! The memory of configurations and inputs of calls that wait.
//!
//! A call may wait for long: for a fiber, for memory of plugins, for the look-up of a child. What a
//! step has rendered for it stays in memory meanwhile, and thousands of steps may wait. So a step
//! takes room before its call waits, and gives the room back when the plugin's own budget counts
//! the data, or when the call has ended.
//!
//! A step that finds no room drops what it has rendered, and renders it again when its turn has
//! come: rendering has no effects. Turns go by the policy of [`windlass_fair`]. A flow that holds
//! half of the room waits until it holds less, so that calls of one workflow that wait for long
//! leave room to others. Steps that render little take no room and never wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use windlass_fair::{Caller, Queue, Taken};
use windlass_model::Clock;
use windlass_model::metrics::Metrics;
use windlass_plugins::{Cancel, Queued};

/// Data up to this size takes no room.
pub(crate) const SMALL: u64 = 8 * 1024;

/// Runs when a step gets its room, or without room if the step has to look again.
type Go = Box<dyn FnOnce(Option<Arc<Room>>) + Send>;

/// The room for data of calls that wait, of all runs in memory.
pub(crate) struct CallData {
    most: u64,
    line: Mutex<Line>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Line {
    used: u64,
    by_flow: FxHashMap<Arc<str>, u64>,
    /// The lane of a step is its flow: a flow that holds much is shut out.
    waiting: Queue<Arc<str>, Arc<str>, Waits>,
    /// The step whose turn has come, until it fits.
    next: Option<Taken<Arc<str>, Arc<str>, Waits>>,
    /// How many steps wait.
    count: u64,
}

/// A step that waits for room.
struct Waits {
    bytes: u64,
    cancel: Cancel,
    go: Go,
}

/// Steps that have waited, and what they get.
type Granted = Vec<(Go, Option<Arc<Room>>)>;

impl CallData {
    /// Room for `most` bytes, and for one step that needs more.
    pub(crate) fn new(most: u64, clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Arc<Self> {
        metrics.call_data.set_limit(most);
        Arc::new(Self {
            most,
            line: Mutex::default(),
            clock,
            metrics,
        })
    }

    /// Takes room at once. None: the step has to wait.
    pub(crate) fn take(self: &Arc<Self>, flow: &Arc<str>, bytes: u64) -> Option<Arc<Room>> {
        let mut line = self.line.lock();
        // All steps that wait are behind `next`, or belong to flows that are shut out.
        let is_free = line.next.is_none() && line.is_open(flow, self.most);
        if !is_free || !line.fits(bytes, self.most) {
            return None;
        }
        line.waiting.hold(Arc::clone(flow));
        Some(self.room(&mut line, flow, bytes))
    }

    /// Queues a step. `go` runs when it has got its room.
    pub(crate) fn wait(
        self: &Arc<Self>,
        (flow, priority): (Arc<str>, i32),
        bytes: u64,
        cancel: Cancel,
        go: Go,
    ) {
        let caller = Caller {
            priority,
            lane: Arc::clone(&flow),
            flow,
        };
        let granted = {
            let mut line = self.line.lock();
            let waits = Waits { bytes, cancel, go };
            line.waiting.push(caller, waits, self.now_ms());
            line.count += 1;
            self.grant(&mut line)
        };
        tell(granted);
    }

    /// Lets all steps that wait look again: the process drains.
    pub(crate) fn flush(self: &Arc<Self>) {
        let mut granted = Granted::new();
        {
            let mut line = self.line.lock();
            while let Some(taken) = self.turn(&mut line, |_| true) {
                line.waiting.give_back(&taken.caller.flow, 0);
                granted.push((taken.item.go, None));
            }
        }
        tell(granted);
    }

    /// Gives room to the steps whose turn has come.
    fn grant(self: &Arc<Self>, line: &mut Line) -> Granted {
        let mut granted = Granted::new();
        loop {
            let shut: Vec<_> = line.shut_out(self.most);
            let Some(taken) = self.turn(line, |flow| !shut.contains(flow)) else {
                break;
            };
            let Waits { bytes, cancel, go } = taken.item;
            if cancel.is_cancelled() {
                line.waiting.give_back(&taken.caller.flow, 0);
                granted.push((go, None));
            } else if line.fits(bytes, self.most) {
                let room = self.room(line, &taken.caller.flow, bytes);
                granted.push((go, Some(room)));
            } else {
                let item = Waits { bytes, cancel, go };
                line.next = Some(Taken {
                    caller: taken.caller,
                    item,
                });
                line.count += 1;
                break;
            }
        }
        self.metrics.call_data_waiting.set(line.count);
        granted
    }

    /// The step whose turn has come. It does not wait any more.
    fn turn(
        &self,
        line: &mut Line,
        is_open: impl Fn(&Arc<str>) -> bool,
    ) -> Option<Taken<Arc<str>, Arc<str>, Waits>> {
        let next = line.next.take();
        let taken = next.or_else(|| {
            line.waiting
                .take(self.now_ms(), |_, lane| is_open(lane), |_| false)
        })?;
        line.count = line.count.saturating_sub(1);
        self.metrics.call_data_waiting.set(line.count);
        Some(taken)
    }

    fn room(self: &Arc<Self>, line: &mut Line, flow: &Arc<str>, bytes: u64) -> Arc<Room> {
        self.count(line, flow, bytes);
        Arc::new(Room {
            data: Arc::clone(self),
            flow: Arc::clone(flow),
            bytes,
            is_counted: AtomicBool::new(true),
        })
    }

    fn count(&self, line: &mut Line, flow: &Arc<str>, bytes: u64) {
        line.used = line.used.saturating_add(bytes);
        *line.by_flow.entry(Arc::clone(flow)).or_default() += bytes;
        self.metrics.call_data.add(bytes);
    }

    fn give_back(self: &Arc<Self>, flow: &Arc<str>, bytes: u64) {
        let granted = {
            let mut line = self.line.lock();
            line.used = line.used.saturating_sub(bytes);
            if let Some(held) = line.by_flow.get_mut(flow) {
                *held = held.saturating_sub(bytes);
                if *held == 0 {
                    line.by_flow.remove(flow);
                }
            }
            line.waiting.give_back(flow, 0);
            self.metrics.call_data.sub(bytes);
            self.grant(&mut line)
        };
        tell(granted);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.clock.monotonic().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Line {
    /// Whether data fits. One step always does.
    fn fits(&self, bytes: u64, most: u64) -> bool {
        self.used == 0 || self.used.saturating_add(bytes) <= most
    }

    /// Whether a flow may take more. Each flow may have one step.
    fn is_open(&self, flow: &Arc<str>, most: u64) -> bool {
        self.by_flow.get(flow).is_none_or(|held| *held < most / 2)
    }

    /// The flows that hold as much as a flow may: two, and those whose calls wait again.
    fn shut_out(&self, most: u64) -> Vec<Arc<str>> {
        let flows = self.by_flow.keys();
        let shut = flows.filter(|flow| !self.is_open(flow, most));
        shut.cloned().collect()
    }
}

/// Tells steps what they have got, without the lock: the message may free room.
fn tell(granted: Granted) {
    for (go, room) in granted {
        go(room);
    }
}

/// Room for the data of one call.
pub(crate) struct Room {
    data: Arc<CallData>,
    flow: Arc<str>,
    bytes: u64,
    is_counted: AtomicBool,
}

impl Room {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Queued for Room {
    fn begins(&self) {
        if self.is_counted.swap(false, Ordering::AcqRel) {
            self.data.give_back(&self.flow, self.bytes);
        }
    }

    fn waits(&self) {
        if !self.is_counted.swap(true, Ordering::AcqRel) {
            let mut line = self.data.line.lock();
            line.waiting.hold(Arc::clone(&self.flow));
            self.data.count(&mut line, &self.flow, self.bytes);
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.begins();
    }
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Room").field(&self.bytes).finish()
    }
}

#[cfg(test)]
mod tests;
