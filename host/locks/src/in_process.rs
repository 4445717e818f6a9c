//! Locks of one process: for a single host, and for tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::key::Key;
use crate::local::{Caller, Local, LocalHold};
use crate::parts::Parts;
use crate::provider::{Error, HeldLock, Listed, LockProvider, Lost, Reach};

/// A provider of locks that only this process sees.
pub struct InProcess {
    inner: Arc<InProcessInner>,
}

struct InProcessInner {
    parts: Parts,
    local: Arc<Local>,
    tokens: AtomicU64,
    held: Mutex<BTreeMap<Key, u64>>,
}

struct InProcessGuard {
    key: Key,
    token: u64,
    inner: Arc<InProcessInner>,
    /// Never set, and not dropped while the lock is held.
    _keeper: watch::Sender<bool>,
    lost: Lost,
    _place: LocalHold,
}

impl InProcess {
    /// A provider whose locks are independent of others.
    pub fn new(parts: Parts) -> Self {
        Self {
            inner: Arc::new(InProcessInner {
                parts,
                local: Arc::default(),
                tokens: AtomicU64::new(0),
                held: Mutex::default(),
            }),
        }
    }
}

impl InProcessInner {
    fn grip(self: &Arc<Self>, key: &Key, place: LocalHold) -> Box<dyn HeldLock> {
        let token = self.tokens.fetch_add(1, Ordering::Relaxed) + 1;
        self.held.lock().insert(key.clone(), token);
        let (keeper, lost) = Lost::new();
        Box::new(InProcessGuard {
            key: key.clone(),
            token,
            inner: Arc::clone(self),
            _keeper: keeper,
            lost,
            _place: place,
        })
    }
}

impl LockProvider for InProcess {
    fn name(&self) -> &'static str {
        "in-process"
    }

    fn reach(&self) -> Reach {
        Reach::Process
    }

    fn try_acquire<'a>(
        &'a self,
        key: &'a Key,
    ) -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>> {
        let place = self.inner.local.enter(key, Caller::current());
        let held = place.map(|place| place.map(|place| self.inner.grip(key, place)));
        std::future::ready(held).boxed()
    }

    fn acquire<'a>(
        &'a self,
        key: &'a Key,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>> {
        let caller = Caller::current();
        let inner = Arc::clone(&self.inner);
        let key = key.clone();
        async move {
            let clock = Arc::clone(&inner.parts.clock);
            let runtime = inner.parts.clone();
            // In tokio's runtime, because waiting needs its timers.
            let waiting = async move {
                let deadline = clock.monotonic().saturating_add(timeout);
                loop {
                    if let Some(place) = inner.local.enter(&key, caller)? {
                        return Ok(Some(inner.grip(&key, place)));
                    }
                    let left = deadline.saturating_sub(clock.monotonic());
                    if left.is_zero() {
                        return Ok(None);
                    }
                    inner.local.wait(&key, left).await;
                }
            };
            runtime.run(waiting).await
        }
        .boxed()
    }

    fn list(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Listed>, Error>> {
        let held = self.inner.held.lock();
        let listed = held.iter().take(limit as usize).map(|(key, token)| Listed {
            key: key.to_string(),
            owner: self.inner.parts.owner.clone(),
            token: *token,
            lease_ms: None,
        });
        std::future::ready(Ok(listed.collect())).boxed()
    }
}

impl HeldLock for InProcessGuard {
    fn key(&self) -> &Key {
        &self.key
    }

    fn token(&self) -> u64 {
        self.token
    }

    fn lost(&self) -> Lost {
        self.lost.clone()
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        drop(self);
        std::future::ready(Ok(())).boxed()
    }
}

impl Drop for InProcessGuard {
    fn drop(&mut self) {
        self.inner.held.lock().remove(&self.key);
    }
}
