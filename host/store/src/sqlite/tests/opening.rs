//! Files that are opened, and files that are refused and left unchanged.

use std::fs::{self, File, Permissions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use super::super::open::WRITER_WAIT_MS;
use super::super::{SqliteOptions, SqliteStore};
use super::{OnDisk, on_disk};
use crate::conformance::TestClock;
use crate::conformance::world::Member;
use crate::sql::layout::Steps;
use crate::{Reader as _, Store, codes};

/// A closed store with rows in it.
fn filled() -> OnDisk {
    let disk = on_disk();
    let store = disk.store();
    let member = Member::of(Arc::clone(&store) as Arc<dyn Store>);
    for _ in 0..200 {
        member.create(member.draft(5));
    }
    store.close();
    disk
}

/// Opens the store and reads all of it.
fn visit(path: &Path) -> crate::Result<()> {
    let store = SqliteStore::open(path, SqliteOptions::new(Arc::<TestClock>::default()))?;
    store.counts()?;
    let query = crate::read::RunQuery {
        limit: 1000,
        ..Default::default()
    };
    for row in store.runs(&query)? {
        store.triggers(row.no)?;
    }
    Ok(())
}

#[test]
fn no_store_is_made_behind_a_link() {
    let disk = on_disk();
    let elsewhere = disk.directory.path().join("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, disk.path()).unwrap();
    for left in [false, true] {
        let error = visit(&disk.path()).unwrap_err();
        assert_eq!(error.code, codes::CANNOT_OPEN, "{error}");
        assert_eq!(elsewhere.exists(), left, "nothing is made");
        File::create(&elsewhere).unwrap();
    }
    assert_eq!(fs::metadata(&elsewhere).unwrap().len(), 0);
    // A store that is there is opened.
    let other = filled();
    fs::remove_file(disk.path()).unwrap();
    std::os::unix::fs::symlink(other.path(), disk.path()).unwrap();
    visit(&disk.path()).unwrap();
}

#[test]
fn the_directory_of_locks_is_no_link() {
    let disk = on_disk();
    let elsewhere = tempfile::tempdir().unwrap();
    let members = disk.directory.path().join("windlass.db-members");
    std::os::unix::fs::symlink(elsewhere.path(), members).unwrap();
    assert!(visit(&disk.path()).is_err());
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[test]
fn an_empty_file_is_laid_out() {
    let disk = on_disk();
    File::create(disk.path()).unwrap();
    disk.store().close();
    let connection = Connection::open(disk.path()).unwrap();
    let pragma = |name: &str| {
        connection
            .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
            .unwrap()
    };
    // 2 means incremental; the application's number spells `wlas`.
    let layout = Steps::sqlite(&[]).known() as i64;
    assert_eq!((pragma("user_version"), pragma("auto_vacuum")), (layout, 2));
    assert_eq!(
        pragma("application_id"),
        i64::from(u32::from_be_bytes(*b"wlas"))
    );
    let mode: String = connection
        .pragma_query_value(None, "journal_mode", |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "wal");
    drop(connection);
    assert!(visit(&disk.path()).is_ok());
    assert!(!disk.directory.path().join("windlass.db-wal").exists());
}

#[test]
fn an_opening_process_waits_for_a_process_that_closes_the_file() {
    let disk = filled();
    // Locks the file as the last closing process does while it copies the log.
    let closing = Connection::open(disk.path()).unwrap();
    closing
        .execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT")
        .unwrap();
    let path = disk.path();
    let visit = std::thread::spawn(move || visit(&path));
    // Longer than a writer's statement waits.
    std::thread::park_timeout(Duration::from_millis(5 * WRITER_WAIT_MS));
    drop(closing);
    visit.join().unwrap().unwrap();
}

fn check_refused(disk: &OnDisk, code: &windlass_model::Code) {
    let before = fs::read(disk.path()).unwrap();
    let error = visit(&disk.path()).unwrap_err();
    assert_eq!(error.code, *code, "{error}");
    assert!(error.help.is_some() && !error.transient, "{error:?}");
    assert!(
        fs::read(disk.path()).unwrap() == before,
        "the file is left alone"
    );
}

#[test]
fn a_newer_file_is_refused() {
    let disk = filled();
    let connection = Connection::open(disk.path()).unwrap();
    let newer = Steps::sqlite(&[]).known() as i64 + 1;
    connection
        .pragma_update(None, "user_version", newer)
        .unwrap();
    connection
        .execute("UPDATE requirement SET layout = ?1", [newer])
        .unwrap();
    drop(connection);
    check_refused(&disk, &codes::NEWER);
}

#[test]
fn a_database_of_another_program_is_refused() {
    let disk = on_disk();
    let connection = Connection::open(disk.path()).unwrap();
    connection
        .execute_batch("CREATE TABLE theirs (it)")
        .unwrap();
    drop(connection);
    check_refused(&disk, &codes::NOT_A_STORE);
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let disk = on_disk();
    fs::write(
        disk.path(),
        "this is a letter, not a database\n".repeat(300),
    )
    .unwrap();
    check_refused(&disk, &codes::NOT_A_STORE);
}

#[test]
fn a_damaged_file_is_refused() {
    let disk = filled();
    let length = fs::metadata(disk.path()).unwrap().len();
    let mut file = File::options().write(true).open(disk.path()).unwrap();
    file.seek(SeekFrom::Start(4096)).unwrap();
    file.write_all(&vec![0xab; usize::try_from(length - 4096).unwrap()])
        .unwrap();
    check_refused(&disk, &codes::CORRUPT);
}

#[test]
fn a_file_cut_short_is_refused() {
    let disk = filled();
    let file = File::options().write(true).open(disk.path()).unwrap();
    file.set_len(fs::metadata(disk.path()).unwrap().len() / 2)
        .unwrap();
    check_refused(&disk, &codes::CORRUPT);
}

#[test]
fn a_place_that_is_none_is_refused() {
    let disk = on_disk();
    fs::write(disk.path(), "").unwrap();
    let error = visit(&disk.path().join("below-a-file.db")).unwrap_err();
    assert_eq!(error.code, codes::CANNOT_OPEN, "{error}");
}

/// Reads as an unprivileged user (id 65534), because file permissions do not restrict root. A
/// thread and not a process, because that user may lack access to the program of the process.
fn visit_as_nobody(path: &Path) -> crate::Result<()> {
    std::thread::scope(|scope| {
        let visitor = scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                rustix::thread::set_thread_gid(rustix::process::Gid::from_raw(65534)).unwrap();
                rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65534)).unwrap();
            }
            visit(path)
        });
        visitor.join().unwrap()
    })
}

#[test]
fn a_store_that_cannot_be_written_is_refused() {
    let disk = filled();
    let [all, read, enter] = [0o777, 0o444, 0o555].map(Permissions::from_mode);
    let members = super::super::locks::directory(&disk.path());
    fs::set_permissions(members.join("open.lock"), Permissions::from_mode(0o666)).unwrap();
    // First the file, in a writable directory; then the directories.
    for (file, directory) in [(read, all), (Permissions::from_mode(0o666), enter)] {
        fs::set_permissions(disk.path(), file).unwrap();
        fs::set_permissions(&members, directory.clone()).unwrap();
        fs::set_permissions(disk.directory.path(), directory).unwrap();
        let error = visit_as_nobody(&disk.path()).unwrap_err();
        assert_eq!(error.code, codes::READ_ONLY, "{error}");
        fs::set_permissions(disk.directory.path(), Permissions::from_mode(0o777)).unwrap();
    }
    assert!(visit(&disk.path()).is_ok());
}
