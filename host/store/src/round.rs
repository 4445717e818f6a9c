//! What a writer has taken from its queue at once: writes in their order, and to whom their answers
//! go. How a group of them is carried out, and what an error means, is the backend's.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::queue::Batch;
use crate::write::{Sink, Ticket, Write, Wrote};

/// One write on its way.
pub(crate) struct Item {
    /// Which of the sinks of this round.
    sink: usize,
    ticket: Ticket,
    pub(crate) write: Write,
    pub(crate) answer: Option<Result<Wrote>>,
}

/// What was taken at once.
#[derive(Default)]
pub(crate) struct Round {
    sinks: Vec<Arc<dyn Sink>>,
    items: Vec<Item>,
    /// Everything before this is answered.
    next: usize,
}

impl Round {
    /// Takes in the next batches. All before them are answered.
    pub(crate) fn fill(&mut self, batches: impl Iterator<Item = Batch>) {
        self.items.clear();
        self.sinks.clear();
        self.next = 0;
        for batch in batches {
            let known = self.sinks.iter().position(|sink| same(sink, &batch.sink));
            let sink = known.unwrap_or_else(|| {
                self.sinks.push(batch.sink);
                self.sinks.len() - 1
            });
            let items = batch.writes.into_iter();
            self.items.extend(items.map(|(ticket, write)| Item {
                sink,
                ticket,
                write,
                answer: None,
            }));
        }
    }

    /// How many writes were answered.
    pub(crate) fn answered(&self) -> usize {
        self.next
    }

    /// The writes that are not answered, in their order.
    pub(crate) fn left(&self) -> &[Item] {
        self.items.get(self.next..).unwrap_or_default()
    }

    /// The writes that are not answered, in their order.
    pub(crate) fn left_mut(&mut self) -> &mut [Item] {
        self.items.get_mut(self.next..).unwrap_or_default()
    }

    /// Gives the next `size` writes an error as their answer.
    pub(crate) fn fail(&mut self, size: usize, error: &Error) {
        for item in self.left_mut().iter_mut().take(size) {
            item.answer = Some(Err(error.clone()));
        }
    }

    /// Hands out the answers of the next `size` writes, as many as possible at a time.
    pub(crate) fn answer(&mut self, size: usize) {
        let mut answers: Vec<Vec<_>> = self.sinks.iter().map(|_| Vec::new()).collect();
        for item in self.left_mut().iter_mut().take(size) {
            let answer = item.answer.take().unwrap_or_else(|| Err(Error::closed()));
            if let Some(answers) = answers.get_mut(item.sink) {
                answers.push((item.ticket, answer));
            }
        }
        self.next += size;
        for (sink, answers) in self.sinks.iter().zip(answers) {
            if !answers.is_empty() {
                sink.answered(answers);
            }
        }
    }
}

fn same(one: &Arc<dyn Sink>, other: &Arc<dyn Sink>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}
