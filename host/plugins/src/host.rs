//! The host: the shared state of all plugins, and the functions that load them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use wasmtime::Engine;
use wasmtime::component::Linker;
use windlass_model::metrics::Metrics;
use windlass_model::{Clock, Digest};

use crate::budget::core::PluginNo;
use crate::budget::{Budget, Evict};
use crate::codes;
use crate::engine;
use crate::error::{Error, chain};
use crate::folders::LoadEvent;
use crate::guest::Guest;
use crate::http::client::Client;
use crate::imports;
use crate::load;
use crate::options::Options;
use crate::places::{Fibers, Turns};
use crate::plugin::Plugin;
use crate::proof::Evidence;
use crate::registry::Registry;

/// Reaps of idle instances, one per second, in one period of the memory statistics.
const LOOKS_OF_PEAK: u64 = 60;

/// Hosts plugins. One per process is enough.
pub struct Host {
    pub(crate) shared: Arc<HostShared>,
    registry: Registry,
}

/// The shared state of all plugins.
pub(crate) struct HostShared {
    pub(crate) engine: Engine,
    /// For components without imports that may wait.
    pub(crate) plain: Linker<Guest>,
    /// For all others.
    pub(crate) waiting: Linker<Guest>,
    pub(crate) options: Options,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) io: Handle,
    /// For calls that have used up their quick start.
    pub(crate) turns: Turns,
    /// For calls on fibers.
    pub(crate) fibers: Fibers,
    /// Instances at once, warm ones included.
    pub(crate) instances: Arc<Semaphore>,
    /// Calls that wait because the number of instances is at its bound.
    pub(crate) waiting_for_instances: Arc<AtomicUsize>,
    /// How often idle instances were reaped.
    looks: AtomicU64,
    /// Inline calls that are slow at this moment.
    pub(crate) slow_inline: Arc<AtomicUsize>,
    pub(crate) http: Client,
    /// The key that authenticates this user's compiled code.
    pub(crate) code_key: load::CodeKey,
    /// The memory budget of guests.
    pub(crate) budget: Arc<Budget>,
    /// For reading components and wrapping modules, which takes little time.
    pub(crate) shapes: load::Bench,
    /// For compiling.
    pub(crate) compiles: load::Bench,
    /// Every living plugin, by its digest.
    pub(crate) plugins: Mutex<FxHashMap<Digest, Weak<Plugin>>>,
    /// The components in denied files, as far as this process has seen the files.
    made_of_denied: Mutex<FxHashSet<Digest>>,
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
const LIBRARY: [&str; 7] = [
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
        load::store::prepare(&options)?;
        let code_key = load::CodeKey::load(&options.code_key)?;
        let engine = engine::make(&options)?;
        let fault = |error: wasmtime::Error| Error::new(codes::ENGINE, "engine", chain(&error));
        let mut plain = Linker::new(&engine);
        imports::link_plain(&mut plain).map_err(fault)?;
        let mut waiting = Linker::new(&engine);
        imports::link_waiting(&mut waiting).map_err(fault)?;
        let fibers = options.pool.fibers;
        let turns = u32::try_from(options.threads / 2).unwrap_or(u32::MAX);
        let shared = Arc::new(HostShared {
            engine,
            plain,
            waiting,
            turns: Turns::new(turns, turns, Arc::clone(&clock)),
            fibers: Fibers::new(fibers, share(fibers), Arc::clone(&clock)),
            instances: Arc::new(Semaphore::new(options.pool.instances as usize)),
            waiting_for_instances: Arc::default(),
            looks: AtomicU64::new(0),
            slow_inline: Arc::default(),
            http: Client::new(options.http.clone(), Arc::clone(&clock))?,
            budget: Budget::new(
                options.memory_bytes,
                options.most_memory(),
                Arc::clone(&options.metrics),
            ),
            shapes: load::Bench::new(SHAPES),
            compiles: load::Bench::new(options.pool.compiles),
            code_key,
            plugins: Mutex::default(),
            made_of_denied: Mutex::default(),
            options,
            clock,
            io,
        });
        load::clean(&shared);
        engine::tick(Arc::downgrade(&shared))?;
        Ok(Arc::new(Self {
            shared,
            registry: Registry::default(),
        }))
    }

    /// The plugins for new work.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The help about a package of the node library that is missing; none for other packages.
    pub fn library_help(&self, package: &str) -> Option<String> {
        let why = &self.shared.options.library_missing;
        LIBRARY
            .contains(&package)
            .then(|| format!("`{package}` is a part of the node library: {why}"))
    }

    /// The secrets of the host, which workflows also use to verify callers.
    pub fn secrets(&self) -> &crate::options::Secrets {
        &self.shared.options.secrets
    }

    /// The metrics of this process.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.shared.options.metrics
    }

    /// Loads a file: checks, compiles and describes it, but does not register it. Takes as long as
    /// compiling takes, seconds for a large one: not for a thread on which others wait, and not
    /// from within asynchronous code.
    ///
    /// # Errors
    ///
    /// A code of [`codes`] that names the fault of the file.
    pub fn load_file(&self, file: &Path) -> Result<Arc<Plugin>, Error> {
        self.load_file_in(file, None)
    }

    /// As [`Host::load_file`]. With `haste`, the compiler has less time than it may take, and
    /// [`codes::POSTPONED`] says that this was too little.
    pub(crate) fn load_file_in(
        &self,
        file: &Path,
        haste: Option<Duration>,
    ) -> Result<Arc<Plugin>, Error> {
        let bytes = load::read(file, self.shared.options.max_component_bytes)?;
        let evidence = Evidence::beside(&self.shared, file, &bytes);
        self.load(file, bytes, evidence, haste)
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
        let evidence = Evidence::of(&self.shared, &bytes, signature);
        self.load(Path::new(name), bytes, evidence, None)
    }

    fn load(
        &self,
        file: &Path,
        bytes: Vec<u8>,
        evidence: Evidence,
        haste: Option<Duration>,
    ) -> Result<Arc<Plugin>, Error> {
        let loaded = load::load(&self.shared, file, bytes, evidence, haste);
        // The denied file may be seen after its component was loaded in another way.
        if matches!(&loaded, Err(error) if error.code == codes::DENIED) {
            self.registry.keep(|digest| !self.is_denied(digest));
        }
        loaded
    }

    /// Loads the components inside this program and registers them. Returns an event for each.
    pub(crate) fn load_bundle(&self) -> Vec<LoadEvent> {
        let names = self.shared.options.bundle.names();
        let load = |(file, digest): (PathBuf, Digest)| {
            let loaded = load::bundled(&self.shared, &file, &digest)
                .and_then(|plugin| self.registry.insert(&file, &plugin).map(|()| plugin));
            match loaded {
                Ok(plugin) => LoadEvent::Loaded {
                    file,
                    plugin,
                    replaced: None,
                },
                Err(error) => LoadEvent::Failed {
                    file,
                    error,
                    kept: None,
                },
            }
        };
        names.into_iter().map(load).collect()
    }

    /// Compiles one component inside this program for this processor, if the cache has no code of
    /// it, and replaces its plugin: the code in the program is for all processors of the
    /// architecture. `None`: none is left. Takes as long as compiling takes, seconds for a large one.
    ///
    /// # Errors
    ///
    /// The component does not compile, or its code cannot be kept; the plugin stays as it is.
    pub fn compile_bundle(&self) -> Result<Option<Arc<Plugin>>, Error> {
        if !self.shared.options.load_bundle {
            return Ok(None);
        }
        for (file, digest) in self.shared.options.bundle.names() {
            if let Some(plugin) = load::natively(&self.shared, &file, &digest)? {
                self.registry.replace(&plugin);
                return Ok(Some(plugin));
            }
        }
        Ok(None)
    }

    /// The plugin of this digest: the living one, or from the component store. For instances that
    /// began with a plugin that has been replaced since. May compile, like [`Host::load_file`].
    ///
    /// # Errors
    ///
    /// [`codes::DENIED`] if the configuration denies it, [`codes::NOT_STORED`] if the store does
    /// not have it, or the errors of [`Host::load_file`].
    pub fn plugin(&self, digest: &Digest) -> Result<Arc<Plugin>, Error> {
        self.shared.permit(digest, &digest.to_string())?;
        if let Some(plugin) = self.shared.living(digest) {
            return Ok(plugin);
        }
        load::stored(&self.shared, digest)
    }

    /// The bytes of a component, from the component store.
    ///
    /// # Errors
    ///
    /// [`codes::NOT_STORED`] if the store does not have it, or it cannot be read.
    pub fn component(&self, digest: &Digest) -> Result<Vec<u8>, Error> {
        load::bytes(&self.shared, digest)
    }

    /// Whether the component of a plugin was loaded again, because a proof has been found since.
    pub fn is_replaced(&self, plugin: &Arc<Plugin>) -> bool {
        let there = self.shared.living(&plugin.digest);
        there.is_some_and(|there| !Arc::ptr_eq(&there, plugin))
    }

    /// Whether the configuration denies a component: by its own digest, or by that of a file that
    /// contains it and that this process has seen.
    pub fn is_denied(&self, digest: &Digest) -> bool {
        self.shared.is_denied(digest)
    }

    /// The used part of the pool. None if the engine runs without a pool.
    pub fn pool_use(&self) -> Option<PoolUse> {
        let metrics = self.shared.engine.pooling_allocator_metrics()?;
        Some(PoolUse {
            instances: metrics.component_instances(),
            core_instances: metrics.core_instances(),
            memories: metrics.memories() as u64,
            tables: metrics.tables() as u64,
            stacks: metrics.stacks() as u64,
        })
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host")
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}

impl HostShared {
    /// Refuses denied components.
    pub(crate) fn permit(&self, digest: &Digest, subject: &str) -> Result<(), Error> {
        if !self.is_denied(digest) {
            return Ok(());
        }
        let message = format!("the component {digest} is denied by `deny` in [plugins]");
        Err(Error::new(codes::DENIED, subject, message))
    }

    pub(crate) fn is_denied(&self, digest: &Digest) -> bool {
        self.options.denied.contains(digest) || self.made_of_denied.lock().contains(digest)
    }

    /// Denies the component in a denied file: runs, imports and the store of a cluster know it by
    /// its own digest.
    pub(crate) fn deny(&self, component: Digest) {
        self.made_of_denied.lock().insert(component);
    }

    pub(crate) fn living(&self, digest: &Digest) -> Option<Arc<Plugin>> {
        self.plugins.lock().get(digest).and_then(Weak::upgrade)
    }

    /// Drops instances that have been idle for too long, and removes plugins that are gone.
    pub(crate) fn reap(&self) {
        self.peaks_pass();
        let idle = self.options.pool.slot_idle;
        if let Some(before) = self.clock.monotonic().checked_sub(idle) {
            self.drop_idle(before);
        }
    }

    /// The memory that calls used more than two minutes ago says nothing about the next call.
    fn peaks_pass(&self) {
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        if looks.is_multiple_of(LOOKS_OF_PEAK) {
            for plugin in self.living_plugins() {
                plugin.peak.pass();
            }
        }
    }

    /// Drops the instances of all plugins that have been idle since before this moment.
    pub(crate) fn drop_idle(&self, before: Duration) {
        for plugin in self.living_plugins() {
            plugin.slots.reap(before);
        }
    }

    /// All living plugins. Removes those that are gone.
    fn living_plugins(&self) -> Vec<Arc<Plugin>> {
        let mut living = Vec::new();
        self.plugins
            .lock()
            .retain(|_, plugin| match plugin.upgrade() {
                Some(plugin) => {
                    living.push(plugin);
                    true
                }
                None => false,
            });
        living
    }
}

impl Evict for HostShared {
    /// Drops large instances that have been idle for long first.
    fn evict(&self, of: Option<PluginNo>, bytes: u64) -> bool {
        let mut living = self.living_plugins();
        living.retain(|plugin| of.is_none_or(|no| plugin.terms.track.id == no));
        let now = self.clock.monotonic();
        let mut freed = 0;
        while freed < bytes {
            let oldest = living.iter().filter_map(|plugin| {
                let (since, held) = plugin.slots.oldest()?;
                let idle_ms = now.saturating_sub(since).as_millis() + 1;
                Some((u128::from(held).saturating_mul(idle_ms), since, plugin))
            });
            let Some((_, since, plugin)) = oldest.max_by_key(|(weight, ..)| *weight) else {
                break;
            };
            // Another call may have taken it meanwhile: then there is another one, or none.
            if let Some(slot) = plugin.slots.take_oldest(since) {
                freed += slot.store.data().limiter.account.held();
                drop(slot);
            }
        }
        freed > 0
    }
}

/// The most fibers of one plugin at once: three quarters of all, so that others get some, too.
fn share(fibers: u32) -> u32 {
    fibers - fibers / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_what_is_built() {
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
