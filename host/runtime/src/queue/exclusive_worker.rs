//! The worker of the queue if several processes share a store: one process at a time works on it.

use windlass_locks::Key;

use super::{Round, Worker};
use crate::error::Error;
use crate::exclusive::Exclusive;

/// A worker that works only while it holds the lock. It takes the lock without waiting: if another
/// process holds the lock, that process works on the queue, and this worker tries again later.
pub(crate) struct ExclusiveWorker<W> {
    inner: W,
    exclusive: Exclusive,
}

impl<W: Worker> ExclusiveWorker<W> {
    pub(crate) fn new(inner: W, exclusive: Exclusive) -> Self {
        Self { inner, exclusive }
    }
}

impl<W: Worker> Worker for ExclusiveWorker<W> {
    fn round(&self, go_on: &dyn Fn() -> bool) -> Result<Round, Error> {
        let keys = [Key::queue_worker()];
        let work = |held: &dyn Fn() -> bool| self.inner.round(&|| held() && go_on());
        match self.exclusive.try_do(&keys, work)? {
            Some(round) => round,
            None => Ok(Round::Busy),
        }
    }
}
