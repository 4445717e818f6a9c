//! Lock files by which the processes of one machine prove to each other that they are alive.
//!
//! The server knows a member by its lease only. On the machine of a dead member the operating
//! system knows more: a member holds the lock of a file from before its row is visible until it
//! leaves, closes or dies. Another process of that machine that can take the lock need not wait for
//! the end of the lease. A file proves nothing on another machine, after another boot, or where it
//! is a copy; then the lease decides.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::boot::boot;

/// The most files of a directory that are looked at.
const FILES: usize = 10_000;

/// How many times the lock of a new file is tried, 1 ms apart.
const LOCKING_TRIES: u32 = 100;

/// The age of a file at which it is deleted after a boot: seven days.
const OLD: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The longest content of a file.
const CONTENT_BYTES: u64 = 64;

/// What identifies a member: incarnations of other databases may be the same. The text is the one
/// that the statement of the reaping compares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who {
    pub(super) incarnation: i64,
    pub(super) pid: i64,
    pub(super) joined_ms: i64,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.incarnation, self.pid, self.joined_ms)
    }
}

/// The directory of the lock files of one database's members.
#[derive(Debug)]
pub(super) struct Members {
    directory: PathBuf,
    /// The end of the names of files that count: the database and the boot of the machine.
    ending: String,
}

/// The lock file of a member, held until this is dropped.
#[derive(Debug)]
pub(super) struct MemberFile {
    file: File,
    path: PathBuf,
}

impl Drop for MemberFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        // A process that has opened the file already finds no proof in it: the row of this member
        // may be there for a moment longer.
        let _ = self.file.set_len(0);
        // Unlocked explicitly: a child process that is being started may have a copy of the file
        // descriptor, and would keep the lock until it runs its own program.
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
impl MemberFile {
    /// Releases the lock and leaves the file, as the death of the process does.
    pub(super) fn release(&self) {
        self.file.unlock().unwrap();
    }
}

impl Members {
    /// The files in a directory for the members of a database. None where boots of the machine
    /// cannot be told apart.
    pub(super) fn new(directory: &Path, database: &str) -> Option<Self> {
        let boot = boot();
        let database = crc32fast::hash(database.as_bytes());
        (!boot.is_empty()).then(|| Self {
            directory: directory.to_owned(),
            ending: format!("-{database:08x}-{boot}.lock"),
        })
    }

    /// Makes and locks the file of a new member. None: other processes wait for its lease.
    pub(super) fn join(&self, who: Who) -> Option<MemberFile> {
        let locked = self.lock(who);
        locked
            .inspect_err(|error| {
                let directory = self.directory.display();
                tracing::info!(
                    %directory, %error,
                    "no lock file can be made: after a death of this process its work waits for \
                     the end of its lease"
                );
            })
            .ok()
    }

    fn lock(&self, who: Who) -> io::Result<MemberFile> {
        windlass_files::make_directory(&self.directory)?;
        let path = self.directory.join(format!("{who}{}", self.ending));
        self.sweep();
        let mut file = windlass_files::open_lock(&path)?;
        // Another process may be looking whether the lock is free.
        let mut tries = 1..=LOCKING_TRIES;
        while let Err(error) = file.try_lock() {
            match (error, tries.next()) {
                (TryLockError::WouldBlock, Some(_)) => {
                    std::thread::park_timeout(Duration::from_millis(1));
                }
                (error, _) => return Err(error.into()),
            }
        }
        let content = identity(&file)?;
        file.set_len(0)?;
        file.write_all(content.as_bytes())?;
        Ok(MemberFile { file, path })
    }

    /// Deletes old files of earlier boots, which no process looks at.
    fn sweep(&self) {
        let files = std::fs::read_dir(&self.directory).into_iter().flatten();
        for file in files.take(FILES).flatten() {
            let name = file.file_name();
            let name = name.to_str().unwrap_or_default();
            let boot = self.ending.get(9..).unwrap_or_default();
            let is_old = || {
                let changed = file.metadata().ok()?.modified().ok()?;
                Some(changed.elapsed().ok()? > OLD)
            };
            if name.ends_with(".lock") && !name.ends_with(boot) && is_old() == Some(true) {
                let _ = std::fs::remove_file(file.path());
            }
        }
    }

    /// The dead members of which this machine has files, each as the text of its [`Who`], with the
    /// files.
    pub(super) fn dead(&self) -> (Vec<String>, Vec<PathBuf>) {
        let files = std::fs::read_dir(&self.directory).into_iter().flatten();
        let found = files.take(FILES).filter_map(|file| {
            let file = file.ok()?;
            let name = file.file_name();
            let who = name.to_str()?.strip_suffix(&self.ending)?;
            let path = file.path();
            let is_free = is_free(&path).ok()?;
            is_free.then(|| (who.to_owned(), path))
        });
        found.unzip()
    }
}

/// Whether no process holds the lock of a file, and the file is the one that was locked.
fn is_free(path: &Path) -> io::Result<bool> {
    let file = File::options().read(true).write(true).open(path)?;
    if file.try_lock().is_err() {
        return Ok(false);
    }
    let mut content = String::new();
    (&file).take(CONTENT_BYTES).read_to_string(&mut content)?;
    Ok(content == identity(&file)?)
}

/// The content of a lock file: a copy of it has another place on its disk.
fn identity(file: &File) -> io::Result<String> {
    let metadata = file.metadata()?;
    Ok(format!("{}:{}", metadata.dev(), metadata.ino()))
}
