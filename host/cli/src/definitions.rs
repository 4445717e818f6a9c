//! The directory whose workflows `serve` publishes.
//!
//! It is looked at every two seconds, and the difference to the last look is what is acted on.
//! A file that cannot be published is reported once, with everything that is wrong with it,
//! and the version before stays published; it is tried again when it or a plugin changes. A
//! file that is taken away stays published, for a slip of the hand must not stop a business:
//! `workflow retract` takes it back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use windlass_model::Clock;
use windlass_model::definition::StartTrigger;
use windlass_plugins::Host;
use windlass_runtime::Runtime;
use windlass_runtime::client::{self, Published};
use windlass_store::Store;

use crate::codes;
use crate::error::{Expected, classify};
use crate::report::diagnostics;
use crate::source::Source;

/// How often the directory is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// Files that are looked at.
const MAX_FILES: usize = 10_000;

enum Mail {
    /// A plugin was loaded.
    Plugins,
    Stop,
}

/// Watches until it is dropped.
pub(crate) struct Watch {
    mail: SyncSender<Mail>,
    thread: Option<JoinHandle<()>>,
}

/// What publishes.
pub(crate) struct Publisher {
    pub(crate) directory: PathBuf,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) plugins: Arc<Host>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Who plans what is published.
    pub(crate) runtime: Arc<Runtime>,
    /// Whether the host has a web server.
    pub(crate) web: bool,
    seen: BTreeMap<PathBuf, Seen>,
}

/// A file as it was when it was last looked at.
struct Seen {
    /// When it was changed, and its length.
    stamp: (Option<SystemTime>, u64),
    /// The workflow in it, if it was published.
    published: Option<String>,
}

impl Watch {
    /// Looks once, and then again and again.
    pub(crate) fn begin(mut publisher: Publisher) -> std::io::Result<Self> {
        publisher.look(false);
        let (mail, inbox) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("windlass-definitions".to_owned())
            .spawn(move || keep_looking(&mut publisher, &inbox))?;
        Ok(Self {
            mail,
            thread: Some(thread),
        })
    }

    /// What tells that a plugin was loaded, which may be the one that a file waits for.
    pub(crate) fn plugins_changed(&self) -> impl Fn() + Send + Sync + 'static {
        let mail = self.mail.clone();
        move || {
            // A full mailbox says so already.
            let _ = mail.try_send(Mail::Plugins);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.mail.send(Mail::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by its own hook.
            let _ = thread.join();
        }
    }
}

fn keep_looking(publisher: &mut Publisher, inbox: &Receiver<Mail>) {
    loop {
        match inbox.recv_timeout(LOOK) {
            Ok(Mail::Plugins) => publisher.look(true),
            Err(RecvTimeoutError::Timeout) => publisher.look(false),
            Ok(Mail::Stop) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl Publisher {
    /// A publisher that has seen nothing yet.
    pub(crate) fn new(
        directory: PathBuf,
        store: Arc<dyn Store>,
        plugins: Arc<Host>,
        clock: Arc<dyn Clock>,
        runtime: Arc<Runtime>,
        web: bool,
    ) -> Self {
        Self {
            directory,
            store,
            plugins,
            clock,
            runtime,
            web,
            seen: BTreeMap::new(),
        }
    }

    /// Publishes what has changed; `again`: also what could not be published before.
    fn look(&mut self, again: bool) {
        let files = self.files();
        self.seen.retain(|file, _| files.contains_key(file));
        for (file, stamp) in files {
            let seen = self.seen.get(&file);
            let same = seen
                .is_some_and(|seen| seen.stamp == stamp && (seen.published.is_some() || !again));
            if same {
                continue;
            }
            let published = match self.publish(&file) {
                Ok(published) => {
                    tracing::info!(
                        workflow = published.name,
                        version = published.version,
                        unchanged = published.unchanged,
                        file = %file.display(),
                        "published"
                    );
                    self.runtime.published();
                    Some(published.name)
                }
                Err(error) => {
                    complain(&file, &error);
                    None
                }
            };
            self.seen.insert(file, Seen { stamp, published });
        }
    }

    /// The files that count, with their stamps. A directory that is not there has none.
    fn files(&self) -> BTreeMap<PathBuf, (Option<SystemTime>, u64)> {
        let Ok(entries) = std::fs::read_dir(&self.directory) else {
            return BTreeMap::new();
        };
        let file = |entry: std::io::Result<std::fs::DirEntry>| {
            let entry = entry.ok()?;
            let path = entry.path();
            let kind = path.extension()?.to_str()?;
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if hidden || !["yaml", "yml", "json"].contains(&kind) {
                return None;
            }
            let data = std::fs::metadata(&path)
                .ok()
                .filter(std::fs::Metadata::is_file)?;
            Some((path, (data.modified().ok(), data.len())))
        };
        entries.filter_map(file).take(MAX_FILES).collect()
    }

    fn publish(&self, file: &Path) -> Result<Published, Expected> {
        let source = Source::read(file)?;
        let name = &source.definition.name;
        let of_other = |(other, seen): (&PathBuf, &Seen)| {
            (other != file && seen.published.as_ref() == Some(name)).then(|| other.clone())
        };
        if let Some(other) = self.seen.iter().find_map(of_other) {
            let text = format!("The workflow `{name}` is in {} already", other.display());
            let help = "Give one of the two another name, or take it away.";
            return Err(Expected::new(codes::SAME_WORKFLOW, text).help(help));
        }
        let by_request = |trigger: &StartTrigger| matches!(trigger, StartTrigger::Http { .. });
        if !self.web && source.definition.triggers.values().any(by_request) {
            let text = format!(
                "The workflow `{name}` has a trigger by `http`, and there is no web server"
            );
            let help = "Set `listen` in [server], or let something send an event.";
            return Err(Expected::new(windlass_model::codes::NO_WEB_SERVER, text).help(help));
        }
        let now_ms = self.clock.wall_ms();
        client::publish(self.store.as_ref(), &self.plugins, now_ms, source.row())
            .map_err(|error| classify(source.explain(error)))
    }
}

/// Everything that is wrong with a file, a line each.
fn complain(file: &Path, error: &Expected) {
    let file = file.display();
    let Some(problems) = error.problems.as_deref() else {
        tracing::warn!(code = %error.code, %file, message = error.message, "not published");
        return;
    };
    for found in diagnostics(problems).as_array().into_iter().flatten() {
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        tracing::warn!(
            code = text("code"),
            %file,
            line = found["line"].as_u64(),
            column = found["column"].as_u64(),
            message = text("message"),
            "not published"
        );
    }
}
