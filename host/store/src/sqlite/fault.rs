//! Translates SQLite's errors into errors of the store.

use std::path::Path;

use rusqlite::ffi;
use windlass_model::Code;

use crate::codes;
use crate::error::Error;
use crate::health::{Health, Lasts, concerns_all};

/// With less free space than this, SQLite cannot enlarge the log's index, which grows by half of
/// it.
const ROOM_BYTES: u64 = 64 * 1024;

struct Meaning {
    code: Code,
    what: &'static str,
    help: &'static str,
    transient: bool,
}

/// The error message for an error of SQLite about the file at `path`.
pub(super) fn explain(path: &Path, error: &rusqlite::Error) -> Error {
    let Some(primary) = primary(error) else {
        return Error::corrupt("a value that cannot be read").detail(path, error);
    };
    let meaning = match primary {
        // If the log's index cannot grow, SQLite reports a full disk as an input/output error.
        ffi::SQLITE_IOERR if is_full(path) => meaning(ffi::SQLITE_FULL),
        _ => meaning(primary),
    };
    let mut told = Error::new(meaning.code, meaning.what)
        .detail(path, error)
        .help(meaning.help);
    told.transient = meaning.transient;
    told
}

/// The same, and records trouble that concerns the whole store.
pub(super) fn note(health: &Health, path: &Path, error: &rusqlite::Error) -> Error {
    let told = explain(path, error);
    match primary(error) {
        Some(ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB) => health.note(Lasts::UntilOpened, &told),
        Some(_) if concerns_all(&told) => health.note(Lasts::Passing, &told),
        _ => {}
    }
    told
}

fn is_full(path: &Path) -> bool {
    let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
    rustix::fs::statvfs(directory.unwrap_or(Path::new(".")))
        .is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < ROOM_BYTES)
}

/// The primary result code, if the error is SQLite's own.
pub(super) fn primary(error: &rusqlite::Error) -> Option<i32> {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => Some(failure.extended_code & 0xff),
        rusqlite::Error::SqlInputError { error, .. } => Some(error.extended_code & 0xff),
        _ => None,
    }
}

impl Error {
    fn detail(mut self, path: &Path, error: &rusqlite::Error) -> Self {
        self.message = format!("{} ({}: {error})", self.message, path.display());
        self
    }
}

fn meaning(primary: i32) -> Meaning {
    let meaning = |code, what, help, transient| Meaning {
        code,
        what,
        help,
        transient,
    };
    match primary {
        ffi::SQLITE_CANTOPEN => meaning(
            codes::CANNOT_OPEN,
            "the store cannot be opened",
            "Check that the directory exists and that you may write in it.",
            false,
        ),
        ffi::SQLITE_NOTADB => meaning(
            codes::NOT_A_STORE,
            "the file is not a database",
            "Name another file with `--store`; this one is left as it is.",
            false,
        ),
        ffi::SQLITE_CORRUPT => meaning(
            codes::CORRUPT,
            "the store is damaged",
            "Stop every process that uses it and restore a backup.",
            false,
        ),
        ffi::SQLITE_READONLY | ffi::SQLITE_PERM | ffi::SQLITE_AUTH => meaning(
            codes::READ_ONLY,
            "the store cannot be written",
            "Give yourself write permission on the file and on its directory.",
            false,
        ),
        ffi::SQLITE_FULL => meaning(
            codes::FULL,
            "there is no room left for the store",
            "Make room on the disk; nothing acknowledged is lost, and work goes on by itself.",
            true,
        ),
        // `PROTOCOL`: other processes kept SQLite from finding the end of the log. SQLite has
        // already waited ten seconds, so the caller does not wait again.
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED | ffi::SQLITE_PROTOCOL => meaning(
            codes::BUSY,
            "another process has kept the store locked for too long",
            "Look for a process that holds a transaction open on the file.",
            true,
        ),
        ffi::SQLITE_CONSTRAINT => meaning(
            codes::CONTRADICTION,
            "a write contradicts the stored rows",
            "This is a fault of Windlass: please report it.",
            false,
        ),
        ffi::SQLITE_TOOBIG => meaning(
            codes::CONTRADICTION,
            "a value is larger than the store can hold",
            "Keep values under 1 GB.",
            false,
        ),
        _ => meaning(
            codes::IO,
            "the disk failed under the store",
            "Check the disk and the system's log; the write may be tried again.",
            true,
        ),
    }
}
