//! A store in a PostgreSQL database, for several machines.
//!
//! A few threads write, each over a connection of its own (`lanes.rs`, `lane.rs`). They write in
//! groups; each group is one transaction whose statements carry all its writes (`writer.rs`,
//! `session/`). Readers share a pool of connections (`pool.rs`, `read.rs`). No function here blocks
//! on a future on the caller's thread, which may drive a runtime: the store has a runtime of its
//! own, and so has each writer thread. `docs/postgresql.md` describes the layout.
//!
//! Where to put new code:
//!
//! * a verb or a reader with the same SQL in both databases: a file of `crate::sql`, and a line in
//!   the list of `crate::write` or `crate::read`;
//! * a verb with SQL of its own: an `async fn` of `Session` in `session/`, and a method of
//!   `Transaction`;
//! * a table: a further step in `crate::sql::layout`.

mod connect;
mod fault;
mod lane;
mod lanes;
mod layout;
mod listen;
mod local;
mod options;
mod own_readers;
mod pool;
mod session;
mod shared;
#[cfg(test)]
mod tests;
mod upkeep;
mod values;
mod writer;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::runtime::Runtime;
use windlass_model::RunNo;

use self::connect::Target;
use self::fault::explain;
use self::lane::WriteConnection;
use self::lanes::Lanes;
use self::local::Members;
pub use self::options::PostgresOptions;
use self::pool::ReadPool;
use self::shared::PostgresShared;
use crate::error::{Error, Result};
use crate::health::Health;
use crate::queue;
use crate::sql::params;
use crate::write::{Sink, Ticket, Write, Wrote};
use crate::{Hear, Listener, Store, codes};

/// The wait between two attempts to connect while the store is opened.
const PAUSE: Duration = Duration::from_millis(250);

/// Threads of the store's runtime, which only do input and output.
const THREADS: usize = 2;

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    shared: Arc<PostgresShared>,
    pool: ReadPool,
    writers: Mutex<Vec<JoinHandle<()>>>,
    runtime: Mutex<Option<Runtime>>,
    handle: tokio::runtime::Handle,
}

impl PostgresStore {
    /// Opens a store: connects, and creates the tables if they are missing. Blocks; must not be
    /// called from a thread that drives a runtime.
    ///
    /// # Errors
    ///
    /// `WL-S003`: the tables demand a newer Windlass. `WL-S022`: older programs are members, and
    /// cannot work on the newest layout. `WL-S030` to `WL-S037`: the server cannot
    /// be reached, rejects the login or lacks a permission, has no such database, or the tables
    /// belong to another program; or the URL is invalid.
    pub fn open(url: &str, options: PostgresOptions) -> Result<Arc<Self>> {
        let target = Arc::new(Target::new(url, &options)?);
        let none = |error: std::io::Error| {
            Error::new(
                codes::CANNOT_OPEN,
                format!("no thread for the store: {error}"),
            )
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("store-io")
            .enable_all()
            .build()
            .map_err(none)?;
        let handle = runtime.handle().clone();
        let prepared = prepare(Arc::clone(&target), options.clone());
        if let Err(error) = wait_for(&handle, prepared) {
            // Dropping the runtime may block, which is not allowed on a thread that drives a
            // runtime.
            runtime.shutdown_background();
            return Err(error);
        }
        let lanes = Lanes::new(
            options.write_connections,
            options.queue_writes,
            options.queue_bytes,
            Arc::clone(&options.metrics),
        );
        let health = Arc::<Health>::default();
        let pool = ReadPool::new(
            &target,
            options.read_connections,
            handle.clone(),
            Arc::clone(&health),
        )?;
        let members = options.members.as_ref();
        let members = members.and_then(|directory| Members::new(directory, target.place()));
        let shared = Arc::new(PostgresShared {
            target,
            members,
            tracers: std::iter::repeat_with(nonce).take(lanes.count()).collect(),
            lanes,
            health,
            options,
            process: nonce(),
            known: Mutex::default(),
            attended_ms: AtomicU64::new(0),
            untold: Mutex::default(),
            made_pending: AtomicU64::new(0),
            seen_pending: AtomicU64::new(0),
            reaps: AtomicU64::new(0),
            scans: Mutex::new(FxHashMap::default()),
            documents: Mutex::default(),
            joined: Mutex::default(),
            #[cfg(test)]
            troubles: Mutex::default(),
            #[cfg(test)]
            trips: Mutex::default(),
            #[cfg(test)]
            before_trouble: Mutex::default(),
            #[cfg(test)]
            between: Mutex::default(),
        });
        let store = Self {
            shared,
            pool,
            writers: Mutex::default(),
            runtime: Mutex::new(Some(runtime)),
            handle,
        };
        store.write_from_now_on().map_err(none)?;
        Ok(Arc::new(store))
    }

    /// Starts a thread for each lane.
    fn write_from_now_on(&self) -> std::io::Result<()> {
        for (no, tracer) in self.shared.tracers.iter().enumerate() {
            // Each thread drives the connection itself: it would be woken for each answer in any
            // case.
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let (shared, lane) = (Arc::clone(&self.shared), WriteConnection::new(*tracer));
            let writer = std::thread::Builder::new()
                .name(format!("store-writer-{no}"))
                .spawn(move || writer::run(&shared, &runtime, no, lane))?;
            self.writers.lock().push(writer);
        }
        Ok(())
    }

    /// Sends a notification, without waiting for it.
    fn hint(&self, payload: String) {
        let channel = listen::channel(&self.shared.options.schema);
        self.pool.hint(listen::NOTIFY, params![channel, payload]);
    }

    /// Host and database, for messages.
    pub fn place(&self) -> &str {
        self.shared.target.place()
    }
}

/// Brings the schema to the newest layout.
async fn prepare(target: Arc<Target>, options: PostgresOptions) -> Result<()> {
    let mut connection = first(&target, &options).await?;
    layout::lay_out(&mut connection, target.place(), &options).await
}

/// Connects. Waits for a server that cannot be reached yet, within the time of the options.
async fn first(target: &Target, options: &PostgresOptions) -> Result<connect::Connection> {
    let begun = options.clock.monotonic();
    let patience = Duration::from_millis(options.patience_ms);
    let mut told = false;
    loop {
        let fault = match target.writer().await {
            Ok(connection) => return Ok(connection),
            Err(fault) => explain(target.place(), &fault),
        };
        let may_come = [codes::UNREACHABLE, codes::CONNECTIONS].contains(&fault.code);
        if !may_come || options.clock.monotonic().saturating_sub(begun) >= patience {
            return Err(fault);
        }
        if !told {
            tracing::warn!(
                code = %fault.code,
                "{fault}; it is waited for, for up to {} s", patience.as_secs()
            );
            told = true;
        }
        listen::pause(PAUSE).await;
    }
}

/// Runs a future on the store's runtime and blocks until it is done. Works on any thread.
fn wait_for<T: Send + 'static>(
    runtime: &tokio::runtime::Handle,
    future: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    runtime.spawn(async move {
        let _ = sender.send(future.await);
    });
    receiver.recv().unwrap_or_else(|_| Err(Error::closed()))
}

impl Store for PostgresStore {
    fn submit(&self, sink: &Arc<dyn Sink>, writes: Vec<(Ticket, Write)>) {
        queue::submit(sink, writes, |batch| self.shared.lanes.push(batch));
    }

    fn carry_out(&self, write: Write) -> Result<Wrote> {
        queue::wait(self, write)
    }

    fn notify(&self) {
        let own = self.shared.process.to_string();
        self.hint(own);
    }

    fn attend(&self) {
        self.hint(format!("{} attend", self.shared.process));
    }

    fn changed(&self, runs: &[RunNo]) {
        self.shared.tell(runs, &self.pool);
    }

    fn listen(&self, hear: Hear) -> Result<Listener> {
        let (first, begun) = std::sync::mpsc::sync_channel(1);
        let shared = Arc::clone(&self.shared);
        let subscription = listen::subscribe(&self.handle, shared, hear, first);
        let _ = begun.recv();
        Ok(Listener(Box::new(subscription)))
    }

    fn probe(&self) -> Result<()> {
        self.shared.health.check()?;
        self.pool.rows("SELECT 1", Vec::new()).map(drop)
    }

    fn close(&self) {
        self.shared.lanes.close();
        let closing = Closing {
            writers: std::mem::take(&mut *self.writers.lock()),
            shared: Arc::clone(&self.shared),
            pool: self.pool.clone(),
            runtime: self.runtime.lock().take(),
        };
        // A sink that holds the last handle closes the store from a writer thread, which cannot
        // wait for itself.
        let this = std::thread::current().id();
        if closing
            .writers
            .iter()
            .any(|writer| writer.thread().id() == this)
        {
            std::thread::spawn(move || closing.finish());
        } else {
            closing.finish();
        }
    }
}

/// The remaining work of a store that accepts no more writes.
struct Closing {
    writers: Vec<JoinHandle<()>>,
    shared: Arc<PostgresShared>,
    pool: ReadPool,
    runtime: Option<Runtime>,
}

impl Closing {
    fn finish(self) {
        for writer in self.writers {
            // A thread that panicked has no more work.
            let _ = writer.join();
        }
        end(&self.shared, &self.pool);
        self.pool.close();
        // The remaining tasks are useless now. Waiting for them is not allowed on a thread that
        // drives another runtime.
        if let Some(runtime) = self.runtime {
            runtime.shutdown_background();
        }
    }
}

/// Marks the members that joined through this store as dead, so that no process waits for their
/// leases. Their runs are not released: a member that leaves does that itself.
fn end(shared: &PostgresShared, pool: &ReadPool) {
    let joined = std::mem::take(&mut *shared.joined.lock());
    // If this fails, the leases expire.
    if !joined.is_empty() {
        let sql = "UPDATE member SET until_ms = 0 WHERE incarnation = ANY($1)";
        let numbers: Vec<i64> = joined.iter().map(|(incarnation, _)| *incarnation).collect();
        let _ = pool.rows(sql, params![numbers]);
    }
    // Lanes of processes that died long ago have left traces. A younger trace may be one that a
    // living lane is about to look for.
    let sql = "WITH gone AS (DELETE FROM trace \
            WHERE process = ANY($1) OR at < now() - interval '30 days' RETURNING process) \
        DELETE FROM trail WHERE process = ANY (ARRAY(SELECT process FROM gone)) \
        AND (process = ANY($1) OR at < now() - interval '30 days')";
    let _ = pool.rows(sql, params![shared.tracers.clone()]);
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.close();
    }
}

/// A number that differs between all store objects of all processes.
fn nonce() -> i64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new()
        .hash_one(std::process::id())
        .cast_signed()
}
