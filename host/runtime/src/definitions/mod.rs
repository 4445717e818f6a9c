//! Where definitions come from, and looking at them again.
//!
//! Definitions come from files in directories, and through the store from whoever publishes.
//! *Reloading* reads the files again; *refreshing* reads what is published again and indexes
//! what starts it anew. Where several processes share the store, each is done by one at a time,
//! and whoever finds another at it is told so. No request is forgotten by that: it is written
//! down before the lock is tried, and who holds the lock looks again after giving it back.
//!
//! Refreshing everything takes the lock of everything and then that of each workflow;
//! refreshing some takes theirs, in the same order. So the two keep each other out, too.

mod files;
mod refresh;
mod reload;

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

pub use self::refresh::Refreshed;
pub use self::reload::{Failed, Reloaded};

/// Where definitions are read from.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Directories with workflow files.
    pub directories: Vec<PathBuf>,
    /// What becomes of what a file has published when it is taken away.
    pub on_removal: OnRemoval,
    /// Whether there is a web server, without which triggers by `http` start nothing.
    pub web: bool,
}

/// What becomes of what a file has published when it is taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRemoval {
    /// It is taken back, unless something newer has come from elsewhere.
    #[default]
    Retract,
    /// It stays published.
    Keep,
}

/// What came of a request.
#[derive(Debug)]
pub enum Upkept<T> {
    /// It was carried out here.
    Done(T),
    /// Another process is at it, and carries it out.
    AlreadyInProgress,
}

/// The definitions of a store, as one process looks after them. Every method may block.
pub struct Definitions {
    store: Arc<dyn Store>,
    plugins: Arc<Host>,
    clock: Arc<dyn Clock>,
    options: Options,
    /// Only where there are other processes.
    exclusive: Option<Exclusive>,
    files: Mutex<files::Files>,
}

impl Definitions {
    /// Nothing has been looked at yet. `io` is where locks are waited for.
    pub fn new(
        store: Arc<dyn Store>,
        plugins: Arc<Host>,
        clock: Arc<dyn Clock>,
        io: Handle,
        topology: &Topology,
        mut options: Options,
    ) -> Self {
        // What is published from a file is known by its path, wherever one looks from.
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
        }
    }

    /// The directories that files are read from.
    pub fn directories(&self) -> &[PathBuf] {
        &self.options.directories
    }

    /// Does something that one process at a time does; none if another is at it. On one machine
    /// there is nobody to keep out.
    fn exclusively<T>(
        &self,
        keys: &[Key],
        work: impl FnOnce(&dyn Fn() -> bool) -> T,
    ) -> Result<Option<T>, Error> {
        self.exclusively_within(Duration::ZERO, keys, work)
    }

    /// As [`Self::alone`], but waits so long for each lock.
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

    /// Indexes what starts a workflow, while nobody else does.
    fn index<T>(&self, workflow: &str, work: impl FnOnce() -> T) -> Result<T, Error> {
        match &self.exclusive {
            None => Ok(work()),
            Some(exclusive) => {
                exclusive.wait_and_do(&Key::index(workflow), refresh::INDEXING, work)
            }
        }
    }
}
