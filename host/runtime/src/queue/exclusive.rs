//! The worker of the queue where several processes share a store: one at a time is at it.

use windlass_locks::Key;

use super::{Round, Worker};
use crate::alone::Alone;
use crate::error::Error;

/// Takes the lock without waiting, and leaves the queue to whoever has it. Nothing is lost by
/// that: the one who skips looks again in a while, and what is in the queue stays there.
pub(crate) struct Exclusive<W> {
    inner: W,
    alone: Alone,
}

impl<W: Worker> Exclusive<W> {
    pub(crate) fn new(inner: W, alone: Alone) -> Self {
        Self { inner, alone }
    }
}

impl<W: Worker> Worker for Exclusive<W> {
    fn round(&self, go_on: &dyn Fn() -> bool) -> Result<Round, Error> {
        let keys = [Key::queue_worker()];
        let work = |held: &dyn Fn() -> bool| self.inner.round(&|| held() && go_on());
        match self.alone.try_do(&keys, work)? {
            Some(round) => round,
            None => Ok(Round::Busy),
        }
    }
}
