//! The threads that write, one for each lane: each takes whatever waits in its lane, carries it
//! out in the order in which it was submitted, and answers once it is durable.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use super::lane::{Lane, Plain, Refused, Single};
use super::lanes::Next;
use super::session::is_plain;
use super::shared::Shared;
use crate::codes;
use crate::error::{Error, Result};
use crate::health::{Lasts, concerns_all};
use crate::queue::Batch;
use crate::write::{Sink, Ticket, Write, Wrote};

/// One write on its way.
struct Item {
    /// Which of the sinks of this round.
    sink: usize,
    ticket: Ticket,
    write: Write,
    answer: Option<Result<Wrote>>,
}

/// Drives a lane until all are closed and it is empty.
pub(super) fn run(shared: &Shared, runtime: &Runtime, no: usize, mut lane: Lane) {
    let mut round = Round::default();
    loop {
        match shared.lanes.take(no) {
            Next::Work(batches) => round.run(shared, runtime, &mut lane, batches),
            Next::Meet(crossing) if no > 0 => crossing.pass(),
            Next::Meet(crossing) => {
                let _held = crossing.hold();
                let batches = shared.lanes.take_crossing(&crossing);
                round.run(shared, runtime, &mut lane, batches);
            }
            Next::End => return,
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// What was taken from the lane at once.
#[derive(Default)]
struct Round {
    sinks: Vec<Arc<dyn Sink>>,
    items: Vec<Item>,
    /// Everything before this is answered.
    next: usize,
    /// Why nothing more of this round is tried.
    lost: Option<Error>,
}

impl Round {
    /// Carries out all of it, and answers.
    fn run(&mut self, shared: &Shared, runtime: &Runtime, lane: &mut Lane, batches: Vec<Batch>) {
        self.fill(batches);
        while self.next < self.items.len() {
            let clock = shared.options.clock.as_ref();
            let begun = clock.monotonic();
            let size = match &self.lost {
                // Each would look for the server anew, one after the other.
                Some(error) => self.refuse(error.clone()),
                None => runtime.block_on(self.run_group(shared, lane)),
            };
            let took = clock.monotonic().saturating_sub(begun);
            self.tell_health(shared, size);
            let metrics = &shared.options.metrics;
            metrics.commit.record(micros(took));
            metrics.commit_batch.record(size as u64);
            self.answer(size);
        }
    }

    fn fill(&mut self, batches: Vec<Batch>) {
        self.items.clear();
        self.sinks.clear();
        self.next = 0;
        self.lost = None;
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

    /// Runs the next group, and says how many writes it was: as many plain ones in a row as
    /// there are, or one of another kind.
    async fn run_group(&mut self, shared: &Shared, lane: &mut Lane) -> usize {
        let plain = self.plain(shared);
        if plain == 0 {
            self.run_singly(shared, lane, 1).await;
            return 1;
        }
        let group = self.items.iter().skip(self.next).take(plain);
        let mut work = Plain {
            writes: group.map(|item| &item.write).collect(),
            checked: false,
        };
        match lane.run(shared, &mut work).await {
            Ok(answers) if answers.is_empty() => {
                self.run_singly(shared, lane, 1).await;
                1
            }
            Ok(answers) => {
                let size = answers.len();
                let group = self.items.iter_mut().skip(self.next);
                for (item, answer) in group.zip(answers) {
                    item.answer = Some(Ok(answer));
                }
                size
            }
            Err(Refused::RolledBack(_)) => {
                self.run_singly(shared, lane, plain).await;
                plain
            }
            Err(Refused::Lost(error)) => {
                for item in self.items.iter_mut().skip(self.next).take(plain) {
                    item.answer = Some(Err(error.clone()));
                }
                self.note(&error);
                plain
            }
        }
    }

    /// How many writes from the next on may be one batch.
    fn plain(&self, shared: &Shared) -> usize {
        let known = shared.known.lock();
        let rest = self.items.iter().skip(self.next);
        rest.take(shared.options.group_writes.max(1))
            .take_while(|item| is_plain(&item.write, &known))
            .count()
    }

    /// Runs writes each in a transaction of its own.
    async fn run_singly(&mut self, shared: &Shared, lane: &mut Lane, size: usize) {
        for at in self.next..self.next.saturating_add(size).min(self.items.len()) {
            let Some(item) = self.items.get_mut(at) else {
                return;
            };
            if let Some(error) = &self.lost {
                item.answer = Some(Err(error.clone()));
                continue;
            }
            let answer = lane.run(shared, &mut Single(&item.write)).await;
            let lost = match &answer {
                Err(Refused::Lost(error)) => Some(error.clone()),
                _ => None,
            };
            item.answer = Some(answer.map_err(Refused::error));
            if let Some(error) = lost {
                self.note(&error);
            }
        }
    }

    /// The database cannot be reached: nothing more of this round is tried. What is only not
    /// known of one write says nothing about the others.
    fn note(&mut self, error: &Error) {
        if error.code != codes::UNKNOWN_OUTCOME {
            self.lost = Some(error.clone());
        }
    }

    /// Notes whether the database has worked for the next `size` writes.
    fn tell_health(&self, shared: &Shared, size: usize) {
        let answers = self.items.iter().skip(self.next).take(size);
        let mut failed = None;
        for answer in answers.filter_map(|item| item.answer.as_ref()) {
            match answer {
                Ok(_) => shared.health.well(),
                Err(error) if concerns_all(error) => failed = Some(error),
                Err(_) => {}
            }
        }
        if let Some(error) = failed {
            shared.health.note(Lasts::Passing, error);
        }
    }

    /// Refuses all that is left, and says how many writes it was.
    fn refuse(&mut self, error: Error) -> usize {
        let left = self.items.iter_mut().skip(self.next);
        left.map(|item| item.answer = Some(Err(error.clone())))
            .count()
    }

    /// Hands out the answers of the next `size` writes, as many as possible at a time.
    fn answer(&mut self, size: usize) {
        let mut answers: Vec<Vec<_>> = self.sinks.iter().map(|_| Vec::new()).collect();
        for item in self.items.iter_mut().skip(self.next).take(size) {
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
