//! The parts that only some requests need. A command makes each part when a request needs it; a
//! host has most of them from its start.

use std::sync::Arc;

use parking_lot::Mutex;
use windlass_keys::export::ExportKeys;
use windlass_locks::LockProvider;
use windlass_plugins::Host;
use windlass_runtime::definitions::Definitions;
use windlass_runtime::operations::{Locks, Resources};
use windlass_runtime::{Error, Links, Runtime};
use windlass_store::Store;

use super::{Setup, compile};
use crate::error::classify;
use crate::output::Output;

/// A part that is made once. After a failure the next request tries again.
struct Part<T>(Mutex<Option<T>>);

impl<T> Default for Part<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Part<T> {
    fn get(&self, make: impl FnOnce() -> anyhow::Result<T>) -> Result<T, Error> {
        let mut part = self.0.lock();
        if let Some(made) = &*part {
            return Ok(made.clone());
        }
        Ok(part.insert(made(make())?).clone())
    }
}

fn made<T>(part: anyhow::Result<T>) -> Result<T, Error> {
    part.map_err(|error| Error::Setup(Box::new(classify(error))))
}

/// The resources of a command on a store.
pub(crate) struct CommandResources {
    setup: Arc<Setup>,
    store: Arc<dyn Store>,
    /// The output for warnings about plugins that cannot be loaded.
    output: Output,
    host: Part<Arc<Host>>,
    plugins: Part<Arc<Host>>,
    locks: Part<Arc<dyn LockProvider>>,
    definitions: Part<Arc<Definitions>>,
}

impl CommandResources {
    pub(crate) fn new(setup: Arc<Setup>, store: Arc<dyn Store>, output: Output) -> Self {
        Self {
            setup,
            store,
            output,
            host: Part::default(),
            plugins: Part::default(),
            locks: Part::default(),
            definitions: Part::default(),
        }
    }
}

impl Resources for CommandResources {
    fn host(&self) -> Result<Arc<Host>, Error> {
        self.host
            .get(|| self.setup.host(compile::noted(self.output)))
    }

    fn plugins(&self) -> Result<Arc<Host>, Error> {
        let host = self.host()?;
        self.plugins.get(|| {
            self.setup.load(&host, &self.output);
            Ok(host)
        })
    }

    fn links(&self) -> Result<Arc<Links>, Error> {
        made(self.setup.links().map(Arc::new).map_err(Into::into))
    }

    fn exports(&self) -> Result<Arc<ExportKeys>, Error> {
        made(self.setup.exports().map_err(Into::into))
    }

    fn locks(&self) -> Result<Locks, Error> {
        let provider = self.locks.get(|| self.setup.locks())?;
        Ok(self.setup.listed(provider))
    }

    fn definitions(&self) -> Result<Arc<Definitions>, Error> {
        let plugins = self.plugins()?;
        self.definitions.get(|| {
            let topology = self.setup.topology()?;
            let definitions = self
                .setup
                .definitions(&self.store, &plugins, &topology, true);
            Ok(Arc::new(definitions))
        })
    }
}

/// The resources of a host.
pub(crate) struct HostResources {
    setup: Arc<Setup>,
    runtime: Arc<Runtime>,
    definitions: Arc<Definitions>,
    /// The lock provider, if the host itself does not use one.
    locks: Part<Arc<dyn LockProvider>>,
}

impl HostResources {
    pub(crate) fn new(
        setup: Arc<Setup>,
        runtime: Arc<Runtime>,
        definitions: Arc<Definitions>,
    ) -> Self {
        Self {
            setup,
            runtime,
            definitions,
            locks: Part::default(),
        }
    }
}

impl Resources for HostResources {
    fn host(&self) -> Result<Arc<Host>, Error> {
        self.runtime.host()
    }

    fn links(&self) -> Result<Arc<Links>, Error> {
        Ok(Arc::clone(self.runtime.links()))
    }

    fn exports(&self) -> Result<Arc<ExportKeys>, Error> {
        Ok(Arc::clone(self.runtime.exports()))
    }

    fn locks(&self) -> Result<Locks, Error> {
        let provider = match self.runtime.topology().locks() {
            Some(locks) => Arc::clone(locks),
            None => self.locks.get(|| self.setup.locks())?,
        };
        Ok(self.setup.listed(provider))
    }

    fn definitions(&self) -> Result<Arc<Definitions>, Error> {
        Ok(Arc::clone(&self.definitions))
    }
}
