//! What waits for the connections that write: a lane for each, and what crosses them all.
//!
//! Writes of a line ([`Line`]) wait in its lane, in order. A write of all lines stands in all
//! lanes at once: each stops before it, the first one carries it out when all have come that
//! far, and they go on when it is answered. So it comes after all that was submitted before, and
//! before all that is submitted after it. What stands in none has a lane of its own, the last
//! one, which nothing crosses.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::Line;
use crate::queue::Batch;
use crate::weight::weight;

/// What may be done next in a lane.
pub(super) enum Next {
    /// To carry out these.
    Work(Vec<Batch>),
    /// To meet the other lanes.
    Meet(Arc<Crossing>),
    /// Nothing any more.
    End,
}

/// Something in a lane.
enum Entry {
    Batch(Batch, Weight),
    Crossing(Arc<Crossing>),
}

/// How much of the room something takes.
#[derive(Clone, Copy, Default)]
struct Weight {
    writes: usize,
    bytes: usize,
}

#[derive(Default)]
struct Waiting {
    lanes: Vec<VecDeque<Entry>>,
    weight: Weight,
    /// The newest crossing, as long as nothing stands behind it and nobody carries it out: what
    /// comes now may join it.
    last: Option<Arc<Crossing>>,
    closed: bool,
}

/// Many submitters, and a writer for each lane.
pub(super) struct Lanes {
    bound: Weight,
    /// How many lanes are for lines.
    lines: usize,
    waiting: Mutex<Waiting>,
    /// By lane: something waits, or all is closed.
    ready: Vec<Condvar>,
    /// There is room again, or all is closed.
    room: Condvar,
}

impl Lanes {
    /// So many lanes for lines, and one for what stands in none, in which `writes` writes may
    /// wait together that hold so many bytes, besides the batch that exceeds either.
    pub(super) fn new(lanes: usize, writes: usize, bytes: usize) -> Self {
        let lines = lanes.max(1);
        let lanes = lines + 1;
        let waiting = Waiting {
            lanes: (0..lanes).map(|_| VecDeque::new()).collect(),
            ..Waiting::default()
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
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.ready.len()
    }

    /// Waits for room and adds a batch, or gives it back if all is closed.
    pub(super) fn push(&self, batch: Batch) -> Result<(), Batch> {
        let line = batch.sink.line();
        let weight = Weight {
            writes: batch.writes.len(),
            bytes: batch.writes.iter().map(|(_, write)| weight(write)).sum(),
        };
        let mut waiting = self.waiting.lock();
        while waiting.weight.reaches(self.bound) && !waiting.closed {
            self.room.wait(&mut waiting);
        }
        if waiting.closed {
            return Err(batch);
        }
        waiting.weight.add(weight);
        let lane = match line {
            Line::None => self.lines,
            Line::Of(line) => line % self.lines,
            Line::All if self.lines == 1 => 0,
            Line::All => {
                self.cross(&mut waiting, batch, weight);
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

    fn cross(&self, waiting: &mut Waiting, batch: Batch, weight: Weight) {
        if let Some(last) = &waiting.last {
            last.batches.lock().push((batch, weight));
            return;
        }
        let crossing = Arc::new(Crossing::new(self.lines - 1));
        crossing.batches.lock().push((batch, weight));
        for entries in waiting.lanes.iter_mut().take(self.lines) {
            entries.push_back(Entry::Crossing(Arc::clone(&crossing)));
        }
        waiting.last = Some(crossing);
        for ready in self.ready.iter().take(self.lines) {
            ready.notify_one();
        }
    }

    /// Waits for something in a lane, and takes all of it up to the next crossing.
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
                    Entry::Crossing(crossing) if batches.is_empty() => {
                        return Next::Meet(crossing);
                    }
                    crossing @ Entry::Crossing(_) => {
                        entries.push_front(crossing);
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

    /// What a crossing is about; nothing joins it from now on.
    pub(super) fn take_crossing(&self, crossing: &Arc<Crossing>) -> Vec<Batch> {
        let mut waiting = self.waiting.lock();
        if let Some(last) = &waiting.last
            && Arc::ptr_eq(last, crossing)
        {
            waiting.last = None;
        }
        let mut taken = Weight::default();
        let batches = std::mem::take(&mut *crossing.batches.lock());
        let batches = batches.into_iter().map(|(batch, weight)| {
            taken.add(weight);
            batch
        });
        let batches = batches.collect();
        self.make_room(&mut waiting, taken);
        batches
    }

    fn make_room(&self, waiting: &mut Waiting, taken: Weight) {
        waiting.weight.writes -= taken.writes;
        waiting.weight.bytes -= taken.bytes;
        self.room.notify_all();
    }

    /// Nothing more is accepted; what waits is still taken.
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

/// Where all lanes meet.
pub(super) struct Crossing {
    batches: Mutex<Vec<(Batch, Weight)>>,
    stage: Mutex<Stage>,
    changed: Condvar,
}

struct Stage {
    /// Lanes besides the first that have not come so far.
    missing: usize,
    over: bool,
}

impl Crossing {
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

    /// A lane besides the first one has come so far, and goes on when it is over.
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

    /// The first lane waits for the others, which wait for the end of what it gets here.
    pub(super) fn hold(&self) -> Held<'_> {
        let mut stage = self.stage.lock();
        while stage.missing > 0 {
            self.changed.wait(&mut stage);
        }
        Held(self)
    }
}

/// All lanes stand still until this is dropped.
pub(super) struct Held<'c>(&'c Crossing);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.stage.lock().over = true;
        self.0.changed.notify_all();
    }
}
