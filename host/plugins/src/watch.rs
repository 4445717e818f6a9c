//! Watches folders and loads what is dropped into them.
//!
//! Every hint that something changed leads to one look at the folders; the difference to the
//! last look is what is acted on. A hint that is lost, or a file system that gives none, costs
//! two seconds.
//!
//! A file that the system does not let the host read or keep is tried again, after a second at
//! first and a minute at last: what is mended may be elsewhere (permissions, a full disk), and
//! then nothing about the file changes. A folder that cannot be read holds what it held.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use notify_debouncer_full::notify::{RecommendedWatcher, RecursiveMode};
use notify_debouncer_full::{Debouncer, RecommendedCache, new_debouncer};
use windlass_model::Digest;

use crate::codes;
use crate::error::Error;
use crate::host::Host;
use crate::plugin::Plugin;
use crate::proof::signature_of;

/// How long a folder has to be quiet before it is looked at.
const QUIET: Duration = Duration::from_millis(200);
/// How often it is looked at without a hint.
const UNASKED: Duration = Duration::from_secs(2);
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

/// Watches until it is dropped.
pub struct Watch {
    hints: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    debouncer: Option<Debouncer<RecommendedWatcher, RecommendedCache>>,
}

impl Host {
    /// Looks at these folders once, and takes in what they hold. A folder that does not exist
    /// holds nothing. Takes as long as compiling takes.
    pub fn scan(&self, dirs: &[PathBuf]) -> Vec<LoadEvent> {
        let mut events = Vec::new();
        Eyes::default().look(self, dirs, &mut |event| events.push(event));
        events
    }

    /// Looks at these folders, and then again whenever something changes in them. Returns
    /// after the first look. Only files that end in `.wasm` count, and those in subfolders do
    /// not. `on_event` is called from this thread first, and from the watching one later.
    ///
    /// # Errors
    ///
    /// [`codes::WATCH`] if the thread cannot be made.
    pub fn watch(
        self: &Arc<Self>,
        dirs: Vec<PathBuf>,
        on_event: Box<dyn Fn(LoadEvent) + Send + Sync>,
    ) -> Result<Watch, Error> {
        let (hints, hinted) = sync_channel(1);
        let debouncer = hint(&dirs, hints.clone());
        let mut eyes = Eyes::default();
        eyes.look(self, &dirs, &mut |event| on_event(event));
        let host = Arc::downgrade(self);
        let thread = std::thread::Builder::new()
            .name("windlass-watch".to_owned())
            .spawn(move || keep_looking(&host, &dirs, eyes, &hinted, &*on_event))
            .map_err(|error| Error::new(codes::WATCH, "plugins", error.to_string()))?;
        Ok(Watch {
            hints: Some(hints),
            thread: Some(thread),
            debouncer,
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The thread ends when the last sender is gone; the debouncer has one.
        if let Some(debouncer) = self.debouncer.take() {
            debouncer.stop();
        }
        self.hints.take();
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by its own hook.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

/// Without hints there are still the looks that nobody asked for, so a failure is no error.
fn hint(
    dirs: &[PathBuf],
    hints: SyncSender<()>,
) -> Option<Debouncer<RecommendedWatcher, RecommendedCache>> {
    let made = new_debouncer(QUIET, None, move |_| {
        // A full channel means that a look is due anyway.
        let _ = hints.try_send(());
    });
    let mut debouncer = match made {
        Ok(debouncer) => debouncer,
        Err(error) => {
            tracing::warn!(%error, "folders are not watched, only looked at every two seconds");
            return None;
        }
    };
    for dir in dirs.iter().filter(|dir| dir.is_dir()) {
        if let Err(error) = debouncer.watch(dir, RecursiveMode::NonRecursive) {
            tracing::warn!(dir = %dir.display(), %error, "the folder is only looked at every two seconds");
        }
    }
    Some(debouncer)
}

fn keep_looking(
    host: &Weak<Host>,
    dirs: &[PathBuf],
    mut eyes: Eyes,
    hinted: &Receiver<()>,
    on_event: &dyn Fn(LoadEvent),
) {
    loop {
        let wait = if eyes.suspicious() {
            QUIET * 2
        } else {
            UNASKED
        };
        let wait = eyes.next_again().map_or(wait, |again| {
            let Some(host) = host.upgrade() else {
                return wait;
            };
            wait.min(again.saturating_sub(host.shared.clock.monotonic()))
        });
        if hinted.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
        let Some(host) = host.upgrade() else { return };
        eyes.look(&host, dirs, &mut |event| on_event(event));
    }
}

/// What was seen at the last look.
#[derive(Default)]
struct Eyes {
    seen: BTreeMap<PathBuf, Seen>,
    /// Folders that could not be read.
    unread: BTreeSet<PathBuf>,
    looks: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
    id: u64,
    /// Of the signature beside it.
    signed: Option<(u64, Option<SystemTime>)>,
}

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

impl Eyes {
    fn suspicious(&self) -> bool {
        self.seen.values().any(|seen| seen.suspect.is_some())
    }

    /// When a file is tried again next.
    fn next_again(&self) -> Option<Duration> {
        let again = self.seen.values().filter_map(|seen| seen.again.as_ref());
        again.map(|again| again.at).min()
    }

    fn look(&mut self, host: &Host, dirs: &[PathBuf], on_event: &mut dyn FnMut(LoadEvent)) {
        let present = self.present(dirs);
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
    fn present(&mut self, dirs: &[PathBuf]) -> BTreeMap<PathBuf, Option<Stamp>> {
        let mut present = BTreeMap::new();
        for dir in dirs {
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
