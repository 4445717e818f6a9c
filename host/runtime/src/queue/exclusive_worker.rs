//! The worker of the queue where several processes share a store: one at a time is at it.

use windlass_locks::Key;

use super::{Round, Worker};
use crate::error::Error;
use crate::exclusive::Exclusive;

/// Takes the lock without waiting, and leaves the queue to whoever has it. Nothing is lost by
/// that: the one who skips looks again in a while, and what is in the queue stays there.
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
