//! Folders of plugins: what a look at them finds, and what follows from it.
//!
//! The caller decides when to look. The difference to the last look is what is acted on.
//!
//! A file that the system does not let the host read or keep is tried again, after a second at
//! first and a minute at last: what is mended may be elsewhere (permissions, a full disk), and
//! then nothing about the file changes. A folder that cannot be read holds what it held.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use windlass_model::Digest;

use crate::codes;
use crate::error::Error;
use crate::host::Host;
use crate::plugin::Plugin;
use crate::proof::signature_of;

/// The longest time from one look to the next.
const LOOK: Duration = Duration::from_secs(2);
/// The time to the next look while a file may still be being written.
const SUSPICIOUS: Duration = Duration::from_millis(400);
/// After how long a file is tried again that could not be read or kept. Twice as long each time.
const FIRST_AGAIN: Duration = Duration::from_secs(1);
/// The longest time until it is tried again.
const LAST_AGAIN: Duration = Duration::from_secs(60);
/// Files looked at in one folder.
const MAX_FILES: usize = 10_000;

/// What became of a file.
#[derive(Debug)]
pub enum LoadEvent {
    /// It is loaded and in the registry.
    Loaded {
        /// The file.
        file: PathBuf,
        /// What it holds.
        plugin: Arc<Plugin>,
        /// What it held before.
        replaced: Option<Digest>,
    },
    /// It cannot be loaded.
    Failed {
        /// The file.
        file: PathBuf,
        /// Why.
        error: Error,
        /// What it held before, which stays in the registry.
        kept: Option<Digest>,
    },
    /// It is gone, and what it held is out of the registry.
    Removed {
        /// The file.
        file: PathBuf,
        /// What it held.
        digest: Digest,
    },
}

/// Folders of plugins, and what the last look has seen in them.
#[derive(Debug)]
pub struct Folders {
    dirs: Vec<PathBuf>,
    seen: BTreeMap<PathBuf, Seen>,
    /// Folders that could not be read.
    unread: BTreeSet<PathBuf>,
    looks: u64,
}

impl Host {
    /// Looks at these folders once, and takes in what they hold. A folder that does not exist
    /// holds nothing. Takes as long as compiling takes.
    pub fn scan(&self, dirs: &[PathBuf]) -> Vec<LoadEvent> {
        let mut events = Vec::new();
        Folders::new(dirs.to_vec()).look(self, &mut |event| events.push(event));
        events
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
    id: u64,
    /// Of the signature beside it.
    signed: Option<(u64, Option<SystemTime>)>,
}

#[derive(Debug)]
struct Seen {
    /// None: the system did not say.
    stamp: Option<Stamp>,
    /// It was damaged, perhaps because it is still being written. If it stays as it is, it is
    /// reported at the next look.
    suspect: Option<Error>,
    /// Another file offers the same version of the same package.
    conflict: bool,
    /// It could not be read or kept.
    again: Option<Again>,
}

/// When a file is tried again.
#[derive(Debug)]
struct Again {
    /// By the monotonic clock.
    at: Duration,
    delay: Duration,
    /// Why it could not be read or kept: told once.
    error: Error,
}

impl Again {
    fn after(last: Option<&Self>, error: Error, now: Duration) -> Self {
        let delay = last.map_or(FIRST_AGAIN, |last| (last.delay * 2).min(LAST_AGAIN));
        Self {
            at: now + delay,
            delay,
            error,
        }
    }
}

impl Folders {
    /// Nothing has been looked at yet.
    pub fn new(dirs: Vec<PathBuf>) -> Self {
        Self {
            dirs,
            seen: BTreeMap::new(),
            unread: BTreeSet::new(),
            looks: 0,
        }
    }

    /// The folders.
    pub fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }

    /// Looks at the folders and takes in what has changed since the last look. Only files that
    /// end in `.wasm` count, and those in subfolders do not. Takes as long as compiling takes.
    ///
    /// Answers when to look again at the latest, though nothing says that something changed.
    pub fn look(&mut self, host: &Host, on_event: &mut dyn FnMut(LoadEvent)) -> Duration {
        self.act(host, on_event);
        let suspicious = self.seen.values().any(|seen| seen.suspect.is_some());
        let wait = if suspicious { SUSPICIOUS } else { LOOK };
        let again = self.seen.values().filter_map(|seen| seen.again.as_ref());
        again.map(|again| again.at).min().map_or(wait, |at| {
            wait.min(at.saturating_sub(host.shared.clock.monotonic()))
        })
    }

    fn act(&mut self, host: &Host, on_event: &mut dyn FnMut(LoadEvent)) {
        let present = self.present();
        let unread = |file: &Path| file.parent().is_some_and(|dir| self.unread.contains(dir));
        let gone: Vec<PathBuf> = self
            .seen
            .keys()
            .filter(|file| !present.contains_key(*file) && !unread(file))
            .cloned()
            .collect();
        // Removals first: a file that was renamed is not in conflict with itself.
        for file in gone {
            self.seen.remove(&file);
            if let Some(plugin) = host.registry().remove(&file) {
                // What was in conflict with it may not be any more.
                self.seen.retain(|_, seen| !seen.conflict);
                on_event(LoadEvent::Removed {
                    file,
                    digest: plugin.digest,
                });
            }
        }
        let now = host.shared.clock.monotonic();
        for (file, stamp) in present {
            let same = |seen: &&mut Seen| stamp.is_none() || seen.stamp == stamp;
            match self.seen.get_mut(&file).filter(same) {
                Some(seen) => {
                    if let Some(error) = seen.suspect.take() {
                        on_event(failed(host, file, error));
                    } else if seen.again.as_ref().is_some_and(|again| again.at <= now) {
                        self.take_in(host, file, stamp, on_event);
                    }
                }
                None => self.take_in(host, file, stamp, on_event),
            }
        }
        self.looks += 1;
    }

    /// The files that are there, and which folders the system did not let the host read.
    fn present(&mut self) -> BTreeMap<PathBuf, Option<Stamp>> {
        let mut present = BTreeMap::new();
        for dir in &self.dirs {
            match files(dir) {
                Ok(files) => {
                    self.unread.remove(dir);
                    present.extend(files);
                }
                Err(error) => {
                    if self.unread.insert(dir.clone()) {
                        let dir = dir.display();
                        tracing::warn!(%dir, %error, "the folder cannot be read; the plugins of its files stay");
                    }
                }
            }
        }
        present
    }

    fn take_in(
        &mut self,
        host: &Host,
        file: PathBuf,
        stamp: Option<Stamp>,
        on_event: &mut dyn FnMut(LoadEvent),
    ) {
        let last = self.seen.remove(&file).and_then(|seen| seen.again);
        let mut again = None;
        let replaced = host.registry().file(&file);
        let loaded = host
            .load_file(&file)
            .and_then(|plugin| host.registry().insert(&file, &plugin).map(|()| plugin));
        let mut suspect = None;
        let conflict = loaded
            .as_ref()
            .is_err_and(|error| error.code == codes::CONFLICT);
        match loaded {
            Ok(plugin) if replaced.as_ref().is_some_and(|it| Arc::ptr_eq(it, &plugin)) => {}
            Ok(plugin) => {
                on_event(LoadEvent::Loaded {
                    file: file.clone(),
                    plugin,
                    replaced: replaced.map(|plugin| plugin.digest),
                });
            }
            // At the first look nothing is being written that a later look would not find.
            Err(error) if error.code == codes::MALFORMED && self.looks > 0 => {
                suspect = Some(error);
            }
            Err(error) => {
                if last.as_ref().is_none_or(|last| last.error != error) {
                    on_event(failed(host, file.clone(), error.clone()));
                }
                if error.code == codes::FILE {
                    let now = host.shared.clock.monotonic();
                    again = Some(Again::after(last.as_ref(), error, now));
                }
            }
        }
        self.seen.insert(
            file,
            Seen {
                stamp,
                suspect,
                conflict,
                again,
            },
        );
    }
}

fn failed(host: &Host, file: PathBuf, error: Error) -> LoadEvent {
    let kept = host.registry().file(&file).map(|plugin| plugin.digest);
    LoadEvent::Failed { file, error, kept }
}

/// The files of plugins in a folder, with their stamps where the system says. A folder that
/// does not exist has none.
fn files(dir: &Path) -> std::io::Result<Vec<(PathBuf, Option<Stamp>)>> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries.take(MAX_FILES) {
        let file = entry?.path();
        if !is_plugin(&file) {
            continue;
        }
        match std::fs::metadata(&file) {
            Ok(there) if there.is_file() => {
                let stamp = stamp(&there, &file);
                files.push((file, Some(stamp)));
            }
            // A folder, or a link to nothing.
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(_) => files.push((file, None)),
        }
    }
    Ok(files)
}

fn is_plugin(file: &Path) -> bool {
    let hidden = file
        .file_name()
        .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden && file.extension().is_some_and(|ending| ending == "wasm")
}

fn stamp(there: &Metadata, file: &Path) -> Stamp {
    #[cfg(unix)]
    let id = std::os::unix::fs::MetadataExt::ino(there);
    #[cfg(not(unix))]
    let id = 0;
    let signed = std::fs::metadata(signature_of(file));
    Stamp {
        bytes: there.len(),
        modified: there.modified().ok(),
        id,
        signed: signed
            .ok()
            .map(|signed| (signed.len(), signed.modified().ok())),
    }
}
