//! Keeps the write-ahead log short.
//!
//! SQLite copies the log into the file automatically, but truncates it only at a moment without
//! readers, which may never come under many readers. So once the log has grown, the writer waits
//! for such a moment, and refuses writes before the log fills the disk.

use rusqlite::Connection;

use super::open;
use super::shared::SqliteShared;
use super::watch::Watch;
use crate::codes;
use crate::error::{Error, Result};

/// The writer's bounds on the log.
pub(super) struct Log {
    /// The length from which the writer tries to truncate the log. It grows with each failed
    /// attempt, so that a long-running reader does not delay every group.
    next_bytes: u64,
}

impl Log {
    pub(super) fn new(shared: &SqliteShared) -> Self {
        Self {
            next_bytes: shared.options.log_bytes,
        }
    }

    /// Truncates the log if its last measured length was too large.
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

    /// Refuses writes if the log is still too long.
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

    /// Truncates the log, and waits a moment for readers that prevent it.
    fn start_over(&mut self, shared: &SqliteShared, watch: &mut Watch, connection: &Connection) {
        let busy: rusqlite::Result<i64> = open::wait_for_readers(connection).and_then(|()| {
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        });
        // If this fails, the next BEGIN does not wait and reports that the store is busy.
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
