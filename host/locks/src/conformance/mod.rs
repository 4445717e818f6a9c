//! The conformance tests of lock providers.
//!
//! A backend describes itself as a [`Subject`] and calls [`crate::conformance!`]. Real processes
//! contend for real locks here, and leases are short. Tests wait only for observable events, except
//! where the end of a lease is the subject.
#![expect(clippy::expect_used, clippy::panic, reason = "it is a test suite")]

pub mod child;
mod contention;
mod one;
mod stopping;
pub mod troubles;

use std::future::Future;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_model::Clock;

pub use self::contention::processes_exclude_each_other;
pub use self::one::*;
pub use self::stopping::{
    a_dead_holder_frees_its_lock, a_stopped_holder_loses_its_lease_or_keeps_it,
};
use crate::key::Key;
use crate::parts::Parts;
use crate::provider::{HeldLock, LockProvider};
use crate::retry::{Policy, Retrying};

/// A lease that ends during a test, but not while a machine stalls for a second or two.
pub const SHORT: Duration = Duration::from_secs(5);

/// A lease that does not end during a test.
pub const LONG: Duration = Duration::from_secs(60);

/// Longer than any operation takes that works.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Retries with short delays.
const QUICK: Policy = Policy {
    retries: 3,
    delay: Duration::from_millis(100),
    deadline: Duration::from_secs(30),
};

/// Makes a provider with this lease. Each is a separate party to the same locks.
pub type Open = Box<dyn Fn(Duration) -> Arc<dyn LockProvider> + Send + Sync>;

/// A process that calls [`child::main`] with such a provider.
pub type Spawn = Box<dyn Fn(Duration) -> Command + Send + Sync>;

/// A backend under test.
pub struct Subject {
    /// Makes a provider.
    pub open: Open,
    /// Makes a process; none for locks that only one process sees.
    pub spawn: Option<Spawn>,
    /// Whether a lock ends if its holder does not renew it.
    pub leases: bool,
}

impl Subject {
    pub(crate) fn provider(&self) -> Arc<dyn LockProvider> {
        self.with_lease(LONG)
    }

    pub(crate) fn with_lease(&self, lease: Duration) -> Arc<dyn LockProvider> {
        bridged((self.open)(lease))
    }
}

/// A provider with retries. Few tests concern a backend that does not answer for a while, but it
/// may happen in all.
pub(crate) fn bridged(provider: Arc<dyn LockProvider>) -> Arc<dyn LockProvider> {
    Arc::new(Retrying::new(provider, QUICK, parts("conformance")))
}

/// The clock of the machine.
#[derive(Debug)]
pub struct TestClock(Instant);

impl Default for TestClock {
    #[expect(clippy::disallowed_methods, reason = "real backends take real time")]
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for TestClock {
    fn wall_ms(&self) -> i64 {
        0
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The parts of a provider in the current runtime, for an owner of that name.
pub fn parts(owner: &str) -> Parts {
    Parts {
        clock: Arc::new(TestClock::default()),
        runtime: tokio::runtime::Handle::current(),
        owner: owner.to_owned(),
        metrics: Arc::default(),
    }
}

/// A key that no other test uses.
pub(crate) fn key(name: &str) -> Key {
    Key::run(name)
}

/// Runs a case in a runtime of its own.
pub fn run(case: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(case);
}

/// Takes a free lock.
pub(crate) async fn take(provider: &Arc<dyn LockProvider>, key: &Key) -> Box<dyn HeldLock> {
    let held = provider
        .try_acquire(key)
        .await
        .expect("the backend answers");
    held.expect("the lock is free")
}

/// Waits for a lock in a separate task, which is another caller.
pub(crate) async fn elsewhere(
    provider: &Arc<dyn LockProvider>,
    key: &Key,
    wait: Duration,
) -> Option<Box<dyn HeldLock>> {
    let (provider, key) = (Arc::clone(provider), key.clone());
    let asked = tokio::spawn(async move {
        if wait.is_zero() {
            provider.try_acquire(&key).await
        } else {
            provider.acquire(&key, wait).await
        }
    });
    let answer = asked.await.expect("it does not panic");
    answer.expect("the backend answers")
}

/// Whether another caller holds a lock.
pub(crate) async fn is_busy(provider: &Arc<dyn LockProvider>, key: &Key) -> bool {
    elsewhere(provider, key, Duration::ZERO).await.is_none()
}

/// Makes a test of each case for the subject that an expression returns; none if it cannot be
/// tested here. The expression is evaluated inside of a runtime.
#[macro_export]
macro_rules! conformance {
    ($subject:expr) => {
        $crate::conformance!(@cases $subject;
            a_free_lock_is_taken_and_a_held_one_is_not,
            a_deadline_ends_the_wait,
            a_waiting_caller_gets_a_released_lock,
            a_caller_that_holds_it_is_told_at_once,
            callers_of_one_provider_exclude_each_other,
            a_dropped_lock_is_released,
            a_caller_that_went_away_holds_nothing,
            held_locks_are_listed,
            keys_are_apart,
            locks_are_taken_from_any_thread,
            a_lock_outlives_its_lease_while_it_is_renewed,
            processes_exclude_each_other,
            a_dead_holder_frees_its_lock,
            a_stopped_holder_loses_its_lease_or_keeps_it,
        );
    };
    (@cases $subject:expr; $($case:ident),* $(,)?) => {
        $(#[test]
        fn $case() {
            $crate::conformance::run(async {
                if let Some(subject) = $subject {
                    $crate::conformance::$case(&subject).await;
                }
            });
        })*
    };
}
