//! Folders of plugins: a look at them finds changed files, and loads or removes their plugins.
//!
//! The caller decides when to look. A look acts on the differences to the previous one.
//!
//! A file that the host cannot read or store is tried again, after a second at first and a minute
//! at last: the cause may be elsewhere (permissions, a full disk), so that the file itself does not
//! change when it is removed. A folder that cannot be read keeps its plugins.
//!
//! A look does not wait for the compiler: it loads the compiled components, hands the rest to the queue of
//! the host, and takes the results of earlier looks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use windlass_model::{Code, Digest};

use crate::call::plugin::Plugin;
use crate::codes;
use crate::error::Error;
use crate::grant::proof::signature_of;
use crate::host::{FileFailure, Host};
use crate::load::{self, Cold, Loaded, Patience};
use crate::queue::{Awaited, Finished, Source};
use crate::registry::conflict;

/// The longest time between two looks.
const LOOK: Duration = Duration::from_secs(2);
/// The time to the next look while a file may still be written.
const SUSPICIOUS: Duration = Duration::from_millis(400);
/// The first delay after which a file is tried again that could not be read or stored. It doubles
/// each time.
const FIRST_AGAIN: Duration = Duration::from_secs(1);
/// The longest such delay.
const LAST_AGAIN: Duration = Duration::from_secs(60);
/// How long a wait for the compiler lasts before the folders are looked at again.
const WAIT: Duration = Duration::from_secs(60);
/// The most ignored entries that are reported.
const MAX_IGNORED: usize = 100;
/// The most plugins, ignored files and subfolders of one folder.
const MAX_FILES: usize = 10_000;

/// The result of a look for one file.
#[derive(Debug)]
pub enum LoadEvent {
    /// It is loaded and in the registry.
    Loaded {
        /// The file.
        file: PathBuf,
        /// Its plugin.
        plugin: Arc<Plugin>,
        /// The digest of its previous plugin.
        replaced: Option<Digest>,
    },
    /// It waits for the compiler.
    Compiling {
        /// The file.
        file: PathBuf,
        /// Its name and size, and whether its turn has come.
        awaited: Awaited,
    },
    /// A component that runs need and that no file has was compiled.
    Compiled {
        /// The component.
        digest: Digest,
        /// Its plugin, or why there is none.
        result: Result<Arc<Plugin>, Error>,
    },
    /// It cannot be loaded.
    Failed {
        /// The file.
        file: PathBuf,
        /// The reason.
        error: Error,
        /// The digest of its previous plugin, which stays in the registry.
        kept: Option<Digest>,
    },
    /// The file is gone, and its plugin was removed from the registry.
    Removed {
        /// The file.
        file: PathBuf,
        /// The digest of its plugin, or of the component that waited for the compiler.
        digest: Digest,
    },
    /// An entry of a folder is not read, although its author may expect it. Reported once.
    Ignored {
        /// The entry.
        path: PathBuf,
        /// Why it is not read, as a part of a sentence.
        why: &'static str,
    },
}

/// Folders of plugins, and their state at the last look.
#[derive(Debug)]
pub struct Folders {
    dirs: Vec<PathBuf>,
    seen: BTreeMap<PathBuf, Seen>,
    /// Folders that could not be read.
    unread: BTreeSet<PathBuf>,
    /// The ignored entries that were reported.
    ignored: BTreeSet<PathBuf>,
    looks: u64,
    /// The rules of the host at the last look.
    generation: u64,
}

impl Host {
    /// Loads the components inside this program and registers them. Returns an event for each that
    /// was not registered as it is.
    fn load_bundle(&self) -> Vec<LoadEvent> {
        let names = self.load.bundle.names();
        let load = |(file, digest): (PathBuf, Digest)| {
            let there = self.registry().file(&file);
            let loaded = load::bundled(&self.load, &file, &digest)
                .and_then(|plugin| self.registry().insert(&file, &plugin).map(|()| plugin));
            match loaded {
                Ok(plugin) if there.is_some_and(|there| Arc::ptr_eq(&there, &plugin)) => None,
                Ok(plugin) => Some(LoadEvent::Loaded {
                    file,
                    plugin,
                    replaced: None,
                }),
                Err(error) => Some(LoadEvent::Failed {
                    file,
                    error,
                    kept: None,
                }),
            }
        };
        names.into_iter().filter_map(load).collect()
    }

    /// Loads the plugins of these folders. A missing folder is empty. Takes as long as compiling
    /// takes.
    pub fn scan(&self, dirs: &[PathBuf]) -> Vec<LoadEvent> {
        let mut events = Vec::new();
        let mut folders = Folders::new(dirs.to_vec());
        loop {
            folders.look(self, &mut |event| events.push(event));
            if !self.await_compiled(WAIT) {
                return events;
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
    id: u64,
    /// The stamp of the signature beside it.
    signed: Option<(u64, Option<SystemTime>)>,
}

#[derive(Debug)]
struct Seen {
    /// None: the system did not tell.
    stamp: Option<Stamp>,
    /// It was damaged, perhaps because it is still being written. If it does not change, the next
    /// look reports it.
    suspect: Option<Error>,
    /// Another file offers the same version of the same package.
    conflict: bool,
    /// Its component, which waits for the compiler.
    awaited: Option<Digest>,
    /// It could not be read, stored or compiled, which may not be its own fault.
    again: Option<Again>,
    /// The last report about it said that it cannot be loaded.
    failed: bool,
}

/// When a file is tried again.
#[derive(Debug)]
struct Again {
    /// The time, by the monotonic clock.
    at: Duration,
    delay: Duration,
    /// The reason. Reported once.
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

impl Seen {
    /// Whether its newest version is in the registry.
    fn is_loaded(&self) -> bool {
        self.awaited.is_none() && self.suspect.is_none() && !self.failed
    }
}

impl Again {
    /// Without a time: the compiler works on the file.
    fn paused(self) -> Self {
        Self {
            at: Duration::MAX,
            ..self
        }
    }
}

impl Folders {
    /// Folders without any look so far.
    pub fn new(dirs: Vec<PathBuf>) -> Self {
        Self {
            dirs,
            seen: BTreeMap::new(),
            unread: BTreeSet::new(),
            ignored: BTreeSet::new(),
            looks: 0,
            generation: 0,
        }
    }

    /// The folders.
    pub fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }

    /// Looks at the folders and acts on the changes since the last look. Only files that end in
    /// `.wasm` count, and those in subfolders do not. Files that are not compiled are compiled behind
    /// the look, and a look after that loads them ([`Host::await_compiled`]). The first look loads
    /// the components inside the program before all others.
    ///
    /// Returns the latest time of the next look, if no notification comes before.
    pub fn look(&mut self, host: &Host, on_event: &mut dyn FnMut(LoadEvent)) -> Duration {
        let on_event: &mut dyn FnMut(LoadEvent) = &mut |event| {
            note(host, &event);
            on_event(event);
        };
        let generation = host.generation();
        let is_changed = std::mem::replace(&mut self.generation, generation) != generation;
        if is_changed {
            // Every file is loaded again. That makes a new plugin of those that other rules concern.
            self.seen.values_mut().for_each(|seen| seen.stamp = None);
        }
        if (self.looks == 0 || is_changed) && host.load_bundle {
            host.load_bundle().into_iter().for_each(&mut *on_event);
        }
        self.act(host, on_event);
        let suspicious = self.seen.values().any(|seen| seen.suspect.is_some());
        let wait = if suspicious { SUSPICIOUS } else { LOOK };
        let again = self.seen.values().filter_map(|seen| seen.again.as_ref());
        again.map(|again| again.at).min().map_or(wait, |at| {
            wait.min(at.saturating_sub(host.load.calls.clock.monotonic()))
        })
    }

    fn act(&mut self, host: &Host, on_event: &mut dyn FnMut(LoadEvent)) {
        let present = self.present(on_event);
        let unread = |file: &Path| file.parent().is_some_and(|dir| self.unread.contains(dir));
        let gone: Vec<PathBuf> = self
            .seen
            .keys()
            .filter(|file| !present.contains_key(*file) && !unread(file))
            .cloned()
            .collect();
        // Removals first: a renamed file does not conflict with itself.
        for file in gone {
            let awaited = self.seen.remove(&file).and_then(|seen| seen.awaited);
            host.queue.forget(&file);
            // A file that was never loaded is removed without an event.
            host.note(&file, None);
            let removed = host.registry().remove(&file);
            if let Some(digest) = removed.map(|plugin| plugin.digest).or(awaited) {
                self.end_conflicts();
                on_event(LoadEvent::Removed { file, digest });
            }
        }
        for finished in host.queue.take() {
            self.take_compiled(host, finished, on_event);
        }
        let now = host.load.calls.clock.monotonic();
        let mut changed = Vec::new();
        for (file, stamp) in present {
            let same = |seen: &&mut Seen| stamp.is_none() || seen.stamp == stamp;
            match self.seen.get_mut(&file).filter(same) {
                Some(seen) => {
                    if let Some(error) = seen.suspect.take() {
                        seen.failed = true;
                        on_event(failure(host, file, error));
                    } else if seen.again.as_ref().is_some_and(|it| it.at <= now) {
                        changed.push((file, stamp));
                    }
                }
                None => changed.push((file, stamp)),
            }
        }
        for (file, stamp) in changed {
            let loaded = match host.look_at(&file, Patience::None) {
                Ok(Loaded::Cold(cold)) => match check(host, &file, &cold) {
                    Ok(()) => {
                        self.leave(host, file, stamp, cold, on_event);
                        continue;
                    }
                    Err(error) => Err(error),
                },
                Ok(Loaded::Plugin(plugin)) => Ok(plugin),
                Err(error) => Err(error),
            };
            self.take_in(host, file, stamp, loaded, on_event);
        }
        host.queue.start(&host.load);
        self.looks += 1;
    }

    /// The existing files. Records the folders that the host cannot read.
    fn present(&mut self, on_event: &mut dyn FnMut(LoadEvent)) -> BTreeMap<PathBuf, Option<Stamp>> {
        let mut present = BTreeMap::new();
        for dir in &self.dirs {
            match files(dir) {
                Ok(entries) => {
                    self.unread.remove(dir);
                    for (path, entry) in entries {
                        match entry {
                            Entry::File(stamp) => drop(present.insert(path, stamp)),
                            Entry::Ignored(why) => {
                                if self.ignored.len() < MAX_IGNORED
                                    && !self.ignored.contains(&path)
                                    && (!path.is_dir() || has_plugins(&path))
                                {
                                    self.ignored.insert(path.clone());
                                    on_event(LoadEvent::Ignored { path, why });
                                }
                            }
                        }
                    }
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

    /// Leaves a file to the compiler.
    fn leave(
        &mut self,
        host: &Host,
        file: PathBuf,
        stamp: Option<Stamp>,
        cold: Cold,
        on_event: &mut dyn FnMut(LoadEvent),
    ) {
        let before = self.seen.remove(&file);
        let awaited = before.as_ref().and_then(|seen| seen.awaited);
        if awaited.is_some_and(|it| it != cold.digest) {
            self.end_conflicts();
        }
        let seen = Seen {
            stamp,
            suspect: None,
            conflict: false,
            awaited: Some(cold.digest),
            failed: before.as_ref().is_some_and(|seen| seen.failed),
            again: before.and_then(|seen| seen.again).map(Again::paused),
        };
        self.seen.insert(file.clone(), seen);
        let digest = cold.digest;
        let source = Source::File(file.clone());
        host.queue.add(source, cold);
        let awaited = host.awaited().into_iter();
        if let Some(awaited) = awaited.into_iter().find(|it| it.digest == digest) {
            on_event(LoadEvent::Compiling { file, awaited });
        }
    }

    /// Takes what compiling has come to.
    fn take_compiled(
        &mut self,
        host: &Host,
        finished: Finished,
        on_event: &mut dyn FnMut(LoadEvent),
    ) {
        let Finished {
            source,
            digest,
            result,
        } = finished;
        let result = host.obey(result);
        let Source::File(file) = source else {
            return on_event(LoadEvent::Compiled { digest, result });
        };
        let rules = host.load.rules.now();
        let follows = |plugin: &Arc<Plugin>| plugin.terms.follow(&rules);
        let is_current = result.as_ref().map_or(true, follows);
        let seen = self.seen.get_mut(&file);
        let (stamp, is_newest) = match seen {
            None => (None, false),
            Some(seen) => {
                let lost = |it| it != digest && !host.queue.has(&file, &it);
                if !is_current || seen.awaited.is_some_and(lost) {
                    // This look reads the file again.
                    seen.stamp = None;
                }
                if seen.is_loaded() {
                    return;
                }
                (seen.stamp, seen.awaited == Some(digest))
            }
        };
        if !is_newest {
            if let Ok(plugin) = result
                && take_between(host, file, plugin, on_event)
            {
                self.end_conflicts();
            }
            return;
        }
        self.take_in(host, file, stamp, result, on_event);
    }

    /// Lets the next look load the files again that are in conflict: another file no longer offers
    /// the same component.
    fn end_conflicts(&mut self) {
        self.seen.retain(|_, seen| !seen.conflict);
    }

    /// Takes in what loading a file has come to.
    fn take_in(
        &mut self,
        host: &Host,
        file: PathBuf,
        stamp: Option<Stamp>,
        loaded: Result<Arc<Plugin>, Error>,
        on_event: &mut dyn FnMut(LoadEvent),
    ) {
        let seen = self.seen.remove(&file);
        let mut failed = seen.as_ref().is_some_and(|seen| seen.failed);
        let awaited = seen.as_ref().and_then(|seen| seen.awaited);
        let last = seen.and_then(|seen| seen.again);
        let mut again = None;
        let replaced = host.registry().file(&file);
        let loaded =
            loaded.and_then(|plugin| host.registry().insert(&file, &plugin).map(|()| plugin));
        match &loaded {
            Ok(_) => host.queue.forget(&file),
            Err(_) => host.queue.skip(&file),
        }
        let now = loaded.as_ref().ok().map(|plugin| plugin.digest);
        let before = replaced.as_ref().map(|plugin| plugin.digest);
        let mut before = now.and(before).into_iter().chain(awaited);
        if before.any(|it| now != Some(it)) {
            self.end_conflicts();
        }
        let mut suspect = None;
        let conflict = loaded
            .as_ref()
            .is_err_and(|error| error.code == codes::CONFLICT);
        match loaded {
            Ok(plugin)
                if !failed && replaced.as_ref().is_some_and(|it| Arc::ptr_eq(it, &plugin)) => {}
            // Also if only a failure is over: the last report was that of the failure.
            Ok(plugin) => {
                failed = false;
                on_event(LoadEvent::Loaded {
                    file: file.clone(),
                    plugin,
                    replaced: replaced.map(|plugin| plugin.digest),
                });
            }
            // At the first look, a damaged file is reported at once.
            Err(error) if error.code == codes::MALFORMED && self.looks > 0 => {
                suspect = Some(error);
            }
            Err(error) => {
                failed = true;
                if last.as_ref().is_none_or(|last| last.error != error) {
                    on_event(failure(host, file.clone(), error.clone()));
                }
                if AGAIN.contains(&error.code) {
                    let now = host.load.calls.clock.monotonic();
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
                awaited: None,
                again,
                failed,
            },
        );
    }
}

/// Takes in a version of a file that was compiled while the file changed, and returns whether it
/// replaces another one. What the looks have found out about the newest version stays.
fn take_between(
    host: &Host,
    file: PathBuf,
    plugin: Arc<Plugin>,
    on_event: &mut dyn FnMut(LoadEvent),
) -> bool {
    let replaced = host.registry().file(&file).map(|plugin| plugin.digest);
    let digest = plugin.digest;
    if replaced == Some(digest) || host.registry().insert(&file, &plugin).is_err() {
        return false;
    }
    let failure = host.failures().remove(&file);
    on_event(LoadEvent::Loaded {
        file: file.clone(),
        plugin,
        replaced,
    });
    if let Some(failure) = failure {
        let kept = Some(digest);
        host.note(&file, Some(FileFailure { kept, ..failure }));
    }
    replaced.is_some()
}

/// Records in the host which files cannot be loaded.
fn note(host: &Host, event: &LoadEvent) {
    match event {
        LoadEvent::Failed { file, error, kept } => {
            let (error, kept) = (error.clone(), *kept);
            host.note(file, Some(FileFailure { error, kept }));
        }
        LoadEvent::Loaded { file, .. }
        | LoadEvent::Compiling { file, .. }
        | LoadEvent::Removed { file, .. } => host.note(file, None),
        LoadEvent::Compiled { .. } | LoadEvent::Ignored { .. } => {}
    }
}

/// Whether a component whose names are known could be registered once it is compiled.
fn check(host: &Host, file: &Path, cold: &Cold) -> Result<(), Error> {
    let Some(about) = &cold.description else {
        return Ok(());
    };
    host.registry().check(file, &cold.digest, about)?;
    match host.queue.rival(file, cold) {
        Some(other) => Err(conflict(file, about, &other)),
        None => Ok(()),
    }
}

/// The errors whose causes may be elsewhere than in the file.
const AGAIN: [Code; 2] = [codes::FILE, codes::NO_COMPILER];

fn failure(host: &Host, file: PathBuf, error: Error) -> LoadEvent {
    let kept = host.registry().file(&file).map(|plugin| plugin.digest);
    LoadEvent::Failed { file, error, kept }
}

/// An entry of a folder.
enum Entry {
    /// A plugin, with its stamp if the system tells it.
    File(Option<Stamp>),
    /// It is not read, although its author may expect it.
    Ignored(&'static str),
}

/// The entries of a folder that matter. A missing folder has none.
fn files(dir: &Path) -> std::io::Result<Vec<(PathBuf, Entry)>> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        // A list that is cut short would make the other plugins look removed.
        if files.len() == MAX_FILES {
            let text = format!("it has more than {MAX_FILES} plugins and subfolders");
            return Err(std::io::Error::other(text));
        }
        let file = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if !has_ending(&file, false) {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                files.push((file, Entry::Ignored("plugins in subfolders are not loaded")));
            }
            continue;
        }
        match std::fs::metadata(&file) {
            Ok(there) if there.is_file() => {
                let entry = if has_ending(&file, true) {
                    Entry::File(Some(stamp(&there, &file)))
                } else {
                    Entry::Ignored("the ending of plugins is `.wasm`, in small letters")
                };
                files.push((file, entry));
            }
            // A folder, or a dangling link.
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(_) if has_ending(&file, true) => files.push((file, Entry::File(None))),
            Err(_) => {}
        }
    }
    Ok(files)
}

/// Whether there are plugins right in a folder.
fn has_plugins(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut entries = entries.take(MAX_FILES).flatten();
    entries.any(|entry| has_ending(&entry.path(), false))
}

/// Whether a file has the ending of plugins, or, unless it is asked for `exactly`, one that differs
/// in capital letters only.
fn has_ending(file: &Path, exactly: bool) -> bool {
    file.extension().is_some_and(|ending| match exactly {
        true => ending == "wasm",
        false => ending.eq_ignore_ascii_case("wasm"),
    })
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
