//! Retries when a backend fails: a decorator of any provider.
//!
//! A transient failure is retried a few times, with growing delays and jitter, until a total
//! deadline; each failed attempt is logged with its number. A failed release is logged and counted,
//! and does no harm: the lock ends with its lease. The duration of each request, with any result,
//! is measured here for all providers.

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::key::Key;
use crate::parts::Parts;
use crate::provider::{Error, HeldLock, Listed, LockProvider, Lost, Reach};

/// How often and how soon failures are retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Retries after the first attempt.
    pub retries: usize,
    /// The delay before the first retry; it doubles with each further one. Jitter adds at most as
    /// much again.
    pub delay: Duration,
    /// How long after the first failure a retry may still begin.
    pub deadline: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            retries: 3,
            delay: Duration::from_millis(500),
            deadline: Duration::from_secs(30),
        }
    }
}

/// Sleeps for a duration.
pub type Sleeper = Arc<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>;

/// A provider with retries.
pub struct Retrying {
    inner: Arc<dyn LockProvider>,
    policy: Policy,
    parts: Parts,
    sleep: Sleeper,
}

impl Retrying {
    /// Wraps a provider, and sleeps in real time.
    pub fn new(inner: Arc<dyn LockProvider>, policy: Policy, parts: Parts) -> Self {
        let runtime = parts.runtime.clone();
        let sleep: Sleeper = Arc::new(move |duration| {
            // Callers may be polled outside of tokio, but the timers need it.
            let _inside = runtime.enter();
            Parts::sleep(duration).boxed()
        });
        Self::with_sleeper(inner, policy, parts, sleep)
    }

    /// Wraps a provider, and sleeps by `sleep`.
    pub fn with_sleeper(
        inner: Arc<dyn LockProvider>,
        policy: Policy,
        parts: Parts,
        sleep: Sleeper,
    ) -> Self {
        Self {
            inner,
            policy,
            parts,
            sleep,
        }
    }

    /// Sends a request with retries, and measures the time.
    async fn ask<'a>(
        &'a self,
        key: &'a Key,
        end: Option<Duration>,
        question: impl Fn() -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>> + Send,
    ) -> Result<Option<Box<dyn HeldLock>>, Error> {
        let begin = self.parts.clock.monotonic();
        let answer = self.ask_again(key, end, question).await;
        let took = self.parts.clock.monotonic().saturating_sub(begin);
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.parts.metrics.lock_wait.record(took_us);
        answer
    }

    /// Repeats a request until there is an answer, a permanent error, or no time left before `end`.
    async fn ask_again<'a>(
        &'a self,
        key: &'a Key,
        end: Option<Duration>,
        question: impl Fn() -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>> + Send,
    ) -> Result<Option<Box<dyn HeldLock>>, Error> {
        let mut delays = ExponentialBuilder::new()
            .with_min_delay(self.policy.delay)
            .with_factor(2.0)
            .with_max_times(self.policy.retries)
            .with_jitter()
            .build();
        let (mut attempt, mut last) = (0_u32, end);
        loop {
            let error = match question().await {
                Ok(answer) => {
                    let kept = answer.map(|held| KeptLock::new(held, self.parts.clone()));
                    return Ok(kept.map(|kept| Box::new(kept) as Box<dyn HeldLock>));
                }
                Err(error) if error.is_transient() => error,
                Err(error) => return Err(error),
            };
            attempt += 1;
            let now = self.parts.clock.monotonic();
            if attempt == 1 {
                let deadline = now.saturating_add(self.policy.deadline);
                last = Some(end.map_or(deadline, |end| end.min(deadline)));
            }
            let next = delays.next();
            let Some(next) = next.filter(|next| last.is_none_or(|last| now + *next <= last)) else {
                return Err(error);
            };
            self.parts.metrics.lock_retries.add(1);
            tracing::warn!(
                %key, attempt, retries = self.policy.retries,
                next_ms = u64::try_from(next.as_millis()).unwrap_or(u64::MAX),
                code = %error.code(), %error,
                "a lock could not be asked for; trying again"
            );
            (self.sleep)(next).await;
        }
    }
}

impl LockProvider for Retrying {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn reach(&self) -> Reach {
        self.inner.reach()
    }

    fn try_acquire<'a>(
        &'a self,
        key: &'a Key,
    ) -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>> {
        self.ask(key, None, || self.inner.try_acquire(key)).boxed()
    }

    fn acquire<'a>(
        &'a self,
        key: &'a Key,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>> {
        let clock = Arc::clone(&self.parts.clock);
        let end = clock.monotonic().saturating_add(timeout);
        let question = move || {
            let left = end.saturating_sub(clock.monotonic());
            self.inner.acquire(key, left)
        };
        self.ask(key, Some(end), question).boxed()
    }

    fn list(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Listed>, Error>> {
        self.inner.list(limit)
    }
}

/// A lock whose release returns no error.
struct KeptLock {
    key: Key,
    token: u64,
    lost: Lost,
    held: Option<Box<dyn HeldLock>>,
    parts: Parts,
}

impl KeptLock {
    fn new(held: Box<dyn HeldLock>, parts: Parts) -> Self {
        Self {
            key: held.key().clone(),
            token: held.token(),
            lost: held.lost(),
            held: Some(held),
            parts,
        }
    }

    fn give_back(&mut self) -> BoxFuture<'static, ()> {
        let Some(held) = self.held.take() else {
            return std::future::ready(()).boxed();
        };
        let (key, token) = (self.key.clone(), self.token);
        let metrics = Arc::clone(&self.parts.metrics);
        let released = held.release();
        async move {
            if let Err(error) = released.await {
                metrics.lock_release_failures.add(1);
                tracing::warn!(
                    %key, token, code = %error.code(), %error,
                    "a lock could not be released; it ends with its lease"
                );
            }
        }
        .boxed()
    }
}

impl HeldLock for KeptLock {
    fn key(&self) -> &Key {
        &self.key
    }

    fn token(&self) -> u64 {
        self.token
    }

    fn lost(&self) -> Lost {
        self.lost.clone()
    }

    fn release(mut self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        self.give_back().map(Ok).boxed()
    }
}

impl Drop for KeptLock {
    fn drop(&mut self) {
        if self.held.is_some() {
            let released = self.give_back();
            self.parts.runtime.spawn(released);
        }
    }
}
