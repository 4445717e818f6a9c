//! A lock provider as processes on several machines see it, with all its failures: it does not
//! answer, it forgets everything, a lease ends under its holder.
//!
//! The provider excludes no process for ever, and may let two processes in. In all cases, the
//! epochs of the store decide, and every run ends once.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use windlass_locks::{Error, HeldLock, Key, Listed, LockProvider, Lost, Reach};
use windlass_model::{Code, Epoch, RunId, RunNo};

use super::checker::Life;
use super::clock::SimClock;
use crate::burst_locks::BurstLock;
use crate::shard::{Order, Taken};

/// The lease of a lock without renewal, in milliseconds.
const LEASE_MS: u64 = 30_000;

/// How often a holder renews its locks and learns that a lock is lost, in milliseconds.
const RENEW_MS: u64 = 10_000;

/// How long a claim is kept whose lock cannot be taken, in milliseconds.
const PAUSE_MS: u64 = 100;

/// How long a request to a silent server is tried, in milliseconds.
const RETRIES_MS: u64 = 3_500;

/// The server that all processes share.
#[derive(Default)]
pub(super) struct Server {
    held: BTreeMap<String, Entry>,
    /// Whether it does not answer.
    pub(super) down: bool,
    tokens: u64,
}

struct Entry {
    token: u64,
    until_ms: u64,
}

impl Server {
    /// Forgets all locks, like a cache that is restarted.
    pub(super) fn empty(&mut self) {
        self.held.clear();
    }

    fn take(&mut self, key: &str, now_ms: u64) -> Result<Option<u64>, Error> {
        if self.down {
            return Err(Error::Backend {
                code: Code::new("WL-L002"),
                message: "the server does not answer".to_owned(),
                transient: true,
            });
        }
        if self
            .held
            .get(key)
            .is_some_and(|held| held.until_ms > now_ms)
        {
            return Ok(None);
        }
        self.tokens += 1;
        let (token, until_ms) = (self.tokens, now_ms + LEASE_MS);
        self.held.insert(key.to_owned(), Entry { token, until_ms });
        Ok(Some(token))
    }

    /// Releases a lock. Returns whether the caller held it.
    fn give(&mut self, key: &str, token: u64) -> bool {
        let its = self.held.get(key).is_some_and(|held| held.token == token);
        if its && !self.down {
            self.held.remove(key);
        }
        its && !self.down
    }

    /// Renews a lock. Returns false if another holder has it, or none.
    fn renew(&mut self, key: &str, token: u64, now_ms: u64) -> bool {
        let held = self.held.get_mut(key).filter(|held| held.token == token);
        match held {
            Some(held) if held.until_ms > now_ms => {
                if !self.down {
                    held.until_ms = now_ms + LEASE_MS;
                }
                true
            }
            _ => false,
        }
    }
}

/// The client of the server in one process.
pub(super) struct Provider {
    pub(super) server: Arc<Mutex<Server>>,
    pub(super) clock: Arc<SimClock>,
}

struct Lock {
    key: Key,
    token: u64,
    server: Arc<Mutex<Server>>,
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

impl LockProvider for Provider {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn reach(&self) -> Reach {
        Reach::Cluster
    }

    fn try_acquire<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Box<dyn HeldLock>>> {
        let taken = self.server.lock().take(key.as_str(), self.clock.now_ms());
        let held = taken.map(|token| {
            token.map(|token| -> Box<dyn HeldLock> {
                Box::new(Lock {
                    key: key.clone(),
                    token,
                    server: Arc::clone(&self.server),
                })
            })
        });
        Box::pin(std::future::ready(held))
    }

    fn acquire<'a>(&'a self, key: &'a Key, _: Duration) -> Answer<'a, Option<Box<dyn HeldLock>>> {
        self.try_acquire(key)
    }

    fn list(&self, _: u32) -> Answer<'_, Vec<Listed>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

impl HeldLock for Lock {
    fn key(&self) -> &Key {
        &self.key
    }

    fn token(&self) -> u64 {
        self.token
    }

    fn lost(&self) -> Lost {
        // The simulation renews locks itself, and reports the lost ones.
        let (sender, lost) = Lost::new();
        drop::<watch::Sender<bool>>(sender);
        lost
    }

    fn release(self: Box<Self>) -> Answer<'static, ()> {
        self.server.lock().give(self.key.as_str(), self.token);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The locks of a process, and its lock operations in progress.
pub(super) struct Errands {
    life: Life,
    provider: Provider,
    /// Whether the process reports a lock that it has not recorded (a deliberate fault).
    careless: bool,
    errands: Vec<Errand>,
    /// The recorded locks, by run and epoch.
    kept: BTreeMap<(RunNo, Epoch), SimulatedLock>,
    renew_ms: u64,
}

/// A held lock.
struct SimulatedLock {
    key: String,
    token: u64,
    /// Whether the shard was told of its loss, so that it is not renewed any more.
    lost: bool,
}

/// A lock operation in progress.
struct Errand {
    ready_ms: u64,
    no: RunNo,
    what: What,
}

enum What {
    Take(RunId, Epoch),
    Refuse(Epoch),
    Give(BurstLock),
}

/// A message to a shard about a lock.
pub(super) struct LockMessage {
    pub(super) no: RunNo,
    pub(super) epoch: Epoch,
    pub(super) taken: Taken,
}

impl Errands {
    pub(super) fn new(life: Life, provider: Provider, careless: bool) -> Self {
        let renew_ms = provider.clock.now_ms() + RENEW_MS;
        Self {
            life,
            provider,
            careless,
            errands: Vec::new(),
            kept: BTreeMap::new(),
            renew_ms,
        }
    }

    /// Begins the orders of a shard, which take some time.
    pub(super) fn take_on(&mut self, orders: Vec<Order>, ready_ms: u64) {
        for order in orders {
            let (no, what) = match order {
                Order::Take { no, id, epoch } => (no, What::Take(id, epoch)),
                Order::Give { no, burst_lock } => (no, What::Give(burst_lock)),
            };
            self.errands.push(Errand { ready_ms, no, what });
        }
    }

    /// Whether a lock operation is due now.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        self.next_ms().is_some_and(|next_ms| next_ms <= now_ms)
    }

    /// When the next lock operation is due.
    pub(super) fn next_ms(&self) -> Option<u64> {
        let errands = self.first().map(|(_, errand)| errand.ready_ms);
        let renewal = (!self.kept.is_empty()).then_some(self.renew_ms);
        errands.chain(renewal).min()
    }

    /// The operations without an earlier operation on the same lock, as in `burst_locks/line.rs`.
    fn first(&self) -> impl Iterator<Item = (usize, &Errand)> {
        let alone = |errand: &Errand| matches!(errand.what, What::Refuse(_));
        self.errands.iter().enumerate().filter(move |(at, errand)| {
            let mut before = self.errands.iter().take(*at);
            alone(errand) || !before.any(|other| other.no == errand.no && !alone(other))
        })
    }

    /// Whether no operation is in progress.
    pub(super) fn is_empty(&self) -> bool {
        self.errands.is_empty()
    }

    /// Whether the process holds the lock of a burst.
    pub(super) fn may_begin(&self, no: RunNo, epoch: Epoch) -> bool {
        self.kept.contains_key(&(no, epoch))
    }

    /// Carries out the operations that are due.
    pub(super) fn run(&mut self, now_ms: u64) -> Vec<LockMessage> {
        let mut told = Vec::new();
        if now_ms >= self.renew_ms {
            self.renew_ms = now_ms + RENEW_MS;
            self.renew(now_ms, &mut told);
        }
        let due = self.first().find(|(_, errand)| errand.ready_ms <= now_ms);
        if let Some(at) = due.map(|(at, _)| at) {
            let errand = self.errands.remove(at);
            told.extend(self.do_one(errand, now_ms));
        }
        told
    }

    fn do_one(&mut self, errand: Errand, now_ms: u64) -> Option<LockMessage> {
        let Errand { no, what, .. } = errand;
        match what {
            What::Take(id, epoch) => {
                let key = Key::run(id);
                match now(self.provider.try_acquire(&key)) {
                    Ok(Some(lock)) => {
                        let (key, token) = (key.to_string(), lock.token());
                        let kept = SimulatedLock {
                            key,
                            token,
                            lost: false,
                        };
                        if !self.careless {
                            self.kept.insert((no, epoch), kept);
                        }
                        let taken = Taken::Held(BurstLock::unwatched(lock));
                        Some(LockMessage { no, epoch, taken })
                    }
                    refused => {
                        let after = if refused.is_ok() {
                            PAUSE_MS
                        } else {
                            RETRIES_MS
                        };
                        let (ready_ms, what) = (now_ms + after, What::Refuse(epoch));
                        self.errands.push(Errand { ready_ms, no, what });
                        None
                    }
                }
            }
            What::Refuse(epoch) => {
                let taken = Taken::Refused;
                Some(LockMessage { no, epoch, taken })
            }
            What::Give(burst_lock) => {
                let lock = burst_lock.into_lock();
                self.kept.retain(|_, kept| kept.token != lock.token());
                // If the release is refused, the lease ends the lock.
                let _ = now(lock.release());
                None
            }
        }
    }

    fn renew(&mut self, now_ms: u64, told: &mut Vec<LockMessage>) {
        let mut server = self.provider.server.lock();
        for ((no, epoch), kept) in self.kept.iter_mut().filter(|(_, kept)| !kept.lost) {
            if !server.renew(&kept.key, kept.token, now_ms) {
                kept.lost = true;
                let (no, epoch, taken) = (*no, *epoch, Taken::Lost);
                told.push(LockMessage { no, epoch, taken });
            }
        }
    }

    /// A description for messages.
    pub(super) fn about(&self) -> String {
        format!(
            "process {}: {} errands, {} locks",
            self.life,
            self.errands.len(),
            self.kept.len()
        )
    }
}

/// The result of a future that never waits.
fn now<T>(mut future: Answer<'_, T>) -> Result<T, Error> {
    let mut context = Context::from_waker(Waker::noop());
    match future.as_mut().poll(&mut context) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("the simulated server answers at once"),
    }
}
