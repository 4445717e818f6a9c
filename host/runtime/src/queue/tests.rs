//! When the worker reads the queue, and how workers exclude each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use windlass_locks::{InProcess, Key, LockProvider};
use windlass_periodic::Rest;

use super::exclusive_worker::ExclusiveWorker;
use super::{IDLE, PACE, RESIGNAL, Round, Worker, rest};
use crate::error::Error;
use crate::exclusive::Exclusive;

#[track_caller]
fn check(round: Option<Round>, expected: Rest) {
    assert_eq!(rest(round, 1_000), expected);
}

fn done(more: bool, again_ms: Option<i64>) -> Option<Round> {
    Some(Round::Done { more, again_ms })
}

#[test]
fn a_round_says_when_the_next_one_is() {
    let rung = |at_most| Rest::until_rung(PACE, at_most);
    check(done(true, None), Rest::NONE);
    check(done(true, Some(5_000)), Rest::NONE);
    check(done(false, None), rung(IDLE));
    check(done(false, Some(3_000)), rung(Duration::from_secs(2)));
    check(done(false, Some(0)), rung(PACE));
    check(done(false, Some(i64::MAX)), rung(IDLE));
    check(Some(Round::Busy), Rest::exactly(RESIGNAL));
    check(None, Rest::exactly(RESIGNAL));
}

/// Counts its rounds, and whether each was allowed to continue.
#[derive(Default)]
struct Counting(AtomicU32);

impl Worker for &Counting {
    fn round(&self, go_on: &dyn Fn() -> bool) -> Result<Round, Error> {
        assert!(go_on());
        self.0.fetch_add(1, Ordering::SeqCst);
        let (more, again_ms) = (false, None);
        Ok(Round::Done { more, again_ms })
    }
}

#[test]
fn a_process_that_finds_another_at_the_queue_skips_it() {
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let parts = windlass_locks::Parts {
        clock: Arc::new(crate::SystemClock::new()),
        runtime: tokio.handle().clone(),
        owner: "test".to_owned(),
        metrics: Arc::default(),
    };
    let locks: Arc<dyn LockProvider> = Arc::new(InProcess::new(parts));
    let counting = Counting::default();
    let worker = ExclusiveWorker::new(
        &counting,
        Exclusive::new(Arc::clone(&locks), tokio.handle().clone()),
    );
    let other = tokio
        .block_on(locks.try_acquire(&Key::queue_worker()))
        .unwrap();
    let other = other.expect("the lock is free");
    assert_eq!(worker.round(&|| true).unwrap(), Round::Busy);
    assert_eq!(counting.0.load(Ordering::SeqCst), 0);
    tokio.block_on(other.release()).unwrap();
    for rounds in 1..=2 {
        assert_eq!(Some(worker.round(&|| true).unwrap()), done(false, None));
        assert_eq!(counting.0.load(Ordering::SeqCst), rounds);
    }
}
