//! Power cuts under SQLite: flushed data is on the disk; data that was not flushed may be there
//! completely, partly or not at all.
//!
//! A file-system driver that drops unflushed writes cannot be put under SQLite without unsafe code.
//! But no write is in progress while the store is at rest, so two pictures of its files, taken at
//! rest before and after one change, show every sector that the change wrote. A power cut during
//! the change leaves any mixture of the two.

use std::fs;
use std::path::{Path, PathBuf};

/// The unit that a disk writes atomically, in bytes.
const SECTOR: usize = 512;

/// Returns a number below its argument: the only source of randomness.
pub type Below<'a> = dyn FnMut(usize) -> usize + 'a;

/// The files of a store at rest.
#[derive(Clone, PartialEq)]
pub struct Picture {
    database: Vec<u8>,
    log: Vec<u8>,
    mark: Vec<u8>,
}

impl Picture {
    /// Takes the picture of the store at this path.
    pub fn take(path: &Path) -> Self {
        Self {
            database: fs::read(path).unwrap(),
            log: fs::read(beside(path, "-wal")).unwrap_or_default(),
            mark: fs::read(beside(path, "-mark")).unwrap_or_default(),
        }
    }

    /// Writes the files of the picture to this path.
    pub fn hang(&self, path: &Path) {
        fs::write(path, &self.database).unwrap();
        fs::write(beside(path, "-wal"), &self.log).unwrap();
        fs::write(beside(path, "-mark"), &self.mark).unwrap();
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// The file that remains when the change from one content to another is cut off.
fn torn(before: &[u8], after: &[u8], below: &mut Below<'_>) -> Vec<u8> {
    let longest = before.len().max(after.len());
    let (kept, odds) = (before.len().min(after.len()), 1 + below(4));
    let length = match below(3) {
        0 => kept,
        1 => longest,
        _ => kept + below(longest - kept + 1),
    };
    let mut left = vec![0; length];
    for (at, sector) in left.chunks_mut(SECTOR).enumerate() {
        let from = match below(odds + 2) {
            0 => before,
            // The extension of a file may contain anything.
            1 if at * SECTOR >= before.len() => {
                sector.fill(below(256) as u8);
                continue;
            }
            _ => after,
        };
        let end = from.len().min(at * SECTOR + sector.len());
        if let Some(there) = from.get(at * SECTOR..end) {
            sector[..there.len()].copy_from_slice(there);
        }
    }
    left
}

impl Picture {
    /// Whether a later picture differs in both files, as only pictures of several changes do.
    pub fn is_behind(&self, later: &Self) -> bool {
        self.database != later.database && self.log != later.log
    }
}

/// The files that a power cut between two pictures leaves. A change writes either the log, or pages
/// that the log has flushed before into the database; never both at once.
pub fn cut(before: &Picture, after: &Picture, below: &mut Below<'_>) -> Picture {
    match below(8) {
        0 => return before.clone(),
        1 => return after.clone(),
        _ => {}
    }
    assert!(!before.is_behind(after));
    Picture {
        database: torn(&before.database, &after.database, below),
        log: torn(&before.log, &after.log, below),
        // The marker is written after the change is durable.
        mark: before.mark.clone(),
    }
}
