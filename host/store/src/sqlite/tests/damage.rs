//! Files that are removed, replaced or truncated: the store is refused, or detects it before it
//! acknowledges another write.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_model::Code;

use super::{OnDisk, on_disk};
use crate::conformance::world::Member;
use crate::sqlite::SqliteStore;
use crate::sqlite::watch::beside;
use crate::write::Unpark;
use crate::{Error, Store, Writer as _, codes};

/// A store with writes in its log, as a killed process leaves it.
fn killed() -> OnDisk {
    let (from, to) = (on_disk(), on_disk());
    let store = from.store();
    let member = Member::of(Arc::clone(&store) as Arc<dyn Store>);
    for _ in 0..20 {
        member.create(member.draft(5));
    }
    for ending in ["", "-wal", "-mark"] {
        copy(&beside(&from.path(), ending), &beside(&to.path(), ending));
    }
    to
}

fn copy(from: &Path, to: &Path) {
    if from.exists() {
        fs::copy(from, to).unwrap();
    }
}

/// Copies the log into the file, and truncates the log.
fn empty_log(path: &Path) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
    let busy: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(busy, 0);
}

fn opened(disk: &OnDisk) -> Result<(), Error> {
    SqliteStore::open(disk.path(), disk.options()).map(|store| store.close())
}

#[track_caller]
fn check_refused(disk: &OnDisk, code: &Code) {
    let error = opened(disk).unwrap_err();
    assert_eq!(error.code, *code, "{error}");
    assert!(error.help.is_some() && !error.transient, "{error:?}");
    let path = disk.path().display().to_string();
    assert!(error.message.contains(&path), "{error}");
}

#[test]
fn the_store_of_a_killed_process_is_opened() {
    opened(&killed()).unwrap();
}

#[test]
fn no_store_is_made_where_one_has_been() {
    let leave: [fn(&Path); 2] = [
        |path| fs::remove_file(path).unwrap(),
        |path| drop(File::create(path).unwrap()),
    ];
    for take in leave {
        let disk = killed();
        take(&disk.path());
        check_refused(&disk, &codes::LEFT_BEHIND);
        assert_eq!(fs::metadata(disk.path()).map_or(0, |file| file.len()), 0);
    }
}

/// Damages the files of an open store, and returns the error of the next write.
fn under_a_process(happens: impl FnOnce(&Path)) -> Error {
    let disk = on_disk();
    let store = disk.store();
    let member = Member::of(Arc::clone(&store) as Arc<dyn Store>);
    member.create(member.draft(1));
    store.probe().unwrap();
    happens(&disk.path());
    let error = store.write(Unpark).unwrap_err();
    assert!(error.help.is_some() && !error.transient, "{error:?}");
    for error in [
        store.write(Unpark).unwrap_err(),
        store.probe().unwrap_err(),
        crate::Reader::counts(&*store).unwrap_err(),
    ] {
        assert_eq!(error.code, codes::REPLACED, "{error}");
    }
    store.close();
    error
}

fn moved(path: &Path) -> PathBuf {
    let to = beside(path, ".away");
    fs::rename(path, &to).unwrap();
    to
}

#[test]
fn nothing_is_acknowledged_into_a_file_that_is_gone() {
    let happens: [fn(&Path); 5] = [
        |path| fs::remove_file(path).unwrap(),
        |path| drop(moved(path)),
        |path| copy(&moved(path), path),
        |path| fs::remove_file(beside(path, "-wal")).unwrap(),
        |path| {
            let log = beside(path, "-wal");
            copy(&moved(&log), &log);
        },
    ];
    for happens in happens {
        assert_eq!(under_a_process(happens).code, codes::REPLACED);
    }
}

#[test]
fn a_file_that_is_gone_is_noticed_without_a_write() {
    let disk = on_disk();
    let store = disk.store();
    fs::remove_file(disk.path()).unwrap();
    assert_eq!(store.probe().unwrap_err().code, codes::REPLACED);
}

#[test]
fn nothing_is_acknowledged_into_a_file_that_was_cut_short() {
    for keep in [0, 4096] {
        let disk = on_disk();
        let store = disk.store();
        let member = Member::of(Arc::clone(&store) as Arc<dyn Store>);
        for _ in 0..200 {
            member.create(member.draft(5));
        }
        empty_log(&disk.path());
        store.write(Unpark).unwrap();
        File::options()
            .write(true)
            .open(disk.path())
            .unwrap()
            .set_len(keep)
            .unwrap();
        let error = store.write(Unpark).unwrap_err();
        assert_eq!(error.code, codes::CORRUPT, "{error}");
        assert_eq!(store.probe().unwrap_err().code, codes::CORRUPT);
    }
}

/// The log may hold more frames than the file has lost pages: frames of other pages do not replace
/// the lost ones.
#[test]
fn one_missing_page_is_noticed_however_long_the_log_is() {
    let disk = on_disk();
    let store = disk.store();
    let member = Member::of(Arc::clone(&store) as Arc<dyn Store>);
    for _ in 0..200 {
        member.create(member.draft(5));
    }
    empty_log(&disk.path());
    for _ in 0..10 {
        store.write(Unpark).unwrap();
    }
    let file = File::options().write(true).open(disk.path()).unwrap();
    file.set_len(file.metadata().unwrap().len() - 4096).unwrap();
    let error = store.write(Unpark).unwrap_err();
    assert_eq!(error.code, codes::CORRUPT, "{error}");
}

/// New pages are in the log first, so for a while the log is the only place that has them.
#[test]
fn a_file_that_is_shorter_than_its_store_is_whole_with_its_log() {
    let disk = on_disk();
    let store = disk.store();
    let member = Member::of(Arc::clone(&store) as Arc<dyn Store>);
    for round in 0..20 {
        for _ in 0..20 {
            member.create(member.draft(5));
        }
        let connection = rusqlite::Connection::open(disk.path()).unwrap();
        crate::sqlite::watch::check_length(&disk.path(), &connection).unwrap();
        drop(connection);
        if round % 3 == 0 {
            empty_log(&disk.path());
        }
    }
    store.close();
}

#[test]
fn a_file_cut_short_beside_its_log_is_refused() {
    let disk = on_disk();
    let store = disk.store();
    let member = Member::of(Arc::clone(&store) as Arc<dyn Store>);
    for _ in 0..200 {
        member.create(member.draft(5));
    }
    empty_log(&disk.path());
    member.create(member.draft(5));
    let left = on_disk();
    for ending in ["", "-wal", "-mark"] {
        copy(&beside(&disk.path(), ending), &beside(&left.path(), ending));
    }
    // The log has only the newest pages.
    let file = File::options().write(true).open(left.path()).unwrap();
    file.set_len(4096 * 4).unwrap();
    check_refused(&left, &codes::CORRUPT);
}
