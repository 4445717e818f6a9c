//! What a simulation has written, so that it can be carried out again on another store.

use windlass_store::memory::Seen;
use windlass_store::{Write, Wrote};

use super::checker::Life;

/// All writes of a run, in the order in which they were carried out.
pub(super) type History = Vec<Event>;

/// Something that happened to the store.
pub(super) enum Event {
    /// A write was carried out, whatever whoever submitted it was told.
    Wrote(Box<Written>),
    /// A process is gone, in whatever manner, and its handle is closed.
    Ended(Life),
}

/// A write, and what came of it.
pub(super) struct Written {
    pub(super) life: Life,
    /// On the monotonic clock.
    pub(super) at_ms: u64,
    pub(super) write: Write,
    /// None if the store refused it with an error.
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
