//! What only some operations of a client need: plugins, keys, locks, definitions.
//!
//! A process that runs workflows has all of these from its start. A command of the command line
//! has none of them: each is made when the first operation asks for it, so a command that only
//! reads the store starts no plugin host and opens no keyring.

use std::sync::Arc;

use windlass_keys::export::ExportKeys;
use windlass_locks::LockProvider;
use windlass_plugins::Host;

use crate::definitions::Definitions;
use crate::error::Error;
use crate::links::Links;
use crate::runtime::Runtime;

/// The locks that are listed.
pub struct Locks {
    /// The configured provider, whether or not this process takes locks of it.
    pub provider: Arc<dyn LockProvider>,
    /// The provider is the store: owning a run is holding its lock.
    pub ownership: bool,
}

/// Makes what an operation needs, or gives what is there. Every method may block, and answers the
/// same part each time. Without an implementation a part is missing, which is an error.
pub trait Resources: Send + Sync {
    /// The plugin host. The components of a run that exists come from the store, so the plugins
    /// of the directories need not be loaded.
    ///
    /// # Errors
    ///
    /// The configuration of plugins is wrong, or the host cannot start.
    fn host(&self) -> Result<Arc<Host>, Error>;

    /// The plugin host with the plugins of the directories loaded: what new runs and published
    /// definitions are checked against.
    ///
    /// # Errors
    ///
    /// As [`Self::host`].
    fn plugins(&self) -> Result<Arc<Host>, Error> {
        self.host()
    }

    /// What makes and reads resume links.
    ///
    /// # Errors
    ///
    /// The keyring has no place.
    fn links(&self) -> Result<Arc<Links>, Error> {
        Err(lacks("resume links"))
    }

    /// The keys that exports are signed with, and by which imports are known.
    ///
    /// # Errors
    ///
    /// As [`Self::links`], or a trusted key cannot be read.
    fn exports(&self) -> Result<Arc<ExportKeys>, Error> {
        Err(lacks("a keyring"))
    }

    /// The locks that are listed.
    ///
    /// # Errors
    ///
    /// The settings of the locks are wrong.
    fn locks(&self) -> Result<Locks, Error> {
        Err(lacks("locks"))
    }

    /// Where definitions come from.
    ///
    /// # Errors
    ///
    /// As [`Self::plugins`] and [`Self::locks`].
    fn definitions(&self) -> Result<Arc<Definitions>, Error> {
        Err(lacks("definitions"))
    }
}

/// What a process that runs workflows has by itself.
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

/// A client that has plugins, and nothing else.
impl Resources for Arc<Host> {
    fn host(&self) -> Result<Self, Error> {
        Ok(Self::clone(self))
    }
}

fn lacks(what: &str) -> Error {
    Error::Start(std::io::Error::other(format!("this client has no {what}")))
}
