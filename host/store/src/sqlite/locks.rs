//! Lock files beside the store, by which a process proves that it is alive.
//!
//! A member holds `<store>-members/<incarnation>.lock` from before its row is visible until it
//! leaves, closes or dies. The operating system releases the lock however the process dies. If
//! another process can take the lock, the member is dead; it need not wait for the lease to expire.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::codes;
use crate::error::{Error, Result};

/// How many times the lock for opening is tried, 1 ms apart.
const OPENING_TRIES: u32 = 30_000;

/// The directory beside the store for lock files and the wake file.
pub(super) fn directory(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push("-members");
    PathBuf::from(name)
}

/// Waits for other processes that open the store, and keeps them from opening it until the returned
/// file is dropped.
pub(super) fn opening(store: &Path) -> Result<File> {
    let directory = directory(store);
    windlass_files::make_directory(&directory).map_err(|error| cannot_make(&directory, &error))?;
    let is_link = std::fs::symlink_metadata(&directory).is_ok_and(|found| found.is_symlink());
    if is_link {
        let error = std::io::Error::other("it is a link, and nothing is made behind a link");
        return Err(cannot_make(&directory, &error));
    }
    let path = directory.join("open.lock");
    let file = windlass_files::open_lock(&path).map_err(|error| cannot_make(&path, &error))?;
    for _ in 0..OPENING_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => std::thread::park_timeout(Duration::from_millis(1)),
            Err(TryLockError::Error(error)) => return Err(cannot_make(&path, &error)),
        }
    }
    let text = format!(
        "another process has been opening {} for too long",
        store.display()
    );
    Err(Error::new(codes::BUSY, text)
        .help("Look for a process that hangs while it opens the store.")
        .transient())
}

/// The lock of a member, held until this is dropped.
#[derive(Debug)]
pub(super) struct MemberLock(File);

impl Drop for MemberLock {
    fn drop(&mut self) {
        // Unlocked explicitly: a child process that is being started may have a copy of the file
        // descriptor, and would keep the lock until it runs its own program.
        let _ = self.0.unlock();
    }
}

/// Creates and locks the lock file of a new member.
pub(super) fn join(store: &Path, incarnation: i64) -> Result<MemberLock> {
    let path = member(store, incarnation);
    let failed = |error: &dyn std::fmt::Display| {
        Error::new(
            codes::MEMBER_LOCK,
            format!("{} cannot be locked: {error}", path.display()),
        )
        .help("Keep the store on a local disk where you may write; network disks cannot lock.")
    };
    let file = windlass_files::open_lock(&path).map_err(|error| failed(&error))?;
    file.try_lock().map_err(|error| failed(&error))?;
    Ok(MemberLock(file))
}

/// Removes the lock file of a removed member. A remaining file does no harm, because incarnations
/// are never reused.
pub(super) fn remove(store: &Path, incarnation: i64) {
    let _ = std::fs::remove_file(member(store, incarnation));
}

/// Whether the lock shows that the member is dead. A missing file shows nothing: the store may have
/// been copied without it. Then the lease decides.
pub(super) fn is_dead(store: &Path, incarnation: i64) -> bool {
    let Ok(file) = windlass_files::options()
        .read(true)
        .write(true)
        .open(member(store, incarnation))
    else {
        return false;
    };
    file.try_lock().is_ok()
}

/// A living member, if there is one.
pub(super) fn working(store: &Path) -> Option<i64> {
    let files = std::fs::read_dir(directory(store)).ok()?;
    let mut numbers = files.filter_map(|file| {
        let name = file.ok()?.file_name();
        name.to_str()?.strip_suffix(".lock")?.parse().ok()
    });
    numbers.find(|number| is_held(store, *number))
}

/// Whether a process holds the lock of a member.
pub(super) fn is_held(store: &Path, incarnation: i64) -> bool {
    member(store, incarnation).exists() && !is_dead(store, incarnation)
}

fn member(store: &Path, incarnation: i64) -> PathBuf {
    directory(store).join(format!("{incarnation}.lock"))
}

fn cannot_make(path: &Path, error: &std::io::Error) -> Error {
    let code = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => codes::READ_ONLY,
        ErrorKind::StorageFull => codes::FULL,
        _ => codes::CANNOT_OPEN,
    };
    Error::new(code, format!("{} cannot be made: {error}", path.display()))
        .help("Name a place that you may write with `--store`.")
}
