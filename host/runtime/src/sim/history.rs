//! Records the writes of a simulation, so that they can be replayed on another store.

use windlass_store::memory::Seen;
use windlass_store::{Write, Wrote};

use super::checker::Life;

/// All writes of a simulation, in the order in which they were carried out.
pub(super) type History = Vec<Event>;

/// An event of the store.
pub(super) enum Event {
    /// A write was carried out, whether or not its caller received the answer.
    Wrote(Box<Written>),
    /// A process has ended in some way, and its handle is closed.
    Ended(Life),
}

/// A write and its result.
pub(super) struct Written {
    pub(super) life: Life,
    /// The monotonic time.
    pub(super) at_ms: u64,
    pub(super) write: Write,
    /// The answer; none if the store refused the write with an error.
    pub(super) wrote: Option<Wrote>,
}

impl Written {
    pub(super) fn of(life: Life, seen: &Seen<'_>, at_ms: u64) -> Self {
        Self {
            life,
            at_ms,
            write: seen.write.clone(),
            wrote: seen.wrote.cloned(),
        }
    }
}
