//! What one process at a time does, of several that share a store.
//!
//! The locks keep others from doing the same work at the same time, and decide nothing: whatever
//! is done under them is correct without, because the store's transactions are. So zero wait is
//! enough, a lock that is lost ends the work early, and one that cannot be given back ends with
//! its lease.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use windlass_locks::{HeldLock, Key, LockProvider};

use crate::error::Error;

/// How long giving a lock back may take. After that its lease ends it. Longer than providers
/// wait for their backends, so that they are the ones who give up, and count it.
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

    /// Does something while it holds all of these, taken in this order and without waiting;
    /// none if somebody has one of them. The work may ask whether they are still held.
    pub(crate) fn try_do<T>(
        &self,
        keys: &[Key],
        work: impl FnOnce(&dyn Fn() -> bool) -> T,
    ) -> Result<Option<T>, Error> {
        self.try_within(Duration::ZERO, keys, work)
    }

    /// As [`Self::try_do`], but waits so long for each lock.
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
                // Another thread of this process is somebody, too.
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

    /// Does something while it holds this, which it waits for. If it is not to be had in that
    /// time, it is done without: see the top of this file.
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

    /// The last one that was taken comes first.
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
        help: Some("look at what gives out the locks, and try again".to_owned()),
    }
}
