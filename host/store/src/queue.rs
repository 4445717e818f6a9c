//! The bounded queue of writes for the writer thread, which takes all of them at once.
//!
//! Prompt writes, for which clients wait, have a line of their own: the writer takes them between two
//! groups of other writes, and they have some room even if other writes fill the queue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// The memory of the writes, in bytes.
    pub(crate) bytes: usize,
}

impl Batch {
    pub(crate) fn new(sink: Arc<dyn Sink>, writes: Vec<(Ticket, Write)>) -> Self {
        let bytes = writes.iter().map(|(_, write)| write.weight()).sum();
        Self {
            sink,
            writes,
            bytes,
        }
    }
}

/// The part of the bounds that only prompt writes may use.
const PROMPT_PART: usize = 8;

/// The prompt writes that go before other writes in one group.
const PROMPT_WRITES: usize = 256;

#[derive(Default)]
struct Waiting {
    prompt: Line,
    others: Line,
    closed: bool,
}

#[derive(Default)]
struct Line {
    batches: VecDeque<Batch>,
    writes: usize,
    bytes: usize,
}

impl Line {
    /// Takes some batches: one, and further ones up to so many writes.
    fn take(&mut self, taken: &mut Vec<Batch>, most: usize) -> usize {
        let (mut writes, mut bytes) = (0, 0);
        while let Some(next) = self.batches.front()
            && (writes == 0 || writes + next.writes.len() <= most)
            && let Some(batch) = self.batches.pop_front()
        {
            writes += batch.writes.len();
            bytes += batch.bytes;
            taken.push(batch);
        }
        self.writes -= writes;
        self.bytes -= bytes;
        writes
    }
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
    if let Err(batch) = push(Batch::new(Arc::clone(sink), writes)) {
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
    /// Whether prompt writes wait.
    is_urgent: AtomicBool,
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
            is_urgent: AtomicBool::new(false),
            ready: Condvar::new(),
            room: Condvar::new(),
        }
    }

    /// Waits for room and adds a batch, or returns it if the queue is closed.
    pub(crate) fn push(&self, batch: Batch) -> Result<(), Batch> {
        let is_prompt = batch.sink.is_prompt();
        let part = |most: usize| match is_prompt {
            true => most,
            false => most - most / PROMPT_PART,
        };
        let (most, most_bytes) = (part(self.bound), part(self.bytes));
        let mut waiting = self.waiting.lock();
        while (waiting.writes() >= most || waiting.bytes() >= most_bytes) && !waiting.closed {
            self.room.wait(&mut waiting);
        }
        if waiting.closed {
            return Err(batch);
        }
        let is_first = waiting.is_empty();
        let line = match is_prompt {
            true => &mut waiting.prompt,
            false => &mut waiting.others,
        };
        line.writes += batch.writes.len();
        line.bytes += batch.bytes;
        line.batches.push_back(batch);
        if is_prompt {
            self.is_urgent.store(true, Ordering::Relaxed);
        }
        self.metrics.store_queue.set(waiting.bytes() as u64);
        if is_first {
            self.ready.notify_one();
        }
        Ok(())
    }

    /// Waits for batches and takes them: some prompt ones, and all others behind them. `taken` is empty
    /// and lends its memory. Returns the number of prompt writes; none once the queue is closed and
    /// empty.
    pub(crate) fn take(&self, taken: &mut Vec<Batch>) -> Option<usize> {
        let mut waiting = self.waiting.lock();
        while waiting.is_empty() && !waiting.closed {
            self.ready.wait(&mut waiting);
        }
        let prompt = waiting.prompt.take(taken, PROMPT_WRITES);
        waiting.others.take(taken, usize::MAX);
        self.taken(&waiting);
        (!taken.is_empty()).then_some(prompt)
    }

    /// Takes some prompt batches, if there are any. Returns the number of their writes.
    pub(crate) fn take_prompt(&self, taken: &mut Vec<Batch>) -> usize {
        if !self.is_urgent() {
            return 0;
        }
        let mut waiting = self.waiting.lock();
        let prompt = waiting.prompt.take(taken, PROMPT_WRITES);
        self.taken(&waiting);
        prompt
    }

    fn taken(&self, waiting: &Waiting) {
        let is_urgent = !waiting.prompt.batches.is_empty();
        self.is_urgent.store(is_urgent, Ordering::Relaxed);
        self.metrics.store_queue.set(waiting.bytes() as u64);
        self.room.notify_all();
    }

    /// Whether prompt writes wait.
    pub(crate) fn is_urgent(&self) -> bool {
        self.is_urgent.load(Ordering::Relaxed)
    }

    /// The size of the waiting writes, in bytes.
    #[cfg(test)]
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting.lock().bytes()
    }

    /// Refuses further batches; the waiting ones are still taken.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.ready.notify_all();
        self.room.notify_all();
    }
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.prompt.batches.is_empty() && self.others.batches.is_empty()
    }

    fn writes(&self) -> usize {
        self.prompt.writes + self.others.writes
    }

    fn bytes(&self) -> usize {
        self.prompt.bytes + self.others.bytes
    }
}

/// Waits for one answer.
struct Awaited {
    order: Order,
    is_prompt: bool,
    answer: Mutex<Option<Result<Wrote>>>,
    answered: Condvar,
}

impl Awaited {
    fn of(write: &Write) -> Self {
        Self {
            order: write.order(),
            is_prompt: write.is_prompt(),
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

    fn is_prompt(&self) -> bool {
        self.is_prompt
    }
}
