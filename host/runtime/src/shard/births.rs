//! The runs that clients start here, until they are durable.
//!
//! No earlier write of the shard concerns them, so they have a sink of their own: the store may write
//! them before the steps that wait for it, and a client does not wait behind the steps of large runs.

use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;
use windlass_store::{Order, Sink, Ticket, Write, Wrote};

use super::{Message, OwnedRun, Reply, Shard};

/// Writes with the tickets of their answers.
pub(crate) type Writes = Vec<(Ticket, Write)>;

/// The new runs of a shard.
#[derive(Default)]
pub(super) struct Births {
    /// Writes that are not submitted yet.
    out: Writes,
    /// The runs whose writes are not answered.
    unborn: FxHashMap<Ticket, Box<Unborn>>,
    next: Ticket,
}

/// A run whose write is in progress.
pub(super) struct Unborn {
    pub(super) owned: OwnedRun,
    pub(super) reply: Reply,
    /// The bytes of data in the write.
    pub(super) bytes: u64,
}

impl Births {
    pub(super) fn push(&mut self, unborn: Unborn, write: Write) {
        self.out.push((self.next, write));
        self.unborn.insert(self.next, Box::new(unborn));
        self.next += 1;
    }

    /// The run whose write is answered.
    pub(super) fn answered(&mut self, ticket: Ticket) -> Option<Box<Unborn>> {
        self.unborn.remove(&ticket)
    }

    /// Takes the writes to be submitted.
    pub(super) fn take_out(&mut self) -> Writes {
        std::mem::take(&mut self.out)
    }

    /// The number of writes that are not submitted yet.
    pub(super) fn to_submit(&self) -> usize {
        self.out.len()
    }

    /// Whether no write is in progress.
    pub(super) fn is_empty(&self) -> bool {
        self.unborn.is_empty()
    }
}

/// Receives the answers for the new runs of a shard.
pub(super) struct BirthSink {
    /// The number of the shard.
    pub(super) index: usize,
    pub(super) shard: Weak<Shard>,
}

impl Sink for BirthSink {
    fn answered(&self, answers: Vec<(Ticket, windlass_store::Result<Wrote>)>) {
        // Without the shard, the process has ended.
        if let Some(shard) = self.shard.upgrade() {
            shard.send(Message::Created(answers));
        }
    }

    fn order(&self) -> Order {
        Order::Keyed(self.index)
    }

    fn is_prompt(&self) -> bool {
        true
    }
}

impl Shard {
    /// Submits the writes that the shard has gathered.
    pub(crate) fn submit(
        self: &Arc<Self>,
        (births, writes): (Writes, Writes),
        store: &dyn windlass_store::Store,
    ) {
        if !births.is_empty() {
            let sink: Arc<dyn Sink> = Arc::clone(&self.births) as _;
            store.submit(&sink, births);
        }
        if !writes.is_empty() {
            let sink: Arc<dyn Sink> = Arc::clone(self) as _;
            store.submit(&sink, writes);
        }
    }
}
