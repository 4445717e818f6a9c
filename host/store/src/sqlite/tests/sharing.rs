//! Several processes on one file.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use windlass_model::Status;

use super::crashing::child_of;
use super::on_disk;
use crate::conformance::TestClock;
use crate::conformance::world::{DONE, Member};
use crate::sqlite::{SqliteOptions, SqliteStore};
use crate::write::Leave;
use crate::{Listener, Reader as _, Store};

const PATH: &str = "WINDLASS_STORE_TEST_PARTNER";

/// Every wait is shorter than this unless a wake-up is lost.
const LONG: Duration = Duration::from_secs(30);

fn ears(store: &dyn Store) -> (Receiver<()>, Listener) {
    let (sender, heard) = channel();
    let listener = store
        .listen(Box::new(move |_| sender.send(()).unwrap_or_default()))
        .unwrap();
    (heard, listener)
}

/// Commits a chain of its own, then waits for notifications, ends all due runs, and notifies
/// the other process.
fn partner(path: &Path) {
    let options = SqliteOptions::new(Arc::<TestClock>::default());
    let store = SqliteStore::open(path, options).unwrap();
    let (woken, _listener) = ears(&*store);
    let member = Member::of(Arc::clone(&store) as Arc<dyn Store>);
    store.notify();
    chain(&member, 100);
    let mut finished = 0;
    while finished < 10 {
        for held in member.claim_all(10) {
            assert_eq!(member.commit(member.last(&held)), DONE);
            finished += 1;
        }
        if finished < 10 {
            woken.recv_timeout(LONG).unwrap();
        }
    }
    let incarnation = member.incarnation;
    member.write(Leave { incarnation });
    store.notify();
}

fn chain(member: &Member, steps: u64) {
    let mut held = member.born();
    for seq in 0..steps {
        assert_eq!(member.commit(member.chained(&held, seq + 2)), DONE);
        held = held.next();
    }
    assert_eq!(member.commit(member.last(&held)), DONE);
}

#[test]
fn two_processes_share_a_file() {
    if let Some(path) = std::env::var_os(PATH) {
        return partner(Path::new(&path));
    }
    let disk = on_disk();
    let store = disk.store();
    let (woken, _listener) = ears(&*store);
    let member = Member::of(Arc::clone(&store) as Arc<dyn Store>);
    let mut child = child_of(
        "sqlite::tests::sharing::two_processes_share_a_file",
        PATH,
        &disk.path(),
    );
    woken.recv_timeout(LONG).unwrap();
    // Both processes write at the same time, so each cache becomes outdated repeatedly.
    chain(&member, 100);
    let created: Vec<_> = (0..10)
        .map(|_| {
            let no = member.create(member.draft(1));
            store.notify();
            no
        })
        .collect();
    woken.recv_timeout(LONG).unwrap();
    let mut text = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
    for no in created {
        assert_eq!(member.head(no).status, Status::Completed);
    }
    let counts = store.counts().unwrap();
    assert_eq!(
        (counts.runs, counts.unfinished, counts.executions),
        (12, 0, 212)
    );
    assert_eq!(store.members().unwrap().len(), 1);
}

#[test]
fn a_dead_member_is_known_by_its_lock() {
    let disk = on_disk();
    let (one, other) = (disk.store(), disk.store());
    let member = Member::of(one as Arc<dyn Store>);
    let dead = Member::of(Arc::clone(&other) as Arc<dyn Store>);
    let lock =
        super::super::locks::directory(&disk.path()).join(format!("{}.lock", dead.incarnation));
    dead.born();
    assert!(lock.exists());
    assert_eq!(member.reap(10), 0);
    other.close();
    assert_eq!(member.reap(10), 1);
    assert!(!lock.exists(), "nothing is left behind");
}

#[test]
fn without_its_lock_file_a_member_is_trusted_for_its_lease() {
    let disk = on_disk();
    let member = Member::of(disk.store() as Arc<dyn Store>);
    let dead = Member::of(disk.store() as Arc<dyn Store>);
    dead.born();
    dead.die();
    let directory = super::super::locks::directory(&disk.path());
    std::fs::remove_file(directory.join(format!("{}.lock", dead.incarnation))).unwrap();
    assert_eq!(member.reap(10), 0);
    disk.clock.advance(2 * crate::conformance::world::LEASE_MS);
    assert_eq!(member.reap(10), 1);
}
