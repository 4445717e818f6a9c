//! Bounds how many operations block a thread at once.
//!
//! The caller may be gone at any time: a connection ends, or a caller gives up waiting. An
//! operation that runs on a thread cannot be stopped, so it keeps its turn until it ends. An
//! operation that has not begun by then never begins. So the number of running and of queued
//! operations is bounded, however many callers come and go.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;

/// A semaphore whose turns are granted in the order of the requests. Clones share the turns.
#[derive(Clone)]
pub struct Turns(Arc<Semaphore>);

/// A turn that has not been used yet.
pub struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Turns {
    /// Turns for `count` operations at once.
    pub fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count)))
    }

    /// Waits for a turn.
    pub async fn next(&self) -> Turn {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        // The semaphore is never closed.
        let _permit = permit.ok();
        Turn { _permit }
    }
}

impl Turn {
    /// Runs a blocking operation. It runs to its end even if its caller is gone.
    ///
    /// # Errors
    ///
    /// The operation has panicked, or tokio is shutting down.
    pub async fn spend<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let worked = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(self);
            done
        });
        worked.await
    }
}
