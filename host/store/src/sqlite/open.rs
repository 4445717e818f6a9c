//! Opens a store file: makes sure that it is one, is not from the future, and is laid out.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use rusqlite_migration::{M, MigrationDefinitionError, Migrations};

use super::fault::explain;
use super::locks;
use super::options::{Durability, SqliteOptions};
use crate::codes;
use crate::error::{Error, Result};

/// `wlas`: marks the file as a store, for `file` and for us.
const APPLICATION_ID: i32 = 0x776c_6173;

/// Each migration ever released, in order, never changed afterwards.
const STEPS: &[M<'static>] = &[M::up(include_str!("schema.sql"))];
const MIGRATIONS: Migrations<'static> = Migrations::from_slice(STEPS);

/// Prepared statements each connection keeps, besides those that the writer holds itself.
const STATEMENT_CACHE: usize = 64;

/// How often at most the busy handler is called before it gives up, at 1 ms each.
const BUSY_CALLS: i32 = 2000;

/// Opens the connection that writes, creating and migrating the file as needed.
pub(super) fn writer(path: &Path, options: &SqliteOptions) -> Result<Connection> {
    // One process at a time, so that two that meet on a new file do not both lay it out.
    let _opening = locks::opening(path)?;
    let told = |error: rusqlite::Error| explain(path, &error);
    let mut connection = Connection::open(path).map_err(told)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
    connection.busy_handler(Some(wait_a_moment)).map_err(told)?;
    check_header(path, &connection)?;
    // Only an empty file can still choose; on others this does nothing.
    connection
        .pragma_update(None, "auto_vacuum", "INCREMENTAL")
        .map_err(told)?;
    connection
        .pragma_update(None, "journal_mode", "WAL")
        .map_err(told)?;
    let synchronous = match options.durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    connection
        .pragma_update(None, "synchronous", synchronous)
        .map_err(told)?;
    connection
        .pragma_update(None, "cache_size", -32_768)
        .map_err(told)?;
    connection
        .pragma_update(None, "wal_autocheckpoint", 4000)
        .map_err(told)?;
    // After the log has been started over, what it holds beyond this is cut off.
    connection
        .pragma_update(None, "journal_size_limit", 32 * 1024 * 1024)
        .map_err(told)?;
    migrate(path, &mut connection)?;
    Ok(connection)
}

/// Opens a connection that only reads.
pub(super) fn reader(path: &Path) -> Result<Connection> {
    let told = |error: rusqlite::Error| explain(path, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(told)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
    connection.busy_handler(Some(wait_a_moment)).map_err(told)?;
    connection
        .pragma_update(None, "cache_size", -8_192)
        .map_err(told)?;
    Ok(connection)
}

/// SQLite's own handler sleeps for up to 100 ms at a time, which starves a process beside one
/// that writes all the time. Waiting briefly and often gives it its turn.
fn wait_a_moment(calls: i32) -> bool {
    std::thread::park_timeout(Duration::from_millis(1));
    calls < BUSY_CALLS
}

fn check_header(path: &Path, connection: &Connection) -> Result<()> {
    let told = |error: rusqlite::Error| explain(path, &error);
    let application: i32 = connection
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .map_err(told)?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(told)?;
    if application == APPLICATION_ID || (application == 0 && tables == 0) {
        return Ok(());
    }
    let text = format!("{} is a database of another program", path.display());
    Err(Error::new(codes::NOT_A_STORE, text)
        .help("Name another file with `--store`; this one is left as it is."))
}

fn migrate(path: &Path, connection: &mut Connection) -> Result<()> {
    use rusqlite_migration::Error::{MigrationDefinition, RusqliteError};
    match MIGRATIONS.to_latest(connection) {
        Ok(()) => Ok(()),
        Err(RusqliteError { err, .. }) => Err(explain(path, &err)),
        Err(MigrationDefinition(MigrationDefinitionError::DatabaseTooFarAhead)) => {
            let text = format!("a newer Windlass has written {}", path.display());
            Err(Error::new(codes::NEWER, text).help("Use that Windlass, or another file."))
        }
        Err(other) => Err(Error::corrupt(&format!("no layout that is known: {other}"))),
    }
}
