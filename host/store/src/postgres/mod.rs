//! A store in a PostgreSQL database, for several machines.
//!
//! A few threads write, each over a connection of its own (`lanes.rs`, `lane.rs`), in groups,
//! each one transaction whose statements carry the work of all of it (`writer.rs`, `session/`);
//! readers have a pool of connections (`pool.rs`, `read.rs`). Nothing here blocks on a future
//! where the caller may be driving a runtime: the store has one of its own, and so has each of
//! its threads that write. `docs/postgresql.md` describes the layout.
//!
//! Where to put what:
//!
//! * a verb or a reader that SQLite can run alike: a file of `crate::sql`, and a line in its
//!   `verbs.rs` or `read.rs`;
//! * a verb of PostgreSQL's own: an `async fn` of `Session` in `session/`, and a method of
//!   `Transaction`;
//! * a table: a further step in `layout.rs`.

mod connect;
mod fault;
mod lane;
mod lanes;
mod layout;
mod listen;
mod options;
mod pool;
mod read;
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

use self::connect::Target;
use self::fault::explain;
use self::lane::WriteConnection;
use self::lanes::Lanes;
pub use self::options::PostgresOptions;
use self::pool::ReadPool;
use self::shared::PostgresShared;
use crate::error::{Error, Result};
use crate::health::Health;
use crate::queue;
use crate::sql::params;
use crate::write::{Sink, Ticket, Write, Wrote};
use crate::{Listener, Store, codes};

/// Between two attempts to reach a server that is waited for.
const PAUSE: Duration = Duration::from_millis(250);

/// Threads of the store's own runtime: they pass bytes on and wait.
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
    /// Opens a store: connects, and lays the tables out if they are not there. Blocks; not to
    /// be called from a thread that drives a runtime.
    ///
    /// # Errors
    ///
    /// `WL-S003`: a newer Windlass has laid the tables out. `WL-S030` to `WL-S037`: the server
    /// cannot be reached, does not let the user in or do what is needed, has no such database,
    /// or none of ours; the URL cannot be read.
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
            // Dropping it may wait, which is not allowed where a runtime is driven.
            runtime.shutdown_background();
            return Err(error);
        }
        let lanes = Lanes::new(
            options.write_connections,
            options.queue_writes,
            options.queue_bytes,
        );
        let health = Arc::<Health>::default();
        let pool = ReadPool::new(
            &target,
            options.read_connections,
            handle.clone(),
            Arc::clone(&health),
        )?;
        let shared = Arc::new(PostgresShared {
            target,
            tracers: std::iter::repeat_with(nonce).take(lanes.count()).collect(),
            lanes,
            health,
            options,
            process: nonce(),
            known: Mutex::default(),
            made_pending: AtomicU64::new(0),
            seen_pending: AtomicU64::new(0),
            burials: AtomicU64::new(0),
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
            // A thread moves the bytes of its connection itself: it would be woken for each
            // answer in any case.
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

    /// Host and database, for people.
    pub fn place(&self) -> &str {
        self.shared.target.place()
    }
}

/// Sees that the schema is laid out.
async fn prepare(target: Arc<Target>, options: PostgresOptions) -> Result<()> {
    let mut connection = first(&target, &options).await?;
    layout::lay_out(&mut connection, target.place(), &options.schema).await
}

/// Connects; a server that is not there yet is waited for, as long as the options say.
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

/// Runs a future on the store's runtime and waits for it, whatever thread this is.
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
        let sql = "SELECT pg_notify($1, $2)";
        let channel = listen::channel(&self.shared.options.schema);
        self.pool.hint(sql, params![channel, own]);
    }

    fn listen(&self, wake: Box<dyn Fn() + Send + Sync>) -> Result<Listener> {
        let (first, begun) = std::sync::mpsc::sync_channel(1);
        let subscription = listen::subscribe(
            &self.handle,
            Arc::clone(&self.shared.target),
            &self.shared.options.schema,
            self.shared.process.to_string(),
            wake,
            first,
        );
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
        // A sink that held the last handle closes the store from a writer's own thread, on which
        // others may have to wait.
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

/// What is left to do of a store that takes nothing more.
struct Closing {
    writers: Vec<JoinHandle<()>>,
    shared: Arc<PostgresShared>,
    pool: ReadPool,
    runtime: Option<Runtime>,
}

impl Closing {
    fn finish(self) {
        for writer in self.writers {
            // One that panicked has nothing more to finish.
            let _ = writer.join();
        }
        end(&self.shared, &self.pool);
        self.pool.close();
        // Whatever it still drives is of no use any more; waiting for it is not allowed on a
        // thread that drives another runtime.
        if let Some(runtime) = self.runtime {
            runtime.shutdown_background();
        }
    }
}

/// Who joined here is dead from now on, and nobody has to wait for that. What they hold is
/// not given back: that is what leaving is for.
fn end(shared: &PostgresShared, pool: &ReadPool) {
    let joined = std::mem::take(&mut *shared.joined.lock());
    // Where it fails, the leases run out by themselves.
    if !joined.is_empty() {
        let sql = "UPDATE member SET until_ms = 0 WHERE incarnation = ANY($1)";
        let _ = pool.rows(sql, params![joined]);
    }
    // Lanes of processes that died long ago have left theirs. What is younger than that may be
    // what a living lane is about to look for.
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

/// A number that differs between the store objects of all processes.
fn nonce() -> i64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new()
        .hash_one(std::process::id())
        .cast_signed()
}
