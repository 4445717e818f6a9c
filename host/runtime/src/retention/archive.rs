//! Archives runs before they are deleted: one file for each day, one line for each run.
//!
//! A line is on the disk before its run is deleted. If the process dies in between, the run is
//! archived again, so a run may have more than one line. If it dies in the middle of a line, the
//! line is torn, and the next run begins a new line.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use windlass_model::{BlobRef, Body, Payload, ScopeNo};
use windlass_store::rows::RunRow;
use windlass_store::{Store, next_rows};

use super::line::{ArchiveLine, Head, Names};
use crate::error::Error;

/// The most rows in memory at once.
const PAGE: u32 = 256;

/// A directory of archived runs.
pub(super) struct Archive {
    directory: PathBuf,
}

impl Archive {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Adds a run with all its data, and flushes it to the disk.
    pub(super) fn add(&self, store: &dyn Store, row: &RunRow) -> Result<(), Error> {
        let names = Names::of(store, row)?;
        let head = Head::read(store, row)?;
        for payload in head.payloads() {
            self.keep_blob(store, payload)?;
        }
        let failed = |error| self.failed(error);
        let file = self.open(row.finished_ms.unwrap_or_default())?;
        let mut line = ArchiveLine::begin(file, &head).map_err(failed)?;
        let mut after: Option<String> = None;
        loop {
            let vars = next_rows(PAGE, |most| {
                store.vars_after(row.no, ScopeNo::ROOT, after.as_deref(), most)
            })?;
            let Some((last, _)) = vars.last() else { break };
            after = Some(last.clone());
            for (name, value) in &vars {
                self.keep_blob(store, value)?;
                line.var(name, value).map_err(failed)?;
            }
        }
        line.begin_journal().map_err(failed)?;
        let mut seen = 0;
        loop {
            let entries = next_rows(PAGE, |most| store.journal_after(row.no, seen, most))?;
            if entries.is_empty() {
                break;
            }
            seen = seen.saturating_add(u32::try_from(entries.len()).unwrap_or(u32::MAX));
            for entry in &entries {
                line.entry(entry).map_err(failed)?;
            }
        }
        line.begin_executions().map_err(failed)?;
        let mut before = None;
        loop {
            let runs = next_rows(PAGE, |most| store.executions(row.no, before, most))?;
            let Some(last) = runs.last() else { break };
            before = Some(last.no);
            for run in &runs {
                if let Some(payload) = &run.output {
                    self.keep_blob(store, payload)?;
                }
                line.add(run, &names).map_err(failed)?;
            }
        }
        let file = line.end().map_err(failed)?;
        let file = file
            .into_inner()
            .map_err(|error| failed(error.into_error()))?;
        file.sync_data().map_err(failed)
    }

    /// The file of a day, ready for the next line.
    fn open(&self, finished_ms: i64) -> Result<BufWriter<File>, Error> {
        let open = || {
            windlass_files::make_directory(&self.directory)?;
            let path = self.directory.join(format!("{}.ndjson", day(finished_ms)));
            let mut file = windlass_files::options()
                .read(true)
                .append(true)
                .create(true)
                .open(path)?;
            lock(&file)?;
            if !ends_a_line(&mut file)? {
                file.write_all(b"\n")?;
            }
            Ok(BufWriter::new(file))
        };
        open().map_err(|error| self.failed(error))
    }

    /// Copies a large value into the archive directory, unless it is there.
    fn keep_blob(&self, store: &dyn Store, payload: &Payload) -> Result<(), Error> {
        let Body::Blob(blob) = &payload.body else {
            return Ok(());
        };
        let directory = self.directory.join("blobs");
        let path = directory.join(blob.digest.hex());
        if path.exists() {
            return Ok(());
        }
        match store.blob(*blob)? {
            Some(bytes) => {
                write_whole(&directory, &path, blob, &bytes).map_err(|error| self.failed(error))
            }
            None => Ok(()),
        }
    }

    fn failed(&self, error: io::Error) -> Error {
        let directory = self.directory.clone();
        Error::Archive { directory, error }
    }
}

/// A file under its final name is complete.
fn write_whole(directory: &Path, path: &Path, blob: &BlobRef, bytes: &[u8]) -> io::Result<()> {
    windlass_files::make_directory(directory)?;
    let unfinished = directory.join(format!("{}.part", blob.digest.hex()));
    let mut options = windlass_files::options();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .open(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(&unfinished, path)
}

/// Locks the file until it is closed: two processes that write lines would mix them.
fn lock(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        // A file system without locks can still be written.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn ends_a_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// The date of a time, in UTC.
fn day(at_ms: i64) -> String {
    let moment = Timestamp::from_millisecond(at_ms).unwrap_or_default();
    moment.to_zoned(TimeZone::UTC).date().to_string()
}
