//! Lookups are bounded, shared, and forgotten.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

const LONG: Duration = Duration::from_secs(3600);

/// A clock that only the test moves.
#[derive(Default)]
pub(crate) struct Still(AtomicU64);

impl Still {
    fn go_on(&self, by: Duration) {
        let by_ms = u64::try_from(by.as_millis()).unwrap();
        self.0.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Clock for Still {
    fn wall_ms(&self) -> i64 {
        0
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// A name server that does not answer until the test drops the sender. The receiver gets the name
/// of each lookup.
pub(crate) fn silent() -> (Box<Lookup>, Receiver<String>, Sender<()>) {
    let (asked, heard) = channel();
    let (release, held) = channel();
    let held = Mutex::new(held);
    let lookup = move |name: &str| {
        let _ = asked.send(name.to_owned());
        // One lookup waits for the end of the sender, and the others wait for that lookup.
        let _ = held.lock().recv();
        Err(io::ErrorKind::NotFound.into())
    };
    (Box::new(lookup), heard, release)
}

fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap()
}

#[test]
fn a_lookup_holds_its_slot_until_it_has_truly_ended() {
    let (lookup, heard, release) = silent();
    let names = Resolver::new(lookup, 2, Duration::ZERO, Arc::new(Still::default()));
    let tokio = tokio();
    for name in ["a.test", "b.test"] {
        assert_eq!(
            tokio.block_on(names.resolve(name)),
            Err(Unresolved::Silent),
            "{name} is given up"
        );
        assert_eq!(heard.recv().unwrap(), name);
    }
    assert_eq!(names.0.slots.available_permits(), 0, "and looked up still");
    assert_eq!(
        tokio.block_on(names.resolve("c.test")),
        Err(Unresolved::Full)
    );
    drop(release);
    // Hangs if a slot is lost.
    let both = tokio.block_on(names.0.slots.acquire_many(2));
    assert!(both.is_ok());
    assert!(heard.try_recv().is_err(), "c.test has not been looked up");
}

#[test]
fn calls_that_ask_for_one_name_share_a_lookup() {
    let (lookup, heard, release) = silent();
    let names = Arc::new(Resolver::new(lookup, 1, LONG, Arc::new(Still::default())));
    let tokio = tokio();
    let asked: Vec<_> = (0..100)
        .map(|_| {
            let names = Arc::clone(&names);
            tokio.spawn(async move { names.resolve("a.test").await })
        })
        .collect();
    assert_eq!(heard.recv().unwrap(), "a.test");
    drop(release);
    for one in asked {
        let found = tokio.block_on(one).unwrap();
        assert_eq!(found, Err(Unresolved::Missing));
    }
    assert!(heard.try_recv().is_err(), "it was looked up once");
}

#[test]
fn a_lookup_that_takes_too_long_is_not_waited_for_again() {
    let (lookup, heard, _release) = silent();
    let clock = Arc::new(Still::default());
    let names = Resolver::new(lookup, 1, LONG, Arc::clone(&clock) as _);
    let tokio = tokio();
    let slot = Arc::clone(&names.0.slots).try_acquire_owned().unwrap();
    names.ask("a.test", slot).unwrap();
    assert_eq!(heard.recv().unwrap(), "a.test");
    clock.go_on(LONG + Duration::from_millis(1));
    let found = tokio.block_on(names.resolve("a.test"));
    assert_eq!(found, Err(Unresolved::Silent));
}

#[test]
fn failed_lookups_are_remembered_for_a_while_and_bounded() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let lookup = move |_: &str| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(Vec::new())
    };
    let clock = Arc::new(Still::default());
    let names = Resolver::new(Box::new(lookup), 4, LONG, Arc::clone(&clock) as _);
    let tokio = tokio();
    let ask = |name: &str| tokio.block_on(names.resolve(name));
    for _ in 0..3 {
        assert_eq!(ask("a.test"), Err(Unresolved::Missing));
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
    clock.go_on(FAILED);
    assert_eq!(ask("a.test"), Err(Unresolved::Missing));
    assert_eq!(count.load(Ordering::SeqCst), 2, "it is looked up again");
    for at in 0..=MAX_FAILED {
        assert_eq!(ask(&format!("{at}.test")), Err(Unresolved::Missing));
    }
    let known = names.0.names.lock();
    assert_eq!(known.failed.len(), MAX_FAILED);
    assert_eq!(known.oldest.len(), MAX_FAILED);
    assert!(known.asked.is_empty());
}

#[test]
fn found_names_are_looked_up_each_time() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let lookup = move |_: &str| {
        let last = counted.fetch_add(1, Ordering::SeqCst);
        Ok(vec![SocketAddr::from(([1, 1, 1, last as u8], 0)); 1_000])
    };
    let names = Resolver::new(Box::new(lookup), 4, LONG, Arc::new(Still::default()));
    let tokio = tokio();
    for last in 0..3 {
        let found = tokio.block_on(names.resolve("a.test")).unwrap();
        assert_eq!(found.len(), MAX_ADDRESSES);
        assert_eq!(found[0], SocketAddr::from(([1, 1, 1, last], 0)));
    }
}

#[test]
fn a_lookup_that_panics_gives_its_slot_back() {
    let lookup = |_: &str| panic!("a bug in a lookup");
    let names = Resolver::new(Box::new(lookup), 1, LONG, Arc::new(Still::default()));
    let tokio = tokio();
    for _ in 0..3 {
        let found = tokio.block_on(names.resolve("a.test"));
        assert_eq!(found, Err(Unresolved::Missing));
    }
}
