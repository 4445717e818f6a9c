//! Checks that the files of a store exist, are complete, and are still those that were opened.
//!
//! SQLite creates a new database where there is none, and continues with files that were removed or
//! replaced, because it has them open. So the names are checked before a file is created and before
//! a group of writes is acknowledged: two `stat` calls, a microsecond or two compared with a flush.
//! The checks never open a database file, because closing it would release SQLite's locks.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::fault::explain;
use super::mark;
use crate::codes;
use crate::error::{Error, Result};

/// Bytes before the first frame of a log.
const LOG_HEADER: u64 = 32;

/// Bytes of a frame besides its page.
const FRAME_HEADER: u64 = 24;

/// The offset of the bytes by which SQLite locks a file.
const LOCK_BYTES: u64 = 1 << 30;

/// The endings of files beside a store that show that the store existed.
pub(super) const LEFT_BEHIND: [&str; 3] = ["-wal", "-shm", "-mark"];

/// A file beside the store.
pub(super) fn beside(store: &Path, ending: &str) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// The log of a store. SQLite resolves links before it names the log.
fn log_of(store: &Path) -> PathBuf {
    let real = std::fs::canonicalize(store);
    beside(real.as_deref().unwrap_or(store), "-wal")
}

/// Refuses to create a store where one has existed, and behind a link: SQLite would follow it.
pub(super) fn before_opening(path: &Path) -> Result<()> {
    no_link(path)?;
    let what = match std::fs::metadata(path) {
        Ok(found) if found.len() > 0 => return Ok(()),
        Ok(_) => "is empty",
        Err(error) if error.kind() == ErrorKind::NotFound => "is missing",
        // SQLite reports why the file cannot be opened.
        Err(_) => return Ok(()),
    };
    let left = LEFT_BEHIND.map(|ending| beside(path, ending));
    match left.iter().find(|file| file.exists()) {
        Some(left) => Err(left_behind(path, what, left)),
        None => Ok(()),
    }
}

fn no_link(path: &Path) -> Result<()> {
    windlass_files::check_place(path).map_err(|error| {
        let text = format!("{} cannot be made: {error}", path.display());
        Error::new(codes::CANNOT_OPEN, text)
            .help("Remove the link, or name the place of the store itself with `--store`.")
    })
}

/// Refuses to create tables in a database without any, if its marker shows that it had some, and in
/// one behind a link.
pub(super) fn before_laying_out(path: &Path) -> Result<()> {
    no_link(path)?;
    let left = mark::path_of(path);
    match std::fs::metadata(&left) {
        Ok(found) if found.len() > 0 => Err(left_behind(path, "has no tables", &left)),
        _ => Ok(()),
    }
}

fn left_behind(path: &Path, what: &str, left: &Path) -> Error {
    let text = format!(
        "{} {what}, and {} beside it shows that there was a store",
        path.display(),
        left.display()
    );
    Error::new(codes::LEFT_BEHIND, text).help(
        "Put the file back, or a backup with `windlass store restore FILE`. To begin with an empty \
         store, move the files that are left of the old one away.",
    )
}

/// Identifies a file on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
        }
    }

    /// The identity of the database file that was just opened.
    pub(super) fn of_file(path: &Path) -> Result<Self> {
        let found = std::fs::metadata(path).map_err(|_| replaced(path, "removed"))?;
        Ok(Self::of(&found))
    }

    /// Checks that the path still names this file.
    pub(super) fn still_names(self, path: &Path) -> Result<()> {
        match std::fs::metadata(path) {
            Ok(found) if Self::of(&found) != self => Err(replaced(path, "replaced")),
            Ok(_) => Ok(()),
            Err(_) => Err(replaced(path, "removed")),
        }
    }
}

/// The files of a connection that writes, as it saw them last.
pub(super) struct Watch {
    path: PathBuf,
    file: Identity,
    file_bytes: u64,
    log_path: PathBuf,
    /// None until there is a log.
    log: Option<Identity>,
    log_bytes: u64,
}

impl Watch {
    /// Watches a store whose database file has this identity.
    pub(super) fn new(path: &Path, file: Identity) -> Self {
        Self {
            path: path.to_owned(),
            file,
            file_bytes: 0,
            log_path: log_of(path),
            log: None,
            log_bytes: 0,
        }
    }

    /// The last measured length of the log.
    pub(super) fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    /// The path of the log.
    pub(super) fn log_path(&self) -> &Path {
        &self.log_path
    }

    /// Measures the length of the log.
    pub(super) fn measure(&mut self) {
        self.log_bytes = std::fs::metadata(&self.log_path).map_or(0, |found| found.len());
    }

    /// Checks that the names still belong to the open files. Called outside of transactions.
    pub(super) fn look(&mut self, connection: &Connection) -> Result<()> {
        let file = std::fs::metadata(&self.path);
        let file = file.map_err(|_| replaced(&self.path, "removed"))?;
        if Identity::of(&file) != self.file {
            return Err(replaced(&self.path, "replaced"));
        }
        if file.len() < self.file_bytes {
            // This process or another one may have freed pages.
            check_length(&self.path, connection)?;
        }
        self.file_bytes = file.len();
        match std::fs::metadata(&self.log_path) {
            Ok(log) => {
                self.log_bytes = log.len();
                let found = Identity::of(&log);
                if self.log.is_some_and(|known| known != found) {
                    return Err(replaced(&self.log_path, "replaced"));
                }
                self.log = Some(found);
            }
            Err(_) if self.log.is_some() => return Err(replaced(&self.log_path, "removed")),
            // The log does not exist before the first write.
            Err(_) => {}
        }
        Ok(())
    }
}

/// Refuses a file that lacks pages which the log does not have either.
pub(super) fn check_length(path: &Path, connection: &Connection) -> Result<()> {
    let told = |error: rusqlite::Error| explain(path, &error);
    // While the snapshot is held, no process truncates the file below it or resets the log.
    let snapshot = connection.unchecked_transaction().map_err(told)?;
    let pragma = |name: &str| {
        snapshot
            .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
            .map(i64::unsigned_abs)
            .map_err(told)
    };
    let (pages, page) = (pragma("page_count")?, pragma("page_size")?.max(1));
    let file = std::fs::metadata(path).map_or(0, |found| found.len());
    let whole = file / page;
    let beyond = pages.saturating_sub(whole);
    // SQLite never writes the page that contains the lock bytes.
    let unwritten = u64::from((whole + 1..=pages).contains(&(LOCK_BYTES / page + 1)));
    if pages > 0 && (file == 0 || logged(&log_of(path), page, whole, pages) + unwritten < beyond) {
        let text = format!(
            "{} has been cut short: it has {file} bytes of {}",
            path.display(),
            pages.saturating_mul(page)
        );
        return Err(Error::new(codes::CORRUPT, text)
            .help("Stop every process that uses it and restore a backup."));
    }
    Ok(())
}

/// The number of pages from `from` (exclusive) to `to` that the log holds, in frames written since
/// the log was reset. Uses memory for these pages only.
fn logged(log: &Path, page: u64, from: u64, to: u64) -> u64 {
    if from >= to {
        return 0;
    }
    let Ok(log) = File::open(log) else { return 0 };
    let read = |at: u64| {
        let mut bytes = [0; 8];
        log.read_exact_at(&mut bytes, at).ok().map(|()| bytes)
    };
    // The salts change when the log is reset, and each frame repeats them.
    let Some(current) = read(16) else { return 0 };
    let mut found = BTreeSet::new();
    for frame in (0..).map(|no| LOG_HEADER + no * (FRAME_HEADER + page)) {
        if read(frame + 8) != Some(current) {
            break;
        }
        let Some([a, b, c, d, ..]) = read(frame) else {
            break;
        };
        let no = u64::from(u32::from_be_bytes([a, b, c, d]));
        if no > from && no <= to {
            found.insert(no);
        }
    }
    found.len() as u64
}

/// The error for a file that was removed or replaced while it was open.
pub(super) fn replaced(path: &Path, what: &str) -> Error {
    let text = format!(
        "{} has been {what} under this process, which acknowledges nothing from now on",
        path.display()
    );
    Error::new(codes::REPLACED, text).help(
        "Save the open file from `/proc/PID/fd` before the process ends, put it or a backup in \
         place with `windlass store restore FILE`, and start the host anew.",
    )
}
