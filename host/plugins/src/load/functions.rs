//! The folder of the function cache: files of compiled functions, for the compilations to come.
//!
//! The process that compiles reads the files and makes a new one (`compiler/functions.rs`). Here
//! stands which files it reads, and which of them are kept. Without the folder, a compilation takes
//! longer; it has no other effect.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tempfile::NamedTempFile;

use super::LoadShared;
use super::compiler::{FunctionFile, MAX_FILES, Offer, Worker};
use super::store;

/// A smaller component compiles in a fraction of a second and leaves the cache to larger ones.
pub(super) const LEAST_COMPONENT_BYTES: usize = 256 * 1024;

/// The most bytes of all files.
const FOLDER_BYTES: u64 = 128 * 1024 * 1024;

/// The part of the compiler's memory that new functions may take.
const MADE_PART: u64 = 16;

/// The purpose of the key of a file.
const PURPOSE: &[u8; 24] = b"windlass function key 1 ";

/// The function cache during one compilation.
pub(super) struct FunctionCache<'a> {
    shared: &'a LoadShared,
    offer: Offer,
    new: FunctionFile,
    /// The new file as it arrives. None: nothing has arrived, or it could not be written.
    made: Option<NamedTempFile>,
    failed: bool,
}

impl<'a> FunctionCache<'a> {
    /// The cache for the compilation of a component. None: it is not worth while, or the folder
    /// cannot be made.
    pub(super) fn open(shared: &'a LoadShared, worker: &Worker, component: &[u8]) -> Option<Self> {
        if component.len() < LEAST_COMPONENT_BYTES {
            return None;
        }
        let folder = super::cache::folder(shared).join("functions");
        windlass_files::make_directory(&folder).ok()?;
        let new = file(shared, rand::random());
        let found = found(&folder);
        let files = found.iter().take(MAX_FILES);
        let offer = Offer {
            key: new.key,
            most: worker.memory_bytes / MADE_PART,
            files: files.map(|found| file(shared, found.no)).collect(),
            folder,
        };
        Some(Self {
            shared,
            offer,
            new,
            made: None,
            failed: false,
        })
    }

    pub(super) fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Keeps the new file, marks those that were used, and removes those that were used longest ago
    /// if there are too many.
    pub(super) fn keep(self, used: u32) {
        let folder = &self.offer.folder;
        let wall_ms = u64::try_from(self.shared.calls.clock.wall_ms()).unwrap_or(0);
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(wall_ms);
        let mark = |path: PathBuf| {
            let file = File::options().write(true).open(path);
            let _ = file.and_then(|file| file.set_modified(now));
        };
        for (index, file) in self.offer.files.iter().enumerate() {
            if used & (1 << index) != 0 {
                mark(file.path(folder));
            }
        }
        if let Some(made) = self.made.filter(|_| !self.failed) {
            let path = self.new.path(folder);
            // A file that a crash of the machine cuts off has no valid tag.
            if let Err(error) = made.persist(&path) {
                tracing::debug!(error = %error.error, "compiled functions could not be kept");
            }
            mark(path);
        }
        let mut bytes: u64 = 0;
        for (index, found) in found(folder).into_iter().enumerate() {
            bytes = bytes.saturating_add(found.bytes);
            if index >= MAX_FILES || bytes > FOLDER_BYTES {
                let _ = fs::remove_file(file(self.shared, found.no).path(folder));
            }
        }
    }
}

impl Write for FunctionCache<'_> {
    fn write(&mut self, part: &[u8]) -> std::io::Result<usize> {
        if self.made.is_none() && !self.failed {
            self.made = store::temporary(&self.offer.folder).ok();
        }
        let written = self.made.as_mut().map(|made| made.write_all(part));
        self.failed |= !matches!(written, Some(Ok(())));
        Ok(part.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A file of the folder.
struct Found {
    no: u128,
    used: SystemTime,
    bytes: u64,
}

/// The most entries of the folder that are looked at.
const LOOKED_AT: usize = 1_000;

/// The files of the folder, the one that was used last at first.
fn found(folder: &std::path::Path) -> Vec<Found> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let found = entries.take(LOOKED_AT).filter_map(|entry| {
        let name = entry.file_name();
        let name = name.to_str().filter(|name| name.len() == 32)?;
        let no = u128::from_str_radix(name, 16).ok()?;
        let about = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        Some(Found {
            no,
            used: about.modified().ok()?,
            bytes: about.len(),
        })
    });
    let mut found: Vec<Found> = found.collect();
    found.sort_by_key(|found| std::cmp::Reverse((found.used, found.no)));
    found
}

/// The file of this number, with the key that this user's hosts derive for it and for this compiler.
fn file(shared: &LoadShared, no: u128) -> FunctionFile {
    let compiler = super::cache::compiler_of(shared).to_be_bytes();
    let parts: [&[u8]; 3] = [PURPOSE, &compiler, &no.to_be_bytes()];
    let key = shared.rules.key.message(&parts).tag();
    FunctionFile { no, key }
}
