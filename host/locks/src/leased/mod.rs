//! The common part of the backends with leases: a holder keeps a lock for as long as it renews its
//! lease, and loses it after some time when it is stopped, dies or is cut off.
//!
//! A backend only has to compare and write, each in one atomic step; see [`Backend`].

mod lease_guard;
mod renewal;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use self::lease_guard::LeaseGuard;
use self::renewal::Renewals;
use crate::key::Key;
use crate::local::{Caller, Local, LocalHold};
use crate::parts::{Pace, Parts};
use crate::provider::{Error, HeldLock, Listed, LockProvider, Reach};

/// The default lease of all providers that have leases.
pub const LEASE: Duration = Duration::from_secs(30);

/// The shortest lease that can be renewed in time with some certainty.
pub const SHORTEST_LEASE: Duration = Duration::from_millis(100);

/// How long one request to a backend may take at most, regardless of the lease.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most attempts with an unknown outcome that are remembered.
const DOUBTS: usize = 1_000;

/// A lock in a backend.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) key: Key,
    /// Identifies this acquisition.
    pub(crate) holder: String,
    pub(crate) token: u64,
}

/// The storage of leases.
pub(crate) trait Backend: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    fn reach(&self) -> Reach;

    /// Takes the key for a holder if it is free, or if its lease has ended, or if the same holder
    /// has it already. Returns its token, or none.
    fn take<'a>(
        &'a self,
        key: &'a Key,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<Option<u64>, Error>>;

    /// Extends the leases that the holder still has. Returns for each whether it had it.
    fn renew<'a>(&'a self, leases: &'a [Lease]) -> BoxFuture<'a, Result<Vec<bool>, Error>>;

    /// Frees a lock if the holder still has it.
    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), Error>>;

    fn list(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Listed>, Error>>;
}

/// A provider on a backend with leases.
pub(crate) struct Leased<B> {
    inner: Arc<LeasedInner<B>>,
}

struct LeasedInner<B> {
    backend: B,
    parts: Parts,
    lease: Duration,
    local: Arc<Local>,
    renewals: Renewals,
    /// Keys whose last attempt ended with an error, and the holder of that attempt. The next
    /// attempt uses the same holder: if the first one did take the lock, it is recognised.
    doubts: Mutex<HashMap<Key, String>>,
    nonce: u64,
    attempts: AtomicU64,
}

impl<B: Backend> Leased<B> {
    pub(crate) fn new(backend: B, lease: Duration, parts: Parts) -> Result<Self, Error> {
        if lease < SHORTEST_LEASE {
            return Err(Error::settings(format!(
                "a lease of {lease:?} is too short to be renewed in time; the least is \
                 {SHORTEST_LEASE:?}"
            )));
        }
        let inner = Arc::new(LeasedInner {
            backend,
            lease,
            local: Arc::default(),
            renewals: Renewals::default(),
            doubts: Mutex::default(),
            nonce: rand::random(),
            attempts: AtomicU64::new(0),
            parts,
        });
        renewal::start(&inner);
        Ok(Self { inner })
    }
}

impl<B: Backend> LeasedInner<B> {
    /// How long a request may take.
    fn patience(&self) -> Duration {
        (self.lease / 2).min(PATIENCE)
    }

    /// One attempt of a caller that waits at most `left`. No answer within that time is not an
    /// error: the backend has had less time than it may take.
    async fn take(
        self: &Arc<Self>,
        key: &Key,
        place: LocalHold,
        left: Duration,
    ) -> Result<Option<Box<dyn HeldLock>>, Error> {
        let holder = self.holder(key);
        let begin = self.parts.clock.monotonic();
        let patience = self.patience();
        let asked = bounded(patience, &self.backend, self.backend.take(key, &holder));
        let token = match tokio::time::timeout(left, asked).await {
            Ok(Ok(Some(token))) => token,
            Ok(Ok(None)) => return Ok(None),
            Ok(Err(error)) => {
                self.doubt(key, holder);
                return Err(error);
            }
            Err(_) => {
                tracing::debug!(%key, ?left, "a lock was asked for in vain: there was no answer");
                self.doubt(key, holder);
                return Ok(None);
            }
        };
        let lease = Lease {
            key: key.clone(),
            holder,
            token,
        };
        Ok(Some(Box::new(LeaseGuard::new(self, lease, begin, place))))
    }

    fn holder(&self, key: &Key) -> String {
        if let Some(holder) = self.doubts.lock().remove(key) {
            return holder;
        }
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}{attempt:012x}", self.nonce)
    }

    fn doubt(&self, key: &Key, holder: String) {
        let mut doubts = self.doubts.lock();
        // A forgotten acquisition ends with its lease.
        if doubts.len() < DOUBTS {
            doubts.insert(key.clone(), holder);
        }
    }

    async fn wait(
        self: &Arc<Self>,
        key: &Key,
        caller: Caller,
        timeout: Duration,
    ) -> Result<Option<Box<dyn HeldLock>>, Error> {
        let deadline = self.parts.clock.monotonic().saturating_add(timeout);
        let left = || deadline.saturating_sub(self.parts.clock.monotonic());
        let mut pace = Pace::new();
        loop {
            if let Some(place) = self.local.enter(key, caller)? {
                // The last attempt, at the deadline, gets a short time as well.
                let left_at_least = left().max(PATIENCE / 50);
                if let Some(held) = self.take(key, place, left_at_least).await? {
                    return Ok(Some(held));
                }
                if left().is_zero() {
                    return Ok(None);
                }
                Parts::sleep(pace.next().min(left())).await;
            } else {
                if left().is_zero() {
                    return Ok(None);
                }
                self.local.wait(key, left()).await;
            }
        }
    }
}

/// Awaits a request to the backend, for at most `patience`.
async fn bounded<T>(
    patience: Duration,
    backend: &impl Backend,
    asked: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(patience, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(Error::unreachable(format!(
            "the {} locks do not answer within {patience:?}",
            backend.name()
        ))),
    }
}

impl<B: Backend> LockProvider for Leased<B> {
    fn name(&self) -> &'static str {
        self.inner.backend.name()
    }

    fn reach(&self) -> Reach {
        self.inner.backend.reach()
    }

    fn try_acquire<'a>(
        &'a self,
        key: &'a Key,
    ) -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>> {
        let place = self.inner.local.enter(key, Caller::current());
        async move {
            let Some(place) = place? else {
                return Ok(None);
            };
            let (inner, key) = (Arc::clone(&self.inner), key.clone());
            let asking = async move { inner.take(&key, place, Duration::MAX).await };
            self.inner.parts.run(asking).await
        }
        .boxed()
    }

    fn acquire<'a>(
        &'a self,
        key: &'a Key,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>> {
        let caller = Caller::current();
        let (inner, key) = (Arc::clone(&self.inner), key.clone());
        let waiting = async move { inner.wait(&key, caller, timeout).await };
        async move { self.inner.parts.run(waiting).await }.boxed()
    }

    fn list(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Listed>, Error>> {
        let inner = Arc::clone(&self.inner);
        let asking = async move {
            bounded(inner.patience(), &inner.backend, inner.backend.list(limit)).await
        };
        async move { self.inner.parts.run(asking).await }.boxed()
    }
}

impl<B> Drop for LeasedInner<B> {
    fn drop(&mut self) {
        self.renewals.end();
    }
}
