//! The files of the directories: which exist, and which have changed since the last look.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::DirEntry;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The limit of workflow files in one directory.
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
    /// Files from which earlier processes published, in directories that were not read yet.
    unclear: BTreeSet<PathBuf>,
    /// The directories that could not be read at the last look, with the reported reason.
    unread: BTreeMap<PathBuf, String>,
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
    /// The directories that were read to their ends.
    pub(super) directories: Vec<PathBuf>,
    pub(super) files: BTreeMap<PathBuf, Stamp>,
    /// The directories that do not exist.
    missing: BTreeSet<PathBuf>,
    /// The directories that exist and were not read to their ends, with the reason. None of their
    /// files is in `files`.
    unread: BTreeMap<PathBuf, String>,
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
    /// unmounted. Nor does a directory that was not read to its end.
    pub(super) fn of(directories: &[PathBuf]) -> Self {
        let mut present = Self::default();
        for directory in directories {
            match entries(directory) {
                Ok((files, ignored)) => {
                    present.files.extend(files);
                    present.ignored.extend(ignored);
                    present.directories.push(directory.clone());
                }
                Err(Unread::Missing) => drop(present.missing.insert(directory.clone())),
                Err(Unread::Because(why)) => drop(present.unread.insert(directory.clone(), why)),
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

    /// Whether the directory of a file was not read.
    fn is_unclear(&self, file: &Path) -> bool {
        let directory = file.parent();
        directory.is_some_and(|it| self.missing.contains(it) || self.unread.contains_key(it))
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
        let unread = self.unread != present.unread;
        let mut known = self.seen.keys().chain(&self.unclear);
        let gone = !self.gone.is_empty() || known.any(|file| present.lacks(file));
        new || ignored || unread || gone || !self.begun
    }

    /// The known files that are gone. Of the `sources`, files from which any process has published,
    /// those are remembered whose directory was not read.
    pub(super) fn lacking(
        &mut self,
        present: &Present,
        sources: &BTreeSet<PathBuf>,
    ) -> BTreeSet<PathBuf> {
        let known = self.seen.keys().chain(sources).chain(&self.unclear);
        let gone = known.filter(|file| present.lacks(file)).cloned().collect();
        self.unclear.extend(sources.iter().cloned());
        self.unclear.retain(|file| present.is_unclear(file));
        gone
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

    /// The directories that were not read, with the reason: all of them, or those that the last look
    /// read or reported with another reason.
    pub(super) fn unread(&mut self, present: &Present, all: bool) -> Vec<(PathBuf, String)> {
        let before = std::mem::replace(&mut self.unread, present.unread.clone());
        let unread = present.unread.iter();
        unread
            .filter(|(directory, why)| all || before.get(*directory) != Some(*why))
            .map(|(directory, why)| (directory.clone(), why.clone()))
            .collect()
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

/// Why a directory was not read.
enum Unread {
    Missing,
    Because(String),
}

impl From<std::io::Error> for Unread {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::Missing,
            _ => Self::Because(error.to_string()),
        }
    }
}

/// The workflow files of a directory, and the ignored entries.
fn entries(directory: &Path) -> Result<(BTreeMap<PathBuf, Stamp>, Vec<Ignored>), Unread> {
    let (mut files, mut ignored) = (BTreeMap::new(), Vec::new());
    for found in std::fs::read_dir(directory)? {
        match entry(&found?) {
            Some(Entry::File(path, stamp)) => {
                if files.len() == MAX_FILES {
                    // Which files come first is up to the file system, so none of them is read.
                    let why = format!("it has more than {MAX_FILES} workflow files");
                    return Err(Unread::Because(why));
                }
                files.insert(path, stamp);
            }
            Some(Entry::Ignored(entry)) if ignored.len() < MAX_FILES => ignored.push(entry),
            Some(Entry::Ignored(_)) | None => {}
        }
    }
    Ok((files, ignored))
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

fn entry(entry: &DirEntry) -> Option<Entry> {
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
    let stamp = match std::fs::metadata(&path) {
        Ok(data) if data.is_dir() => return ignored(path, "files in subfolders are not read"),
        Ok(data) if !data.is_file() => return None,
        Ok(data) => (data.modified().ok(), data.len()),
        // It was removed meanwhile, or is a link to nothing.
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        // The file is there, and reading it tells why it cannot be published.
        Err(_) => (None, 0),
    };
    if !ending.is_some_and(is) {
        return ignored(
            path,
            "the endings of workflow files are `.yaml`, `.yml` and `.json`, in small letters",
        );
    }
    // The store keeps the path of a file as text: two such files could have the same.
    if path.to_str().is_none() {
        return ignored(path, "its path is not UTF-8");
    }
    Some(Entry::File(path, stamp))
}
