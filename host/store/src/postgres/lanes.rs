//! The queues of the connections that write: a lane for each connection, and barriers across all
//! lanes.
//!
//! Keyed writes ([`Order`]) wait in the lane of their key, in order. A barrier is queued in all
//! lanes at once: each lane stops at the barrier, the first lane carries it out when all lanes have
//! reached it, and the lanes continue when the barrier is answered. So a barrier comes after every
//! write that was submitted before it, and before every write that is submitted after it. Unordered
//! writes have a lane of their own, the last one, without barriers.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use windlass_model::metrics::Metrics;

use crate::Order;
use crate::queue::Batch;

/// The next task of a lane.
pub(super) enum Next {
    /// Carry out these batches.
    Work(Vec<Batch>),
    /// Wait for the other lanes at this barrier.
    Meet(Arc<Barrier>),
    /// End: the lanes are closed and this one is empty.
    End,
}

/// An entry in a lane's queue.
enum Entry {
    Batch(Batch, Weight),
    Barrier(Arc<Barrier>),
}

/// The size of a batch, for the bound on waiting writes.
#[derive(Clone, Copy, Default)]
struct Weight {
    writes: usize,
    bytes: usize,
}

#[derive(Default)]
struct LaneQueues {
    lanes: Vec<VecDeque<Entry>>,
    weight: Weight,
    /// The newest barrier, while no write is queued behind it and no lane carries it out: further
    /// barrier writes join it.
    last: Option<Arc<Barrier>>,
    closed: bool,
}

/// Many submitters, and a writer for each lane.
pub(super) struct Lanes {
    bound: Weight,
    /// The number of lanes for keyed writes.
    lines: usize,
    waiting: Mutex<LaneQueues>,
    /// By lane: an entry was queued, or the lanes are closed.
    ready: Vec<Condvar>,
    /// Room was made, or the lanes are closed.
    room: Condvar,
    metrics: Arc<Metrics>,
}

impl Lanes {
    /// `lanes` lanes for keyed writes and one for unordered writes. Together they hold at most
    /// `writes` writes with `bytes` bytes, besides the batch that exceeds either.
    pub(super) fn new(lanes: usize, writes: usize, bytes: usize, metrics: Arc<Metrics>) -> Self {
        metrics.store_queue.set_limit(bytes as u64);
        let lines = lanes.max(1);
        let lanes = lines + 1;
        let waiting = LaneQueues {
            lanes: (0..lanes).map(|_| VecDeque::new()).collect(),
            ..LaneQueues::default()
        };
        Self {
            bound: Weight {
                writes: writes.max(1),
                bytes: bytes.max(1),
            },
            lines,
            waiting: Mutex::new(waiting),
            ready: (0..lanes).map(|_| Condvar::new()).collect(),
            room: Condvar::new(),
            metrics,
        }
    }

    /// The number of lanes.
    pub(super) fn count(&self) -> usize {
        self.ready.len()
    }

    /// Waits for room and adds a batch, or returns it if the lanes are closed.
    pub(super) fn push(&self, batch: Batch) -> Result<(), Batch> {
        let order = batch.sink.order();
        let weight = Weight {
            writes: batch.writes.len(),
            bytes: batch.bytes,
        };
        let mut waiting = self.waiting.lock();
        while waiting.weight.reaches(self.bound) && !waiting.closed {
            self.room.wait(&mut waiting);
        }
        if waiting.closed {
            return Err(batch);
        }
        waiting.weight.add(weight);
        self.metrics.store_queue.set(waiting.weight.bytes as u64);
        let lane = match order {
            Order::Unordered => self.lines,
            Order::Keyed(key) => key % self.lines,
            Order::Barrier if self.lines == 1 => 0,
            Order::Barrier => {
                self.add_barrier(&mut waiting, batch, weight);
                return Ok(());
            }
        };
        if lane < self.lines {
            waiting.last = None;
        }
        if let Some(entries) = waiting.lanes.get_mut(lane) {
            entries.push_back(Entry::Batch(batch, weight));
        }
        if let Some(ready) = self.ready.get(lane) {
            ready.notify_one();
        }
        Ok(())
    }

    fn add_barrier(&self, waiting: &mut LaneQueues, batch: Batch, weight: Weight) {
        if let Some(last) = &waiting.last {
            last.batches.lock().push((batch, weight));
            return;
        }
        let barrier = Arc::new(Barrier::new(self.lines - 1));
        barrier.batches.lock().push((batch, weight));
        for entries in waiting.lanes.iter_mut().take(self.lines) {
            entries.push_back(Entry::Barrier(Arc::clone(&barrier)));
        }
        waiting.last = Some(barrier);
        for ready in self.ready.iter().take(self.lines) {
            ready.notify_one();
        }
    }

    /// Waits for entries in a lane, and takes all of them up to the next barrier.
    pub(super) fn take(&self, lane: usize) -> Next {
        let mut waiting = self.waiting.lock();
        loop {
            let closed = waiting.closed;
            let Some(entries) = waiting.lanes.get_mut(lane) else {
                return Next::End;
            };
            let (mut batches, mut taken) = (Vec::new(), Weight::default());
            while let Some(entry) = entries.pop_front() {
                match entry {
                    Entry::Batch(batch, weight) => {
                        batches.push(batch);
                        taken.add(weight);
                    }
                    Entry::Barrier(barrier) if batches.is_empty() => {
                        return Next::Meet(barrier);
                    }
                    barrier @ Entry::Barrier(_) => {
                        entries.push_front(barrier);
                        break;
                    }
                }
            }
            if !batches.is_empty() {
                self.make_room(&mut waiting, taken);
                return Next::Work(batches);
            }
            if closed {
                return Next::End;
            }
            if let Some(ready) = self.ready.get(lane) {
                ready.wait(&mut waiting);
            }
        }
    }

    /// Takes the batches of a barrier; no further batch joins it.
    pub(super) fn take_barrier(&self, barrier: &Arc<Barrier>) -> Vec<Batch> {
        let mut waiting = self.waiting.lock();
        if let Some(last) = &waiting.last
            && Arc::ptr_eq(last, barrier)
        {
            waiting.last = None;
        }
        let mut taken = Weight::default();
        let batches = std::mem::take(&mut *barrier.batches.lock());
        let batches = batches.into_iter().map(|(batch, weight)| {
            taken.add(weight);
            batch
        });
        let batches = batches.collect();
        self.make_room(&mut waiting, taken);
        batches
    }

    fn make_room(&self, waiting: &mut LaneQueues, taken: Weight) {
        waiting.weight.writes -= taken.writes;
        waiting.weight.bytes -= taken.bytes;
        self.metrics.store_queue.set(waiting.weight.bytes as u64);
        self.room.notify_all();
    }

    /// Refuses further writes; the waiting ones are still carried out.
    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        for ready in &self.ready {
            ready.notify_all();
        }
        self.room.notify_all();
    }
}

impl Weight {
    fn add(&mut self, other: Self) {
        self.writes += other.writes;
        self.bytes += other.bytes;
    }

    fn reaches(self, bound: Self) -> bool {
        self.writes >= bound.writes || self.bytes >= bound.bytes
    }
}

/// A write that all lanes wait for.
pub(super) struct Barrier {
    batches: Mutex<Vec<(Batch, Weight)>>,
    stage: Mutex<Stage>,
    changed: Condvar,
}

struct Stage {
    /// The number of lanes, besides the first, that have not reached the barrier.
    missing: usize,
    over: bool,
}

impl Barrier {
    fn new(missing: usize) -> Self {
        Self {
            batches: Mutex::default(),
            stage: Mutex::new(Stage {
                missing,
                over: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Another lane than the first has reached the barrier, and waits until the barrier is over.
    pub(super) fn pass(&self) {
        let mut stage = self.stage.lock();
        stage.missing = stage.missing.saturating_sub(1);
        if stage.missing == 0 {
            self.changed.notify_all();
        }
        while !stage.over {
            self.changed.wait(&mut stage);
        }
    }

    /// The first lane waits for the others. They wait until the returned guard is dropped.
    pub(super) fn hold(&self) -> BarrierGuard<'_> {
        let mut stage = self.stage.lock();
        while stage.missing > 0 {
            self.changed.wait(&mut stage);
        }
        BarrierGuard(self)
    }
}

/// Keeps all lanes waiting until it is dropped.
pub(super) struct BarrierGuard<'c>(&'c Barrier);

impl Drop for BarrierGuard<'_> {
    fn drop(&mut self) {
        self.0.stage.lock().over = true;
        self.0.changed.notify_all();
    }
}
