//! The retries, on a provider whose answers the test sets.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;
use windlass_model::Clock;
use windlass_model::metrics::Metrics;

use crate::conformance::run;
use crate::{
    Error, HeldLock, Key, Listed, LockProvider, Lost, Parts, Policy, Reach, Retrying, codes,
};

/// The answers of the provider, in order; after them the lock is taken.
#[derive(Clone, Copy)]
enum Says {
    Fails,
    Refuses,
    Reentrant,
    Busy,
}

/// Time that passes only by sleeping.
#[derive(Default)]
struct Time {
    now: Mutex<Duration>,
    waits: Mutex<Vec<Duration>>,
}

impl Clock for Time {
    fn wall_ms(&self) -> i64 {
        0
    }

    fn monotonic(&self) -> Duration {
        *self.now.lock()
    }
}

struct Told {
    says: Mutex<Vec<Says>>,
    attempts: Mutex<Vec<Option<Duration>>>,
    release_fails: bool,
}

impl Told {
    fn answer(&self, timeout: Option<Duration>) -> Result<Option<Box<dyn HeldLock>>, Error> {
        self.attempts.lock().push(timeout);
        let mut says = self.says.lock();
        if says.is_empty() {
            let (sender, lost) = Lost::new();
            return Ok(Some(Box::new(Taken {
                key: Key::reload(),
                _sender: sender,
                lost,
                release_fails: self.release_fails,
            })));
        }
        match says.remove(0) {
            Says::Fails => Err(Error::unreachable("gone")),
            Says::Refuses => Err(Error::refused("no")),
            Says::Reentrant => Err(Error::Reentrant(Key::reload())),
            Says::Busy => Ok(None),
        }
    }
}

impl LockProvider for Told {
    fn name(&self) -> &'static str {
        "told"
    }

    fn reach(&self) -> Reach {
        Reach::Cluster
    }

    fn try_acquire<'a>(
        &'a self,
        _key: &'a Key,
    ) -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>> {
        std::future::ready(self.answer(None)).boxed()
    }

    fn acquire<'a>(
        &'a self,
        _key: &'a Key,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>> {
        std::future::ready(self.answer(Some(timeout))).boxed()
    }

    fn list(&self, _limit: u32) -> BoxFuture<'_, Result<Vec<Listed>, Error>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }
}

struct Taken {
    key: Key,
    _sender: watch::Sender<bool>,
    lost: Lost,
    release_fails: bool,
}

impl HeldLock for Taken {
    fn key(&self) -> &Key {
        &self.key
    }

    fn token(&self) -> u64 {
        7
    }

    fn lost(&self) -> Lost {
        self.lost.clone()
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        let answer = if self.release_fails {
            Err(Error::unreachable("gone"))
        } else {
            Ok(())
        };
        std::future::ready(answer).boxed()
    }
}

struct Rig {
    told: Arc<Told>,
    time: Arc<Time>,
    metrics: Arc<Metrics>,
    provider: Retrying,
}

fn rig(says: &[Says], release_fails: bool) -> Rig {
    let told = Arc::new(Told {
        says: Mutex::new(says.to_vec()),
        attempts: Mutex::default(),
        release_fails,
    });
    let time = Arc::new(Time::default());
    let metrics = Arc::new(Metrics::default());
    let parts = Parts {
        clock: Arc::clone(&time) as Arc<dyn Clock>,
        runtime: tokio::runtime::Handle::current(),
        owner: "us".to_owned(),
        metrics: Arc::clone(&metrics),
    };
    let passing = Arc::clone(&time);
    let provider = Retrying::with_sleeper(
        Arc::clone(&told) as Arc<dyn LockProvider>,
        Policy::default(),
        parts,
        Arc::new(move |wait| {
            *passing.now.lock() += wait;
            passing.waits.lock().push(wait);
            std::future::ready(()).boxed()
        }),
    );
    Rig {
        told,
        time,
        metrics,
        provider,
    }
}

/// Checks how many attempts a sequence of answers takes, and how it ends.
fn check(says: &[Says], attempts: usize, ends: &str) {
    run(async {
        let rig = rig(says, false);
        let answer = rig.provider.try_acquire(&Key::reload()).await;
        let end = match &answer {
            Ok(Some(_)) => "taken".to_owned(),
            Ok(None) => "busy".to_owned(),
            Err(error) => error.code().to_string(),
        };
        assert_eq!(end, ends);
        assert_eq!(rig.told.attempts.lock().len(), attempts);
        assert_eq!(rig.metrics.lock_retries.get(), attempts as u64 - 1);
        let waited = rig.time.monotonic().as_micros();
        // One division rounds once, as the text does.
        let waited = f64::from(u32::try_from(waited).expect("it is short")) / 1e6;
        let sum = format!("\nwindlass_lock_wait_seconds_sum {waited}\n");
        let text = rig.metrics.text();
        assert!(text.contains(&sum), "{sum} is not in\n{text}");
        assert_eq!(rig.metrics.lock_wait.count(), 1);
        for (index, wait) in rig.time.waits.lock().iter().enumerate() {
            let base = Duration::from_millis(500) * (1 << index);
            assert!(
                (base..=base * 2).contains(wait),
                "wait {index} was {wait:?}"
            );
        }
    });
}

#[test]
fn transient_errors_are_retried_three_times() {
    use Says::{Busy, Fails};
    check(&[], 1, "taken");
    check(&[Fails], 2, "taken");
    check(&[Fails, Fails], 3, "taken");
    check(&[Fails, Fails, Fails], 4, "taken");
    check(
        &[Fails, Fails, Fails, Fails],
        4,
        codes::UNREACHABLE.as_str(),
    );
    check(&[Fails, Busy], 2, "busy");
}

#[test]
fn permanent_errors_are_not_retried() {
    use Says::{Busy, Fails, Reentrant, Refuses};
    check(&[Busy], 1, "busy");
    check(&[Refuses], 1, codes::REFUSED.as_str());
    check(&[Reentrant], 1, codes::REENTRANT.as_str());
    check(&[Fails, Refuses], 2, codes::REFUSED.as_str());
}

#[test]
fn a_wait_is_shortened_by_the_time_of_failed_attempts() {
    run(async {
        let rig = rig(&[Says::Fails, Says::Fails], false);
        let wait = Duration::from_secs(10);
        let held = rig
            .provider
            .acquire(&Key::reload(), wait)
            .await
            .expect("an answer");
        assert!(held.is_some());
        let waits: Duration = rig.time.waits.lock().iter().sum();
        let last = rig.told.attempts.lock().last().copied().flatten();
        assert_eq!(last, Some(wait - waits));
    });
}

#[test]
fn no_retry_begins_beyond_the_deadline_of_the_waiting_caller() {
    run(async {
        let rig = rig(&[Says::Fails; 4], false);
        let wait = Duration::from_millis(400);
        let answer = rig.provider.acquire(&Key::reload(), wait).await;
        assert!(answer.is_err());
        assert_eq!(rig.told.attempts.lock().len(), 1);
    });
}

#[test]
fn a_release_that_fails_is_counted_and_harms_no_caller() {
    run(async {
        let rig = rig(&[], true);
        for dropped in [false, true] {
            let held = rig
                .provider
                .try_acquire(&Key::reload())
                .await
                .expect("an answer");
            let held = held.expect("it is taken");
            assert_eq!(held.token(), 7);
            if dropped {
                drop(held);
            } else {
                held.release().await.expect("it is harmless");
            }
        }
        while rig.metrics.lock_release_failures.get() < 2 {
            tokio::task::yield_now().await;
        }
    });
}
