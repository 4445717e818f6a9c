//! A handle whose writes are carried out and answered when a test asks for it: it simulates a slow
//! store, or a process that dies between a commit and its acknowledgement.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{MemoryStore, Own};
use crate::error::Result;
use crate::write::{Sink, Ticket, Write, Wrote};

/// Submitted writes of a handle that are not carried out, and answers that are not delivered.
#[derive(Default)]
pub(super) struct Deferred {
    writes: VecDeque<(Arc<dyn Sink>, Ticket, Write, i64)>,
    answers: VecDeque<(Arc<dyn Sink>, Ticket, Result<Wrote>)>,
}

impl Deferred {
    pub(super) fn wait(
        &mut self,
        sink: &Arc<dyn Sink>,
        writes: Vec<(Ticket, Write)>,
        submitted_ms: i64,
    ) {
        let writes = writes.into_iter();
        self.writes
            .extend(writes.map(|(ticket, write)| (Arc::clone(sink), ticket, write, submitted_ms)));
    }
}

impl MemoryStore {
    /// From now on, writes submitted through this handle wait for [`MemoryStore::carry_on`], and
    /// their answers for [`MemoryStore::deliver`]. A write whose caller waits for it is carried out
    /// at once, after all writes that were submitted before it.
    pub fn defer(&self) {
        self.own.lock().deferred.get_or_insert_default();
    }

    /// The number of writes waiting to be carried out, and of answers waiting to be delivered.
    pub fn deferred(&self) -> (usize, usize) {
        let own = self.own.lock();
        let deferred = own.deferred.as_ref();
        deferred.map_or((0, 0), |all| (all.writes.len(), all.answers.len()))
    }

    /// Carries out the first waiting writes, at most `most`.
    pub fn carry_on(&self, most: usize) {
        self.execute_deferred(&mut self.own.lock(), most);
    }

    /// The number of steps among the waiting writes.
    pub fn deferred_steps(&self) -> usize {
        let own = self.own.lock();
        let writes = own.deferred.iter().flat_map(|all| &all.writes);
        writes
            .filter(|(_, _, write, _)| matches!(write, Write::Commit(_)))
            .count()
    }

    /// Carries out the waiting writes before the first step among them.
    pub fn carry_on_to_step(&self) {
        let mut own = self.own.lock();
        let is_step = |own: &Own| {
            let first = own.deferred.as_ref().and_then(|all| all.writes.front());
            first.is_none_or(|(_, _, write, _)| matches!(write, Write::Commit(_)))
        };
        while !is_step(&own) {
            self.execute_deferred(&mut own, 1);
        }
    }

    /// Delivers the first waiting answers, at most `most`, on this thread.
    pub fn deliver(&self, most: usize) {
        for _ in 0..most {
            let answer = self
                .own
                .lock()
                .deferred
                .as_mut()
                .and_then(|all| all.answers.pop_front());
            let Some((sink, ticket, answer)) = answer else {
                return;
            };
            sink.answered(vec![(ticket, answer)]);
        }
    }

    pub(super) fn execute_deferred(&self, own: &mut Own, most: usize) {
        for _ in 0..most {
            let next = own.deferred.as_mut().and_then(|all| all.writes.pop_front());
            let Some((sink, ticket, write, submitted_ms)) = next else {
                return;
            };
            let answer = self.execute(own, write, submitted_ms);
            if let Some(all) = &mut own.deferred {
                all.answers.push_back((sink, ticket, answer));
            }
        }
    }
}
