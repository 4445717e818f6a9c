//! Guarantees that several parties in one process can test.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{LONG, PATIENCE, SHORT, Subject, elsewhere, is_busy, key, take};
use futures::FutureExt as _;

use crate::provider::{Error, Listed, LockProvider};

/// Zero wait.
pub async fn a_free_lock_is_taken_and_a_held_one_is_not(subject: &Subject) {
    let (a, b) = (subject.provider(), subject.provider());
    let key = key("free");
    let first = take(&a, &key).await;
    assert_eq!(first.key(), &key);
    assert!(!first.lost().is_lost());
    assert!(is_busy(&b, &key).await);
    let token = first.token();
    first.release().await.expect("it is released");
    let second = take(&b, &key).await;
    assert!(second.token() > token, "tokens grow");
    assert!(is_busy(&a, &key).await);
}

/// A wait ends at its deadline, and not before.
pub async fn a_deadline_ends_the_wait(subject: &Subject) {
    let (a, b) = (subject.provider(), subject.provider());
    let key = key("deadline");
    let _held = take(&a, &key).await;
    let begin = now();
    let wait = Duration::from_millis(300);
    assert!(elsewhere(&b, &key, wait).await.is_none());
    assert!(begin.elapsed() >= wait);
    assert!(begin.elapsed() < PATIENCE);
}

/// A wait ends when the lock is released.
pub async fn a_waiting_caller_gets_a_released_lock(subject: &Subject) {
    let (a, b) = (subject.provider(), subject.provider());
    let key = key("waiting");
    let held = take(&a, &key).await;
    let (released, held) = tokio::join!(held.release(), elsewhere(&b, &key, PATIENCE));
    released.expect("it is released");
    let held = held.expect("it is free by now");
    assert!(is_busy(&a, &key).await);
    drop(held);
}

/// Not re-entrant, and no self-deadlock.
pub async fn a_caller_that_holds_it_is_told_at_once(subject: &Subject) {
    let a = subject.provider();
    let key = key("reentrant");
    let held = take(&a, &key).await;
    let again = a.try_acquire(&key).await;
    assert!(matches!(again, Err(Error::Reentrant(of)) if of == key));
    let begin = now();
    let again = a.acquire(&key, PATIENCE).await;
    assert!(matches!(again, Err(Error::Reentrant(_))));
    assert!(begin.elapsed() < PATIENCE / 2);
    held.release().await.expect("it is released");
    drop(take(&a, &key).await);
}

/// Other tasks of the same process wait like other processes.
pub async fn callers_of_one_provider_exclude_each_other(subject: &Subject) {
    let a = subject.provider();
    let key = key("tasks");
    let count = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let tasks = (0..8).map(|_| {
        let (a, key, count) = (Arc::clone(&a), key.clone(), Arc::clone(&count));
        tokio::spawn(async move {
            for _ in 0..5 {
                let held = a
                    .acquire(&key, PATIENCE)
                    .await
                    .expect("the backend answers");
                let held = held.expect("its turn comes");
                let inside = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                assert_eq!(inside, 0, "another holder is inside");
                tokio::task::yield_now().await;
                count.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                held.release().await.expect("it is released");
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("it does not panic");
    }
}

/// Dropping a lock releases it, in the background.
pub async fn a_dropped_lock_is_released(subject: &Subject) {
    // The dropped lock is without retries, which release a lock in another way.
    let (a, b) = ((subject.open)(LONG), subject.provider());
    let key = key("dropped");
    drop(take(&a, &key).await);
    let held = b
        .acquire(&key, PATIENCE)
        .await
        .expect("the backend answers");
    assert!(held.is_some());
}

/// A request whose caller is gone leaves no lock behind.
pub async fn a_caller_that_went_away_holds_nothing(subject: &Subject) {
    let (a, b) = (subject.provider(), subject.provider());
    let key = key("away");
    for _ in 0..20 {
        // Polled once, which sends the request, and dropped.
        drop(a.try_acquire(&key).now_or_never());
    }
    let held = b
        .acquire(&key, PATIENCE)
        .await
        .expect("the backend answers");
    assert!(held.is_some());
}

/// For `windlass lock list`.
pub async fn held_locks_are_listed(subject: &Subject) {
    let a = subject.provider();
    let key = key("listed * with %, and \"quotes\"");
    let of_key = |listed: Vec<Listed>| listed.into_iter().find(|listed| listed.key == key.as_str());
    assert!(of_key(list(&a, 1_000).await).is_none());
    let held = take(&a, &key).await;
    let listed = of_key(list(&a, 1_000).await).expect("it is in the list");
    assert_eq!(listed.token, held.token());
    assert_eq!(listed.owner, "conformance");
    assert_eq!(listed.lease_ms.is_some(), subject.leases);
    assert!(listed.lease_ms.is_none_or(|left_ms| left_ms <= 60_000));
    assert!(list(&a, 0).await.is_empty());
    held.release().await.expect("it is released");
    assert!(of_key(list(&a, 1_000).await).is_none());
}

/// A list, requested once more after a failure: no retry covers lists.
async fn list(provider: &Arc<dyn LockProvider>, limit: u32) -> Vec<Listed> {
    let listed = match provider.list(limit).await {
        Err(error) if error.is_transient() => provider.list(limit).await,
        listed => listed,
    };
    listed.expect("a list")
}

/// The same for long names that differ only at their ends.
pub async fn keys_are_apart(subject: &Subject) {
    let a = subject.provider();
    let long = "workflow".repeat(40);
    let keys = [
        key(&format!("{long}-1")),
        key(&format!("{long}-2")),
        key("short"),
    ];
    let mut held = Vec::new();
    for key in &keys {
        held.push(take(&a, key).await);
    }
    for key in &keys {
        assert!(is_busy(&a, key).await);
    }
}

/// Bursts run on threads that are not tokio's.
pub async fn locks_are_taken_from_any_thread(subject: &Subject) {
    let a = subject.provider();
    let key = key("thread");
    let taken = {
        let (a, key) = (Arc::clone(&a), key.clone());
        std::thread::spawn(move || {
            let first = futures_executor(a.try_acquire(&key)).expect("it answers");
            let first = first.expect("it is free");
            let again = futures_executor(a.acquire(&key, PATIENCE));
            assert!(matches!(again, Err(Error::Reentrant(_))));
            futures_executor(first.release()).expect("it is released");
            let second = futures_executor(a.acquire(&key, PATIENCE)).expect("it answers");
            second.expect("it is free")
        })
    };
    let held = tokio::task::spawn_blocking(move || taken.join())
        .await
        .expect("it ends")
        .expect("it does not panic");
    assert!(is_busy(&a, &key).await);
    drop(held);
}

/// The renewal continues in the background.
pub async fn a_lock_outlives_its_lease_while_it_is_renewed(subject: &Subject) {
    let (a, b) = (subject.with_lease(SHORT), subject.provider());
    let key = key("renewed");
    let held = take(&a, &key).await;
    let mut lost = held.lost();
    // Wait for two leases, if the backend has leases, while another party keeps asking.
    let wait = match subject.leases {
        true => SHORT * 2,
        false => Duration::from_millis(300),
    };
    tokio::select! {
        stolen = elsewhere(&b, &key, wait) => assert!(stolen.is_none()),
        () = lost.wait() => panic!("it was lost while its holder was alive"),
    }
    held.release().await.expect("it is released");
    drop(take(&b, &key).await);
}

/// Waits for a future without any runtime.
fn futures_executor<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(value) => return value,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long something took is the subject"
)]
fn now() -> Instant {
    Instant::now()
}
