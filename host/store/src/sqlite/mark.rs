//! The marker beside a store: a lower bound of the acknowledged writes.
//!
//! SQLite silently drops a damaged tail of its log, and an older copy of a store is as consistent
//! as the newest one. So a separate file, `windlass.db-mark`, records the progress of the store. A
//! group is durable before its bound is recorded, so the marker is never ahead of the store. A
//! thread of its own writes the newest bound every 20 milliseconds, outside of the commits, and
//! flushes at most once a second: after a kill of the process the marker lacks the last 20
//! milliseconds, after a power cut the last second.
//!
//! A group writes no page for its bound. The generation in the store counts the groups that
//! invalidate earlier bounds, for example by deleting a run. Between two such groups, a bound
//! names a row that the group has written in any case: the version of a run, or the trace of
//! a group.
//!
//! The file has eight slots of 64 bytes; each writing process uses a random one. Each slot holds a
//! bound with a checksum and is written at once. Two processes with the same slot overwrite each
//! other's bounds, which are all valid.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rusqlite::{Connection, OptionalExtension as _};
use windlass_model::Digest;

use super::fault::explain;
use super::options::{Durability, SqliteOptions};
use super::watch::beside;
use crate::codes;
use crate::error::{Error, Result};

const SLOTS: usize = 8;
const SLOT: usize = 64;

/// The beginning of each slot: its type, and the version of its layout.
const MAGIC: &[u8; 8] = b"wlmark\0\x01";

/// The interval in which the newest bound is written.
const WRITE_EVERY: Duration = Duration::from_millis(20);

/// The number of intervals between two flushes: one second.
const PAUSES: u32 = 50;

/// Identifies a store, independent of its file name; a copy of the store has the same id.
pub(super) type StoreId = [u8; 16];

/// The store had this generation and contained the witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) generation: i64,
    pub(super) witness: Witness,
}

/// A row that is not changed, or only advances, while the generation stays the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Witness {
    #[default]
    None,
    /// The run has at least this version.
    Run { no: i64, version: i64 },
    /// The process has left at least this trace.
    Trace { process: i64, last: i64 },
}

/// The content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    store: StoreId,
    bound: Bound,
    /// The boot of the machine in which the bound is valid; 0: always valid.
    boot: u32,
}

impl Slot {
    fn bytes(&self) -> [u8; SLOT] {
        let (kind, one, two) = match self.bound.witness {
            Witness::None => (0, 0, 0),
            Witness::Run { no, version } => (1, no, version),
            Witness::Trace { process, last } => (2, process, last),
        };
        let mut bytes = [0; SLOT];
        let mut rest = &mut bytes[..];
        for part in [
            &MAGIC[..],
            &self.store,
            &self.bound.generation.to_le_bytes(),
            &i64::to_le_bytes(kind),
            &one.to_le_bytes(),
            &two.to_le_bytes(),
            &self.boot.to_le_bytes(),
        ] {
            // The parts together are as long as a slot without its checksum.
            let _ = rest.write_all(part);
        }
        let sum = crc32fast::hash(&bytes[..SLOT - 4]);
        bytes[SLOT - 4..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a slot; none if it was never written.
    ///
    /// # Errors
    ///
    /// The checksum or the magic number is wrong.
    fn read(bytes: &[u8; SLOT]) -> Result<Option<Self>, Damaged> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let (content, sum) = bytes.split_at(SLOT - 4);
        if sum != crc32fast::hash(content).to_le_bytes() || !content.starts_with(MAGIC) {
            return Err(Damaged);
        }
        let number = |at: usize| {
            let part = bytes.get(at..at + 8).and_then(|part| part.try_into().ok());
            part.map(i64::from_le_bytes).ok_or(Damaged)
        };
        let part = |at: usize, length: usize| bytes.get(at..at + length).ok_or(Damaged);
        let (one, two) = (number(40)?, number(48)?);
        let witness = match number(32)? {
            0 => Witness::None,
            1 => Witness::Run {
                no: one,
                version: two,
            },
            2 => Witness::Trace {
                process: one,
                last: two,
            },
            _ => return Err(Damaged),
        };
        Ok(Some(Self {
            store: part(8, 16)?.try_into().map_err(|_| Damaged)?,
            bound: Bound {
                generation: number(24)?,
                witness,
            },
            boot: u32::from_le_bytes(part(56, 4)?.try_into().map_err(|_| Damaged)?),
        }))
    }
}

/// Bytes of the marker that were not written by a store.
#[derive(Debug, PartialEq, Eq)]
struct Damaged;

/// The path of the marker.
pub(super) fn path_of(store: &Path) -> PathBuf {
    beside(store, "-mark")
}

/// The id of the store that the connection is open on.
fn id_of(connection: &Connection) -> rusqlite::Result<StoreId> {
    let identity: Vec<u8> =
        connection.query_row("SELECT identity FROM own", [], |row| row.get(0))?;
    let digest = Digest::of(&[&b"windlass store "[..], &identity].concat()).0;
    let mut id = StoreId::default();
    id.copy_from_slice(&digest[..16]);
    Ok(id)
}

/// Identifies this boot of the machine.
fn boot_of(boot: &str) -> u32 {
    crc32fast::hash(boot.as_bytes()).max(1)
}

/// The generation of the store.
pub(super) fn generation(connection: &Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT generation FROM own")?
        .query_row([], |row| row.get(0))
}

/// The written slots of the marker, and whether any is damaged; none if there is no marker.
fn slots(path: &Path) -> std::io::Result<Option<(Vec<Slot>, bool)>> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let (whole, rest) = bytes.as_chunks::<SLOT>();
    let (mut found, mut damaged) = (Vec::new(), !rest.is_empty());
    for slot in whole.iter().take(SLOTS) {
        match Slot::read(slot) {
            Ok(slot) => found.extend(slot),
            Err(Damaged) => damaged = true,
        }
    }
    Ok(Some((found, damaged)))
}

/// Compares a store that is being opened with its marker, and creates the marker if it is missing.
///
/// # Errors
///
/// Those of [`compare`]; the marker cannot be written.
pub(super) fn check(store: &Path, connection: &Connection, boot: &str) -> Result<()> {
    if compare(store, connection, boot)? {
        return Ok(());
    }
    make(store, connection)
}

/// Compares a store with its marker, and changes neither. False: there is no marker. `boot`
/// identifies this boot of the machine.
///
/// # Errors
///
/// `WL-S052`: acknowledged writes are missing. `WL-S053`: the marker is damaged, or belongs to
/// another store.
pub(super) fn compare(store: &Path, connection: &Connection, boot: &str) -> Result<bool> {
    let path = path_of(store);
    let cannot = |error: std::io::Error| cannot(&path, &error);
    let (slots, damaged) = slots(&path).map_err(cannot)?.unwrap_or_default();
    if damaged && slots.is_empty() {
        return Err(foreign(store, &path, "is damaged"));
    }
    if damaged {
        tracing::warn!(
            mark = %path.display(),
            "a part of the store's marker is damaged; look at the disk"
        );
    }
    if slots.is_empty() {
        return Ok(false);
    }
    let told = |error: rusqlite::Error| explain(store, &error);
    // One snapshot, taken after the marker was read.
    let moment = connection.unchecked_transaction().map_err(told)?;
    let id = id_of(&moment).map_err(told)?;
    for slot in slots {
        if slot.store != id {
            return Err(foreign(store, &path, "belongs to another store"));
        }
        let counts = slot.boot == 0 || slot.boot == boot_of(boot);
        if counts && !holds(&moment, slot.bound).map_err(told)? {
            let found = generation(&moment).map_err(told)?;
            return Err(missing(store, &path, slot.bound.generation, found));
        }
    }
    Ok(true)
}

/// Whether the store has reached the bound.
fn holds(connection: &Connection, bound: Bound) -> rusqlite::Result<bool> {
    let generation = generation(connection)?;
    if generation != bound.generation {
        return Ok(generation > bound.generation);
    }
    let (sql, key, least) = match bound.witness {
        Witness::None => return Ok(true),
        Witness::Run { no, version } => ("SELECT version FROM run WHERE no = ?1", no, version),
        Witness::Trace { process, last } => {
            ("SELECT last FROM trace WHERE process = ?1", process, last)
        }
    };
    let found: Option<i64> = connection
        .query_row(sql, [key], |row| row.get(0))
        .optional()?;
    Ok(found.is_some_and(|found| found >= least))
}

/// Replaces the marker by one for the current state of the store, durably.
pub(super) fn make(store: &Path, connection: &Connection) -> Result<()> {
    let told = |error: rusqlite::Error| explain(store, &error);
    let slot = Slot {
        store: id_of(connection).map_err(told)?,
        bound: Bound {
            generation: generation(connection).map_err(told)?,
            witness: Witness::None,
        },
        boot: 0,
    };
    let path = path_of(store);
    write_new(&path, &slot).map_err(|error| cannot(&path, &error))
}

fn write_new(path: &Path, slot: &Slot) -> std::io::Result<()> {
    let mut content = [0; SLOTS * SLOT];
    content[..SLOT].copy_from_slice(&slot.bytes());
    let unfinished = beside(path, &format!(".{}.unfinished", std::process::id()));
    let mut options = windlass_files::options();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .open(&unfinished)?;
    file.write_all(&content)?;
    file.sync_all()?;
    std::fs::rename(&unfinished, path)?;
    let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// The highest generation in the marker of a store, even if the marker belongs to another store.
pub(super) fn highest(store: &Path) -> i64 {
    let slots = slots(&path_of(store)).ok().flatten().unwrap_or_default().0;
    let generations = slots.iter().map(|slot| slot.bound.generation);
    generations.max().unwrap_or(0)
}

fn missing(store: &Path, mark: &Path, expected: i64, found: i64) -> Error {
    let text = format!(
        "the store {} lacks work that has been acknowledged: it has generation {found}, and {} \
         names more than that (generation {expected})",
        store.display(),
        mark.display()
    );
    Error::new(codes::WENT_BACK, text).help(
        "Put back the newest files of the store, its log included. To continue without the \
         missing writes, accept the loss with `windlass store restore`.",
    )
}

fn foreign(store: &Path, mark: &Path, what: &str) -> Error {
    let text = format!(
        "the marker {} {what}, so that it cannot tell whether {} is complete",
        mark.display(),
        store.display()
    );
    Error::new(codes::FOREIGN_MARK, text).help(
        "Put the file back that belongs there, or accept the store as it is with \
         `windlass store restore`.",
    )
}

fn cannot(path: &Path, error: &std::io::Error) -> Error {
    let code = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => codes::READ_ONLY,
        ErrorKind::StorageFull => codes::FULL,
        _ => codes::IO,
    };
    Error::new(
        code,
        format!("{} cannot be read or written: {error}", path.display()),
    )
    .help("Give yourself write permission on the file and on its directory.")
}

/// The marker of an open store.
pub(super) struct Mark {
    path: PathBuf,
    file: File,
    store: StoreId,
    boot: u32,
    /// Whether each group writes its bound itself.
    at_once: bool,
    at: u64,
    noted: Mutex<Noted>,
    changed: Condvar,
    told: AtomicBool,
}

#[derive(Default)]
struct Noted {
    /// The newest bound, if it is not written yet.
    bound: Option<Bound>,
    /// Whether a written bound is not flushed yet.
    unflushed: bool,
    closed: bool,
}

impl Noted {
    fn is_idle(&self) -> bool {
        self.bound.is_none() && !self.unflushed
    }
}

impl Mark {
    /// Opens the marker of a store that [`check`] has accepted. `nonce` tells this process from
    /// others.
    pub(super) fn open(
        store: &Path,
        connection: &Connection,
        nonce: u64,
        boot: &str,
        options: &SqliteOptions,
    ) -> Result<Self> {
        let path = path_of(store);
        let file = windlass_files::options().read(true).write(true).open(&path);
        Ok(Self {
            file: file.map_err(|error| cannot(&path, &error))?,
            store: id_of(connection).map_err(|error| explain(store, &error))?,
            path,
            boot: match options.durability {
                Durability::Full => 0,
                Durability::Normal => boot_of(boot),
            },
            at_once: options.mark_at_once,
            at: nonce % SLOTS as u64 * SLOT as u64,
            noted: Mutex::default(),
            changed: Condvar::new(),
            told: AtomicBool::new(false),
        })
    }

    /// Records the bound of a committed group.
    pub(super) fn advance(&self, bound: Bound) {
        let mut noted = self.noted.lock();
        let was_idle = noted.is_idle();
        if self.at_once {
            self.tell(self.write(bound));
            noted.unflushed = true;
        } else {
            noted.bound = Some(bound);
        }
        drop(noted);
        if was_idle {
            self.changed.notify_one();
        }
    }

    fn write(&self, bound: Bound) -> std::io::Result<()> {
        let slot = Slot {
            store: self.store,
            bound,
            boot: self.boot,
        };
        self.file.write_all_at(&slot.bytes(), self.at)
    }

    /// Only warns: without its marker a store is as safe, but a lost tail is not noticed.
    fn tell(&self, result: std::io::Result<()>) {
        if let Err(error) = result
            && !self.told.swap(true, Ordering::Relaxed)
        {
            let mark = self.path.display();
            tracing::warn!(%mark, %error, "the store's marker cannot be written; look at the disk");
        }
    }

    /// Writes and flushes recorded bounds until the marker is closed.
    pub(super) fn keep(&self) {
        let mut pauses = PAUSES;
        let mut noted = self.noted.lock();
        loop {
            let idle = |noted: &mut Noted| !noted.closed && noted.is_idle();
            self.changed.wait_while(&mut noted, idle);
            let closed = noted.closed;
            if let Some(bound) = noted.bound.take() {
                noted.unflushed = true;
                let written = MutexGuard::unlocked(&mut noted, || self.write(bound));
                self.tell(written);
            }
            if noted.unflushed && (closed || pauses >= PAUSES) {
                (noted.unflushed, pauses) = (false, 0);
                let flushed = MutexGuard::unlocked(&mut noted, || self.file.sync_data());
                self.tell(flushed);
            }
            if closed {
                // After the close no group is committed, so no bound was recorded in the meantime.
                return;
            }
            let open = |noted: &mut Noted| !noted.closed;
            self.changed.wait_while_for(&mut noted, open, WRITE_EVERY);
            pauses += 1;
        }
    }

    /// Ends the thread that keeps the marker, after it has flushed.
    pub(super) fn close(&self) {
        self.noted.lock().closed = true;
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::{Bound, Damaged, SLOT, Slot, Witness};

    #[test]
    fn a_slot_has_the_written_mark_or_is_damaged() {
        for witness in [
            Witness::None,
            Witness::Run { no: 7, version: 3 },
            Witness::Trace {
                process: -5,
                last: 9,
            },
        ] {
            let slot = Slot {
                store: *b"0123456789abcdef",
                bound: Bound {
                    generation: 12,
                    witness,
                },
                boot: 77,
            };
            let bytes = slot.bytes();
            assert_eq!(Slot::read(&bytes), Ok(Some(slot)));
            for at in 0..SLOT {
                let mut flipped = bytes;
                flipped[at] ^= 0x10;
                assert_eq!(Slot::read(&flipped), Err(Damaged), "byte {at}");
            }
        }
        assert_eq!(Slot::read(&[0; SLOT]), Ok(None));
    }
}
