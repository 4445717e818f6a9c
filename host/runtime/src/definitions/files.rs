//! The files of the directories: which there are, and which have changed since the last look.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Files that are looked at in one directory.
const MAX_FILES: usize = 10_000;

/// When a file was changed, and its length.
pub(super) type Stamp = (Option<SystemTime>, u64);

/// What is known of files.
#[derive(Default)]
pub(super) struct Files {
    /// As they were when they were last looked at.
    pub(super) seen: BTreeMap<PathBuf, Seen>,
    /// What earlier processes had published from them is known.
    pub(super) begun: bool,
}

/// A file as it was when it was last looked at.
pub(super) struct Seen {
    pub(super) stamp: Stamp,
    /// The workflow in it; none if it could not be published.
    pub(super) workflow: Option<String>,
}

/// What there is.
#[derive(Default)]
pub(super) struct Present {
    /// The directories that can be read.
    pub(super) directories: Vec<PathBuf>,
    pub(super) files: BTreeMap<PathBuf, Stamp>,
}

impl Present {
    /// Looks into the directories. One that is not there says nothing about its files: what it
    /// is on may just not be there at the moment.
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

    /// Whether a file that is not there was taken away, as far as its directory tells.
    pub(super) fn lacks(&self, file: &Path) -> bool {
        let directory = file.parent();
        let known = self
            .directories
            .iter()
            .any(|it| Some(it.as_path()) == directory);
        known && !self.files.contains_key(file)
    }

    /// Whether a directory has no file at all.
    pub(super) fn is_empty(&self, directory: &Path) -> bool {
        !self
            .files
            .keys()
            .any(|file| file.parent() == Some(directory))
    }
}

impl Files {
    /// Whether a look would find something to do.
    pub(super) fn differ(&self, present: &Present, again: bool) -> bool {
        let new = present
            .files
            .iter()
            .any(|(file, stamp)| !self.knows(file, stamp, again));
        new || !self.begun || self.seen.keys().any(|file| present.lacks(file))
    }

    /// Whether there is nothing to do about a file; `again`: not if it could not be published.
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
