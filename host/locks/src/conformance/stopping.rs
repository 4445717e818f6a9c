//! Holders that die, and holders that are stopped and continued.

use std::time::Duration;

use rustix::process::Signal;

use super::child::Process;
use super::{PATIENCE, SHORT, Subject, is_busy, key};

/// The death of the holder frees a lock: at once, or when its lease has ended.
pub async fn a_dead_holder_frees_its_lock(subject: &Subject) {
    let Some(spawn) = &subject.spawn else {
        return;
    };
    let us = subject.provider();
    let mut process = Process::start(spawn(SHORT));
    process.tell("take dying");
    assert!(process.hear().starts_with("took "));
    assert!(is_busy(&us, &key("dying")).await);
    process.signal(Signal::KILL);
    let held = us.acquire(&key("dying"), PATIENCE).await;
    assert!(held.expect("the backend answers").is_some());
}

/// A lease ends while its holder is stopped; the holder notices it after it is continued, and its
/// late release frees no other holder's lock. A lock of the operating system stays held.
pub async fn a_stopped_holder_loses_its_lease_or_keeps_it(subject: &Subject) {
    let Some(spawn) = &subject.spawn else {
        return;
    };
    let (us, others) = (subject.provider(), subject.provider());
    let mut process = Process::start(spawn(SHORT));
    process.tell("take stopping");
    let took = process.hear();
    let token: u64 = took.trim_start_matches("took ").parse().expect("a token");
    process.signal(Signal::STOP);
    if subject.leases {
        let held = us.acquire(&key("stopping"), PATIENCE).await;
        let held = held
            .expect("the backend answers")
            .expect("its lease passes");
        assert!(held.token() > token, "tokens grow");
        process.signal(Signal::CONT);
        assert_eq!(process.hear(), "lost");
        process.tell("release");
        assert_eq!(process.hear(), "released");
        assert!(
            is_busy(&others, &key("stopping")).await,
            "a stale release frees the lock"
        );
        assert!(!held.lost().is_lost());
        held.release().await.expect("it is released");
    } else {
        let wait = Duration::from_millis(300);
        let held = us.acquire(&key("stopping"), wait).await;
        assert!(held.expect("the backend answers").is_none());
        process.signal(Signal::CONT);
        process.tell("release");
        assert_eq!(process.hear(), "released");
    }
    let held = others.acquire(&key("stopping"), PATIENCE).await;
    assert!(held.expect("the backend answers").is_some());
}
