//! A lock that is held with a lease.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::{Backend, Lease, LeasedInner, bounded};
use crate::key::Key;
use crate::local::LocalHold;
use crate::provider::{Error, HeldLock, Lost};

/// A lock, held until the guard is released or dropped.
pub(super) struct LeaseGuard<B: Backend> {
    inner: Arc<LeasedInner<B>>,
    lease: Lease,
    renewal: u64,
    lost: Lost,
    /// None once it is being released.
    place: Option<LocalHold>,
}

impl<B: Backend> LeaseGuard<B> {
    /// For a lease that was requested at `begin`, on the clock of the provider.
    pub(super) fn new(
        inner: &Arc<LeasedInner<B>>,
        lease: Lease,
        begin: Duration,
        place: LocalHold,
    ) -> Self {
        let (renewal, lost) = inner.renewals.add(lease.clone(), begin);
        Self {
            inner: Arc::clone(inner),
            lease,
            renewal,
            lost,
            place: Some(place),
        }
    }

    /// Releases the lock in tokio's runtime, even if the caller is gone.
    fn give_back(&mut self) -> Option<impl Future<Output = Result<(), Error>> + Send + use<B>> {
        let place = self.place.take()?;
        self.inner.renewals.remove(self.renewal);
        place.leaving();
        let (inner, lease) = (Arc::clone(&self.inner), self.lease.clone());
        let asked = self.inner.parts.runtime.spawn(async move {
            let asked = inner.backend.release(&lease);
            let answer = bounded(inner.patience(), &inner.backend, asked).await;
            // Other callers of this process try only after the release.
            drop(place);
            answer
        });
        Some(async move {
            asked
                .await
                .unwrap_or_else(|_| Err(Error::unreachable("the runtime of the locks has ended")))
        })
    }
}

impl<B: Backend> HeldLock for LeaseGuard<B> {
    fn key(&self) -> &Key {
        &self.lease.key
    }

    fn token(&self) -> u64 {
        self.lease.token
    }

    fn lost(&self) -> Lost {
        self.lost.clone()
    }

    fn release(mut self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        match self.give_back() {
            Some(answer) => answer.boxed(),
            None => std::future::ready(Ok(())).boxed(),
        }
    }
}

impl<B: Backend> Drop for LeaseGuard<B> {
    fn drop(&mut self) {
        drop(self.give_back());
    }
}
