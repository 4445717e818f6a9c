//! The directories whose workflows `serve` publishes.
//!
//! Every hint that something changed leads to one look at the directories; the difference to the
//! last look is what is acted on. A hint that is lost, or a file system that gives none, costs
//! two seconds. A file that cannot be published is reported once, with everything that is wrong
//! with it, and the version before stays published; it is tried again when it or a plugin
//! changes. What a file that is taken away has published is taken back, because the directory
//! says what is to be started, and nobody would look for the rest elsewhere; a setting keeps it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use notify_debouncer_full::notify::{RecommendedWatcher, RecursiveMode};
use notify_debouncer_full::{Debouncer, RecommendedCache, new_debouncer};
use windlass_display::{Problems, diagnostics};
use windlass_runtime::Runtime;
use windlass_runtime::definitions::{Definitions, Failed, Reloaded, Upkept};

use crate::error::{Expected, classify};

/// How often the directories are looked at without a hint.
const LOOK: Duration = Duration::from_secs(2);

/// How long a directory has to be quiet before it is looked at.
const QUIET: Duration = Duration::from_millis(200);

/// After how many looks without a hint it is seen to requests that somebody has left behind.
const LOOKS: u32 = 30;

enum Mail {
    /// Something has changed.
    Look,
    Stop,
}

/// Watches until it is dropped.
pub(crate) struct Watch {
    mail: SyncSender<Mail>,
    /// A plugin was loaded since the last look.
    plugins: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// None where the system gives no hints.
    hints: Option<Debouncer<RecommendedWatcher, RecommendedCache>>,
}

/// Who looks, and who is told.
struct Looker {
    definitions: Arc<Definitions>,
    /// Who plans what is published.
    runtime: Arc<Runtime>,
    plugins: Arc<AtomicBool>,
}

impl Watch {
    /// Looks once, and then again and again.
    pub(crate) fn begin(
        definitions: Arc<Definitions>,
        runtime: Arc<Runtime>,
    ) -> std::io::Result<Self> {
        let (mail, inbox) = sync_channel(1);
        // Watched before the first look, so that nothing changes unseen in between.
        let hints = hints(definitions.directories(), mail.clone());
        let plugins = Arc::default();
        let looker = Looker {
            definitions,
            runtime,
            plugins: Arc::clone(&plugins),
        };
        looker.look();
        let thread = std::thread::Builder::new()
            .name("windlass-definitions".to_owned())
            .spawn(move || looker.keep_looking(&inbox))?;
        Ok(Self {
            mail,
            plugins,
            thread: Some(thread),
            hints,
        })
    }

    /// What tells that a plugin was loaded, which may be the one that a file waits for.
    pub(crate) fn plugins_changed(&self) -> impl Fn() + Send + Sync + 'static {
        let (mail, plugins) = (self.mail.clone(), Arc::clone(&self.plugins));
        move || {
            plugins.store(true, Ordering::Release);
            // A full mailbox leads to a look already.
            let _ = mail.try_send(Mail::Look);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(hints) = self.hints.take() {
            hints.stop();
        }
        let _ = self.mail.send(Mail::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by its own hook.
            let _ = thread.join();
        }
    }
}

fn hints(
    directories: &[PathBuf],
    mail: SyncSender<Mail>,
) -> Option<Debouncer<RecommendedWatcher, RecommendedCache>> {
    let made = new_debouncer(QUIET, None, move |_| {
        // A full mailbox leads to a look already.
        let _ = mail.try_send(Mail::Look);
    });
    let mut hints = match made {
        Ok(hints) => hints,
        Err(error) => {
            tracing::info!(%error, "directories are not watched, but looked at now and then");
            return None;
        }
    };
    for directory in directories {
        // One that is not there yet is found by looking.
        if let Err(error) = hints.watch(directory, RecursiveMode::NonRecursive) {
            tracing::debug!(%error, directory = %directory.display(), "not watched");
        }
    }
    Some(hints)
}

impl Looker {
    fn keep_looking(&self, inbox: &Receiver<Mail>) {
        let mut looks = 0;
        loop {
            if looks % LOOKS == 0
                && let Err(error) = self.definitions.catch_up()
            {
                tracing::warn!(code = %error.code(), %error, "cannot look after requests");
            }
            looks += 1;
            match inbox.recv_timeout(LOOK) {
                Ok(Mail::Look) | Err(RecvTimeoutError::Timeout) => self.look(),
                Ok(Mail::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn look(&self) {
        let again = self.plugins.swap(false, Ordering::AcqRel);
        match self.definitions.look(again) {
            Ok(Upkept::Done(reloaded)) => self.tell(reloaded),
            // The next look finds what the other has left.
            Ok(Upkept::AlreadyInProgress) => {}
            Err(error) => {
                tracing::warn!(code = %error.code(), %error, "cannot look at the definitions");
            }
        }
    }

    fn tell(&self, reloaded: Reloaded) {
        if !reloaded.published.is_empty() || !reloaded.retracted.is_empty() {
            self.runtime.published();
        }
        for (file, published) in &reloaded.published {
            tracing::info!(
                workflow = published.name,
                version = published.version,
                unchanged = published.unchanged,
                file = %file.display(),
                "published"
            );
        }
        for (file, workflow, version) in &reloaded.retracted {
            tracing::info!(workflow, version, file = %file.display(), "retracted");
        }
        for directory in &reloaded.emptied {
            let directory = directory.display();
            tracing::warn!(%directory, "all files are gone at once: what they published stays");
        }
        for failed in reloaded.failed {
            complain(failed);
        }
    }
}

/// A file that cannot be published, as people are told of it.
pub(crate) fn expected(failed: Failed) -> Expected {
    let Failed { file, text, error } = failed;
    match error {
        windlass_runtime::Error::Definition(diagnostics) => Expected::of_file(Problems {
            name: file.display().to_string(),
            text,
            diagnostics,
        }),
        other => classify(other.into()),
    }
}

/// Everything that is wrong with a file, a line each.
fn complain(failed: Failed) {
    let path = failed.file.clone();
    let (file, error) = (path.display(), expected(failed));
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
