//! The sources of definitions, and reading them again.
//!
//! Definitions come from files in directories, and from clients that publish through the store.
//! *Reloading* reads the files again; *refreshing* reads the published definitions again and
//! rebuilds the index of their triggers. If several processes share the store, one process at a
//! time does each of these, and another caller is told that the operation is in progress. No
//! request is lost by that: a request is written before the lock is tried, and the holder of the
//! lock reads the requests again after it has released the lock.
//!
//! Refreshing everything takes the lock of everything and then the lock of each workflow;
//! refreshing some workflows takes their locks in the same order. So the two also exclude each
//! other.

mod files;
mod refresh;
mod reload;
mod runnable;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use windlass_locks::Key;
use windlass_model::Clock;
use windlass_plugins::Host;
use windlass_store::Store;

use crate::error::Error;
use crate::exclusive::Exclusive;
use crate::topology::Topology;

pub use self::files::Ignored;
pub use self::refresh::Refreshed;
pub use self::reload::{Failed, Reloaded};
pub use self::runnable::Runnable;

/// The settings for sources of definitions.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Directories with workflow files.
    pub directories: Vec<PathBuf>,
    /// How the removal of a file affects its published workflow.
    pub on_removal: OnRemoval,
    /// Whether there is a web server; without one, triggers by `http` cannot start runs.
    pub web: bool,
}

/// How the removal of a file affects its published workflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRemoval {
    /// The workflow is retracted, unless a newer version has come from another source.
    #[default]
    Retract,
    /// The workflow stays published.
    Keep,
}

/// The result of a request.
#[derive(Debug)]
pub enum Upkept<T> {
    /// It was carried out here.
    Done(T),
    /// Another process carries it out at present.
    AlreadyInProgress,
}

/// The definitions of a store, as one process manages them. Every method may block.
pub struct Definitions {
    store: Arc<dyn Store>,
    plugins: Arc<Host>,
    clock: Arc<dyn Clock>,
    options: Options,
    /// Set only if there are other processes.
    exclusive: Option<Exclusive>,
    files: Mutex<files::Files>,
    /// The workflows that could not run at the last look.
    cannot_run: Mutex<runnable::CannotRun>,
}

impl Definitions {
    /// Definitions that have not been read yet. Waiting for locks happens on `io`.
    pub fn new(
        store: Arc<dyn Store>,
        plugins: Arc<Host>,
        clock: Arc<dyn Clock>,
        io: Handle,
        topology: &Topology,
        mut options: Options,
    ) -> Self {
        // The source of a definition is an absolute path, so it does not depend on the directory of
        // the process.
        for directory in &mut options.directories {
            if let Ok(whole) = std::path::absolute(&*directory) {
                *directory = whole;
            }
        }
        let locks = topology.locks();
        Self {
            store,
            plugins,
            clock,
            options,
            exclusive: locks.map(|locks| Exclusive::new(Arc::clone(locks), io)),
            files: Mutex::default(),
            cannot_run: Mutex::default(),
        }
    }

    /// The directories from which files are read.
    pub fn directories(&self) -> &[PathBuf] {
        &self.options.directories
    }

    /// Runs work that one process at a time may do; none if another process does it. On one machine
    /// no lock is needed.
    fn exclusively<T>(
        &self,
        keys: &[Key],
        work: impl FnOnce(&dyn Fn() -> bool) -> T,
    ) -> Result<Option<T>, Error> {
        self.exclusively_within(Duration::ZERO, keys, work)
    }

    /// As `exclusively`, but waits up to `at_most` for each lock.
    fn exclusively_within<T>(
        &self,
        at_most: Duration,
        keys: &[Key],
        work: impl FnOnce(&dyn Fn() -> bool) -> T,
    ) -> Result<Option<T>, Error> {
        match &self.exclusive {
            None => Ok(Some(work(&|| true))),
            Some(exclusive) => exclusive.try_within(at_most, keys, work),
        }
    }

    /// Indexes the triggers of a workflow while no other process does.
    fn index<T>(&self, workflow: &str, work: impl FnOnce() -> T) -> Result<T, Error> {
        match &self.exclusive {
            None => Ok(work()),
            Some(exclusive) => {
                exclusive.wait_and_do(&Key::index(workflow), refresh::INDEXING, work)
            }
        }
    }
}
