//! Tells the processes on one store that there is something new.
//!
//! Every process watches one small file, `<store>-members/wake`, of 64 slots of eight bytes.
//! To notify is to write another number into one's own slot: one `pwrite`, about a
//! microsecond, whoever listens. The operating system reports the change (inotify, on Linux),
//! and a listener compares the slots with what it saw last, all but its own, so that nobody
//! wakes itself. A file works at any length of path, between containers, and without anybody
//! knowing who the others are; sockets do not.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use notify::{RecursiveMode, Watcher as _};
use parking_lot::Mutex;

use super::locks;
use crate::codes;
use crate::error::{Error, Result};

const SLOTS: usize = 64;
const SLOT_BYTES: usize = 8;

type Slots = [[u8; SLOT_BYTES]; SLOTS];

/// One process's, or store object's, view of the wake file.
pub(super) struct Wake {
    path: PathBuf,
    file: Option<File>,
    slot: usize,
    count: AtomicU64,
}

impl Wake {
    /// `nonce` differs between store objects. Two that share a slot do not wake each other at
    /// once, and find what is new by their scans.
    pub(super) fn new(store: &Path, nonce: u64) -> Self {
        let path = locks::directory(store).join("wake");
        let mut options = File::options();
        // Without the file there are no hints, and everything else works.
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .ok();
        let slot = usize::try_from(nonce % SLOTS as u64).unwrap_or(0);
        Self {
            path,
            file,
            slot,
            count: AtomicU64::new(nonce),
        }
    }

    /// Wakes the others.
    pub(super) fn notify(&self) {
        let count = self.count.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let Some(file) = &self.file else { return };
        let _ = file.write_at(&count.to_le_bytes(), (self.slot * SLOT_BYTES) as u64);
    }

    /// Calls `wake` for as long as the watcher that is returned lives.
    pub(super) fn listen(&self, wake: Box<dyn Fn() + Send + Sync>) -> Result<Box<dyn Send + Sync>> {
        let failed = |error: &dyn std::fmt::Display| {
            Error::new(
                codes::CANNOT_WATCH,
                format!("{} cannot be watched: {error}", self.path.display()),
            )
            .help("Other processes' work is still found, by the scans.")
        };
        let own = self.slot;
        let file = File::open(&self.path).map_err(|error| failed(&error))?;
        let seen = Mutex::new(read_slots(&file));
        let changed = move |event: notify::Result<notify::Event>| {
            if !event.is_ok_and(|event| event.kind.is_modify()) {
                return;
            }
            let now = read_slots(&file);
            let before = std::mem::replace(&mut *seen.lock(), now);
            let others = now.iter().zip(&before).enumerate();
            if others
                .into_iter()
                .any(|(slot, (now, before))| slot != own && now != before)
            {
                wake();
            }
        };
        let mut watcher = notify::recommended_watcher(changed).map_err(|error| failed(&error))?;
        watcher
            .watch(&self.path, RecursiveMode::NonRecursive)
            .map_err(|error| failed(&error))?;
        Ok(Box::new(Mutex::new(watcher)))
    }
}

/// A slot that cannot be read is zero; the file may be shorter than all slots.
fn read_slots(file: &File) -> Slots {
    let mut slots: Slots = [[0; SLOT_BYTES]; SLOTS];
    let _ = file.read_at(slots.as_flattened_mut(), 0);
    slots
}
