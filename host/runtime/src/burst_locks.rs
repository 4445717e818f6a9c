//! Takes and releases the locks of bursts on tokio tasks, so that no worker waits for a lock.
//!
//! Bounds: one attempt at a time for each run; the retry pipeline bounds the time that
//! provider errors may take, and [`RELEASE`] bounds a release. If a lock cannot be taken, the claim
//! of its burst is given back after [`PAUSE`], so that a contending process tries about ten times
//! in a second and not thousands of times.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use windlass_locks::{HeldLock, Key, LockProvider};
use windlass_model::{Epoch, RunId, RunNo};

use self::line::Lines;
use crate::shard::{Message, Order, Shard, Taken};

mod line;

/// How long a claim is kept before it is given back, if another process holds its lock.
const PAUSE: Duration = Duration::from_millis(100);

/// The time limit of a release. After that, the lease ends the lock. It exceeds the time-outs of
/// the providers, so that a provider times out first and counts the error.
const RELEASE: Duration = Duration::from_secs(10);

/// Carries out the lock orders of shards.
pub(crate) struct BurstLocks {
    locks: Arc<dyn LockProvider>,
    io: Handle,
    /// For each run, the queue of requests and releases of its lock in this process.
    lines: Arc<Lines>,
    /// The number of locks that are requested, held, or being released.
    busy: Arc<AtomicUsize>,
}

/// A lock that is held for a burst, and the task that watches for its loss.
pub(crate) struct BurstLock {
    lock: Box<dyn HeldLock>,
    watch: Option<AbortHandle>,
    busy: Option<Busy>,
}

/// Counts a lock from its request until its release has ended.
struct Busy(Arc<AtomicUsize>);

impl Busy {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl BurstLock {
    /// A lock without a watching task.
    #[cfg(test)]
    pub(crate) fn unwatched(lock: Box<dyn HeldLock>) -> Self {
        Self {
            lock,
            watch: None,
            busy: None,
        }
    }

    /// The lock that is held.
    #[cfg(test)]
    pub(crate) fn into_lock(self) -> Box<dyn HeldLock> {
        self.lock
    }
}

impl BurstLocks {
    pub(crate) fn new(locks: Arc<dyn LockProvider>, io: Handle) -> Arc<Self> {
        Arc::new(Self {
            locks,
            io,
            lines: Arc::default(),
            busy: Arc::default(),
        })
    }

    /// Carries out the orders of a shard, which receives the results as messages.
    pub(crate) fn carry_out(self: &Arc<Self>, shard: &Arc<Shard>, orders: Vec<Order>) {
        for order in orders {
            match order {
                Order::Take { no, id, epoch } => self.take(shard, no, id, epoch),
                Order::Give { no, burst_lock } => self.give(no, burst_lock),
            }
        }
    }

    /// Whether no lock is requested, held, or being released.
    pub(crate) fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Acquire) == 0
    }

    fn take(self: &Arc<Self>, shard: &Arc<Shard>, no: RunNo, id: RunId, epoch: Epoch) {
        let (keeper, shard) = (Arc::clone(self), Arc::clone(shard));
        let mut place = self.lines.join(no);
        let busy = Busy::new(&self.busy);
        self.io.spawn(async move {
            place.comes_up().await;
            let lock = keeper.acquire(&Key::run(id)).await;
            drop(place);
            let taken = match lock {
                Some(lock) => Taken::Held(keeper.watched((lock, busy), &shard, no, epoch)),
                None => {
                    pause(PAUSE).await;
                    Taken::Refused
                }
            };
            shard.send(Message::Locked { no, epoch, taken });
        });
    }

    async fn acquire(&self, key: &Key) -> Option<Box<dyn HeldLock>> {
        match self.locks.try_acquire(key).await {
            Ok(lock) => lock,
            Err(error) => {
                tracing::warn!(%key, %error, "cannot take the lock of a run");
                None
            }
        }
    }

    fn watched(
        &self,
        (lock, busy): (Box<dyn HeldLock>, Busy),
        shard: &Arc<Shard>,
        no: RunNo,
        epoch: Epoch,
    ) -> BurstLock {
        let (mut lost, shard) = (lock.lost(), Arc::clone(shard));
        let watch = self.io.spawn(async move {
            lost.wait().await;
            let taken = Taken::Lost;
            shard.send(Message::Locked { no, epoch, taken });
        });
        BurstLock {
            lock,
            watch: Some(watch.abort_handle()),
            busy: Some(busy),
        }
    }

    fn give(self: &Arc<Self>, no: RunNo, burst_lock: BurstLock) {
        let BurstLock { lock, watch, busy } = burst_lock;
        if let Some(watch) = watch {
            watch.abort();
        }
        let mut place = self.lines.join(no);
        self.io.spawn(async move {
            place.comes_up().await;
            let key = lock.key().clone();
            windlass_model::failpoint::pass("before-unlock");
            match tokio::time::timeout(RELEASE, lock.release()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%key, %error, "cannot give a lock back: it ends with its lease");
                }
                Err(_) => tracing::warn!(%key, "giving a lock back takes too long"),
            }
            windlass_model::failpoint::pass("after-unlock");
            drop(place);
            drop(busy);
        });
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a pause before an attempt decides nothing"
)]
async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

#[cfg(test)]
mod tests {
    use windlass_locks::{InProcess, Parts};

    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn a_lock_counts_from_when_it_is_asked_for_until_it_is_given_back() {
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let locks = InProcess::new(Parts {
            clock: Arc::new(SystemClock::new()),
            runtime: tokio.handle().clone(),
            owner: "test".to_owned(),
            metrics: Arc::default(),
        });
        let keeper = BurstLocks::new(Arc::new(locks), tokio.handle().clone());
        let shard = Shard::new(0, u64::MAX, crate::shard::States::default());
        let (no, id, epoch) = (RunNo(7), RunId(uuid::Uuid::nil()), Epoch(1));
        // Spawned tasks make progress only inside this call.
        let go_on = || tokio.block_on(tokio::task::yield_now());
        assert!(keeper.is_idle());
        keeper.carry_out(&shard, vec![Order::Take { no, id, epoch }]);
        assert!(!keeper.is_idle(), "it is asked for");
        let mut heard = Vec::new();
        while heard.is_empty() {
            go_on();
            shard.take(&mut heard);
        }
        let Some(Message::Locked {
            taken: Taken::Held(burst_lock),
            ..
        }) = heard.pop()
        else {
            panic!("the lock is not held");
        };
        go_on();
        assert!(!keeper.is_idle(), "it is held");
        keeper.carry_out(&shard, vec![Order::Give { no, burst_lock }]);
        assert!(!keeper.is_idle(), "it is being given back");
        while !keeper.is_idle() {
            go_on();
        }
    }
}
