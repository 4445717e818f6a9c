//! Asks for the locks of bursts and gives them back, where no worker has to wait for it.
//!
//! Bounds: an attempt at a time for each instance; what the provider's trouble may take is
//! bounded by the retry pipeline, and giving back by [`RELEASE`]. A lock that is not to be had
//! costs its claim, which is given back after [`PAUSE`], so that whoever contends for it asks
//! some ten times in a second and not thousands.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use windlass_locks::{Held, Key, LockProvider};
use windlass_model::{Epoch, InstanceId, InstanceNo};

use self::line::Lines;
use crate::shard::{Message, Order, Shard, Taken};

mod line;

/// How long a claim is kept whose lock somebody else has, before it is given back.
const PAUSE: Duration = Duration::from_millis(100);

/// How long giving a lock back may take. After that its lease ends it.
const RELEASE: Duration = Duration::from_secs(5);

/// Carries out what shards want of locks.
pub(crate) struct Doorkeeper {
    locks: Arc<dyn LockProvider>,
    io: Handle,
    /// Whoever asks for a lock here stands behind whoever asks for it, or gives it back, already.
    lines: Arc<Lines>,
    releases: AtomicUsize,
}

/// A lock that is held for a burst, and what watches over it.
pub(crate) struct Door {
    lock: Box<dyn Held>,
    watch: Option<AbortHandle>,
}

impl Door {
    /// A lock that nobody watches.
    #[cfg(test)]
    pub(crate) fn unwatched(lock: Box<dyn Held>) -> Self {
        Self { lock, watch: None }
    }

    /// What is held.
    #[cfg(test)]
    pub(crate) fn into_lock(self) -> Box<dyn Held> {
        self.lock
    }
}

impl Doorkeeper {
    pub(crate) fn new(locks: Arc<dyn LockProvider>, io: Handle) -> Arc<Self> {
        Arc::new(Self {
            locks,
            io,
            lines: Arc::default(),
            releases: AtomicUsize::new(0),
        })
    }

    /// Carries out the orders of a shard, which hears what came of them.
    pub(crate) fn carry_out(self: &Arc<Self>, shard: &Arc<Shard>, orders: Vec<Order>) {
        for order in orders {
            match order {
                Order::Take { no, id, epoch } => self.take(shard, no, id, epoch),
                Order::Give { no, door } => self.give(no, door),
            }
        }
    }

    /// Whether no lock is being given back.
    pub(crate) fn is_idle(&self) -> bool {
        self.releases.load(Ordering::Acquire) == 0
    }

    fn take(self: &Arc<Self>, shard: &Arc<Shard>, no: InstanceNo, id: InstanceId, epoch: Epoch) {
        let (keeper, shard) = (Arc::clone(self), Arc::clone(shard));
        let mut place = self.lines.join(no);
        self.io.spawn(async move {
            place.comes_up().await;
            let lock = keeper.acquire(&Key::instance(id)).await;
            drop(place);
            let taken = match lock {
                Some(lock) => Taken::Held(keeper.watched(lock, &shard, no, epoch)),
                None => {
                    pause(PAUSE).await;
                    Taken::Refused
                }
            };
            shard.send(Message::Locked { no, epoch, taken });
        });
    }

    async fn acquire(&self, key: &Key) -> Option<Box<dyn Held>> {
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
        lock: Box<dyn Held>,
        shard: &Arc<Shard>,
        no: InstanceNo,
        epoch: Epoch,
    ) -> Door {
        let (mut lost, shard) = (lock.lost(), Arc::clone(shard));
        let watch = self.io.spawn(async move {
            lost.wait().await;
            let taken = Taken::Lost;
            shard.send(Message::Locked { no, epoch, taken });
        });
        Door {
            lock,
            watch: Some(watch.abort_handle()),
        }
    }

    fn give(self: &Arc<Self>, no: InstanceNo, door: Door) {
        let Door { lock, watch } = door;
        if let Some(watch) = watch {
            watch.abort();
        }
        let mut place = self.lines.join(no);
        self.releases.fetch_add(1, Ordering::AcqRel);
        let keeper = Arc::clone(self);
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
            keeper.releases.fetch_sub(1, Ordering::AcqRel);
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
