//! The shards: each holds the runs that it owns during their bursts.
//!
//! The number of a run decides its shard, and all changes to the run happen under that
//! shard's mutex: so its results are applied one after another, and its commits queue in that
//! order. The mutex is never held during a guest call or a flush.

mod about;
mod again;
mod births;
mod builtin;
mod burst;
mod call;
mod child;
mod collecting;
mod commit;
mod early;
mod evaluate;
mod execute;
mod external;
mod failing;
mod finish;
mod gather;
mod got;
mod guard;
mod halfway;
mod leaving;
mod list;
mod mark;
mod memory;
mod outcome;
mod owned;
mod ready;
mod refused;
mod sends;
mod settle;
mod shard_state;
mod spans;
mod states;
mod step;
mod suspend;
mod triggers;
mod trouble;
pub(crate) mod work;
pub(crate) mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;
use windlass_model::{Epoch, Numbers, RunNo, Seq};
use windlass_store::rows::{Created, NewRun};
use windlass_store::write::{ClaimedRun, Fence, OrFenced};
use windlass_store::{Sink, Ticket, Wrote};

use crate::catalog::Prepared;
use crate::error::Error;
use crate::outputs::Awaited;
use births::BirthSink;
use child::Resolved;
use evaluate::Evaluated;
use mark::GuestMark;
use work::Returned;

pub(crate) use again::{Again, NOT_RENDERED, inputs_again};
pub use again::{Given, Inputs};
pub use burst::BurstBounds;
#[cfg(test)]
pub(crate) use evaluate::evaluate_aside;
pub(crate) use got::moved_out;
pub(crate) use guard::{Order, Taken};
pub(crate) use memory::json_of;
pub(crate) use owned::OwnedRun;
pub(crate) use shard_state::ShardState;
pub(crate) use states::{States, Transit};

/// A message from another thread to a shard.
pub(crate) enum Message {
    /// Claimed triggers of one of its runs.
    Arrived(Box<Arrival>),
    /// A new run, to be written and then run.
    Born(Box<Birth>),
    /// The prepared workflow of a child.
    Resolved(Box<Resolved>),
    /// An expression was evaluated on another thread.
    Evaluated(Box<Evaluated>),
    /// A guest call has returned on another thread.
    Returned(Box<Returned>),
    /// Answers of the store.
    Answers(Vec<(Ticket, windlass_store::Result<Wrote>)>),
    /// Answers of the store about new runs.
    Created(Vec<(Ticket, windlass_store::Result<Wrote>)>),
    /// This suspect, in this burst of its run, is marked and may run.
    SuspectsTurn(RunNo, Seq, Epoch),
    /// The result of a lock request, or the loss of a lock.
    Locked {
        /// The run.
        no: RunNo,
        /// The burst.
        epoch: Epoch,
        /// The result.
        taken: Taken,
    },
    /// The membership has ended: no run here is owned any more.
    Forget,
    /// Give back a run that was claimed and never arrived here.
    Owed(Fence),
    /// Try again to give back runs, if that failed before.
    Retry,
    /// There is another consumer: offer it the triggers that consumers failed to take.
    Consumer,
    /// Begin no further execution, and give back runs without one in progress.
    Drain,
    /// Interrupt all executions.
    Interrupt,
}

/// A result that was made on another thread. It waits in the shard while too many writes are in
/// progress.
pub(crate) enum Elsewhere {
    Evaluated(Box<Evaluated>),
    Returned(Box<Returned>),
}

impl Elsewhere {
    /// The run of the execution.
    fn run(&self) -> RunNo {
        match self {
            Self::Evaluated(evaluated) => evaluated.to.run,
            Self::Returned(returned) => returned.to.run,
        }
    }
}

/// Claimed triggers, with everything that is needed to run them.
pub(crate) struct Arrival {
    pub(crate) claimed: ClaimedRun,
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) numbers: Arc<Numbers>,
    /// The room for the rows.
    pub(crate) _transit: Transit,
}

/// The channel for the answer to the creation of a run.
pub(crate) type Reply = oneshot::Sender<Result<OrFenced<Created>, Error>>;

/// A new run that this process will run.
pub(crate) struct Birth {
    pub(crate) new: NewRun,
    pub(crate) state: windlass_engine::RunState,
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) numbers: Arc<Numbers>,
    /// The output that the client waits for.
    pub(crate) awaited: Option<Awaited>,
    pub(crate) reply: Reply,
}

/// A shard: a mailbox, and the state behind a mutex.
pub(crate) struct Shard {
    pub(crate) index: usize,
    inbox: Mutex<Vec<Message>>,
    bell: Condvar,
    pub(crate) state: Mutex<ShardState>,
    /// The number of the driving thread's turn: raised to relieve a thread that is stuck in a
    /// guest.
    pub(crate) driver: AtomicU64,
    /// The time since which the driving thread has been in a guest.
    pub(crate) in_guest: GuestMark,
    /// Receives the answers about new runs.
    births: Arc<BirthSink>,
}

impl Shard {
    /// An empty shard. `unwritten_bytes` is the bound of its writes in progress.
    pub(crate) fn new(index: usize, unwritten_bytes: u64, states: States) -> Arc<Self> {
        Arc::new_cyclic(|shard| Self {
            index,
            inbox: Mutex::new(Vec::new()),
            bell: Condvar::new(),
            state: Mutex::new(ShardState::new(unwritten_bytes, states)),
            driver: AtomicU64::new(0),
            in_guest: GuestMark::default(),
            births: Arc::new(BirthSink {
                index,
                shard: shard.clone(),
            }),
        })
    }

    /// Sends a message.
    pub(crate) fn send(&self, message: Message) {
        let mut inbox = self.inbox.lock();
        inbox.push(message);
        if inbox.len() == 1 {
            self.bell.notify_one();
        }
    }

    /// Takes all messages, without waiting.
    pub(crate) fn take(&self, into: &mut Vec<Message>) {
        let mut inbox = self.inbox.lock();
        into.append(&mut inbox);
    }

    /// Waits for a message or for another driver.
    fn wait(&self, generation: u64) {
        let mut inbox = self.inbox.lock();
        while inbox.is_empty() && self.driver.load(Ordering::Acquire) == generation {
            self.bell.wait(&mut inbox);
        }
    }

    /// Whether the shard is empty: no runs, no messages, and no writes in progress.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().is_empty() && self.inbox.lock().is_empty()
    }

    /// Whether its driver has no work.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.inbox.lock().is_empty() && self.state.lock().is_at_rest()
    }

    /// Relieves the driver of the shard.
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

    /// The writes of different shards need no common order.
    fn order(&self) -> windlass_store::Order {
        windlass_store::Order::Keyed(self.index)
    }
}
