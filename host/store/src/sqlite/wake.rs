//! Notifies the other processes on a store of new work and of changed runs.
//!
//! Every process watches one small file, `<store>-members/wake`, of three tables of 64 slots of eight
//! bytes: work, changed runs, attention. A process notifies by writing a new number into its own slot:
//! one `pwrite`, about a microsecond, for any number of listeners. The operating system reports the
//! change (inotify, on Linux), and a listener compares the slots with those that it saw last. It
//! ignores its own numbers, so that no process wakes itself. A file works with a path of any length,
//! between containers, and without a list of the other processes; sockets do not.
//!
//! A process that waits for runs of others writes into its slot of the attention until when it does.
//! The others report changed runs only until then: each reads the attention after its commits, and a
//! waiting process reads the store after it has written its attention, so one of them sees the other.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use notify::{RecursiveMode, Watcher as _};
use parking_lot::Mutex;

use super::locks;
use crate::error::{Error, Result};
use crate::{ATTENTION_MS, Hear, News, codes};

const SLOTS: usize = 64;
const SLOT_BYTES: usize = 8;

type Slots = [[u8; SLOT_BYTES]; SLOTS];

/// The tables of the file, in their order.
#[derive(Clone, Copy)]
enum Table {
    Work,
    Runs,
    /// Until when a process attends, in epoch milliseconds.
    Attention,
}

/// The view of the wake file by one store object.
pub(super) struct Wake {
    path: PathBuf,
    file: Option<File>,
    slot: usize,
    own: Own,
    /// The last value that this store object has written into its slot of the attention.
    attends: AtomicU64,
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
    seen: Mutex<[Slots; 2]>,
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
            attends: AtomicU64::new(0),
        }
    }

    /// Notifies the other processes of work.
    pub(super) fn notify(&self) {
        self.count_up(Table::Work);
    }

    /// Tells the other processes that this one waits for runs.
    pub(super) fn attend(&self, now_ms: i64) {
        let until_ms = u64::try_from(now_ms).unwrap_or(0) + ATTENTION_MS;
        self.attends.store(until_ms, Ordering::SeqCst);
        self.write(Table::Attention, until_ms);
    }

    /// Notifies the other processes of changed runs, if any process waits for runs.
    pub(super) fn changed(&self, now_ms: i64) {
        let Some(file) = &self.file else { return };
        let (now_ms, own) = (
            u64::try_from(now_ms).unwrap_or(0),
            self.attends.load(Ordering::SeqCst),
        );
        let attention = read_slots(file, Table::Attention);
        let mut others = attention.iter().enumerate().filter(|(slot, until_ms)| {
            let until_ms = u64::from_le_bytes(**until_ms);
            // A time beyond the longest attention was written before the clock was stepped back.
            let lasts = now_ms < until_ms && until_ms <= now_ms + ATTENTION_MS;
            lasts && !(*slot == self.slot && until_ms == own)
        });
        if others.next().is_some() {
            self.count_up(Table::Runs);
        }
    }

    fn count_up(&self, table: Table) {
        // The counter is increased first, so that this process's listener recognises the number as
        // its own.
        let count = self.own.last.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
        self.write(table, count);
    }

    fn write(&self, table: Table, value: u64) {
        let Some(file) = &self.file else { return };
        let _ = file.write_at(&value.to_le_bytes(), place(table, self.slot));
    }

    /// Calls `hear` for as long as the returned watcher lives.
    pub(super) fn listen(&self, hear: Hear) -> Result<Box<dyn Send + Sync>> {
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
            if event.is_ok_and(|event| event.kind.is_modify()) {
                ears.hear().into_iter().flatten().for_each(&hear);
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
            seen: Mutex::new(COUNTED.map(|table| read_slots(&file, table))),
            own: self.own.clone(),
            file,
        })
    }
}

impl Ears {
    /// The notifications of other store objects since the last call.
    fn hear(&self) -> [Option<News<'static>>; 2] {
        let mut seen = self.seen.lock();
        let now = COUNTED.map(|table| read_slots(&self.file, table));
        let before = std::mem::replace(&mut *seen, now);
        let heard = |at: usize| {
            let (now, before) = (now.get(at)?, before.get(at)?);
            now.iter()
                .zip(before)
                .find(|(now, before)| now != before && !self.own.has(u64::from_le_bytes(**now)))
        };
        [
            heard(0).map(|_| News::Work),
            heard(1).map(|_| News::SomeRuns),
        ]
    }
}

impl Own {
    fn has(&self, number: u64) -> bool {
        let written = self.last.load(Ordering::SeqCst).wrapping_sub(self.first);
        number.wrapping_sub(self.first) <= written
    }
}

/// The tables of counters.
const COUNTED: [Table; 2] = [Table::Work, Table::Runs];

/// The place of a slot in the file, in bytes.
fn place(table: Table, slot: usize) -> u64 {
    ((table as usize * SLOTS + slot) * SLOT_BYTES) as u64
}

/// Reads all slots of a table. Slots beyond the end of the file read as zero.
fn read_slots(file: &File, table: Table) -> Slots {
    let mut slots: Slots = [[0; SLOT_BYTES]; SLOTS];
    let _ = file.read_at(slots.as_flattened_mut(), place(table, 0));
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
        let heard = || ears.each_ref().map(|ears| ears.hear()[0].is_some());
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

    #[test]
    fn changed_runs_are_told_to_processes_that_attend_and_only_while_they_do() {
        let directory = tempfile::TempDir::new().unwrap();
        let store = directory.path().join("windlass.db");
        std::fs::create_dir(locks::directory(&store)).unwrap();
        let [one, other] = [(1 << 32) + 1, (2 << 32) + 2].map(|nonce| Wake::new(&store, nonce));
        let ears = [one.ears().unwrap(), other.ears().unwrap()];
        let heard = || ears.each_ref().map(|ears| ears.hear()[1].is_some());
        one.changed(0);
        assert_eq!(heard(), [false, false], "no process attends");
        other.attend(0);
        one.changed(1);
        assert_eq!(heard(), [false, true]);
        other.changed(1);
        assert_eq!(heard(), [false, false], "only the process itself attends");
        let end = i64::try_from(ATTENTION_MS).unwrap();
        one.changed(end - 1);
        assert_eq!(heard(), [false, true]);
        one.changed(end);
        assert_eq!(heard(), [false, false], "the attention is over");
        other.attend(1_000_000);
        one.changed(1_000);
        assert_eq!(heard(), [false, false], "the clock was stepped back");
    }
}
