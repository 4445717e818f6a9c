//! A store in one SQLite file.
//!
//! One thread of the process writes, in groups; readers have connections of their own. Several
//! processes may use one file: SQLite's lock orders their groups, lock files beside the store show
//! which of them are alive, and a wake file notifies them of new work. `docs/storage.md` describes
//! the layout.

mod altered;
mod fault;
mod locks;
mod log;
mod mark;
mod open;
mod options;
mod own_readers;
mod pool;
mod restore;
mod session;
mod settle;
mod shared;
#[cfg(test)]
mod tests;
mod time;
mod upkeep;
mod wake;
mod watch;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use windlass_model::RunNo;

use self::mark::Mark;
pub use self::options::{Durability, SqliteOptions};
use self::pool::Pool;
pub use self::restore::Restored;
use self::shared::{SqliteShared, Trace};
use self::time::MachineTime;
use self::wake::Wake;
use crate::error::{Error, Result};
use crate::health::{Health, Lasts};
use crate::published::Edition;
use crate::queue::{self, Queue};
use crate::write::{Sink, Ticket, Write, Wrote};
use crate::{Hear, Listener, Reader as _, Store, codes};

/// A store in one SQLite file.
pub struct SqliteStore {
    shared: Arc<SqliteShared>,
    pool: Pool,
    wake: Wake,
    /// The threads of the store: first the one that keeps the marker, then the writer.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl SqliteStore {
    /// Opens a store, and creates the file and its directory if they are missing.
    ///
    /// # Errors
    ///
    /// `WL-S001` to `WL-S008`: the file cannot be opened, is not a store, was written by a newer
    /// version, is damaged, cannot be written, the disk is full, or another process holds the file.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Arc<Self>> {
        let path = path.as_ref();
        let opened = open::writer(path, &options)?;
        let health = Arc::<Health>::default();
        let time = MachineTime::new(Arc::clone(&options.clock));
        let mark = Arc::new(Mark::open(
            path,
            &opened.connection,
            time::nonce(),
            time.boot(),
            &options,
        )?);
        let shared = Arc::new(SqliteShared {
            path: path.to_owned(),
            time,
            queue: Queue::new(
                options.queue_writes.max(1),
                options.queue_bytes.max(1),
                Arc::clone(&options.metrics),
            ),
            trace: Trace::new(time::nonce()),
            health: Arc::clone(&health),
            file: opened.file,
            mark: Arc::clone(&mark),
            edition: AtomicU64::new(0),
            locks: Mutex::default(),
            #[cfg(test)]
            troubles: Mutex::default(),
            #[cfg(test)]
            watched: Mutex::default(),
            options,
        });
        let pool = Pool::new(path, &shared.options, health);
        let wake = Wake::new(path, time::nonce());
        let for_writer = Arc::clone(&shared);
        let store = Self {
            shared,
            pool,
            wake,
            threads: Mutex::default(),
        };
        store.begin("store-mark", move || mark.keep())?;
        store.begin("store-writer", move || writer::run(&for_writer, opened))?;
        Ok(Arc::new(store))
    }

    fn begin(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(work);
        let thread = thread.map_err(|error| {
            Error::new(
                codes::CANNOT_OPEN,
                format!("no thread for the store: {error}"),
            )
        })?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Takes over a member that joined through another store object. For tests in which the files
    /// are removed while the processes live on.
    ///
    /// # Errors
    ///
    /// `WL-S014`: the lock file cannot be locked.
    #[cfg(any(test, feature = "conformance"))]
    pub fn adopt(&self, member: windlass_model::Incarnation) -> Result<()> {
        let lock = locks::join(&self.shared.path, member.0)?;
        self.shared.locks.lock().insert(member.0, lock);
        Ok(())
    }

    /// Copies the log into the database, as SQLite does when the log has grown. For tests.
    ///
    /// # Errors
    ///
    /// SQLite fails.
    #[cfg(any(test, feature = "conformance"))]
    pub fn checkpoint(&self) -> Result<()> {
        let told = |error: rusqlite::Error| fault::explain(&self.shared.path, &error);
        let connection = rusqlite::Connection::open(&self.shared.path).map_err(told)?;
        let sql = "PRAGMA wal_checkpoint(PASSIVE)";
        connection.query_row(sql, [], |_| Ok(())).map_err(told)
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }
}

impl Store for SqliteStore {
    fn submit(&self, sink: &Arc<dyn Sink>, writes: Vec<(Ticket, Write)>) {
        queue::submit(sink, writes, |batch| self.shared.queue.push(batch));
    }

    fn carry_out(&self, write: Write) -> Result<Wrote> {
        queue::wait(self, write)
    }

    fn edition(&self) -> Option<Edition> {
        Some(Edition(self.shared.edition.load(Ordering::SeqCst)))
    }

    fn notify(&self) {
        self.wake.notify();
    }

    fn attend(&self) {
        let now_ms = self.shared.options.clock.wall_ms();
        self.wake.attend(now_ms);
    }

    fn changed(&self, runs: &[RunNo]) {
        if !runs.is_empty() {
            self.wake.changed(self.shared.options.clock.wall_ms());
        }
    }

    fn listen(&self, hear: Hear) -> Result<Listener> {
        self.wake.listen(hear).map(Listener)
    }

    fn probe(&self) -> Result<()> {
        self.shared.health.check()?;
        if let Err(error) = self.shared.file.still_names(&self.shared.path) {
            self.shared.health.note(Lasts::Stopped, &error);
            return Err(error);
        }
        // An idle connection may not have noticed that the file was replaced.
        self.setting("probe").map(drop)
    }

    fn close(&self) {
        // The writer must be the last to close the file, because the last connection removes the
        // log. If two connections close at the same moment, neither removes it.
        self.pool.close();
        self.shared.queue.close();
        let mut threads = std::mem::take(&mut *self.threads.lock()).into_iter();
        let keeper = threads.next();
        // A sink that holds the last handle closes the store on the writer thread, which cannot
        // join itself.
        let own = |thread: &JoinHandle<()>| thread.thread().id() == std::thread::current().id();
        for writer in threads.filter(|thread| !own(thread)) {
            // A thread that panicked has no more work.
            let _ = writer.join();
        }
        // The writer has recorded its last bound.
        self.shared.mark.close();
        if let Some(keeper) = keeper {
            let _ = keeper.join();
        }
        self.shared.locks.lock().clear();
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.close();
    }
}
