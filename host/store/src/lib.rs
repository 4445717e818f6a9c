//! What lasts.
//!
//! A store keeps definitions, instances, triggers, run records and blobs, and changes them
//! only by the verbs in [`mod@write`]. Each verb is one logical transaction that checks its own
//! fences; a backend may put many of them into one physical transaction, in the order in
//! which they were submitted, and reports each only when it is durable.
//!
//! The store knows nothing of graphs, consumers or plugins. What the engine needs to
//! remember it hands over as opaque, versioned bytes.

pub mod codes;
pub mod components;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod drafts;
pub mod letters;
pub mod lives;
#[cfg(any(test, feature = "memory"))]
pub mod memory;
pub mod outside;
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

pub use error::{Error, Result};
#[cfg(any(test, feature = "memory"))]
pub use memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresOptions, PostgresStore};
pub use read::Reader;
pub use sqlite::{Durability, SqliteOptions, SqliteStore};
pub use write::{Order, Sink, Ticket, Verb, Write, Writer, Wrote};

use std::sync::Arc;

/// A place where a process keeps its work.
pub trait Store: Reader + Send + Sync + 'static {
    /// Hands over writes, in order. Never blocks for the disk, but may block for a moment
    /// when more is waiting than the backend's bound (back-pressure).
    ///
    /// Each write is answered exactly once through `sink`, after it is durable or refused.
    /// Writes submitted through one sink are carried out and answered in order.
    fn submit(&self, sink: &Arc<dyn Sink>, writes: Vec<(Ticket, Write)>);

    /// Carries out one write, and waits for its answer. Callers have [`Writer::write`] for that,
    /// which knows the answer's type.
    fn carry_out(&self, write: Write) -> Result<Wrote>;

    /// Tells other processes on the same store that there is something new for them.
    fn notify(&self);

    /// Calls back, from some thread, when another process may have something new for this
    /// one. A hint: it may be late, doubled or missing. Ends when the listener is dropped.
    fn listen(&self, wake: Box<dyn Fn() + Send + Sync>) -> Result<Listener>;

    /// Whether the store answers. Blocks for as long as the backend takes to find out.
    ///
    /// # Errors
    ///
    /// Why it does not, or why it is not to be trusted: what failed last and has not worked
    /// since, damage that was met, files that were taken away.
    fn probe(&self) -> Result<()>;

    /// Finishes what was submitted and closes the files. Later writes are refused.
    fn close(&self);
}

/// Keeps a subscription of [`Store::listen`] alive.
pub struct Listener(pub Box<dyn Send + Sync>);
