//! The shared parts of every provider: clock, runtime, owner and metrics.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use tokio::runtime::Handle;
use windlass_model::Clock;
use windlass_model::metrics::Metrics;

use crate::provider::Error;

/// The shared parts of a provider.
#[derive(Clone)]
pub struct Parts {
    /// Measures leases and waits.
    pub clock: Arc<dyn Clock>,
    /// The runtime for requests to backends and renewals, so that threads other than tokio's can
    /// take locks.
    pub runtime: Handle,
    /// The owner of a lock, for people: a few words without a line break.
    pub owner: String,
    /// The metrics of waits and failures.
    pub metrics: Arc<Metrics>,
}

impl Parts {
    /// Sleeps.
    #[expect(
        clippy::disallowed_methods,
        reason = "what paces calls to a real backend is real time; nothing is decided by it"
    )]
    pub(crate) async fn sleep(duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Runs a future in tokio's runtime. It runs to its end even if the caller is gone.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let done = self.runtime.spawn(work).await;
        done.unwrap_or_else(|_| Err(Error::unreachable("the runtime of the locks has ended")))
    }

    /// Runs work that blocks for a moment.
    pub(crate) async fn block<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let done = self.runtime.spawn_blocking(work).await;
        done.unwrap_or_else(|_| Err(Error::unreachable("the runtime of the locks has ended")))
    }
}

/// The delay before a busy lock is tried again: short at first, with jitter, so that waiting
/// callers do not try all at once.
pub(crate) struct Pace {
    next: Duration,
}

impl Pace {
    const FIRST: Duration = Duration::from_millis(4);
    const LAST: Duration = Duration::from_millis(250);

    pub(crate) fn new() -> Self {
        Self { next: Self::FIRST }
    }

    pub(crate) fn next(&mut self) -> Duration {
        let now = self.next.mul_f64(rand::rng().random_range(0.5..1.0));
        self.next = (self.next * 2).min(Self::LAST);
        now
    }
}
