//! The writer threads, one for each lane: each takes the waiting writes of its lane, carries them
//! out in the order in which they were submitted, and answers each after it is durable.

use std::time::Duration;

use tokio::runtime::Runtime;

use super::lane::{Plain, Refused, Single, WriteConnection};
use super::lanes::Next;
use super::session::is_plain;
use super::shared::PostgresShared;
use crate::codes;
use crate::error::Error;
use crate::health::{Lasts, concerns_all};
use crate::queue::Batch;
use crate::round::Round;

/// Serves a lane until the lanes are closed and this one is empty.
pub(super) fn run(
    shared: &PostgresShared,
    runtime: &Runtime,
    no: usize,
    mut lane: WriteConnection,
) {
    let mut work = Work::default();
    loop {
        match shared.lanes.take(no) {
            Next::Work(batches) => work.run(shared, runtime, &mut lane, batches),
            Next::Meet(barrier) if no > 0 => barrier.pass(),
            Next::Meet(barrier) => {
                let _held = barrier.hold();
                let batches = shared.lanes.take_barrier(&barrier);
                work.run(shared, runtime, &mut lane, batches);
            }
            Next::End => return,
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The writes that were taken from the lane together.
#[derive(Default)]
struct Work {
    round: Round,
    /// The error for which the rest of this round is refused.
    lost: Option<Error>,
}

impl Work {
    /// Carries out and answers all of them.
    fn run(
        &mut self,
        shared: &PostgresShared,
        runtime: &Runtime,
        lane: &mut WriteConnection,
        batches: Vec<Batch>,
    ) {
        self.round.fill(batches.into_iter());
        self.lost = None;
        while !self.round.left().is_empty() {
            let clock = shared.options.clock.as_ref();
            let begun = clock.monotonic();
            let size = match &self.lost {
                // Otherwise each of these writes would try to reach the server anew.
                Some(error) => {
                    let left = self.round.left().len();
                    self.round.fail(left, error);
                    left
                }
                None => runtime.block_on(self.run_group(shared, lane)),
            };
            let took = clock.monotonic().saturating_sub(begun);
            self.tell_health(shared, size);
            let metrics = &shared.options.metrics;
            metrics.commit.record(micros(took));
            metrics.commit_batch.record(size as u64);
            self.round.answer(size);
        }
    }

    /// Carries out the next group, and returns its number of writes: the next plain writes, or one
    /// write of another kind.
    async fn run_group(&mut self, shared: &PostgresShared, lane: &mut WriteConnection) -> usize {
        let plain = self.plain(shared);
        if plain == 0 {
            self.run_singly(shared, lane, 1).await;
            return 1;
        }
        let group = self.round.left().iter().take(plain);
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
                let group = self.round.left_mut().iter_mut();
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
                self.round.fail(plain, &error);
                note(&mut self.lost, &error);
                plain
            }
        }
    }

    /// The number of next writes that may be one batch.
    fn plain(&self, shared: &PostgresShared) -> usize {
        let known = shared.known.lock();
        let rest = self.round.left().iter();
        rest.take(shared.options.group_writes.max(1))
            .take_while(|item| is_plain(&item.write, &known))
            .count()
    }

    /// Carries out writes, each in a transaction of its own.
    async fn run_singly(
        &mut self,
        shared: &PostgresShared,
        lane: &mut WriteConnection,
        size: usize,
    ) {
        for item in self.round.left_mut().iter_mut().take(size) {
            if let Some(error) = &self.lost {
                item.answer = Some(Err(error.clone()));
                continue;
            }
            let answer = lane.run(shared, &mut Single(&item.write)).await;
            if let Err(Refused::Lost(error)) = &answer {
                note(&mut self.lost, error);
            }
            item.answer = Some(answer.map_err(Refused::error));
        }
    }

    /// Records in the health whether the database worked for the next `size` writes.
    fn tell_health(&self, shared: &PostgresShared, size: usize) {
        let answers = self.round.left().iter().take(size);
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
}

/// Notes that the database cannot be reached, so that the rest of this round is refused. An unknown
/// outcome of one write says nothing about the others.
fn note(lost: &mut Option<Error>, error: &Error) {
    if error.code != codes::UNKNOWN_OUTCOME {
        *lost = Some(error.clone());
    }
}
