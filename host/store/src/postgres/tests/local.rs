//! Lock files of members: a death on this machine is noticed before the lease ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{InDatabase, in_database};
use crate::Store;
use crate::conformance::world::{LEASE_MS, Member};
use crate::postgres::PostgresStore;

/// A store whose members have files in a directory.
fn store(database: &InDatabase, directory: &Path) -> Arc<PostgresStore> {
    let mut options = database.options();
    options.members = Some(directory.to_owned());
    PostgresStore::open(database.url.as_deref().unwrap(), options).unwrap()
}

fn member(store: &Arc<PostgresStore>) -> Member {
    Member::of(Arc::clone(store) as Arc<dyn Store>)
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(directory).unwrap();
    files.map(|file| file.unwrap().path()).collect()
}

/// Releases the locks of a store's members as the death of its process does.
fn die(store: &PostgresStore) {
    for (_, file) in &*store.shared.joined.lock() {
        file.as_ref().unwrap().release();
    }
}

#[test]
fn a_death_on_this_machine_is_noticed_at_once() {
    let database = in_database();
    if database.url.is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (
        store(&database, folder.path()),
        store(&database, folder.path()),
    );
    let (living, dead) = (member(&one), member(&other));
    dead.born();
    assert_eq!(files(folder.path()).len(), 2);
    assert_eq!(living.reap(10), 0, "it holds its lock");
    die(&other);
    assert_eq!(living.reap(10), 1);
    assert_eq!(files(folder.path()).len(), 1, "nothing is left behind");
    one.close();
    assert!(files(folder.path()).is_empty(), "nothing is left behind");
}

#[test]
fn where_the_file_proves_nothing_the_lease_decides() {
    let database = in_database();
    if database.url.is_none() {
        return;
    }
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let one = store(&database, folder.path());
    let living = member(&one);
    let own = files(folder.path());
    let other = store(&database, elsewhere.path());
    let dead = member(&other);
    dead.born();
    let file = files(elsewhere.path()).pop().unwrap();
    let name = file.file_name().unwrap();
    // The file of another machine.
    die(&other);
    assert_eq!(living.reap(10), 0);
    // A copy of the file, as in a copy of the machine's disk.
    let copy = folder.path().join(name);
    std::fs::copy(&file, &copy).unwrap();
    assert_eq!(living.reap(10), 0);
    std::fs::remove_file(&copy).unwrap();
    // The file of another database, of another boot, of another process, and a file with another name.
    let name = name.to_str().unwrap();
    let (who, rest) = name
        .rsplit_once(".lock")
        .map(|(name, _)| name.split_at(name.len() - 46))
        .unwrap();
    for wrong in [
        format!("{who}-00000000{}.lock", &rest[9..]),
        format!(
            "{who}{}-00000000-0000-0000-0000-000000000000.lock",
            &rest[..9]
        ),
        format!("1{who}{rest}.lock"),
        format!("{who}-1{rest}.lock"),
        format!("{rest}.lock"),
        "x.lock".to_owned(),
    ] {
        let path = folder.path().join(&wrong);
        std::fs::hard_link(&file, &path).unwrap();
        assert_eq!(living.reap(10), 0, "{wrong}");
        let _ = std::fs::remove_file(path);
    }
    assert_eq!(files(folder.path()), own);
    std::fs::hard_link(&file, folder.path().join(name)).unwrap();
    assert_eq!(living.reap(10), 1, "the file itself");
    // Without a file, after the lease.
    let third = member(&other);
    third.born();
    die(&other);
    assert_eq!(living.reap(10), 0);
    database.clock.advance(2 * LEASE_MS);
    assert_eq!(living.reap(10), 1);
}

#[test]
fn a_directory_that_cannot_be_made_costs_only_time() {
    let database = in_database();
    if database.url.is_none() {
        return;
    }
    let one = store(&database, Path::new("/proc/no/such/directory"));
    let member = member(&one);
    member.born();
    assert_eq!(member.reap(10), 0);
}
