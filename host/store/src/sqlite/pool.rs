//! A few connections for reading, opened on demand.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, params_from_iter};

use super::fault::note;
use super::open;
use super::options::SqliteOptions;
use crate::allowance;
use crate::error::{Error, Result};
use crate::health::{Health, Lasts, concerns_all};
use crate::sql::{Moments, Param, Row, Source, Sql};

/// The part of the writer's page cache that the cache of a connection for reading has.
const READER_PART: usize = 4;

#[derive(Default)]
struct Idle {
    connections: Vec<Connection>,
    open: usize,
    closed: bool,
}

/// Lends connections, each to one reader at a time.
pub(crate) struct Pool {
    path: PathBuf,
    bound: usize,
    /// The size of the page cache of each connection.
    cache_bytes: usize,
    idle: Mutex<Idle>,
    returned: Condvar,
    health: Arc<Health>,
}

impl Pool {
    pub(super) fn new(path: &Path, options: &SqliteOptions, health: Arc<Health>) -> Self {
        Self {
            health,
            path: path.to_owned(),
            bound: options.read_connections.max(1),
            cache_bytes: options.cache_bytes / READER_PART,
            idle: Mutex::default(),
            returned: Condvar::new(),
        }
    }

    /// Reads. Waits while all connections are in use. A connection with an error is not used again.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        // After the file was removed or replaced, a read would return outdated rows.
        self.health.check_stopped()?;
        let connection = self.borrow().inspect_err(|error| {
            if concerns_all(error) {
                self.health.note(Lasts::Passing, error);
            }
        })?;
        let result = read(&connection);
        let mut idle = self.idle.lock();
        if result.is_ok() && !idle.closed {
            idle.connections.push(connection);
        } else {
            idle.open -= 1;
        }
        drop(idle);
        self.returned.notify_one();
        result.map_err(|error| note(&self.health, &self.path, &error))
    }

    fn borrow(&self) -> Result<Connection> {
        let mut idle = self.idle.lock();
        loop {
            if idle.closed {
                return Err(Error::closed());
            }
            if let Some(connection) = idle.connections.pop() {
                return Ok(connection);
            }
            if idle.open < self.bound {
                idle.open += 1;
                break;
            }
            self.returned.wait(&mut idle);
        }
        drop(idle);
        open::reader(&self.path, self.cache_bytes).inspect_err(|_| {
            self.idle.lock().open -= 1;
            self.returned.notify_one();
        })
    }

    /// Closes idle connections now, and the others when they are returned.
    pub(super) fn close(&self) {
        let mut idle = self.idle.lock();
        idle.closed = true;
        idle.open -= idle.connections.len();
        idle.connections.clear();
        drop(idle);
        self.returned.notify_all();
    }
}

/// All rows that a statement returns.
pub(super) fn rows<T>(
    connection: &Connection,
    sql: Sql,
    params: &[Param],
    read: impl Fn(&dyn Row) -> Result<T>,
) -> rusqlite::Result<Result<Vec<T>>> {
    let mut statement = connection.prepare_cached(sql.sqlite)?;
    let columns = statement.column_count();
    let mut rows = statement.query(params_from_iter(params))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        match allowance::take(row, columns).and_then(|()| read(row)) {
            Ok(value) => found.push(value),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(found))
}

impl Source for Pool {
    fn all<T>(
        &self,
        sql: Sql,
        params: Vec<Param>,
        read: impl Fn(&dyn Row) -> Result<T>,
    ) -> Result<Vec<T>> {
        let found = self.read(|connection| rows(connection, sql, &params, read))?;
        found.map_err(|error| error.found_in(&self.path))
    }
}

/// A connection whose statements all see the same moment.
pub(crate) struct Moment<'m> {
    connection: &'m Connection,
    /// SQLite's error about a failed statement.
    fault: RefCell<Option<rusqlite::Error>>,
}

impl Source for Moment<'_> {
    fn all<T>(
        &self,
        sql: Sql,
        params: Vec<Param>,
        read: impl Fn(&dyn Row) -> Result<T>,
    ) -> Result<Vec<T>> {
        rows(self.connection, sql, &params, read).unwrap_or_else(|fault| {
            *self.fault.borrow_mut() = Some(fault);
            // The recorded fault replaces this error.
            Err(Error::closed())
        })
    }
}

impl Moments for Pool {
    type Moment<'m> = Moment<'m>;

    fn moment<T>(&self, read: impl FnOnce(&Moment<'_>) -> Result<T>) -> Result<T> {
        let found = self.read(|connection| {
            // The transaction is rolled back on drop, which suffices for a reader.
            let transaction = connection.unchecked_transaction()?;
            let moment = Moment {
                connection: &transaction,
                fault: RefCell::default(),
            };
            let found = read(&moment);
            match moment.fault.into_inner() {
                Some(fault) => Err(fault),
                None => Ok(found),
            }
        })?;
        found.map_err(|error| error.found_in(&self.path))
    }
}
