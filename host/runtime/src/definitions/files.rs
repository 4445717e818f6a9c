//! The files of the directories: which exist, and which have changed since the last look.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The limit of files in one directory.
const MAX_FILES: usize = 10_000;

/// The limit of ignored entries that are reported.
const MAX_IGNORED: usize = 100;

/// The endings of workflow files.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// The modification time of a file, and its length.
pub(super) type Stamp = (Option<SystemTime>, u64);

/// The known files.
#[derive(Default)]
pub(super) struct Files {
    /// The files as the last look found them.
    pub(super) seen: BTreeMap<PathBuf, Seen>,
    /// Files that are gone, and whose published versions are not retracted yet.
    pub(super) gone: BTreeSet<PathBuf>,
    /// The ignored entries that were reported.
    ignored: BTreeSet<PathBuf>,
    /// Whether the sources that earlier processes published have been read.
    pub(super) begun: bool,
}

/// A file as the last look found it.
pub(super) struct Seen {
    pub(super) stamp: Stamp,
    pub(super) content: Content,
    /// The workflow that was last published from the file. No other file can publish it.
    pub(super) holds: Option<String>,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// It is published.
    Published,
    /// It cannot be published: another file holds this workflow.
    Held(String),
    /// It cannot be published.
    Failed,
}

/// The files and directories that exist.
#[derive(Default)]
pub(super) struct Present {
    /// The directories that can be read.
    pub(super) directories: Vec<PathBuf>,
    pub(super) files: BTreeMap<PathBuf, Stamp>,
    /// Entries that look like workflow files or contain some, and that are not read.
    ignored: Vec<Ignored>,
}

/// An entry of a directory that is not read, although its author may expect it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// The entry.
    pub path: PathBuf,
    /// Why it is not read, as a part of a sentence.
    pub why: &'static str,
}

/// An entry of a directory.
enum Entry {
    File(PathBuf, Stamp),
    Ignored(Ignored),
}

impl Present {
    /// Reads the directories. A missing directory proves nothing about its files: its disk may be
    /// unmounted.
    pub(super) fn of(directories: &[PathBuf]) -> Self {
        let mut present = Self::default();
        for directory in directories {
            if let Ok(entries) = std::fs::read_dir(directory) {
                for entry in entries.filter_map(entry).take(MAX_FILES) {
                    match entry {
                        Entry::File(path, stamp) => drop(present.files.insert(path, stamp)),
                        Entry::Ignored(ignored) => present.ignored.push(ignored),
                    }
                }
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
        let ignored = present.ignored.iter().any(|it| self.is_news(it));
        let gone = !self.gone.is_empty() || self.seen.keys().any(|file| present.lacks(file));
        new || ignored || gone || !self.begun
    }

    /// Whether a file is unchanged. With `again`, a file that could not be published counts as
    /// changed.
    pub(super) fn knows(&self, file: &Path, stamp: &Stamp, again: bool) -> bool {
        let seen = self.seen.get(file);
        seen.is_some_and(|seen| {
            seen.stamp == *stamp && (seen.content == Content::Published || !again)
        })
    }

    /// The file that holds a workflow, other than this one.
    pub(super) fn holder(&self, workflow: &str, file: &Path) -> Option<&Path> {
        let mut seen = self.seen.iter();
        let holder =
            seen.find(|(other, seen)| *other != file && seen.holds.as_deref() == Some(workflow));
        holder.map(|(other, _)| other.as_path())
    }

    /// A file whose workflow no other file holds any more.
    pub(super) fn heir(&self) -> Option<(PathBuf, Stamp)> {
        let mut seen = self.seen.iter();
        let heir = seen.find(|(file, seen)| match &seen.content {
            Content::Held(workflow) => self.holder(workflow, file).is_none(),
            Content::Published | Content::Failed => false,
        });
        heir.map(|(file, seen)| (file.clone(), seen.stamp))
    }

    /// The ignored entries that were not reported yet.
    pub(super) fn ignored(&mut self, present: Present) -> Vec<Ignored> {
        let mut ignored = present.ignored;
        ignored.retain(|it| self.is_news(it) && self.ignored.insert(it.path.clone()));
        ignored
    }

    fn is_news(&self, ignored: &Ignored) -> bool {
        self.ignored.len() < MAX_IGNORED
            && !self.ignored.contains(&ignored.path)
            && (!ignored.path.is_dir() || has_workflows(&ignored.path))
    }
}

/// Whether there are files with the ending of a workflow right in a folder.
fn has_workflows(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut entries = entries.take(MAX_FILES).flatten();
    entries.any(|entry| {
        let path = entry.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| ENDINGS.contains(&&*ending.to_ascii_lowercase()))
    })
}

fn entry(entry: std::io::Result<std::fs::DirEntry>) -> Option<Entry> {
    let entry = entry.ok()?;
    let path = entry.path();
    if entry.file_name().as_encoded_bytes().starts_with(b".") {
        return None;
    }
    let ignored = |path, why| Some(Entry::Ignored(Ignored { path, why }));
    let ending = path.extension().and_then(|ending| ending.to_str());
    let is = |ending: &str| ENDINGS.contains(&ending);
    let lower = ending.map(str::to_ascii_lowercase);
    if !lower.as_deref().is_some_and(is) {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        return is_directory
            .then(|| ignored(path, "files in subfolders are not read"))
            .flatten();
    }
    let data = std::fs::metadata(&path).ok()?;
    if data.is_dir() {
        return ignored(path, "files in subfolders are not read");
    }
    if !data.is_file() {
        return None;
    }
    if !ending.is_some_and(is) {
        return ignored(
            path,
            "the endings of workflow files are `.yaml`, `.yml` and `.json`, in small letters",
        );
    }
    Some(Entry::File(path, (data.modified().ok(), data.len())))
}
