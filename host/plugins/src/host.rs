//! The host: the shared state of all plugins, and the functions that load them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use semver::Version;
use tokio::runtime::Handle;
use wasmtime::component::Linker;
use windlass_model::metrics::Metrics;
use windlass_model::{Clock, Digest};

use crate::call;
use crate::call::plugin::Plugin;
use crate::call::shared::CallShared;
use crate::codes;
use crate::description::Description;
use crate::error::{Error, chain};
use crate::grant::code_key::CodeKey;
use crate::grant::proof::Evidence;
use crate::grant::secrets::Secrets;
use crate::grant::settings::{Limits, Settings};
use crate::grant::{Rules, Table};
use crate::hold::Bounds;
use crate::hold::budget::Budget;
use crate::load::{self, LoadShared, Loaded, Patience, bundle, engine};
use crate::offer::http::client::Client;
use crate::offer::{Offer, imports};
use crate::options::Options;
use crate::queue::{Awaited, Queue, Source};
use crate::registry::Registry;

/// Hosts plugins. One per process is enough.
pub struct Host {
    pub(crate) load: Arc<LoadShared>,
    registry: Registry,
    /// The components that wait for the compiler.
    pub(crate) queue: Arc<Queue>,
    /// The files of the folders that cannot be loaded. `folders.rs` bounds their number.
    failures: Mutex<BTreeMap<PathBuf, FileFailure>>,
    /// Whether the components inside the program are loaded.
    pub(crate) load_bundle: bool,
    /// Why a package of the node library may be missing, and the remedy, for messages.
    library_missing: String,
    /// The largest limit of table elements that the engine was made for.
    most_elements: usize,
    /// The largest memory of a call that the budget was made for.
    most_memory: u64,
}

/// A limit that only a restart can apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a limit of memory or table elements is higher than any was at the start")]
pub struct TooHigh;

/// A file that could not be loaded when a look at the folders last tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFailure {
    /// The fault.
    pub error: Error,
    /// The digest of its previous plugin, which new work still gets.
    pub kept: Option<Digest>,
}

/// The used part of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUse {
    /// Component instances.
    pub instances: u64,
    /// Core instances inside them.
    pub core_instances: u64,
    /// Linear memories.
    pub memories: u64,
    /// Tables.
    pub tables: u64,
    /// Stacks of fibers.
    pub stacks: u64,
}

/// Components that are read at once, before they are compiled.
const SHAPES: usize = 1;

/// The packages of the node library.
pub const LIBRARY: [&str; 7] = [
    "audit",
    "chain-executor",
    "data",
    "events",
    "http",
    "human",
    "text",
];

impl Host {
    /// Starts the engine. Guests that wait run on `io`, whose timers and I/O have to be enabled.
    ///
    /// A thread that calls plugins inline needs a stack of at least 2 MiB.
    ///
    /// # Errors
    ///
    /// A directory of `options` cannot be made, or the engine does not start.
    pub fn start(options: Options, clock: Arc<dyn Clock>, io: Handle) -> Result<Arc<Self>, Error> {
        load::store::prepare(&options.store_dir, &options.cache_dir)?;
        let rules = Rules {
            key: CodeKey::load(&options.code_key)?,
            table: ArcSwap::from_pointee(Table {
                limits: options.limits,
                settings: options.settings,
                generation: 0,
            }),
            max_memory_bytes: options.pool.max_memory_bytes,
            library: options.library,
            denied: options.denied,
            made_of_denied: Mutex::default(),
            notes_dir: options.store_dir.clone(),
        };
        let elements = rules.most(|limits| limits.table_elements);
        let most_memory = rules.most_memory();
        let engine = engine::make(&options.pool, elements)?;
        let fault = |error: wasmtime::Error| Error::new(codes::ENGINE, "engine", chain(&error));
        let mut plain = Linker::new(&engine);
        imports::link_plain(&mut plain).map_err(fault)?;
        let mut waiting = Linker::new(&engine);
        imports::link_waiting(&mut waiting).map_err(fault)?;
        let budget = Budget::new(
            options.memory_bytes,
            most_memory,
            Arc::clone(&options.metrics),
        );
        let slow = (options.slow, options.max_slow_inline);
        let bounds = Bounds::new(&options.pool, options.threads, slow, budget, &clock);
        let offer = Offer {
            http: Client::new(options.http, Arc::clone(&clock))?,
            clock,
            secrets: options.secrets,
            grants_file: options.grants_file,
        };
        let (offer, bounds) = (Arc::new(offer), Arc::new(bounds));
        let calls = Arc::new(CallShared::new(engine, io, offer, bounds, &options.pool));
        let shared = Arc::new(LoadShared {
            calls: Arc::clone(&calls),
            rules,
            plain,
            waiting,
            store_dir: options.store_dir,
            cache_dir: options.cache_dir,
            bundle: options.bundle,
            max_component_bytes: options.max_component_bytes,
            compiler: options.compiler,
            compiling: options.compiling,
            quarantine_after: options.quarantine_after,
            metrics: options.metrics,
            shapes: load::Bench::new(SHAPES),
            compiles: load::Bench::new(options.pool.compiles),
            pool: options.pool,
        });
        load::clean(&shared);
        call::shared::tick(Arc::downgrade(&calls))?;
        Ok(Arc::new(Self {
            queue: Arc::new(Queue::new(shared.pool.compiles)),
            load: shared,
            registry: Registry::default(),
            failures: Mutex::default(),
            load_bundle: options.load_bundle,
            library_missing: options.library_missing,
            most_elements: elements,
            most_memory,
        }))
    }

    /// The plugins for new work.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The help about a package of the node library that is missing; none for other packages.
    pub fn library_help(&self, package: &str) -> Option<String> {
        let why = &self.library_missing;
        LIBRARY
            .contains(&package)
            .then(|| format!("`{package}` is a part of the node library: {why}"))
    }

    /// The secrets of the host, which workflows also use to verify callers.
    pub fn secrets(&self) -> &Secrets {
        &self.load.calls.offer.secrets
    }

    /// The metrics of this process.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.load.metrics
    }

    /// Loads a file: checks, compiles and describes it, but does not register it. Takes as long as
    /// compiling takes, seconds for a large one: not for a thread on which others wait, and not
    /// from within asynchronous code.
    ///
    /// # Errors
    ///
    /// A code of [`codes`] that names the fault of the file.
    pub fn load_file(&self, file: &Path) -> Result<Arc<Plugin>, Error> {
        warm(self.look_at(file, Patience::Whole)?, file)
    }

    /// As [`Host::load_file`], as far as the caller waits.
    pub(crate) fn look_at(&self, file: &Path, patience: Patience<'_>) -> Result<Loaded, Error> {
        let content = load::content(&self.load, file);
        self.obey(content.and_then(|content| load::load(&self.load, file, content, patience)))
    }

    /// As [`Host::load_file`], from memory. `name` replaces the file in messages; no file and no
    /// signature proves these bytes.
    ///
    /// # Errors
    ///
    /// A code of [`codes`] that names the fault of the bytes.
    pub fn load_bytes(&self, name: &str, bytes: Vec<u8>) -> Result<Arc<Plugin>, Error> {
        self.load_signed(name, bytes, None)
    }

    /// As [`Host::load_bytes`]; `signature`, in the format of minisign, may prove the bytes.
    ///
    /// # Errors
    ///
    /// A code of [`codes`] that names the fault of the bytes.
    pub fn load_signed(
        &self,
        name: &str,
        bytes: Vec<u8>,
        signature: Option<&str>,
    ) -> Result<Arc<Plugin>, Error> {
        let evidence = Evidence::of(&self.load.rules, &bytes, signature);
        let file = Path::new(name);
        let content = load::Content::of(&self.load, file, bytes, evidence);
        let load = |content| load::load(&self.load, file, content, Patience::Whole);
        warm(self.obey(content.and_then(load))?, file)
    }

    /// Removes denied components from the registry, after an error that may be about one: a denied
    /// file may be seen after its component was loaded in another way.
    pub(crate) fn obey<T>(&self, loaded: Result<T, Error>) -> Result<T, Error> {
        if matches!(&loaded, Err(error) if error.code == codes::DENIED) {
            self.registry.keep(|digest| !self.is_denied(digest));
        }
        loaded
    }

    /// Makes a [`Bundle`](crate::Bundle) of components, each with its name. Loads and compiles each
    /// of them.
    ///
    /// # Errors
    ///
    /// A component cannot be loaded, or cannot be compiled for the baseline.
    pub fn pack(&self, components: Vec<(String, Vec<u8>)>) -> Result<Vec<u8>, Error> {
        let load = |(name, bytes): (String, Vec<u8>)| {
            let plugin = self.load_bytes(&name, bytes)?;
            Ok((name, plugin.digest))
        };
        let loaded: Result<Vec<_>, Error> = components.into_iter().map(load).collect();
        bundle::pack(&self.load, &loaded?)
    }

    /// Compiles one component inside this program for this processor, if the cache has no code of
    /// it, and replaces its plugin: the code in the program is for all processors of the
    /// architecture. `None`: none is left. Takes as long as compiling takes, seconds for a large one.
    ///
    /// # Errors
    ///
    /// The component does not compile, or its code cannot be kept; the plugin stays as it is.
    pub fn compile_bundle(&self) -> Result<Option<Arc<Plugin>>, Error> {
        if !self.load_bundle {
            return Ok(None);
        }
        for (file, digest) in self.load.bundle.names() {
            if let Some(plugin) = load::natively(&self.load, &file, &digest)? {
                self.registry.replace(&plugin);
                return Ok(Some(plugin));
            }
        }
        Ok(None)
    }

    /// The plugin of this digest: the living one, or from the component store. For instances that
    /// began with a plugin that has been replaced since. May compile, like [`Host::load_file`],
    /// unless the host compiles behind the work ([`Host::compile_behind`]).
    ///
    /// # Errors
    ///
    /// [`codes::DENIED`] if the configuration denies it, [`codes::NOT_STORED`] if the store does
    /// not have it, [`codes::COMPILING`] if it is compiled behind the work, or the errors of
    /// [`Host::load_file`].
    pub fn plugin(&self, digest: &Digest) -> Result<Arc<Plugin>, Error> {
        self.load.rules.permit(digest, &digest.to_string())?;
        if let Some(plugin) = self.load.living(digest) {
            return Ok(plugin);
        }
        let patience = match self.queue.is_behind() {
            true => Patience::None,
            false => Patience::Whole,
        };
        match load::stored(&self.load, digest, patience)? {
            Loaded::Plugin(plugin) => Ok(plugin),
            Loaded::Cold(cold) => {
                let name = cold.name();
                self.queue.add(Source::Store, cold);
                self.queue.start(&self.load);
                let message = format!("{name} is being compiled");
                Err(Error::new(codes::COMPILING, digest.to_string(), message))
            }
        }
    }

    /// From now on, components are compiled on threads of their own, and what needs one gets
    /// [`codes::COMPILING`]. `finished` is called on these threads after each compilation, whose
    /// result the next look of the [`Folders`](crate::Folders) takes. Dropping the value ends the
    /// compilations that are in progress.
    #[must_use = "dropping it ends the compilations"]
    pub fn compile_behind(
        self: &Arc<Self>,
        finished: impl Fn() + Send + Sync + 'static,
    ) -> CompilingBehind {
        self.queue.begin(Arc::new(finished));
        CompilingBehind(Arc::clone(self))
    }

    /// The components that wait for the compiler, or for the look that loads them.
    pub fn awaited(&self) -> Vec<Awaited> {
        self.queue.awaited()
    }

    /// The files of the folders that cannot be loaded, by their paths.
    pub fn failures(&self) -> BTreeMap<PathBuf, FileFailure> {
        self.failures.lock().clone()
    }

    /// Records the result of a look for a file: its failure, or none.
    pub(crate) fn note(&self, file: &Path, failure: Option<FileFailure>) {
        let mut failures = self.failures.lock();
        match failure {
            Some(failure) => drop(failures.insert(file.to_owned(), failure)),
            None => drop(failures.remove(file)),
        }
    }

    /// Waits until a compilation has ended whose result no look has taken, and at most so long.
    /// Returns whether components are still to be compiled or taken.
    pub fn await_compiled(&self, at_most: Duration) -> bool {
        self.queue.wait(at_most)
    }

    /// Why a package may be missing: a component is not compiled yet that is it, or that may be it.
    pub fn may_come(&self, package: &str) -> Option<String> {
        self.queue.may_come(package)
    }

    /// The consumer that has to be asked about triggers, and that is not compiled yet: until then no
    /// trigger may pass it by.
    pub fn awaited_consumer(&self) -> Option<String> {
        if self.queue.is_empty() {
            return None;
        }
        let rules = self.load.rules.now();
        let granted = rules
            .settings
            .iter()
            .filter(|(_, settings)| settings.grants.consumer);
        let missing = granted.filter(|(package, _)| !self.registry.has(package));
        missing
            .filter_map(|(package, _)| self.may_come(package))
            .next()
    }

    /// The bytes of a component, from the component store.
    ///
    /// # Errors
    ///
    /// [`codes::NOT_STORED`] if the store does not have it, or it cannot be read.
    pub fn component(&self, digest: &Digest) -> Result<Vec<u8>, Error> {
        load::bytes(&self.load, digest)
    }

    /// The package and the version of a component that was loaded on this machine before. Compiles
    /// nothing.
    pub fn name_of(&self, digest: &Digest) -> Option<(String, Version)> {
        let name = |it: &Description| (it.package.clone(), it.version.clone());
        match self.load.living(digest) {
            Some(plugin) => Some(name(&plugin.description)),
            None => load::known(&self.load, digest).as_ref().map(name),
        }
    }

    /// Replaces the permissions and limits of plugins, and the secrets. The next look at the plugin
    /// folders makes the plugins again; a run in memory keeps its plugins until it leaves memory.
    ///
    /// # Errors
    ///
    /// A limit is higher than the engine was started for: only a restart can apply it. Nothing
    /// changes then.
    pub fn reconfigure(
        &self,
        limits: Limits,
        settings: BTreeMap<String, Settings>,
        secrets: Secrets,
    ) -> Result<(), TooHigh> {
        let rules = &self.load.rules;
        let new = Table {
            limits,
            settings,
            generation: rules.now().generation + 1,
        };
        let elements = |table: &Table| table.most(|limits| limits.table_elements);
        if elements(&new) > self.most_elements || new.most_memory() > self.most_memory {
            return Err(TooHigh);
        }
        self.load.calls.offer.secrets.replace(secrets);
        rules.table.store(Arc::new(new));
        Ok(())
    }

    /// How often [`Host::reconfigure`] has changed the rules.
    pub(crate) fn generation(&self) -> u64 {
        self.load.rules.now().generation
    }

    /// Whether the component of a plugin was loaded again, because a proof has been found since.
    pub fn is_replaced(&self, plugin: &Arc<Plugin>) -> bool {
        let there = self.load.calls.living(&plugin.digest);
        there.is_some_and(|there| !Arc::ptr_eq(&there, plugin))
    }

    /// Whether the configuration denies a component: by its own digest, or by that of a file that
    /// contains it and that this process has seen.
    pub fn is_denied(&self, digest: &Digest) -> bool {
        self.load.rules.is_denied(digest)
    }

    /// The used part of the pool. None if the engine runs without a pool.
    pub fn pool_use(&self) -> Option<PoolUse> {
        let metrics = self.load.calls.engine.pooling_allocator_metrics()?;
        Some(PoolUse {
            instances: metrics.component_instances(),
            core_instances: metrics.core_instances(),
            memories: metrics.memories() as u64,
            tables: metrics.tables() as u64,
            stacks: metrics.stacks() as u64,
        })
    }
}

/// The plugin that a caller with patience gets.
fn warm(loaded: Loaded, file: &Path) -> Result<Arc<Plugin>, Error> {
    match loaded {
        Loaded::Plugin(plugin) => Ok(plugin),
        Loaded::Cold(_) => {
            let message = "its code is not compiled yet";
            let subject = file.display().to_string();
            Err(Error::new(codes::COMPILING, subject, message))
        }
    }
}

/// Compiles behind the work until it is dropped.
pub struct CompilingBehind(Arc<Host>);

impl Drop for CompilingBehind {
    fn drop(&mut self) {
        self.0.queue.end();
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host")
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_has_the_packages_of_the_folder() {
        let plugins = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins");
        let entries = std::fs::read_dir(plugins).unwrap();
        let folders = entries.map(|entry| entry.unwrap().path());
        let packages = folders.filter(|path| path.join("Cargo.toml").is_file());
        let names = packages.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        assert_eq!(names, LIBRARY);
    }
}
