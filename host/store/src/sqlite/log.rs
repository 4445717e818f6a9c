//! Keeps the write-ahead log short.
//!
//! SQLite copies it into the file by itself, but starts it over only at a moment when no
//! reader looks at it, which under many readers may never come. Here such a moment is waited
//! for once the log has grown, and writes are refused before it eats the disk.

use rusqlite::Connection;

use super::open;
use super::shared::SqliteShared;
use super::watch::Watch;
use crate::codes;
use crate::error::{Error, Result};

/// What the writer knows of the log's length.
pub(super) struct Log {
    /// From this length on it is tried to start it over. Grows with each attempt that fails,
    /// so that a reader who stays does not make every group wait.
    next_bytes: u64,
}

impl Log {
    pub(super) fn new(shared: &SqliteShared) -> Self {
        Self {
            next_bytes: shared.options.log_bytes,
        }
    }

    /// Starts the log over if it was long when it was looked at last.
    pub(super) fn keep_short(
        &mut self,
        shared: &SqliteShared,
        watch: &mut Watch,
        connection: &Connection,
    ) {
        if watch.log_bytes() >= self.next_bytes {
            self.start_over(shared, watch, connection);
        }
    }

    /// Refuses to go on if the log is too long in spite of everything.
    pub(super) fn check(
        &mut self,
        shared: &SqliteShared,
        watch: &mut Watch,
        connection: &Connection,
    ) -> Result<()> {
        let bound = shared.options.log_bytes_max;
        if watch.log_bytes() >= bound {
            self.start_over(shared, watch, connection);
        }
        if watch.log_bytes() < bound {
            return Ok(());
        }
        let text = format!(
            "the log {} has grown to {} bytes, because a reader keeps it from being emptied",
            watch.log_path().display(),
            watch.log_bytes()
        );
        Err(Error::new(codes::LOG_TOO_LONG, text)
            .help("End the program that has had a transaction open on the store for long.")
            .transient())
    }

    /// Waits a moment for the readers that are in the way.
    fn start_over(&mut self, shared: &SqliteShared, watch: &mut Watch, connection: &Connection) {
        let busy: rusqlite::Result<i64> = open::wait_for_readers(connection).and_then(|()| {
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        });
        // If this fails the next BEGIN does not wait, and says that it is busy.
        let _ = open::wait_as_writer(connection);
        watch.measure();
        self.next_bytes = shared.options.log_bytes;
        if !matches!(busy, Ok(0)) {
            let bytes = watch.log_bytes();
            self.next_bytes = self.next_bytes.max(bytes + bytes / 4);
            tracing::warn!(log = %watch.log_path().display(), "a reader keeps the log from being emptied");
        }
    }
}
