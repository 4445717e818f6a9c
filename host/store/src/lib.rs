//! The durable state of a host.
//!
//! A store keeps definitions, runs, triggers, execution records and blobs, and changes them
//! only by the verbs in [`mod@write`]. Each verb is one logical transaction that checks its own
//! fences. A backend may combine many of them into one physical transaction, in the order in which
//! they were submitted, and reports each only when it is durable.
//!
//! The store knows nothing of graphs, consumers or plugins. The engine's state is opaque, versioned
//! bytes to it.

pub mod batches;
pub mod codes;
pub mod components;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod drafts;
pub mod external;
pub mod letters;
pub mod lives;
#[cfg(any(test, feature = "conformance"))]
pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod published;
pub mod read;
pub mod retention;
pub mod rows;
pub mod settings;
pub mod sqlite;
pub mod stimuli;
pub mod transfer;
pub mod upkeep;
pub mod write;

mod allowance;
mod boot;
mod children;
mod columns;
mod error;
mod externalise;
mod health;
mod prefix;
mod queue;
mod round;
mod sql;
mod sums;
mod weight;

pub use allowance::{Exceeding, fewer, next_rows, passing, within};
pub use error::{Error, Result};
#[cfg(any(test, feature = "conformance"))]
pub use memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresOptions, PostgresStore};
pub use read::Reader;
pub use sqlite::{Durability, SqliteOptions, SqliteStore};
pub use write::{Order, Sink, Ticket, Verb, Write, Writer, Wrote};

use std::sync::Arc;

use windlass_model::RunNo;

use self::published::Edition;

/// The durable state that several processes share.
pub trait Store: Reader + Send + Sync + 'static {
    /// Hands over writes, in order. Never waits for the disk, but may block briefly when the number
    /// of waiting writes exceeds the backend's bound (back-pressure).
    ///
    /// Each write is answered exactly once through `sink`, after it is durable or refused. Writes
    /// submitted through one sink are carried out and answered in order.
    fn submit(&self, sink: &Arc<dyn Sink>, writes: Vec<(Ticket, Write)>);

    /// Carries out one write and waits for its answer. Callers use [`Writer::write`] instead, which
    /// knows the answer's type.
    fn carry_out(&self, write: Write) -> Result<Wrote>;

    /// The current edition of the published workflows, as far as this process knows. Costs an atomic
    /// load. None: the backend has no editions, and [`NewRun::as_of`](rows::NewRun::as_of) is none.
    fn edition(&self) -> Option<Edition> {
        None
    }

    /// Tells other processes on the same store that new work may be available.
    fn notify(&self);

    /// Asks the other processes on the same store to tell this one, by [`News::Runs`] or
    /// [`News::SomeRuns`], which runs they change: from now on, for [`ATTENTION_MS`].
    fn attend(&self);

    /// Tells the processes that attend that commits of this process have changed these runs. Costs
    /// less than a microsecond or an atomic load while no process attends.
    fn changed(&self, runs: &[RunNo]);

    /// Calls `hear` from some thread with the news of other processes. News are hints: they may be
    /// late, repeated or missing. Ends when the listener is dropped.
    fn listen(&self, hear: Hear) -> Result<Listener>;

    /// Checks whether the store answers. Blocks for as long as the backend takes to find out.
    ///
    /// # Errors
    ///
    /// The reason why the store does not answer or cannot be trusted: a failure that no later
    /// success has cleared, detected damage, or removed files.
    fn probe(&self) -> Result<()>;

    /// Finishes all submitted writes and closes the files. Later writes are refused.
    fn close(&self);
}

/// How long a call of [`Store::attend`] lasts, in milliseconds.
pub const ATTENTION_MS: u64 = 5_000;

/// The news of other processes on a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News<'a> {
    /// New work may be available.
    Work,
    /// Commits have changed these runs.
    Runs(&'a [RunNo]),
    /// Commits have changed some runs.
    SomeRuns,
}

/// Receives the news of a store. It must return at once.
pub type Hear = Box<dyn Fn(News<'_>) + Send + Sync>;

/// Keeps a subscription of [`Store::listen`] alive.
pub struct Listener(pub Box<dyn Send + Sync>);
