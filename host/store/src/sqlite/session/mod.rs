//! One connection that writes: it carries out groups of writes, each in one transaction.
//!
//! Within a group every write checks its fences before it changes anything, so that a fenced write
//! changes nothing and the other writes succeed. The cache of the file is kept for the next group,
//! until `PRAGMA data_version` shows that another connection has written.

mod bookmarks;
mod cache;
mod children;
mod claim;
mod commit;
mod create;
mod delivery;
mod forget;
mod generation;
mod hold;
mod letters;
mod members;
mod reservations;
mod scopes;
pub(super) mod statements;
mod transaction;

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::sqlite::locks::MemberLock;

use rusqlite::{Connection, OptionalExtension as _};
use rustc_hash::FxHashMap;
use windlass_model::Status;

use self::cache::{Cache, Head, Unwritten};
use self::claim::Scan;
use self::generation::Bounds;
use self::statements::Statements;
use super::log::Log;
use super::open::Opened;
use super::options::Durability;
use super::shared::SqliteShared;
use super::watch::Watch;
use crate::codes;
use crate::columns::{json, payload};
use crate::error::Error;
use crate::published::Edition;
use crate::sql::row::variant;
use crate::sql::sweeping::SweepCursor;
use crate::sql::transaction::now;
use crate::sums::{self, Of};
use crate::write::{Write, Wrote};

/// Why a group failed. All its changes are rolled back.
#[derive(Debug)]
pub(super) enum Failed {
    Sql(rusqlite::Error),
    Store(Error),
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// A group that waits this long for the write lock waits for another process: SQLite tries again
/// after a millisecond, and takes a free lock in some microseconds.
const CONTENDED: Duration = Duration::from_micros(500);

/// The number of traces that are kept, newest first: more than there are processes at a time.
const TRACES: i64 = 10_000;

pub(super) type Done<T> = Result<T, Failed>;

/// Changes outside of the file, made when the group is committed.
#[derive(Default)]
struct Aftermath {
    joined: Vec<(i64, MemberLock)>,
    gone: Vec<i64>,
}

/// The values to restore if the group is rolled back, which the file does not contain.
#[derive(Default)]
struct Before {
    made_pending: u64,
    /// By incarnation, oldest first.
    scans: Vec<(i64, Option<Scan>)>,
}

/// One connection that writes.
pub(super) struct Session<'c> {
    connection: &'c Connection,
    shared: &'c SqliteShared,
    statements: Statements<'c>,
    cache: Cache,
    scans: FxHashMap<i64, Scan>,
    /// The progress of the sweep of documents.
    documents: SweepCursor,
    /// Counts the triggers that became pending, so that a walk detects missed ones.
    made_pending: u64,
    /// These values before the group.
    before: Before,
    aftermath: Aftermath,
    /// Whether a group waited for another process since the last claim.
    contended: bool,
    /// Whether commits are flushed although the durability does not require it.
    flushing: bool,
    /// Whether the open group changes the edition.
    republishes: bool,
    log: Log,
    watch: Watch,
    bounds: Bounds,
}

impl<'c> Session<'c> {
    pub(super) fn new(opened: &'c Opened, shared: &'c SqliteShared) -> Done<Self> {
        let connection = &opened.connection;
        Ok(Self {
            connection,
            shared,
            statements: Statements::prepare(connection)?,
            cache: Cache::default(),
            scans: FxHashMap::default(),
            documents: SweepCursor::default(),
            made_pending: 0,
            before: Before::default(),
            aftermath: Aftermath::default(),
            contended: false,
            flushing: false,
            republishes: false,
            log: Log::new(shared),
            watch: Watch::new(&shared.path, opened.file),
            bounds: Bounds::default(),
        })
    }

    /// Takes the write lock. `flush` makes the commit reach the disk.
    pub(super) fn begin(&mut self, flush: bool) -> Done<()> {
        let flush = flush && self.shared.options.durability == Durability::Normal;
        if flush != self.flushing {
            let synchronous = if flush { "FULL" } else { "NORMAL" };
            self.connection
                .pragma_update(None, "synchronous", synchronous)?;
            self.flushing = flush;
        }
        self.statements.begin.execute([])?;
        let version: i64 = self
            .statements
            .data_version
            .query_row([], |row| row.get(0))?;
        if version != self.cache.data_version {
            self.cache.clear();
            self.cache.data_version = version;
            // Another process may have published.
            self.shared.edition.fetch_add(1, Ordering::SeqCst);
        }
        self.cache.keep_bounds();
        self.before.made_pending = self.made_pending;
        self.before.scans.clear();
        self.bounds = Bounds::default();
        if flush {
            self.touch()?;
        }
        Ok(())
    }

    /// Records how long the open group waited for the write lock.
    pub(super) fn note_wait(&mut self, waited: Duration) {
        self.contended |= waited >= CONTENDED;
    }

    /// Refuses writes if the log is too long.
    pub(super) fn check_log(&mut self) -> Done<()> {
        let (watch, connection) = (&mut self.watch, self.connection);
        Ok(self.log.check(self.shared, watch, connection)?)
    }

    /// Truncates the log if it has become long. Called between groups.
    pub(super) fn keep_log_short(&mut self) {
        let (watch, connection) = (&mut self.watch, self.connection);
        self.log.keep_short(self.shared, watch, connection);
    }

    /// Checks that the committed group is in the files that other processes open. Called before any
    /// write of the group is acknowledged.
    pub(super) fn look_at_files(&mut self) -> Result<(), Error> {
        let looked = self.watch.look(self.connection);
        if looked
            .as_ref()
            .is_err_and(|error| error.code == codes::CORRUPT)
        {
            // Copying the log into a truncated file would hide the missing pages.
            super::open::leave_log(self.connection, true);
        }
        looked
    }

    /// Writes a row, so that the commit must reach the disk.
    pub(super) fn touch(&mut self) -> Done<()> {
        self.connection
            .prepare_cached("UPDATE touch SET count = count + 1")?
            .execute([])?;
        Ok(())
    }

    /// Writes the unwritten heads: the last part before the commit that can fail without harm.
    pub(super) fn write_heads(&mut self) -> Done<()> {
        for no in std::mem::take(&mut self.cache.unwritten) {
            self.write_head(no)?;
        }
        Ok(())
    }

    /// Leaves a trace of the group, which is needed if its outcome becomes unknown.
    pub(super) fn leave_trace(&mut self) -> Done<()> {
        let trace = &self.shared.trace;
        let last = trace.last.fetch_add(1, Ordering::Relaxed) + 1;
        if last == 1 {
            // Traces of processes that ended long ago.
            let sql = "DELETE FROM trace WHERE place < (SELECT max(place) FROM trace) - ?1";
            self.connection.prepare_cached(sql)?.execute([TRACES])?;
            self.turn()?;
        }
        let sql = "INSERT INTO trace (process, last, place) \
            VALUES (?1, ?2, (SELECT coalesce(max(place), 0) + 1 FROM trace)) \
            ON CONFLICT (process) DO UPDATE SET last = excluded.last, place = excluded.place";
        self.connection
            .prepare_cached(sql)?
            .execute((trace.process, last))?;
        self.witnessed_by_trace(trace.process, last);
        Ok(())
    }

    /// Commits. After an error it is unknown whether the group is in the file.
    pub(super) fn commit(&mut self) -> Result<(), rusqlite::Error> {
        #[cfg(test)]
        crate::sqlite::tests::make_trouble(self.shared, self.connection)?;
        self.statements.commit.execute([])?;
        self.new_edition();
        let aftermath = std::mem::take(&mut self.aftermath);
        self.shared.locks.lock().extend(aftermath.joined);
        for incarnation in aftermath.gone {
            self.scans.remove(&incarnation);
            self.shared.locks.lock().remove(&incarnation);
            super::locks::remove(&self.shared.path, incarnation);
        }
        Ok(())
    }

    /// Begins another edition if the group, which readers see by now, changes it.
    fn new_edition(&mut self) {
        if std::mem::take(&mut self.republishes) {
            self.shared.edition.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Whether this is the edition of the open group.
    fn is_edition(&self, edition: Edition) -> bool {
        !self.republishes && self.shared.edition.load(Ordering::SeqCst) == edition.0
    }

    /// Rolls the group back, unless SQLite has done so already.
    pub(super) fn roll_back(&mut self) {
        if !self.connection.is_autocommit() {
            // If this fails, the next BEGIN fails too.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        self.cache.clear();
        // A failed COMMIT may have written the group.
        self.new_edition();
        // Triggers that a claim passed in this group are still to be claimed.
        self.made_pending = self.before.made_pending;
        for (incarnation, scan) in self.before.scans.drain(..).rev() {
            match scan {
                Some(scan) => drop(self.scans.insert(incarnation, scan)),
                None => drop(self.scans.remove(&incarnation)),
            }
        }
        self.aftermath.gone.clear();
        for (incarnation, file) in std::mem::take(&mut self.aftermath.joined) {
            drop(file);
            super::locks::remove(&self.shared.path, incarnation);
        }
    }

    /// Carries out one write in the open group.
    pub(super) fn carry_out(&mut self, write: &Write) -> Done<Wrote> {
        now(write.carry_out(self))
    }

    /// Whether this is still a member.
    fn is_member(&mut self, incarnation: i64) -> Done<bool> {
        if let Some(known) = self.cache.members.get(&incarnation) {
            return Ok(*known);
        }
        let member = self.statements.member.exists([incarnation])?;
        self.cache.members.insert(incarnation, member);
        Ok(member)
    }

    /// The head of a run, from the cache or from the file.
    fn head(&mut self, no: i64) -> Done<Option<&mut Head>> {
        if !self.cache.heads.contains_key(&no) {
            let read = self.statements.head.query_row([no], |row| {
                let status = match variant(row, 0, Status::from_stored) {
                    Ok(status) => status,
                    Err(error) => return Ok(Err(error)),
                };
                Ok(Ok(Head {
                    status,
                    owner: row.get(1)?,
                    epoch: row.get(2)?,
                    version: row.get(3)?,
                    last_execution: row.get(4)?,
                    extras: row.get(5)?,
                    unwritten: Unwritten::Nothing,
                    state: bytes::Bytes::new(),
                    finish: None,
                }))
            });
            let Some(head) = read.optional()?.transpose()? else {
                return Ok(None);
            };
            self.cache.heads.insert(no, head);
        }
        Ok(self.cache.heads.get_mut(&no))
    }

    /// Writes the cached head of a run to the file.
    fn write_head(&mut self, no: i64) -> Done<()> {
        let Some(head) = self.cache.heads.get_mut(&no) else {
            return Ok(());
        };
        let status = head.status as u8;
        let state = std::mem::take(&mut head.state);
        let version = head.version;
        match std::mem::replace(&mut head.unwritten, Unwritten::Nothing) {
            Unwritten::Nothing => {}
            Unwritten::Step => {
                let sum = sums::of_state(no, version, &state);
                let head = (no, status, version, head.last_execution, &*state, sum);
                self.statements.step_head.execute(head)?;
            }
            Unwritten::Whole => {
                let finish = head.finish.take();
                let finished_ms = finish.as_deref().map(|(at_ms, _)| *at_ms);
                let finish = finish.as_deref().map(|(_, finish)| finish);
                let failure = finish
                    .and_then(|finish| finish.failure.as_ref())
                    .and_then(json);
                let (output, meta) = payload(finish.and_then(|finish| finish.output.as_ref()));
                let content = (output, meta.as_deref());
                let output_sum = sums::of_payload(Of::Output, [no, 0, 0], "", content);
                self.statements.whole_head.execute((
                    no,
                    status,
                    version,
                    head.last_execution,
                    &*state,
                    head.owner,
                    finished_ms,
                    failure,
                    output,
                    &meta,
                    sums::of_state(no, version, &state),
                    output_sum,
                ))?;
            }
        }
        Ok(())
    }
}
