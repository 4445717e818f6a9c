//! The reports about watched folders: a host logs them, and a command for authors prints them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use windlass_model::position;
use windlass_plugins::LoadEvent;

use crate::definitions::{Failed, Reloaded, Runnable};
use crate::error::Error;

/// Receives what the looks at the folders find, on the threads that look: a call should not take
/// long.
pub trait FolderReport: Send + Sync + 'static {
    /// Called after each look at the workflow files, with the changes since the last look.
    fn definitions(&self, found: &Reloaded);

    /// Called for each published workflow that the present plugins cannot run, and when they can run
    /// it again.
    fn runnable(&self, workflow: &Runnable);

    /// Called for each change of a plugin file.
    fn plugin(&self, event: &LoadEvent);
}

/// Writes the reports to the log. While the host starts, what it finds as before is only counted.
#[derive(Debug, Default)]
pub struct FolderLog {
    has_started: AtomicBool,
    plugins: AtomicU32,
    workflows: AtomicU32,
}

impl FolderLog {
    /// The host has started. Returns the number of plugin files and workflow files found so far.
    pub fn started(&self) -> (u32, u32) {
        self.has_started.store(true, Ordering::Relaxed);
        let count = |number: &AtomicU32| number.load(Ordering::Relaxed);
        (count(&self.plugins), count(&self.workflows))
    }

    /// Counts a found file while the host starts. Returns whether it starts.
    fn counts(&self, number: &AtomicU32) -> bool {
        let starts = !self.has_started.load(Ordering::Relaxed);
        if starts {
            number.fetch_add(1, Ordering::Relaxed);
        }
        starts
    }
}

impl FolderReport for FolderLog {
    fn definitions(&self, found: &Reloaded) {
        for (file, published) in &found.published {
            let (workflow, version) = (&published.name, published.version);
            let starts = self.counts(&self.workflows);
            if published.unchanged {
                // While the host starts, this is one line for each file that is there.
                if starts {
                    tracing::debug!(workflow, version, file = %file.display(), "published before");
                } else {
                    tracing::info!(workflow, version, file = %file.display(), "published before");
                }
            } else {
                tracing::info!(workflow, version, file = %file.display(), "published");
            }
            for found in &published.warnings {
                let place = &found.place.pointer;
                tracing::warn!(
                    code = %found.code,
                    file = %file.display(),
                    place,
                    warning = found.message,
                    "published with a warning"
                );
            }
        }
        for (file, workflow, version) in &found.retracted {
            tracing::info!(workflow, version, file = %file.display(), "retracted");
        }
        for directory in &found.emptied {
            let directory = directory.display();
            tracing::warn!(%directory, "all files are gone at once: the published workflows stay");
        }
        found.failed.iter().for_each(complain);
        for ignored in &found.ignored {
            tracing::warn!(path = %ignored.path.display(), why = ignored.why, "ignored");
        }
    }

    fn runnable(&self, of: &Runnable) {
        let Runnable {
            workflow, version, ..
        } = of;
        match &of.mistake {
            Some(mistake) => tracing::warn!(
                code = %mistake.code, workflow, version, error = mistake.message,
                "a published workflow cannot run"
            ),
            None => tracing::info!(workflow, version, "a published workflow can run again"),
        }
    }

    fn plugin(&self, event: &LoadEvent) {
        match event {
            LoadEvent::Loaded { file, plugin, .. } if self.counts(&self.plugins) => {
                tracing::debug!(plugin = plugin.name(), digest = %plugin.digest, file = %file.display(), "loaded");
            }
            LoadEvent::Loaded { file, plugin, .. } => {
                tracing::info!(plugin = plugin.name(), digest = %plugin.digest, file = %file.display(), "loaded");
            }
            LoadEvent::Failed { file, error, .. } => {
                tracing::warn!(code = %error.code, file = %file.display(), error = error.message, "not loaded");
            }
            LoadEvent::Compiling { file, awaited } => {
                let (bytes, name) = (awaited.bytes, awaited.name.as_deref());
                tracing::info!(plugin = name, file = %file.display(), bytes, "waits for the compiler");
            }
            LoadEvent::Compiled { digest, result } => match result {
                Ok(plugin) => tracing::info!(plugin = plugin.name(), %digest, "compiled for runs"),
                Err(error) => {
                    tracing::warn!(code = %error.code, %digest, error = error.message, "not compiled for runs");
                }
            },
            LoadEvent::Ignored { path, why } => {
                tracing::warn!(path = %path.display(), why, "ignored");
            }
            LoadEvent::Removed { file, digest } => {
                tracing::info!(%digest, file = %file.display(), "removed");
            }
        }
    }
}

/// Logs all mistakes in a file, one per line.
fn complain(failed: &Failed) {
    let Failed {
        file,
        text,
        error,
        again,
    } = failed;
    let file = file.display();
    if error.is_compiling() && *again {
        return;
    }
    if error.is_compiling() {
        tracing::info!(code = %error.code(), %file, reason = %error, "publishing waits for the compiler");
        return;
    }
    let Error::Definition(diagnostics) = error else {
        tracing::warn!(code = %error.code(), %file, %error, "not published");
        return;
    };
    for found in diagnostics {
        let span = found.place.span.as_ref();
        let (line, column) = span.map(|span| position(text, span.start)).unzip();
        tracing::warn!(
            code = %found.code,
            %file,
            line,
            column,
            error = found.message,
            "not published"
        );
    }
}
