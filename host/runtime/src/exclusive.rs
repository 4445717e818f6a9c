//! Work that one process at a time does, of several that share a store.
//!
//! The locks prevent other processes from doing the same work at the same time, and guarantee
//! nothing: the work is correct without them, because the transactions of the store are. So it is
//! enough to try a lock without waiting, a lost lock ends the work early, and a lock that cannot be
//! released ends with its lease.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use windlass_locks::{HeldLock, Key, LockProvider};

use crate::error::Error;

/// The time limit of a release. After that, the lease ends the lock. It exceeds the time-outs of
/// the providers, so that a provider times out first and counts the error.
const RELEASE: Duration = Duration::from_secs(10);

/// Takes locks for threads that may block.
#[derive(Clone)]
pub(crate) struct Exclusive {
    locks: Arc<dyn LockProvider>,
    io: Handle,
}

impl Exclusive {
    pub(crate) fn new(locks: Arc<dyn LockProvider>, io: Handle) -> Self {
        Self { locks, io }
    }

    /// Runs work while it holds all of these locks, taken in this order and without waiting; none
    /// if another holder has one of them. The work can check whether the locks are still held.
    pub(crate) fn try_do<T>(
        &self,
        keys: &[Key],
        work: impl FnOnce(&dyn Fn() -> bool) -> T,
    ) -> Result<Option<T>, Error> {
        self.try_within(Duration::ZERO, keys, work)
    }

    /// As [`Self::try_do`], but waits up to `at_most` for each lock.
    pub(crate) fn try_within<T>(
        &self,
        at_most: Duration,
        keys: &[Key],
        work: impl FnOnce(&dyn Fn() -> bool) -> T,
    ) -> Result<Option<T>, Error> {
        let mut held = Vec::with_capacity(keys.len());
        for key in keys {
            let taken = if at_most.is_zero() {
                self.locks.try_acquire(key)
            } else {
                self.locks.acquire(key, at_most)
            };
            match self.io.block_on(taken) {
                Ok(Some(lock)) => held.push(lock),
                // A lock of another thread of this process counts as taken, too.
                Ok(None) | Err(windlass_locks::Error::Reentrant(_)) => {
                    self.give_back(held);
                    return Ok(None);
                }
                Err(error) => {
                    self.give_back(held);
                    return Err(told(&error));
                }
            }
        }
        let lost: Vec<_> = held.iter().map(|lock| lock.lost()).collect();
        let done = work(&|| !lost.iter().any(windlass_locks::Lost::is_lost));
        self.give_back(held);
        Ok(Some(done))
    }

    /// Waits for this lock and runs work while it holds the lock. If the lock cannot be taken in
    /// time, the work runs without it: see the top of this file.
    pub(crate) fn wait_and_do<T>(
        &self,
        key: &Key,
        at_most: Duration,
        work: impl FnOnce() -> T,
    ) -> Result<T, Error> {
        let lock = match self.io.block_on(self.locks.acquire(key, at_most)) {
            Ok(lock) => lock,
            Err(windlass_locks::Error::Reentrant(_)) => None,
            Err(error) => return Err(told(&error)),
        };
        if lock.is_none() {
            tracing::warn!(%key, "another process has held the lock for long: continuing without it");
        }
        let done = work();
        self.give_back(lock.into_iter().collect());
        Ok(done)
    }

    /// Releases the locks in reverse order.
    fn give_back(&self, held: Vec<Box<dyn HeldLock>>) {
        for lock in held.into_iter().rev() {
            let key = lock.key().clone();
            let released = self
                .io
                .block_on(async { tokio::time::timeout(RELEASE, lock.release()).await });
            match released {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%key, %error, "cannot give a lock back: it ends with its lease");
                }
                Err(_) => tracing::warn!(%key, "giving a lock back takes too long"),
            }
        }
    }
}

fn told(error: &windlass_locks::Error) -> Error {
    Error::Refused {
        code: error.code(),
        message: error.to_string(),
        help: Some("check the lock provider of the configuration, and try again".to_owned()),
    }
}
