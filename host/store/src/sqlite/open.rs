//! Opens a store file: checks that it is a store of this version or an older one, and migrates it.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior};
use windlass_model::failpoint;

use super::fault::explain;
use super::locks;
use super::mark;
use super::options::{Durability, SqliteOptions};
use super::watch::{self, Identity};
use crate::boot::boot;
use crate::codes;
use crate::error::{Error, Result};
use crate::sql::layout::{self, Behind, Requirement, Steps};

/// `wlas`: identifies the file as a store, for the program `file` and for this one.
const APPLICATION_ID: i32 = 0x776c_6173;

/// Prepared statements that each connection caches, besides those that the writer holds itself.
const STATEMENT_CACHE: usize = 64;

/// How long a writer's statement waits for another process, in milliseconds.
pub(super) const WRITER_WAIT_MS: u64 = 200;

/// How many times, 1 ms apart, a connection waits for a process that has the file to itself. A
/// process that closes the store copies the log into it, which takes as long as the disk takes.
const READER_WAITS: i32 = 10_000;

/// How many times, 1 ms apart, emptying the log waits for readers: enough for short reads.
const LOG_WAITS: i32 = 50;

/// A connection that writes, and the identity of its file.
pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) file: Identity,
}

/// Opens the connection that writes. Creates and migrates the file as needed. Refuses a store that
/// lacks writes that its marker names.
pub(super) fn writer(path: &Path, options: &SqliteOptions) -> Result<Opened> {
    // One process at a time, so that two processes do not both create the same new file.
    let _opening = locks::opening(path)?;
    let opened = unmarked(path, options)?;
    mark::check(path, &opened.connection, &boot())
        .inspect_err(|_| leave_log(&opened.connection, true))?;
    Ok(opened)
}

/// The same, but ignores the marker. The caller keeps other processes from opening the store.
pub(super) fn unmarked(path: &Path, options: &SqliteOptions) -> Result<Opened> {
    watch::before_opening(path)?;
    let told = |error: rusqlite::Error| explain(path, &error);
    // Created here, because SQLite would create a file that other users can read. Files beside it
    // get the same permissions. An error is ignored: SQLite reports the cause better.
    let _ = windlass_files::make(path);
    let mut connection = Connection::open(path).map_err(told)?;
    leave_log(&connection, true);
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
    // No write waits for this connection yet, so it can wait for a long time.
    wait_as_reader(&connection).map_err(told)?;
    if connection.is_readonly("main").map_err(told)? {
        let text = format!("{} cannot be written", path.display());
        return Err(Error::new(codes::READ_ONLY, text)
            .help("Give yourself write permission on the file and on its directory."));
    }
    let steps = options.steps();
    match check_header(path, &connection, &steps)? {
        Some(found) => {
            let place = path.display().to_string();
            layout::permit(&place, (found, steps.known()), options.migrates)?;
        }
        None => {
            watch::before_laying_out(path)?;
            // Only an empty file can still choose its mode, and a file that is refused must not be
            // changed.
            connection
                .pragma_update(None, "auto_vacuum", "INCREMENTAL")
                .map_err(told)?;
        }
    }
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
        .pragma_update(None, "cache_size", cache_kib(options.cache_bytes))
        .map_err(told)?;
    connection
        .pragma_update(None, "wal_autocheckpoint", 4000)
        .map_err(told)?;
    // When the log is reset, it is truncated to this size.
    connection
        .pragma_update(None, "journal_size_limit", 32 * 1024 * 1024)
        .map_err(told)?;
    watch::check_length(path, &connection)?;
    migrate(path, &mut connection, &steps)?;
    wait_as_writer(&connection).map_err(told)?;
    if let Some(bytes) = options.max_bytes {
        let page: u64 = connection
            .pragma_query_value(None, "page_size", |row| row.get::<_, u32>(0))
            .map_err(told)?
            .into();
        let pages = i64::try_from(bytes / page.max(1)).unwrap_or(i64::MAX);
        connection
            .pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
            .map_err(told)?;
    }
    let file = Identity::of_file(path)?;
    leave_log(&connection, false);
    Ok(Opened { connection, file })
}

/// Sets whether closing the connection leaves the log as it is. A refused store is left unchanged:
/// closing would copy the readable part of the log into the file and delete the rest.
pub(super) fn leave_log(connection: &Connection, leave: bool) {
    // This does not fail for an open connection.
    let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, leave);
}

/// The value of the pragma for a page cache of this size.
fn cache_kib(bytes: usize) -> i64 {
    -i64::try_from(bytes / 1024).unwrap_or(i64::MAX).max(1)
}

/// Opens a connection that only reads, with a page cache of this size, in bytes.
pub(super) fn reader(path: &Path, cache_bytes: usize) -> Result<Connection> {
    let told = |error: rusqlite::Error| explain(path, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(told)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
    wait_as_reader(&connection).map_err(told)?;
    connection
        .pragma_update(None, "cache_size", cache_kib(cache_bytes))
        .map_err(told)?;
    Ok(connection)
}

/// Waits for processes that open or close the file.
pub(super) fn wait_as_reader(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(|calls| wait_a_moment(calls, READER_WAITS)))
}

/// Waits for other writers.
pub(super) fn wait_as_writer(connection: &Connection) -> rusqlite::Result<()> {
    let wait: fn(i32) -> bool =
        |calls| wait_a_moment(calls, i32::try_from(WRITER_WAIT_MS).unwrap_or(i32::MAX));
    connection.busy_handler(Some(wait))
}

/// Waits for readers that keep the log from being emptied.
pub(super) fn wait_for_readers(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(|calls| wait_a_moment(calls, LOG_WAITS)))
}

/// SQLite's own handler sleeps for up to 100 ms at a time, which starves a process beside another
/// one that writes all the time. Short waits give it its turn.
fn wait_a_moment(calls: i32, bound: i32) -> bool {
    std::thread::park_timeout(Duration::from_millis(1));
    calls < bound
}

/// Refuses files of other programs, and files that demand a newer program. Returns the number of the
/// file's layout, or none if the file is empty.
pub(super) fn check_header(
    path: &Path,
    connection: &Connection,
    steps: &Steps,
) -> Result<Option<usize>> {
    let told = |error: rusqlite::Error| explain(path, &error);
    let pragma = |name: &str| {
        connection
            .pragma_query_value(None, name, |row| row.get::<_, i32>(0))
            .map_err(told)
    };
    let (application, version) = (pragma("application_id")?, pragma("user_version")?);
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(told)?;
    if application == 0 && tables == 0 {
        return Ok(None);
    }
    if application != APPLICATION_ID {
        let text = format!("{} is a database of another program", path.display());
        return Err(Error::new(codes::NOT_A_STORE, text)
            .help("Name another file with `--store`; this one is left as it is."));
    }
    let version = usize::try_from(version).unwrap_or(0);
    if version > steps.known() {
        let required = requirement(connection).map_err(told)?;
        let place = path.display().to_string();
        layout::accept(&place, (version, steps.known()), required.as_ref())?;
    }
    Ok(Some(version))
}

/// What the file demands of a program; none if its layout has no place for it.
pub(super) fn requirement(connection: &Connection) -> rusqlite::Result<Option<Requirement>> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'requirement'";
    if connection
        .query_row(sql, [], |_| Ok(()))
        .optional()?
        .is_none()
    {
        return Ok(None);
    }
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Requirement {
            layout: row.get(0)?,
            program: row.get(1)?,
        })
    };
    let sql = layout::REQUIREMENT.sqlite;
    connection.query_row(sql, [], read).optional()
}

/// All steps, the new layout number and the requirement are one transaction.
fn migrate(path: &Path, connection: &mut Connection, steps: &Steps) -> Result<()> {
    let told = |error: rusqlite::Error| explain(path, &error);
    let layout = |connection: &Connection| {
        let version =
            connection.pragma_query_value(None, "user_version", |row| row.get::<_, i32>(0));
        Ok(usize::try_from(version.map_err(told)?).unwrap_or(0))
    };
    // Opening a store of the newest layout writes nothing.
    if layout(connection)? >= steps.known() {
        return Ok(());
    }
    let writing = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let writing = writing.map_err(told)?;
    let found = layout(&writing)?;
    if let Some(number) = steps.breaking_after(found) {
        let behind = match found {
            0 => Vec::new(),
            _ => behind(path, &writing, number).map_err(told)?,
        };
        if !behind.is_empty() {
            let place = path.display().to_string();
            return Err(layout::in_the_way(&place, number, &behind));
        }
    }
    for (number, step) in steps.after(found) {
        writing.execute_batch(step.sql).map_err(told)?;
        failpoint::pass("store-in-migration");
        writing
            .pragma_update(None, "user_version", number)
            .map_err(told)?;
    }
    writing
        .execute(layout::REQUIRE.sqlite, (steps.required(), layout::PROGRAM))
        .map_err(told)?;
    writing.commit().map_err(told)
}

/// The members that live and do not know a layout. A living member holds its lock file.
fn behind(path: &Path, connection: &Connection, number: i64) -> rusqlite::Result<Vec<Behind>> {
    let mut statement = connection.prepare(layout::BEHIND.sqlite)?;
    let members = statement.query_map([number], |row| {
        Ok(Behind {
            incarnation: row.get(0)?,
            name: row.get(1)?,
            pid: row.get(2)?,
            program: row.get(3)?,
        })
    })?;
    let mut behind = members.collect::<Result<Vec<_>, _>>()?;
    behind.retain(|member| locks::is_held(path, member.incarnation));
    Ok(behind)
}
