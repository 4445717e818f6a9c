//! Who may block a thread, and how many at once.
//!
//! Whoever asks may go away at any time: a connection ends, or somebody has waited for long
//! enough. What has begun on a thread cannot be stopped, so it keeps its turn to its end; and
//! what has not begun by then never does. So what is at work, and what waits for a thread, is
//! bounded however many ask and go away.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;

/// Turns that are given out in the order in which they are asked for. A clone gives out the
/// same.
#[derive(Clone)]
pub struct Turns(Arc<Semaphore>);

/// A turn that is not spent yet.
pub struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Turns {
    /// So many at once.
    pub fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count)))
    }

    /// Waits for a turn.
    pub async fn next(&self) -> Turn {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        // Nobody closes the semaphore.
        let _permit = permit.ok();
        Turn { _permit }
    }
}

impl Turn {
    /// Does something that blocks. It goes on if nobody waits for its answer any more.
    ///
    /// # Errors
    ///
    /// It has panicked, or tokio is shutting down.
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
