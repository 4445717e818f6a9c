//! Watching folders: of plugins, and of the workflow files that a process publishes from.
//!
//! Every hint that something changed in a folder leads to one look at all of them; the difference
//! to the last look is what is acted on. A hint that is lost, or a file system that gives none,
//! costs two seconds.

mod definitions;
mod plugins;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use notify_debouncer_full::notify::{RecommendedWatcher, RecursiveMode};
use notify_debouncer_full::{Debouncer, RecommendedCache, new_debouncer};
use windlass_periodic::{Bell, Periodic, Rest};

pub(crate) use self::definitions::Publisher;
pub use self::plugins::PluginFolders;

/// How long a folder has to be quiet before it is looked at.
const QUIET: Duration = Duration::from_millis(200);

/// A worker that looks at folders, until it is dropped.
pub(crate) struct Watch {
    /// None where the system gives no hints.
    hints: Option<Debouncer<RecommendedWatcher, RecommendedCache>>,
    _worker: Periodic,
}

impl Watch {
    /// Looks at once, and then whenever something changes in the folders or the bell rings, and
    /// in the time that the last look answered at the latest.
    ///
    /// # Errors
    ///
    /// The system has no thread to give.
    pub(crate) fn start(
        name: &'static str,
        folders: &[PathBuf],
        bell: Bell,
        mut look: impl FnMut() -> Duration + Send + 'static,
    ) -> std::io::Result<Self> {
        // Hints come before the first look, so that nothing changes unseen in between.
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

/// Rings when something changes in the folders. Without hints there are still the looks by time,
/// so a failure is no error.
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
    // A folder that does not exist yet is found by looking.
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        if let Err(error) = hints.watch(folder, RecursiveMode::NonRecursive) {
            let folder = folder.display();
            tracing::warn!(%folder, %error, "the folder is only looked at every two seconds");
        }
    }
    Some(hints)
}

/// Tells the publisher of workflow files that plugins have come, for which files may wait.
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

    /// Whether plugins have come since this was last asked.
    fn take(&self) -> bool {
        self.came.swap(false, Ordering::AcqRel)
    }
}
