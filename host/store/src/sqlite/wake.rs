//! Notifies the other processes on a store of new work.
//!
//! Every process watches one small file, `<store>-members/wake`, of 64 slots of eight bytes. A
//! process notifies by writing a new number into its own slot: one `pwrite`, about a microsecond,
//! for any number of listeners. The operating system reports the change (inotify, on Linux), and a
//! listener compares the slots with those that it saw last. It ignores its own numbers, so that no
//! process wakes itself. A file works with a path of any length, between containers, and without a
//! list of the other processes; sockets do not.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use notify::{RecursiveMode, Watcher as _};
use parking_lot::Mutex;

use super::locks;
use crate::codes;
use crate::error::{Error, Result};

const SLOTS: usize = 64;
const SLOT_BYTES: usize = 8;

type Slots = [[u8; SLOT_BYTES]; SLOTS];

/// The view of the wake file by one store object.
pub(super) struct Wake {
    path: PathBuf,
    file: Option<File>,
    slot: usize,
    own: Own,
}

/// The range of numbers that one store object has written, which may wrap.
#[derive(Clone)]
struct Own {
    first: u64,
    last: Arc<AtomicU64>,
}

/// A listener's view of the wake file.
struct Ears {
    file: File,
    own: Own,
    seen: Mutex<Slots>,
}

impl Wake {
    /// `nonce` is random. Two store objects that share a slot still wake each other. If one
    /// overwrites a number that another listener has not seen, that listener finds the new work by
    /// its scans.
    pub(super) fn new(store: &Path, nonce: u64) -> Self {
        let path = locks::directory(store).join("wake");
        let mut options = windlass_files::options();
        // Without the file there are no notifications; all other functions work.
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .ok();
        let slot = usize::try_from(nonce % SLOTS as u64).unwrap_or(0);
        let own = Own {
            first: nonce,
            last: Arc::new(AtomicU64::new(nonce)),
        };
        Self {
            path,
            file,
            slot,
            own,
        }
    }

    /// Notifies the other processes.
    pub(super) fn notify(&self) {
        // The counter is increased first, so that this process's listener recognises the number as
        // its own.
        let count = self.own.last.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
        let Some(file) = &self.file else { return };
        let _ = file.write_at(&count.to_le_bytes(), (self.slot * SLOT_BYTES) as u64);
    }

    /// Calls `wake` for as long as the returned watcher lives.
    pub(super) fn listen(&self, wake: Box<dyn Fn() + Send + Sync>) -> Result<Box<dyn Send + Sync>> {
        let failed = |error: &dyn std::fmt::Display| {
            Error::new(
                codes::CANNOT_WATCH,
                format!("{} cannot be watched: {error}", self.path.display()),
            )
            .help(
                "Raise the limit `fs.inotify.max_user_instances` or `fs.inotify.max_user_watches`.",
            )
        };
        let ears = self.ears().map_err(|error| failed(&error))?;
        let changed = move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| event.kind.is_modify()) && ears.hear() {
                wake();
            }
        };
        let mut watcher = notify::recommended_watcher(changed).map_err(|error| failed(&error))?;
        watcher
            .watch(&self.path, RecursiveMode::NonRecursive)
            .map_err(|error| failed(&error))?;
        Ok(Box::new(Mutex::new(watcher)))
    }

    fn ears(&self) -> std::io::Result<Ears> {
        let file = File::open(&self.path)?;
        Ok(Ears {
            seen: Mutex::new(read_slots(&file)),
            own: self.own.clone(),
            file,
        })
    }
}

impl Ears {
    /// Whether another store object has notified since the last call.
    fn hear(&self) -> bool {
        let mut seen = self.seen.lock();
        let before = std::mem::replace(&mut *seen, read_slots(&self.file));
        let slots = seen.iter().zip(&before);
        slots
            .into_iter()
            .any(|(now, before)| now != before && !self.own.has(u64::from_le_bytes(*now)))
    }
}

impl Own {
    fn has(&self, number: u64) -> bool {
        let written = self.last.load(Ordering::SeqCst).wrapping_sub(self.first);
        number.wrapping_sub(self.first) <= written
    }
}

/// Reads all slots. Slots beyond the end of the file read as zero.
fn read_slots(file: &File) -> Slots {
    let mut slots: Slots = [[0; SLOT_BYTES]; SLOTS];
    let _ = file.read_at(slots.as_flattened_mut(), 0);
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks two store objects that differ only in these numbers.
    fn check(nonces: [u64; 2]) {
        let directory = tempfile::TempDir::new().unwrap();
        let store = directory.path().join("windlass.db");
        std::fs::create_dir(locks::directory(&store)).unwrap();
        let both = nonces.map(|nonce| Wake::new(&store, nonce));
        let ears = both.each_ref().map(|wake| wake.ears().unwrap());
        let heard = || ears.each_ref().map(Ears::hear);
        assert_eq!(heard(), [false, false]);
        for _ in 0..100 {
            both[0].notify();
            assert_eq!(heard(), [false, true], "{nonces:?}");
            both[1].notify();
            assert_eq!(heard(), [true, false], "{nonces:?}");
            both[1].notify();
            both[1].notify();
            assert_eq!(heard(), [true, false], "{nonces:?}");
        }
        assert_eq!(heard(), [false, false]);
    }

    #[test]
    fn processes_in_every_slot_are_woken_and_none_wakes_itself() {
        let far = 1 << 32;
        check([far, 2 * far + 1]);
        check([far, 2 * far]);
        // The numbers of the first one wrap.
        check([u64::MAX - 64, far - 1]);
    }
}
