//! The bounded queue of writes for the writer thread, which takes all of them at once.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use windlass_model::metrics::Metrics;

use crate::Store;
use crate::error::{Error, Result};
use crate::externalise::externalise;
use crate::write::{Order, Sink, Ticket, Write, Wrote};

/// Writes submitted together.
pub(crate) struct Batch {
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) writes: Vec<(Ticket, Write)>,
}

#[derive(Default)]
struct Waiting {
    batches: Vec<Batch>,
    writes: usize,
    bytes: usize,
    closed: bool,
}

/// Hands a batch to a writer. `push` returns the batch if the writer is closed.
pub(crate) fn submit(
    sink: &Arc<dyn Sink>,
    mut writes: Vec<(Ticket, Write)>,
    push: impl FnOnce(Batch) -> Result<(), Batch>,
) {
    if writes.is_empty() {
        return;
    }
    writes.iter_mut().for_each(|(_, write)| externalise(write));
    let batch = Batch {
        sink: Arc::clone(sink),
        writes,
    };
    if let Err(batch) = push(batch) {
        let tickets = batch.writes.iter().map(|(ticket, _)| *ticket);
        let refused = tickets.map(|ticket| (ticket, Err(Error::closed())));
        sink.answered(refused.collect());
    }
}

/// Submits one write, and waits for its answer.
pub(crate) fn wait(store: &impl Store, write: Write) -> Result<Wrote> {
    let awaited = Arc::new(Awaited::of(&write));
    let sink: Arc<dyn Sink> = Arc::clone(&awaited) as Arc<dyn Sink>;
    store.submit(&sink, vec![(0, write)]);
    awaited.wait()
}

/// Many submitters, one writer.
pub(crate) struct Queue {
    bound: usize,
    bytes: usize,
    waiting: Mutex<Waiting>,
    /// Signals that a batch was queued, or that the queue is closed.
    ready: Condvar,
    /// Signals that there is room again, or that the queue is closed.
    room: Condvar,
    metrics: Arc<Metrics>,
}

impl Queue {
    /// A queue for at most `bound` writes with at most `bytes` bytes, besides the batch that
    /// exceeds either.
    pub(crate) fn new(bound: usize, bytes: usize, metrics: Arc<Metrics>) -> Self {
        metrics.store_queue.set_limit(bytes as u64);
        Self {
            metrics,
            bound,
            bytes,
            waiting: Mutex::default(),
            ready: Condvar::new(),
            room: Condvar::new(),
        }
    }

    /// Waits for room and adds a batch, or returns it if the queue is closed.
    pub(crate) fn push(&self, batch: Batch) -> Result<(), Batch> {
        let bytes: usize = batch.writes.iter().map(|(_, write)| write.weight()).sum();
        let mut waiting = self.waiting.lock();
        while (waiting.writes >= self.bound || waiting.bytes >= self.bytes) && !waiting.closed {
            self.room.wait(&mut waiting);
        }
        if waiting.closed {
            return Err(batch);
        }
        waiting.writes += batch.writes.len();
        waiting.bytes += bytes;
        self.metrics.store_queue.set(waiting.bytes as u64);
        waiting.batches.push(batch);
        if waiting.batches.len() == 1 {
            self.ready.notify_one();
        }
        Ok(())
    }

    /// Waits for batches and takes all of them. `taken` is empty and lends its memory. False once
    /// the queue is closed and empty.
    pub(crate) fn take(&self, taken: &mut Vec<Batch>) -> bool {
        let mut waiting = self.waiting.lock();
        while waiting.batches.is_empty() && !waiting.closed {
            self.ready.wait(&mut waiting);
        }
        std::mem::swap(&mut waiting.batches, taken);
        waiting.writes = 0;
        waiting.bytes = 0;
        self.metrics.store_queue.set(0);
        self.room.notify_all();
        !taken.is_empty()
    }

    /// The size of the waiting writes, in bytes.
    #[cfg(test)]
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting.lock().bytes
    }

    /// Refuses further batches; the waiting ones are still taken.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.ready.notify_all();
        self.room.notify_all();
    }
}

/// Waits for one answer.
struct Awaited {
    order: Order,
    answer: Mutex<Option<Result<Wrote>>>,
    answered: Condvar,
}

impl Awaited {
    fn of(write: &Write) -> Self {
        Self {
            order: write.order(),
            answer: Mutex::default(),
            answered: Condvar::new(),
        }
    }

    fn wait(&self) -> Result<Wrote> {
        let mut answer = self.answer.lock();
        loop {
            if let Some(answer) = answer.take() {
                return answer;
            }
            self.answered.wait(&mut answer);
        }
    }
}

impl Sink for Awaited {
    fn answered(&self, answers: Vec<(Ticket, Result<Wrote>)>) {
        if let Some((_, answer)) = answers.into_iter().next_back() {
            *self.answer.lock() = Some(answer);
            self.answered.notify_all();
        }
    }

    fn order(&self) -> Order {
        self.order
    }
}
