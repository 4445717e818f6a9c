//! Whether a process is the only one on its store, or one of several.
//!
//! There is no other difference: the execution of a run, the verbs of the store and the engine are
//! the same. If a process is one of several, exclusive work is done under a lock that all of them
//! see, and so is a burst if the lock guarantees more than the store itself.

use std::sync::Arc;

use windlass_locks::LockProvider;

/// How a process shares its store.
#[derive(Clone, Default)]
pub enum Topology {
    /// The process is the only one: exclusive work needs no lock.
    #[default]
    Local,
    /// The process is one of several, which exclude each other by locks.
    Distributed(Distribution),
}

/// The settings of one of several processes.
#[derive(Clone)]
pub struct Distribution {
    /// The provider of the locks that all processes see.
    pub locks: Arc<dyn LockProvider>,
    /// How a second process is kept out of the burst of a run.
    pub burst: BurstLock,
}

/// How a second process is kept out of the burst of a run, besides the fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BurstLock {
    /// By the ownership in the store, at no extra cost: for a store that is also the lock provider.
    Ownership,
    /// By ownership, and then by the lock `workflow-instance:{id}` of the provider.
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
