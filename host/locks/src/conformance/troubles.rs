//! Locks while their server fails.

use std::sync::Arc;

use super::{PATIENCE, QUICK, SHORT, Subject, is_busy, key, parts, take};
use crate::codes;
use crate::retry::Retrying;

/// A server that the test controls.
pub struct Server {
    /// Drops all connections, or restarts the server.
    pub disturb: Box<dyn Fn() + Send + Sync>,
    /// Stops the server.
    pub stop: Box<dyn Fn() + Send + Sync>,
    /// Starts the server again.
    pub start: Box<dyn Fn() + Send + Sync>,
}

/// A server with durable locks: the holder of a lock still holds it after the disturbance.
pub async fn a_disturbance_frees_nothing(subject: &Subject, server: &Server) {
    let (a, b) = (subject.provider(), subject.provider());
    let key = key("disturbed");
    let held = take(&a, &key).await;
    assert!(is_busy(&b, &key).await);
    (server.disturb)();
    assert!(is_busy(&b, &key).await);
    assert!(!held.lost().is_lost());
    held.release().await.expect("it is harmless");
    let held = b
        .acquire(&key, PATIENCE)
        .await
        .expect("the backend answers");
    assert!(held.is_some());
}

/// A server without durable locks: the holder of a lock notices that it is lost, and its release
/// frees no other holder's lock.
pub async fn a_server_that_forgets_loses_locks(subject: &Subject, server: &Server) {
    let (a, b) = (subject.with_lease(SHORT), subject.provider());
    let key = key("forgotten");
    let held = take(&a, &key).await;
    let mut lost = held.lost();
    (server.disturb)();
    let theirs = b
        .acquire(&key, PATIENCE)
        .await
        .expect("the backend answers");
    let theirs = theirs.expect("it is forgotten");
    tokio::time::timeout(PATIENCE, lost.wait())
        .await
        .expect("its holder hears of it");
    held.release().await.expect("it is harmless");
    assert!(is_busy(&a, &key).await, "a stale release frees the lock");
    assert!(!theirs.lost().is_lost());
}

/// A server that is down: there is a clear error within the deadline, holders notice that they have
/// lost their locks, and late releases do no harm; locks work again when it is back.
pub async fn a_server_that_has_gone_is_named(subject: &Subject, server: &Server) {
    let metrics = Arc::new(windlass_model::metrics::Metrics::default());
    let mut parts = parts("conformance");
    parts.metrics = Arc::clone(&metrics);
    let a: Arc<dyn crate::LockProvider> =
        Arc::new(Retrying::new((subject.open)(SHORT), QUICK, parts));
    let held = take(&a, &key("kept")).await;
    let mut lost = held.lost();
    let before = metrics.lock_retries.get();
    (server.stop)();
    let asked = tokio::time::timeout(PATIENCE, a.try_acquire(&key("gone"))).await;
    let error = asked.expect("within the deadline").err().expect("an error");
    assert_eq!(error.code(), codes::UNREACHABLE);
    assert!(error.is_transient());
    assert_eq!(
        metrics.lock_retries.get() - before,
        3,
        "it was tried three times more"
    );
    // Longer than one request may take: a wait that ends before there is an answer is not an error.
    let wait = PATIENCE / 2;
    let asked = tokio::time::timeout(PATIENCE, a.acquire(&key("gone"), wait)).await;
    let error = asked.expect("within the deadline").err().expect("an error");
    assert_eq!(error.code(), codes::UNREACHABLE);
    tokio::time::timeout(PATIENCE, lost.wait())
        .await
        .expect("its holder hears of it");
    held.release().await.expect("it is harmless");
    assert_eq!(metrics.lock_release_failures.get(), 1);
    (server.start)();
    let held = a.acquire(&key("gone"), PATIENCE).await.expect("it is back");
    assert!(held.is_some());
}
