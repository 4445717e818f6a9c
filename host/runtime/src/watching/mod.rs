//! Watches folders: of plugins, and of the workflow files that a process publishes.
//!
//! Every hint that a folder has changed leads to one look at all folders; the difference to the
//! last look is acted on. If a hint is lost, or the file system gives none, a change is found up to
//! two seconds later.

mod definitions;
mod plugins;
mod report;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use notify_debouncer_full::notify::{RecommendedWatcher, RecursiveMode};
use notify_debouncer_full::{Debouncer, RecommendedCache, new_debouncer};
use windlass_periodic::{Bell, Periodic, Rest};

pub(crate) use self::definitions::Publisher;
pub(crate) use self::plugins::Change;
pub use self::plugins::PluginFolders;
pub use self::report::{FolderLog, FolderReport};

/// How long a folder has to be unchanged before a look.
const QUIET: Duration = Duration::from_millis(200);

/// A worker that looks at folders until it is dropped.
pub struct Watch {
    /// None if the system gives no hints.
    hints: Option<Debouncer<RecommendedWatcher, RecommendedCache>>,
    _worker: Periodic,
}

impl Watch {
    /// Looks at once. Then looks whenever a folder changes or the bell rings, and at the latest
    /// after the time that the last look returned.
    ///
    /// # Errors
    ///
    /// The system cannot start another thread.
    pub fn start(
        name: &'static str,
        folders: &[PathBuf],
        bell: Bell,
        mut look: impl FnMut() -> Duration + Send + 'static,
    ) -> std::io::Result<Self> {
        // Hints begin before the first look, so that no change in between is missed.
        let hints = hints(folders, bell.clone());
        let worker = Periodic::start_with(name, bell, move |_| {
            Rest::until_rung(Duration::ZERO, look())
        })?;
        Ok(Self {
            hints,
            _worker: worker,
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(hints) = self.hints.take() {
            hints.stop();
        }
    }
}

/// Rings when a folder changes. Without hints the folders are still looked at regularly, so a
/// failure is no error.
fn hints(
    folders: &[PathBuf],
    bell: Bell,
) -> Option<Debouncer<RecommendedWatcher, RecommendedCache>> {
    let mut hints = match new_debouncer(QUIET, None, move |_| bell.ring()) {
        Ok(hints) => hints,
        Err(error) => {
            tracing::warn!(%error, "folders are not watched, only looked at every two seconds");
            return None;
        }
    };
    // A look finds a folder that does not exist yet.
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        if let Err(error) = hints.watch(folder, RecursiveMode::NonRecursive) {
            let folder = folder.display();
            tracing::warn!(%folder, %error, "the folder is only looked at every two seconds");
        }
    }
    Some(hints)
}

/// Notifies the publisher of workflow files of new plugins, which a file may need.
#[derive(Clone, Default)]
pub(crate) struct PluginNews {
    bell: Bell,
    came: Arc<AtomicBool>,
}

impl PluginNews {
    pub(crate) fn tell(&self) {
        self.came.store(true, Ordering::Release);
        self.bell.ring();
    }

    /// Whether plugins were loaded since the last call.
    fn take(&self) -> bool {
        self.came.swap(false, Ordering::AcqRel)
    }
}
