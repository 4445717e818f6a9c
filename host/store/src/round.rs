//! The writes that a writer thread has taken from its queue together, in order, and the sinks of
//! their answers. Each backend decides how to carry out a group and how to treat an error.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::queue::Batch;
use crate::write::{Sink, Ticket, Write, Wrote};

/// One write in progress.
pub(crate) struct Item {
    /// The index of its sink in this round.
    sink: usize,
    ticket: Ticket,
    pub(crate) write: Write,
    pub(crate) answer: Option<Result<Wrote>>,
}

/// The writes that were taken together.
#[derive(Default)]
pub(crate) struct Round {
    sinks: Vec<Arc<dyn Sink>>,
    items: Vec<Item>,
    /// All writes before this one are answered.
    next: usize,
    /// The number of prompt writes, which come first of those that are not answered.
    prompt: usize,
}

impl Round {
    /// Takes over the next batches. All earlier writes are answered.
    pub(crate) fn fill(&mut self, batches: impl Iterator<Item = Batch>) {
        self.items.clear();
        self.sinks.clear();
        (self.next, self.prompt) = (0, 0);
        for batch in batches {
            Self::add(&mut self.sinks, &mut self.items, batch);
        }
    }

    /// The first writes are prompt ones, so many of them.
    pub(crate) fn set_prompt(&mut self, prompt: usize) {
        self.prompt = prompt;
    }

    /// The number of prompt writes, which come first of those that are not answered.
    pub(crate) fn prompt(&self) -> usize {
        self.prompt
    }

    /// Takes over prompt batches. Their writes go before all that are not answered.
    pub(crate) fn overtake(&mut self, batches: impl Iterator<Item = Batch>) {
        let mut items = Vec::new();
        for batch in batches {
            Self::add(&mut self.sinks, &mut items, batch);
        }
        self.prompt += items.len();
        // Mostly there are enough places of answered writes.
        let places = self.next.min(items.len());
        let end = self.next;
        self.next -= places;
        self.items.splice(self.next..end, items);
    }

    fn add(sinks: &mut Vec<Arc<dyn Sink>>, items: &mut Vec<Item>, batch: Batch) {
        let known = sinks.iter().position(|sink| same(sink, &batch.sink));
        let sink = known.unwrap_or_else(|| {
            sinks.push(batch.sink);
            sinks.len() - 1
        });
        let writes = batch.writes.into_iter();
        items.extend(writes.map(|(ticket, write)| Item {
            sink,
            ticket,
            write,
            answer: None,
        }));
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

    /// Sends the answers of the next `size` writes, with one call for each sink.
    pub(crate) fn answer(&mut self, size: usize) {
        let mut answers: Vec<Vec<_>> = self.sinks.iter().map(|_| Vec::new()).collect();
        for item in self.left_mut().iter_mut().take(size) {
            let answer = item.answer.take().unwrap_or_else(|| Err(Error::closed()));
            if let Some(answers) = answers.get_mut(item.sink) {
                answers.push((item.ticket, answer));
            }
        }
        self.next += size;
        self.prompt = self.prompt.saturating_sub(size);
        for (sink, answers) in self.sinks.iter().zip(answers) {
            if !answers.is_empty() {
                sink.answered(answers);
            }
        }
        if self.next >= self.items.len() {
            // What has been written is not kept until the next writes come.
            self.items.clear();
        }
    }
}

fn same(one: &Arc<dyn Sink>, other: &Arc<dyn Sink>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use windlass_model::Digest;

    use super::*;
    use crate::components::NewComponent;
    use crate::queue::Batch;

    struct Deaf;

    /// Receives the tickets in the order of the answers.
    #[derive(Default)]
    struct Heard(parking_lot::Mutex<Vec<Ticket>>);

    impl Sink for Heard {
        fn answered(&self, answers: Vec<(Ticket, Result<Wrote>)>) {
            let tickets = answers.into_iter().map(|(ticket, _)| ticket);
            self.0.lock().extend(tickets);
        }
    }

    #[test]
    fn prompt_writes_go_before_those_that_are_not_answered() {
        let heard = Arc::new(Heard::default());
        let batch = |tickets: std::ops::Range<Ticket>| {
            let sink: Arc<dyn Sink> = Arc::<Heard>::clone(&heard);
            let flush = |ticket| (ticket, Write::from(crate::write::Flush));
            Batch::new(sink, tickets.map(flush).collect())
        };
        let mut round = Round::default();
        round.fill([batch(0..2), batch(2..6)].into_iter());
        round.answer(1);
        // More than there are places of answered writes.
        round.overtake([batch(10..12), batch(12..13)].into_iter());
        assert_eq!((round.prompt(), round.left().len()), (3, 8));
        round.answer(2);
        assert_eq!(round.prompt(), 1);
        round.answer(2);
        assert_eq!(round.prompt(), 0);
        round.overtake([batch(20..21)].into_iter());
        round.answer(5);
        assert_eq!(*heard.0.lock(), [0, 10, 11, 12, 1, 20, 2, 3, 4, 5]);
        assert!(round.left().is_empty());
    }

    impl Sink for Deaf {
        fn answered(&self, _: Vec<(Ticket, Result<Wrote>)>) {}
    }

    #[test]
    fn an_answered_write_is_not_kept_until_the_next_one_comes() {
        let bytes = Bytes::from(vec![7; 1000]);
        let write = || {
            Write::from(NewComponent {
                digest: Digest::of(&bytes),
                name: "a".to_owned(),
                version: "1".to_owned(),
                bytes: bytes.clone(),
                signature: None,
                vouched: false,
            })
        };
        let writes = vec![(0, write()), (1, write())];
        let mut round = Round::default();
        let sink = Arc::new(Deaf);
        round.fill(std::iter::once(Batch::new(sink, writes)));
        round.answer(1);
        assert_eq!((round.left().len(), bytes.is_unique()), (1, false));
        round.answer(1);
        assert_eq!((round.left().len(), round.answered()), (0, 2));
        assert!(bytes.is_unique());
    }
}
