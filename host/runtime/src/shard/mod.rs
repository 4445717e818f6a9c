//! Where instances live while they run.
//!
//! Every instance belongs to one shard, by its number, and everything that happens to it
//! happens under that shard's mutex: so its results are applied one after another and its
//! commits queue in that order. The mutex is never held over a guest call or a flush.

mod about;
mod builtin;
mod burst;
mod call;
mod child;
mod commit;
mod early;
mod execute;
mod finish;
mod guard;
mod mark;
mod memory;
mod outcome;
mod outside;
mod owned;
mod refused;
mod sends;
mod settle;
mod shard_state;
mod step;
mod suspend;
pub(crate) mod work;
pub(crate) mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;
use windlass_model::{Epoch, InstanceNo, Numbers, Seq};
use windlass_store::rows::{Created, NewInstance};
use windlass_store::write::{ClaimedInstance, Fence, OrFenced};
use windlass_store::{Sink, Ticket, Wrote};

use crate::catalog::Prepared;
use crate::error::Error;
use child::Resolved;
use mark::GuestMark;
use work::Returned;

pub use burst::BurstBounds;
pub(crate) use guard::{Order, Taken};
pub(crate) use owned::OwnedInstance;
pub(crate) use sends::INCIDENT;
pub(crate) use shard_state::ShardState;
pub(crate) use step::REASON_BYTES;

/// What other threads hand to a shard.
pub(crate) enum Message {
    /// Work that was claimed for one of its instances.
    Arrived(Box<Arrival>),
    /// A new instance, to be written and then run.
    Born(Box<Birth>),
    /// What a node run starts as its child has been looked up.
    Resolved(Box<Resolved>),
    /// A guest call has returned on some other thread.
    Returned(Box<Returned>),
    /// Answers of the store.
    Answers(Vec<(Ticket, windlass_store::Result<Wrote>)>),
    /// It is this suspect's turn to run alone.
    SuspectsTurn(InstanceNo, Seq),
    /// What came of asking for the lock of a burst, or what became of it.
    Locked {
        /// Of which instance.
        no: InstanceNo,
        /// Of which burst.
        epoch: Epoch,
        /// What came of it.
        taken: Taken,
    },
    /// The membership is gone: nothing here is owned any more.
    Forget,
    /// To be given back, though it was claimed and never came here.
    Owed(Fence),
    /// Try again to give back what could not be given back before.
    Retry,
    /// Start nothing more, and give back what has nothing running.
    Drain,
    /// Interrupt what still runs.
    Interrupt,
}

/// Claimed work, with everything that is needed to run it.
pub(crate) struct Arrival {
    pub(crate) claimed: ClaimedInstance,
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) numbers: Arc<Numbers>,
}

/// Where the answer to the creation of an instance goes.
pub(crate) type Reply = oneshot::Sender<Result<OrFenced<Created>, Error>>;

/// A new instance that this process will run.
pub(crate) struct Birth {
    pub(crate) new: NewInstance,
    pub(crate) state: windlass_engine::RunState,
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) numbers: Arc<Numbers>,
    pub(crate) reply: Reply,
}

/// One shard: a mailbox, and the state behind a mutex.
pub(crate) struct Shard {
    pub(crate) index: usize,
    inbox: Mutex<Vec<Message>>,
    bell: Condvar,
    pub(crate) state: Mutex<ShardState>,
    /// Which thread drives the shard: raised to take it away from one that is stuck in a guest.
    pub(crate) driver: AtomicU64,
    /// Since when the driving thread has been in a guest.
    pub(crate) in_guest: GuestMark,
}

impl Shard {
    pub(crate) fn new(index: usize) -> Arc<Self> {
        Arc::new(Self {
            index,
            inbox: Mutex::new(Vec::new()),
            bell: Condvar::new(),
            state: Mutex::new(ShardState::default()),
            driver: AtomicU64::new(0),
            in_guest: GuestMark::default(),
        })
    }

    /// Hands something over.
    pub(crate) fn send(&self, message: Message) {
        let mut inbox = self.inbox.lock();
        inbox.push(message);
        if inbox.len() == 1 {
            self.bell.notify_one();
        }
    }

    /// Takes everything that was handed over, without waiting.
    pub(crate) fn take(&self, into: &mut Vec<Message>) {
        let mut inbox = self.inbox.lock();
        into.append(&mut inbox);
    }

    /// Waits until something was handed over or the shard has another driver.
    fn wait(&self, generation: u64) {
        let mut inbox = self.inbox.lock();
        while inbox.is_empty() && self.driver.load(Ordering::Acquire) == generation {
            self.bell.wait(&mut inbox);
        }
    }

    /// Whether nothing is here, and nothing is on its way here or to the store.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().is_empty() && self.inbox.lock().is_empty()
    }

    /// Whether its driver has nothing to do.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.inbox.lock().is_empty() && self.state.lock().is_at_rest()
    }

    /// Takes the shard away from its driver.
    pub(crate) fn depose(&self) -> u64 {
        let generation = self.driver.fetch_add(1, Ordering::AcqRel) + 1;
        let _inbox = self.inbox.lock();
        self.bell.notify_all();
        generation
    }
}

impl Sink for Shard {
    fn answered(&self, answers: Vec<(Ticket, windlass_store::Result<Wrote>)>) {
        self.send(Message::Answers(answers));
    }

    /// Shards have nothing to do with each other's instances.
    fn order(&self) -> windlass_store::Order {
        windlass_store::Order::Keyed(self.index)
    }
}
