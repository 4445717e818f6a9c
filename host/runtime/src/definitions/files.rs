//! The files of the directories: which exist, and which have changed since the last look.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The limit of files in one directory.
const MAX_FILES: usize = 10_000;

/// The modification time of a file, and its length.
pub(super) type Stamp = (Option<SystemTime>, u64);

/// The known files.
#[derive(Default)]
pub(super) struct Files {
    /// The files as the last look found them.
    pub(super) seen: BTreeMap<PathBuf, Seen>,
    /// Whether the sources that earlier processes published have been read.
    pub(super) begun: bool,
}

/// A file as the last look found it.
pub(super) struct Seen {
    pub(super) stamp: Stamp,
    /// The workflow in the file; none if it could not be published.
    pub(super) workflow: Option<String>,
}

/// The files and directories that exist.
#[derive(Default)]
pub(super) struct Present {
    /// The directories that can be read.
    pub(super) directories: Vec<PathBuf>,
    pub(super) files: BTreeMap<PathBuf, Stamp>,
}

impl Present {
    /// Reads the directories. A missing directory proves nothing about its files: its disk may be
    /// unmounted.
    pub(super) fn of(directories: &[PathBuf]) -> Self {
        let mut present = Self::default();
        for directory in directories {
            if let Ok(entries) = std::fs::read_dir(directory) {
                present
                    .files
                    .extend(entries.filter_map(file).take(MAX_FILES));
                present.directories.push(directory.clone());
            }
        }
        present
    }

    /// Whether a missing file was removed, as far as its directory tells.
    pub(super) fn lacks(&self, file: &Path) -> bool {
        let directory = file.parent();
        let known = self
            .directories
            .iter()
            .any(|it| Some(it.as_path()) == directory);
        known && !self.files.contains_key(file)
    }

    /// Whether a directory has no files.
    pub(super) fn is_empty(&self, directory: &Path) -> bool {
        !self
            .files
            .keys()
            .any(|file| file.parent() == Some(directory))
    }
}

impl Files {
    /// Whether a look would find changes.
    pub(super) fn differ(&self, present: &Present, again: bool) -> bool {
        let new = present
            .files
            .iter()
            .any(|(file, stamp)| !self.knows(file, stamp, again));
        new || !self.begun || self.seen.keys().any(|file| present.lacks(file))
    }

    /// Whether a file is unchanged. With `again`, a file that could not be published counts as
    /// changed.
    pub(super) fn knows(&self, file: &Path, stamp: &Stamp, again: bool) -> bool {
        let seen = self.seen.get(file);
        seen.is_some_and(|seen| seen.stamp == *stamp && (seen.workflow.is_some() || !again))
    }
}

fn file(entry: std::io::Result<std::fs::DirEntry>) -> Option<(PathBuf, Stamp)> {
    let entry = entry.ok()?;
    let path = entry.path();
    let kind = path.extension()?.to_str()?;
    let hidden = entry.file_name().to_string_lossy().starts_with('.');
    if hidden || !["yaml", "yml", "json"].contains(&kind) {
        return None;
    }
    let data = std::fs::metadata(&path).ok()?;
    data.is_file()
        .then(|| (path, (data.modified().ok(), data.len())))
}
