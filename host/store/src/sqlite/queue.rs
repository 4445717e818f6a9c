//! What waits for the writer: bounded, and taken all at once.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::weight::weight;
use crate::write::{Sink, Ticket, Write};

/// Writes submitted together.
pub(super) struct Batch {
    pub(super) sink: Arc<dyn Sink>,
    pub(super) writes: Vec<(Ticket, Write)>,
}

#[derive(Default)]
struct Waiting {
    batches: Vec<Batch>,
    writes: usize,
    bytes: usize,
    closed: bool,
}

/// Many submitters, one writer.
pub(super) struct Queue {
    bound: usize,
    bytes: usize,
    waiting: Mutex<Waiting>,
    /// Something waits, or the queue is closed.
    ready: Condvar,
    /// There is room again, or the queue is closed.
    room: Condvar,
}

impl Queue {
    /// A queue in which `bound` writes may wait that hold so many bytes, besides the batch that
    /// exceeds either.
    pub(super) fn new(bound: usize, bytes: usize) -> Self {
        Self {
            bound,
            bytes,
            waiting: Mutex::default(),
            ready: Condvar::new(),
            room: Condvar::new(),
        }
    }

    /// Waits for room and adds a batch, or gives it back if the queue is closed.
    pub(super) fn push(&self, batch: Batch) -> Result<(), Batch> {
        let bytes: usize = batch.writes.iter().map(|(_, write)| weight(write)).sum();
        let mut waiting = self.waiting.lock();
        while (waiting.writes >= self.bound || waiting.bytes >= self.bytes) && !waiting.closed {
            self.room.wait(&mut waiting);
        }
        if waiting.closed {
            return Err(batch);
        }
        waiting.writes += batch.writes.len();
        waiting.bytes += bytes;
        waiting.batches.push(batch);
        if waiting.batches.len() == 1 {
            self.ready.notify_one();
        }
        Ok(())
    }

    /// Waits for something and takes all of it. `taken` is empty and lends its space.
    /// False once the queue is closed and empty.
    pub(super) fn take(&self, taken: &mut Vec<Batch>) -> bool {
        let mut waiting = self.waiting.lock();
        while waiting.batches.is_empty() && !waiting.closed {
            self.ready.wait(&mut waiting);
        }
        std::mem::swap(&mut waiting.batches, taken);
        waiting.writes = 0;
        waiting.bytes = 0;
        self.room.notify_all();
        !taken.is_empty()
    }

    /// What waits, in bytes.
    #[cfg(test)]
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting.lock().bytes
    }

    /// Nothing more is accepted; what waits is still taken.
    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.ready.notify_all();
        self.room.notify_all();
    }
}
