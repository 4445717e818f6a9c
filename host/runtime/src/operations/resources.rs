//! Parts that only some operations need: plugins, keys, locks, definitions.
//!
//! A process that runs workflows has all of these from its start. A command of the command line has
//! none of them: each part is made for the first operation that needs it, so a command that only
//! reads the store starts no plugin host and opens no keyring.

use std::sync::Arc;

use windlass_keys::export::ExportKeys;
use windlass_locks::LockProvider;
use windlass_plugins::Host;

use crate::definitions::Definitions;
use crate::error::Error;
use crate::links::Links;
use crate::runtime::Runtime;

/// The locks to be listed.
pub struct Locks {
    /// The configured provider, even if this process takes no locks from it.
    pub provider: Arc<dyn LockProvider>,
    /// Whether the store is the provider: owning a run is holding its lock.
    pub ownership: bool,
}

/// Makes the parts that an operation needs, or returns existing ones. Every method may block, and
/// returns the same part each time. A part without an implementation is missing, which is an error.
pub trait Resources: Send + Sync {
    /// The plugin host. The components of an existing run come from the store, so the plugins of
    /// the directories need not be loaded.
    ///
    /// # Errors
    ///
    /// The configuration of plugins is wrong, or the host cannot start.
    fn host(&self) -> Result<Arc<Host>, Error>;

    /// The plugin host with the plugins of the directories loaded: new runs and published
    /// definitions are checked against them.
    ///
    /// # Errors
    ///
    /// As [`Self::host`].
    fn plugins(&self) -> Result<Arc<Host>, Error> {
        self.host()
    }

    /// Makes and reads resume links.
    ///
    /// # Errors
    ///
    /// There is no place for the keyring.
    fn links(&self) -> Result<Arc<Links>, Error> {
        Err(lacks("resume links"))
    }

    /// The keys that sign exports and verify imports.
    ///
    /// # Errors
    ///
    /// As [`Self::links`], or a trusted key cannot be read.
    fn exports(&self) -> Result<Arc<ExportKeys>, Error> {
        Err(lacks("a keyring"))
    }

    /// The locks to be listed.
    ///
    /// # Errors
    ///
    /// The settings of the locks are wrong.
    fn locks(&self) -> Result<Locks, Error> {
        Err(lacks("locks"))
    }

    /// The sources of definitions.
    ///
    /// # Errors
    ///
    /// As [`Self::plugins`] and [`Self::locks`].
    fn definitions(&self) -> Result<Arc<Definitions>, Error> {
        Err(lacks("definitions"))
    }
}

/// The parts of a process that runs workflows.
impl Resources for Runtime {
    fn host(&self) -> Result<Arc<Host>, Error> {
        Ok(Arc::clone(&self.shared.base.plugins))
    }

    fn links(&self) -> Result<Arc<Links>, Error> {
        Ok(Arc::clone(&self.shared.base.links))
    }

    fn exports(&self) -> Result<Arc<ExportKeys>, Error> {
        Ok(Arc::clone(&self.shared.base.exports))
    }
}

/// Resources that have plugins and no other part.
impl Resources for Arc<Host> {
    fn host(&self) -> Result<Self, Error> {
        Ok(Self::clone(self))
    }
}

fn lacks(what: &str) -> Error {
    Error::Start(std::io::Error::other(format!("this process has no {what}")))
}
