//! When turns are taken, and how a worker ends. No test waits for an estimated time: a rest takes
//! an hour where only a ring or a stop may end it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);
const SOON: Duration = Duration::from_millis(1);

/// A worker that reports each turn that it takes.
fn worker(rest: Rest) -> (Periodic, Receiver<()>) {
    let (tell, told): (SyncSender<()>, _) = sync_channel(0);
    let worker = Periodic::start("tested", move |bell| {
        if tell.send(()).is_err() {
            bell.stop();
        }
        rest
    });
    (worker.unwrap(), told)
}

#[track_caller]
fn turn(told: &Receiver<()>) {
    told.recv_timeout(Duration::from_secs(60)).unwrap();
}

#[test]
fn turns_follow_each_other_by_time() {
    for rest in [
        Rest::NONE,
        Rest::exactly(SOON),
        Rest::until_rung(SOON, SOON * 2),
        Rest::until_rung(Duration::ZERO, SOON),
    ] {
        let (worker, told) = worker(rest);
        for _ in 0..3 {
            turn(&told);
        }
        // The thread may be blocked in sending its next report; dropping the receiver ends that
        // send.
        drop(told);
        drop(worker);
    }
}

#[test]
fn a_ring_ends_a_rest() {
    let (worker, told) = worker(Rest::until_rung(Duration::ZERO, HOUR));
    for _ in 0..3 {
        turn(&told);
        worker.bell().ring();
    }
    turn(&told);
    drop(told);
}

#[test]
fn a_ring_does_not_shorten_the_pace() {
    let bell = Bell::default();
    bell.ring();
    assert!(bell.rest(Rest::exactly(SOON)));
    bell.ring();
    assert!(bell.rest(Rest::until_rung(SOON, HOUR)));
    assert!(!bell.take_ring(), "the turn that follows serves the ring");
}

#[test]
fn a_stop_ends_every_rest() {
    for rest in [Rest::exactly(HOUR), Rest::until_rung(HOUR, HOUR * 2)] {
        let (worker, told) = worker(rest);
        turn(&told);
        drop(worker);
        assert!(told.recv().is_err(), "the thread has ended with the worker");
    }
}

#[test]
fn a_turn_ends_its_own_worker() {
    let turns = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&turns);
    let (tell, told) = sync_channel::<()>(0);
    let worker = Periodic::start("tested", move |bell| {
        let _held = &tell;
        counted.fetch_add(1, Ordering::SeqCst);
        bell.stop();
        Rest::NONE
    });
    worker.unwrap().detach();
    assert!(told.recv().is_err());
    assert_eq!(turns.load(Ordering::SeqCst), 1);
}

#[test]
fn a_panic_ends_the_worker_and_nothing_else() {
    let (tell, told) = sync_channel::<()>(0);
    let worker = Periodic::start("tested", move |_| {
        let _held = &tell;
        panic!("as a test asks for")
    });
    assert!(told.recv().is_err());
    drop(worker.unwrap());
}
