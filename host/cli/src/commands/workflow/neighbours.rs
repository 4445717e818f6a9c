//! The workflows that a file can run as children: published ones, and files beside it.

use std::cell::OnceCell;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_runtime::{Answering, Others, PublishedOthers};
use windlass_store::Store;

use crate::wire::Machine;

/// Files of a directory that are looked into.
const NAMES: usize = 500;
/// Bytes at the beginning of a file in which its name is looked for.
const BEGINNING_BYTES: u64 = 16 * 1024;

/// The endings of workflow files.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// The workflows beside a file.
pub(crate) struct Neighbours<'a> {
    directory: PathBuf,
    machine: &'a Machine,
    /// Opened for the first child that has no file. None: there is no store, or it cannot be read.
    store: OnceCell<Option<Arc<dyn Store>>>,
    /// The names in the files, read for the first child that is neither named as a file nor
    /// published.
    files: OnceCell<Vec<String>>,
}

impl<'a> Neighbours<'a> {
    /// The neighbours of a file.
    pub(crate) fn of(file: &Path, machine: &'a Machine) -> Self {
        Self {
            directory: file.parent().map(PathBuf::from).unwrap_or_default(),
            machine,
            store: OnceCell::new(),
            files: OnceCell::new(),
        }
    }

    fn store(&self) -> Option<&dyn Store> {
        let store = self
            .store
            .get_or_init(|| self.machine.existing_store().ok());
        store.as_deref()
    }

    fn in_files(&self) -> &[String] {
        self.files.get_or_init(|| names_in(&self.directory))
    }
}

impl Others for Neighbours<'_> {
    fn answering(&self, method: &str, path: &str) -> Vec<Answering> {
        let published = self.store().map(PublishedOthers);
        published.map_or_else(Vec::new, |others| others.answering(method, path))
    }

    fn has(&self, name: &str) -> bool {
        // A name has no dots and no slashes, so this is a file of the directory.
        let file = self.directory.join(name);
        ENDINGS
            .iter()
            .any(|ending| file.with_extension(ending).is_file())
            || self
                .store()
                .is_some_and(|store| PublishedOthers(store).has(name))
            || self.in_files().iter().any(|there| there == name)
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.in_files().to_vec();
        let published = self.store().map(|store| PublishedOthers(store).names());
        names.extend(published.into_iter().flatten());
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// The names of the workflows in the files of a directory.
fn names_in(directory: &Path) -> Vec<String> {
    let directory = match directory.as_os_str().is_empty() {
        true => Path::new("."),
        false => directory,
    };
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let files = files.map(|entry| entry.path()).filter(|path| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        path.is_file() && ending.is_some_and(|ending| ENDINGS.contains(&ending))
    });
    files
        .take(NAMES)
        .filter_map(|path| name_in(&path))
        .collect()
}

/// The name of the workflow in a file, if it stands where authors write it.
fn name_in(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(BEGINNING_BYTES).read_to_string(&mut text).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("workflow:"))?;
    let name = line.split('#').next()?.trim().trim_matches(['"', '\'']);
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    name.chars().all(plain).then(|| name.to_owned())
}
