//! Locks in a SQLite file: for several processes on one machine, beside their store or in it.
//!
//! Leases count on the machine's monotonic clock and name its boot, so that neither a suspended
//! machine nor a changed date ends them, and a restart of the machine ends them all.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backon::{BlockingRetryable as _, ConstantBuilder};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use windlass_model::Clock;

use crate::key::Key;
use crate::leased::{Backend, LEASE, Lease, Leased};
use crate::parts::Parts;
use crate::provider::{Error, Listed, LockProvider, Reach};

/// How long a statement waits for other writers of the file.
const BUSY: Duration = Duration::from_secs(2);

/// How long a process that opens the file waits for others that create the tables.
const OPENING: Duration = Duration::from_secs(30);

/// How many attempts to switch a file to a write-ahead log, 1 ms apart.
const LOG_TRIES: usize = 30_000;

const SCHEMA: &str = "
    -- Locks need not survive a power cut: their holders do not survive it either.
    PRAGMA synchronous = NORMAL;
    CREATE TABLE IF NOT EXISTS windlass_lock (
        key TEXT PRIMARY KEY,
        holder TEXT NOT NULL,
        owner TEXT NOT NULL,
        token INTEGER NOT NULL,
        boot TEXT NOT NULL,
        until_ms INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS windlass_lock_token (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        last INTEGER NOT NULL
    ) STRICT;
    INSERT OR IGNORE INTO windlass_lock_token VALUES (1, 0);";

/// The location of the locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The file; it is created if it does not exist.
    pub path: PathBuf,
    /// How long a lock lasts without a renewal; at least 100 ms.
    pub lease: Duration,
}

impl Options {
    /// Locks in that file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            lease: LEASE,
        }
    }
}

/// Opens the file.
pub(crate) fn open(options: &Options, parts: Parts) -> Result<Arc<dyn LockProvider>, Error> {
    let backend = Sqlite {
        connection: Arc::new(Mutex::new(connect(&options.path)?)),
        time: Arc::new(MachineTime::new(Arc::clone(&parts.clock))),
        lease_ms: i64::try_from(options.lease.as_millis()).unwrap_or(i64::MAX),
        parts: parts.clone(),
    };
    Ok(Arc::new(Leased::new(backend, options.lease, parts)?))
}

fn connect(path: &Path) -> Result<Connection, Error> {
    if let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        windlass_files::make_directory(parent).map_err(|error| {
            Error::refused(format!("cannot make {}: {error}", parent.display()))
        })?;
    }
    windlass_files::check_place(path)
        .map_err(|error| Error::refused(format!("cannot make {}: {error}", path.display())))?;
    // SQLite reports a bad place with a better message.
    let _ = windlass_files::make(path);
    let connection = Connection::open(path).and_then(|connection| {
        keep_a_log(&connection)?;
        connection.busy_timeout(OPENING)?;
        connection.execute_batch(SCHEMA)?;
        connection.busy_timeout(BUSY)?;
        Ok(connection)
    });
    connection.map_err(|error| of(&error, path))
}

/// If several processes meet on a new file, one of them changes it. SQLite tells the others at once
/// that the file is busy, regardless of their timeouts: each has begun to read, and would wait for
/// the others.
fn keep_a_log(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::ZERO)?;
    let changed = || connection.pragma_update(None, "journal_mode", "WAL");
    let pace = ConstantBuilder::new()
        .with_delay(Duration::from_millis(1))
        .with_max_times(LOG_TRIES);
    changed.retry(pace).when(is_busy).call()
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}

struct Sqlite {
    connection: Arc<Mutex<Connection>>,
    time: Arc<MachineTime>,
    lease_ms: i64,
    parts: Parts,
}

impl Sqlite {
    /// Runs one write transaction.
    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Transaction<'_>, &MachineTime) -> rusqlite::Result<T>
        + Send
        + 'static,
    ) -> BoxFuture<'_, Result<T, Error>> {
        let (connection, time) = (Arc::clone(&self.connection), Arc::clone(&self.time));
        let done = self.parts.block(move || {
            let mut connection = connection.lock();
            let path = connection.path().map(PathBuf::from).unwrap_or_default();
            let transaction = || {
                let transaction =
                    connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                let value = work(&transaction, &time)?;
                transaction.commit()?;
                Ok(value)
            };
            let done: rusqlite::Result<T> = transaction();
            done.map_err(|error| of(&error, &path))
        });
        done.boxed()
    }
}

impl Backend for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn reach(&self) -> Reach {
        Reach::Machine
    }

    fn take<'a>(
        &'a self,
        key: &'a Key,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<Option<u64>, Error>> {
        let (key, holder) = (key.to_string(), holder.to_owned());
        let (owner, lease_ms) = (self.parts.owner.clone(), self.lease_ms);
        self.write(move |transaction, time| {
            let (now_ms, boot) = (time.now_ms(), time.boot());
            let taken: Option<i64> = transaction
                .prepare_cached(
                    "INSERT INTO windlass_lock (key, holder, owner, token, boot, until_ms) \
                     VALUES (?1, ?2, ?3, (SELECT last + 1 FROM windlass_lock_token), ?4, ?5) \
                     ON CONFLICT (key) DO UPDATE SET holder = excluded.holder, \
                     owner = excluded.owner, token = excluded.token, boot = excluded.boot, \
                     until_ms = excluded.until_ms \
                     WHERE holder = excluded.holder OR boot <> excluded.boot OR until_ms <= ?6 \
                     RETURNING token",
                )?
                .query_row(
                    params![
                        key,
                        holder,
                        owner,
                        boot,
                        now_ms.saturating_add(lease_ms),
                        now_ms
                    ],
                    |row| row.get(0),
                )
                .optional()?;
            if taken.is_some() {
                transaction
                    .prepare_cached("UPDATE windlass_lock_token SET last = last + 1")?
                    .execute([])?;
            }
            Ok(taken.map(i64::cast_unsigned))
        })
    }

    fn renew<'a>(&'a self, leases: &'a [Lease]) -> BoxFuture<'a, Result<Vec<bool>, Error>> {
        let leases = leases.to_vec();
        let lease_ms = self.lease_ms;
        self.write(move |transaction, time| {
            let (now_ms, boot) = (time.now_ms(), time.boot());
            let mut statement = transaction.prepare_cached(
                "UPDATE windlass_lock SET until_ms = ?1 \
                 WHERE key = ?2 AND holder = ?3 AND boot = ?4 AND until_ms > ?5",
            )?;
            let renewed = leases.iter().map(|lease| {
                let until_ms = now_ms.saturating_add(lease_ms);
                let key = lease.key.as_str();
                Ok(statement.execute(params![until_ms, key, lease.holder, boot, now_ms])? == 1)
            });
            renewed.collect()
        })
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), Error>> {
        let lease = lease.clone();
        self.write(move |transaction, _| {
            transaction
                .prepare_cached("DELETE FROM windlass_lock WHERE key = ?1 AND holder = ?2")?
                .execute(params![lease.key.as_str(), lease.holder])?;
            Ok(())
        })
    }

    fn list(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Listed>, Error>> {
        self.write(move |transaction, time| {
            let now_ms = time.now_ms();
            let mut statement = transaction.prepare_cached(
                "SELECT key, owner, token, until_ms FROM windlass_lock \
                 WHERE boot = ?1 AND until_ms > ?2 ORDER BY key LIMIT ?3",
            )?;
            let rows = statement.query_map(params![time.boot(), now_ms, limit], |row| {
                let until_ms: i64 = row.get(3)?;
                Ok(Listed {
                    key: row.get(0)?,
                    owner: row.get(1)?,
                    token: row.get::<_, i64>(2)?.cast_unsigned(),
                    lease_ms: u64::try_from(until_ms - now_ms).ok(),
                })
            })?;
            rows.collect()
        })
    }
}

/// Converts an error of SQLite.
fn of(error: &rusqlite::Error, path: &Path) -> Error {
    use rusqlite::ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseLocked, DiskFull, OperationInterrupted, SystemIoFailure,
    };
    let message = format!("the locks in {} are in trouble: {error}", path.display());
    match error.sqlite_error_code() {
        Some(
            DatabaseBusy | DatabaseLocked | DiskFull | SystemIoFailure | CannotOpen
            | OperationInterrupted,
        ) => Error::unreachable(message),
        _ => Error::refused(message),
    }
}

/// The machine's monotonic time, advanced by the clock that was passed in: all processes agree
/// about zero, and tests control it.
struct MachineTime {
    clock: Arc<dyn Clock>,
    base: Duration,
    began: Duration,
    boot: String,
}

impl MachineTime {
    fn new(clock: Arc<dyn Clock>) -> Self {
        let machine = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Self {
            began: clock.monotonic(),
            base: Duration::new(
                machine.tv_sec.unsigned_abs(),
                u32::try_from(machine.tv_nsec).unwrap_or(0),
            ),
            boot: boot.trim().to_owned(),
            clock,
        }
    }

    fn boot(&self) -> &str {
        &self.boot
    }

    fn now_ms(&self) -> i64 {
        let passed = self.clock.monotonic().saturating_sub(self.began);
        i64::try_from((self.base + passed).as_millis()).unwrap_or(i64::MAX)
    }
}
