//! Whether a process is alone on its store, or one of several.
//!
//! This is all that differs: the execution of a run, the verbs of the store and the engine are
//! the same. Where a process is one of several, what may be done by one at a time is done under
//! a lock that all of them see, and a burst too if the lock says more than the store itself.

use std::sync::Arc;

use windlass_locks::LockProvider;

/// How a process shares its store.
#[derive(Clone, Default)]
pub enum Topology {
    /// It counts on nobody else: what is to be done by one at a time is done.
    #[default]
    Local,
    /// It is one of several, which know of each other by locks.
    Distributed(Distribution),
}

/// What makes a process one of several.
#[derive(Clone)]
pub struct Distribution {
    /// Gives out the locks that all processes see.
    pub locks: Arc<dyn LockProvider>,
    /// What keeps a second process out of the burst of an instance.
    pub burst: BurstLock,
}

/// What keeps a second process out of the burst of an instance, besides the fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BurstLock {
    /// The ownership in the store, which costs nothing on top: for where the store is what
    /// gives out the locks, too.
    Ownership,
    /// Ownership, and then the lock `workflow-instance:{id}` of the provider.
    Provider,
}

impl Topology {
    /// The locks that all processes see, if this is one of several.
    pub fn locks(&self) -> Option<&Arc<dyn LockProvider>> {
        match self {
            Self::Local => None,
            Self::Distributed(distribution) => Some(&distribution.locks),
        }
    }

    /// The provider whose lock a burst takes, if it takes one.
    pub fn burst_locks(&self) -> Option<&Arc<dyn LockProvider>> {
        match self {
            Self::Distributed(Distribution {
                locks,
                burst: BurstLock::Provider,
            }) => Some(locks),
            _ => None,
        }
    }
}
