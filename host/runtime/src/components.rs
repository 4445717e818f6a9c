//! Plugins that reach the processes of a cluster through their store.
//!
//! Whatever a process has loaded from its folder it keeps in the store for the others, and what
//! others keep there it loads, under the grants that its own configuration gives. A run names
//! its components by digest, so whichever process takes it over finds them.
//!
//! A file of the process's own is preferred to what the store has of the same version.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustc_hash::FxHashSet;
use windlass_model::Digest;
use windlass_plugins::{Host, Plugin};
use windlass_store::components::NewComponent;
use windlass_store::{Store, Write};

use crate::error::Error;
use crate::queue::Bell;
use crate::shared::Shared;

/// Components that are looked at in one go.
const PAGE: u32 = 64;

/// From one look to the next, at least.
const PACE: Duration = Duration::from_secs(1);

/// The component of this digest: what is here, or what somebody keeps in the store. May
/// compile it.
pub(crate) fn find(
    store: &dyn Store,
    plugins: &Host,
    digest: &Digest,
) -> Result<Arc<Plugin>, Error> {
    let missing = match plugins.plugin(digest) {
        Err(error) if error.code == windlass_plugins::codes::NOT_STORED => error,
        found => return Ok(found?),
    };
    let Some(bytes) = store.component(*digest)? else {
        return Err(missing.into());
    };
    let plugin = plugins.load_bytes(&digest.to_string(), bytes.to_vec())?;
    // What was damaged on its way is another component.
    if plugin.digest == *digest {
        Ok(plugin)
    } else {
        Err(missing.into())
    }
}

/// Exchanges components until it is dropped.
pub(crate) struct Sharing {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Sharing {
    /// Begins, with a look every so often; `changed` is called when plugins have come.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        every: Duration,
        changed: impl Fn() + Send + 'static,
    ) -> std::io::Result<Self> {
        let bell = Arc::new(Bell::default());
        let (rung, store) = (Arc::clone(&bell), Arc::clone(&shared.store));
        let mut exchange = Exchange::new(store, Arc::clone(&shared.plugins));
        let thread = std::thread::Builder::new()
            .name("windlass-components".to_owned())
            .spawn(move || {
                loop {
                    match exchange.round() {
                        Ok(true) => changed(),
                        Ok(false) => {}
                        Err(error) => {
                            tracing::warn!(code = %error.code(), %error, "cannot exchange plugins");
                        }
                    }
                    if !rung.pause(PACE) || !rung.wait(every) {
                        return;
                    }
                }
            })?;
        Ok(Self {
            bell,
            thread: Some(thread),
        })
    }

    /// What asks it to look now.
    pub(crate) fn bell(&self) -> Arc<Bell> {
        Arc::clone(&self.bell)
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        self.bell.stop();
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by its own hook.
            let _ = thread.join();
        }
    }
}

/// What a process has given and taken.
struct Exchange {
    store: Arc<dyn Store>,
    plugins: Arc<Host>,
    /// The newest that was looked at.
    generation: i64,
    /// What the store has.
    known: FxHashSet<Digest>,
}

impl Exchange {
    fn new(store: Arc<dyn Store>, plugins: Arc<Host>) -> Self {
        Self {
            store,
            plugins,
            generation: 0,
            known: FxHashSet::default(),
        }
    }

    /// Takes what is new, and gives what nobody has given. Answers whether something was taken.
    fn round(&mut self) -> Result<bool, Error> {
        let mut taken = false;
        loop {
            let page = self.store.components(self.generation, PAGE)?;
            for row in &page {
                if self.plugins.registry().by_digest(&row.digest).is_none() {
                    taken |= self.take(row.digest, &row.name, &row.version)?;
                }
                self.generation = row.generation;
                self.known.insert(row.digest);
            }
            if page.len() < PAGE as usize {
                break;
            }
        }
        for plugin in self.plugins.registry().iter() {
            if !self.known.contains(&plugin.digest) {
                self.give(&plugin)?;
                self.known.insert(plugin.digest);
            }
        }
        Ok(taken)
    }

    /// Loads what somebody else has given. What cannot be used is said once.
    fn take(&self, digest: Digest, name: &str, version: &str) -> Result<bool, Error> {
        let plugin = match find(self.store.as_ref(), &self.plugins, &digest) {
            Ok(plugin) => plugin,
            Err(Error::Store(error)) => return Err(error.into()),
            Err(error) => {
                tracing::warn!(plugin = name, version, %digest, %error, "cannot load a plugin that another process has");
                return Ok(false);
            }
        };
        // Of one version the newest that was given is used, in the place of the one before.
        let place = PathBuf::from(format!("store:{name}@{version}"));
        match self.plugins.registry().insert(&place, &plugin) {
            Ok(()) => {
                tracing::info!(plugin = name, version, %digest, "loaded from the store");
                Ok(true)
            }
            Err(error) => {
                tracing::debug!(plugin = name, version, %digest, %error, "a file of this process is used instead");
                Ok(false)
            }
        }
    }

    fn give(&self, plugin: &Plugin) -> Result<(), Error> {
        let new = NewComponent {
            digest: plugin.digest,
            name: plugin.description.package.clone(),
            version: plugin.description.version.to_string(),
            bytes: self.plugins.component(&plugin.digest)?.into(),
        };
        match self.store.write(Write::KeepComponent(Box::new(new))) {
            Ok(_) => {
                self.store.notify();
                Ok(())
            }
            Err(error) if error.code == windlass_store::codes::CONTRADICTION => {
                tracing::warn!(plugin = plugin.name(), %error, "others cannot be given a plugin");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}
