//! Who may act.
//!
//! A [`LockProvider`] gives out locks by [`Key`]: for the burst of an instance, for the worker of
//! the bookmark queue, for refreshing definitions. Locks make contention rare. They are no
//! fences: what commits is decided by the epochs and tokens of the store alone, so a lock that
//! is lost, doubled or stale costs work and never correctness.
//!
//! Locks are not re-entrant.

mod key;
mod provider;

pub use key::Key;
pub use provider::{Error, Held, Listed, LockProvider, Lost, Reach};
