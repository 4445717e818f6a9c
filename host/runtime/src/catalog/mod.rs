//! Definitions prepared to run: compiled, with the plugin of every node found and pinned.
//!
//! The key of a prepared definition is the definition and its pinned components, so that a plugin
//! loaded later changes only runs that start later.

mod answers;
mod checks;
mod file;
mod kept;
mod outside;
mod pins;
mod prepare;
mod requests;
#[cfg(test)]
mod tests;
mod texts;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use tokio::sync::Semaphore;
use windlass_engine::{Graph, NodeIx};
use windlass_model::definition::UseRef;
use windlass_model::metrics::{Histogram, Metrics, RunEvent, Tally};
use windlass_model::schema::{Refused, Schema};
use windlass_model::secrets::Marked;
use windlass_model::{Class, Digest, ExecutionStatus, Failure, TriggerType};
use windlass_plugins::Plugin;
use windlass_store::Store;
use windlass_store::rows::{DefinitionRow, ExecutionRow, PinsRow};

use crate::codes;
use crate::entry::Entry;
use crate::error::Error;
use crate::heavy::Heavy;

pub use file::check_file;
use kept::Kept;
pub(crate) use kept::for_definitions;
pub use outside::{Answering, Others, PublishedOthers};
pub(crate) use pins::Pins;
pub use prepare::{Report, cannot_run, check, warnings_before_run};
pub(crate) use prepare::{begins, is_pure, mistaken, uses};

/// A definition, prepared to run.
pub(crate) struct Prepared {
    pub(crate) definition: Arc<DefinitionRow>,
    pub(crate) pins: Arc<PinsRow>,
    pub(crate) name: Arc<str>,
    pub(crate) graph: Graph,
    /// By the number of the node; none for a former node.
    pub(crate) nodes: Vec<Option<Executor>>,
    /// The component to which each use is pinned.
    pub(crate) uses: Vec<(UseRef, Digest)>,
    /// The generation of the registry in which runs that start were last known to get these
    /// components.
    current_in: AtomicU64,
    /// The schema of its input. If the schema is refused now, runs that started earlier continue,
    /// and no run starts.
    pub(crate) input: Option<Result<Schema, Refused>>,
    /// The triggers by `http`, and those that make an input of an event, by key.
    pub(crate) entries: BTreeMap<String, Entry>,
    /// Whether an incident starts its runs: incidents of these runs are not announced.
    pub(crate) hears_incidents: bool,
    /// The initial values of `vars`, as JSON.
    pub(crate) vars: Vec<(String, Bytes)>,
    /// An estimate of the memory that all of this takes, in bytes, except for components.
    pub(crate) weight: u64,
    /// The counts of its runs. Looked up by the first one.
    pub(crate) runs: OnceLock<Arc<Tally>>,
}

impl Prepared {
    /// Whether its definition is large.
    pub(crate) fn is_large(&self) -> bool {
        self.definition.json.len() > LARGE_BYTES
    }

    /// The executor of a node.
    pub(crate) fn executor(&self, node: NodeIx) -> Option<&Executor> {
        self.nodes.get(node.at())?.as_ref()
    }

    /// Counts an event of a run.
    pub(crate) fn count(&self, event: RunEvent, metrics: &Metrics) {
        let runs = self.runs.get_or_init(|| metrics.runs(&self.name));
        runs.add(event as usize, 1);
    }

    /// Counts an execution by its status, and records how long it took.
    pub(crate) fn count_execution(&self, record: &ExecutionRow, metrics: &Metrics) {
        let Some(executor) = self.executor(NodeIx(record.node)) else {
            return;
        };
        let count = executor
            .count
            .get_or_init(|| metrics.executions(&self.name, &executor.name));
        count.add(record.status as usize, 1);
        // A cancelled execution did not end by itself.
        if record.status != ExecutionStatus::Cancelled
            && let Some(times) = executor.times(record.kind, metrics)
        {
            times.record(record.took_us);
        }
    }
}

/// The executor of a node.
pub(crate) struct Executor {
    /// The node's name.
    pub(crate) name: Arc<str>,
    /// The plugin, unless the host runs the node itself.
    pub(crate) plugin: Option<Arc<Plugin>>,
    /// The name of the node type within the plugin.
    pub(crate) node_type: Arc<str>,
    /// The failure of a node that fails without being executed.
    pub(crate) refused: Option<Box<Failure>>,
    /// The schema of the rendered configuration.
    pub(crate) config: Option<Arc<Schema>>,
    /// The configuration, if it has no expressions, and its schema adds defaults to it.
    pub(crate) completed: Option<Bytes>,
    /// The secrets that the definition of the node refers to.
    pub(crate) secrets: Arc<[Marked]>,
    /// Whether the plugin can read memory or blobs.
    pub(crate) reads: bool,
    /// Whether an execution can be repeated without a trace if the host dies before its commit is
    /// durable: it has no outside effects, and reads only durable data.
    pub(crate) pure: bool,
    /// Execution times in microseconds, by the type of the trigger. Made by the first execution.
    times: OnceLock<Box<Times>>,
    /// Executions by status. Looked up by the first one.
    count: OnceLock<Arc<Tally>>,
}

/// Histograms, by the type of the trigger.
type Times = [OnceLock<Arc<Histogram>>; TriggerType::ALL.len()];

impl Executor {
    /// The histogram for an execution. It is looked up when the first execution ends.
    fn times(&self, kind: TriggerType, metrics: &Metrics) -> Option<&Histogram> {
        let place = TriggerType::ALL.iter().position(|other| *other == kind)?;
        let times = self.times.get_or_init(Box::default).get(place)?;
        Some(times.get_or_init(|| metrics.execution(kind, &self.name)))
    }

    /// A configuration with the names of secrets in the places of their marks.
    pub(crate) fn named(&self, config: &Bytes) -> Bytes {
        if self.secrets.is_empty() {
            return config.clone();
        }
        let named = std::str::from_utf8(config);
        let named = named.map(|config| windlass_model::secrets::names(config, &self.secrets));
        named.map_or_else(|_| config.clone(), Bytes::from)
    }

    /// The rendered configuration of an execution, completed by its defaults and checked.
    pub(crate) fn configured(&self, json: Bytes) -> Result<Bytes, Failure> {
        let Some(schema) = &self.config else {
            return Ok(json);
        };
        let place = format!("/nodes/{}/with", self.name);
        let (json, wrong) = match schema.complete(&json, &place) {
            Ok(completed) => {
                let json = completed.map_or(json, Bytes::from);
                let value = serde_json::from_slice(&json).unwrap_or_default();
                let wrong = schema.check(&value, &place);
                (json, wrong)
            }
            Err(found) => (json, vec![*found]),
        };
        if wrong.is_empty() {
            return Ok(json);
        }
        let all: Vec<String> = wrong
            .iter()
            .map(|diagnostic| format!("{}: {}", diagnostic.place.pointer, diagnostic.message))
            .collect();
        Err(Failure::new(
            Class::Invalid,
            codes::CONFIG_INVALID,
            all.join("; "),
        ))
    }
}

/// Definitions over this size, in bytes of canonical JSON, are large.
const LARGE_BYTES: usize = 64 * 1024;

/// The definitions prepared so far, bounded by the memory that they take.
pub(crate) struct Catalog {
    kept: Mutex<Kept>,
    /// Whether the definitions of runs in memory are beyond the bound.
    is_over: AtomicBool,
    /// Prepare large definitions: reading and compiling one takes many times the memory of its file,
    /// besides the result.
    heavy: Heavy,
    /// Bounds the threads that prepare definitions for claimed runs. They may wait for each other,
    /// so there are fewer than threads that may block.
    pub(crate) threads: Arc<Semaphore>,
}

impl Default for Catalog {
    fn default() -> Self {
        Self::of(Kept::new(Self::DEFAULT_BYTES, None))
    }
}

impl Catalog {
    /// The memory of the prepared definitions of a process that runs none.
    const DEFAULT_BYTES: u64 = 64 << 20;

    /// Threads that prepare definitions for claimed runs at once.
    const THREADS: usize = 32;

    /// A catalog whose definitions take at most so many bytes, except for those that runs in memory
    /// use.
    pub(crate) fn new(bytes: u64, metrics: Arc<Metrics>) -> Self {
        Self::of(Kept::new(bytes, Some(metrics)))
    }

    fn of(kept: Kept) -> Self {
        Self {
            kept: Mutex::new(kept),
            is_over: AtomicBool::new(false),
            heavy: Heavy::half("prepare"),
            threads: Arc::new(Semaphore::new(Self::THREADS)),
        }
    }

    /// A definition that is already prepared.
    pub(crate) fn known(&self, definition: Digest, pins: Digest) -> Option<Arc<Prepared>> {
        self.kept.lock().known((definition, pins))
    }

    /// A prepared definition. If it is not cached, it is prepared from the store, which is slow.
    pub(crate) fn load(
        &self,
        store: &dyn windlass_store::Store,
        plugins: &windlass_plugins::Host,
        definition: Digest,
        pins: Digest,
    ) -> Result<Arc<Prepared>, Error> {
        let loaded = self.load_if(&|_| true, store, plugins, definition, pins)?;
        loaded.ok_or_else(|| Error::Unreadable(format!("the definition {definition} has no room")))
    }

    /// As [`Self::load`]. None: the definition is large and not cached, and there is no room for it while
    /// the definitions of runs in memory are so many bytes beyond their bound.
    pub(crate) fn load_if(
        &self,
        has_room: &(dyn Fn(u64) -> bool + Sync),
        store: &dyn windlass_store::Store,
        plugins: &windlass_plugins::Host,
        definition: Digest,
        pins: Digest,
    ) -> Result<Option<Arc<Prepared>>, Error> {
        if let Some(known) = self.known(definition, pins) {
            return Ok(Some(known));
        }
        let missing = |what: &str, digest: Digest| {
            Error::Unreadable(format!(
                "the store has no {what} {digest}, though a run names it"
            ))
        };
        let row = store
            .definition(definition)?
            .ok_or_else(|| missing("definition", definition))?;
        let is_large = row.json.len() > LARGE_BYTES;
        let pinned = store.pins(pins)?.ok_or_else(|| missing("pins", pins))?;
        self.by_size(row.json.len(), move || {
            // Another thread may have prepared it meanwhile.
            if let Some(known) = self.known(definition, pins) {
                return Ok(Some(known));
            }
            // One that was prepared before this one may have taken the room.
            if is_large && !has_room(self.trim()) {
                return Ok(None);
            }
            let prepared = Arc::new(prepare::from_store(row, pinned, store, plugins)?);
            Ok(Some(self.keep(prepared)))
        })
    }

    /// Drops definitions beyond the bound that no run in memory uses any more. Returns the bytes beyond
    /// the bound. Cheap within it.
    pub(crate) fn trim(&self) -> u64 {
        if !self.was_over() {
            return 0;
        }
        let mut kept = self.kept.lock();
        kept.trim();
        self.noted(&kept)
    }

    /// Whether the definitions of runs in memory were beyond the bound at the last look.
    pub(crate) fn was_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn noted(&self, kept: &Kept) -> u64 {
        self.is_over.store(kept.excess() > 0, Ordering::Relaxed);
        kept.excess()
    }

    /// Prepares a definition of so many bytes of canonical JSON: a large one on few threads, so that
    /// it may wait. Blocks.
    fn by_size<T: Send>(&self, bytes: usize, prepare: impl FnOnce() -> T + Send) -> T {
        if bytes > LARGE_BYTES {
            self.heavy.run(prepare)
        } else {
            prepare()
        }
    }

    /// The prepared definition of a run from another store. If it is not cached, it is prepared
    /// from the imported document, which is slow.
    pub(crate) fn carried(
        &self,
        definition: DefinitionRow,
        pins: PinsRow,
        store: &dyn windlass_store::Store,
        plugins: &windlass_plugins::Host,
    ) -> Result<Arc<Prepared>, Error> {
        if let Some(known) = self.known(definition.digest, pins.digest) {
            return Ok(known);
        }
        let prepared = self.by_size(definition.json.len(), move || {
            prepare::from_store(definition, pins, store, plugins)
        })?;
        if *prepared.name != *prepared.definition.name {
            return Err(Error::bad_export("its workflow has another name"));
        }
        Ok(self.keep(Arc::new(prepared)))
    }

    /// The definition with this digest, which the store has, for runs that start now. The store is
    /// read only if the definition is not prepared yet.
    pub(crate) fn stored(
        &self,
        digest: Digest,
        store: &dyn Store,
        plugins: &windlass_plugins::Host,
    ) -> Result<Arc<Prepared>, Error> {
        if let Some(current) = self.current(digest, plugins) {
            return Ok(current);
        }
        let row = store.definition(digest)?.ok_or_else(|| {
            Error::Unreadable(format!(
                "the store has no definition {digest}, though it is published"
            ))
        })?;
        let workflow = row.name.clone();
        let prepared = self.prepare_checking(row, plugins, false);
        prepared.map_err(|error| match error {
            Error::Definition(mistakes) => Error::CannotRun { workflow, mistakes },
            other => other,
        })
    }

    /// Prepares a definition that comes with a request for a run, and that [`Self::current`] does not
    /// have. A definition that is new to the store is checked as for publishing; one that was
    /// published or has run is not refused for what only a newer check finds. Blocks, for up to 3 s
    /// for each plugin.
    pub(crate) fn given(
        &self,
        definition: DefinitionRow,
        store: &dyn Store,
        plugins: &windlass_plugins::Host,
    ) -> Result<Arc<Prepared>, Error> {
        let is_new = store.definition(definition.digest)?.is_none();
        self.prepare_checking(definition, plugins, is_new)
    }

    /// Prepares a definition for runs that start now, on the current plugins.
    pub(crate) fn prepare(
        &self,
        definition: DefinitionRow,
        plugins: &windlass_plugins::Host,
    ) -> Result<Arc<Prepared>, Error> {
        match self.current(definition.digest, plugins) {
            Some(current) => Ok(current),
            None => self.prepare_checking(definition, plugins, false),
        }
    }

    fn prepare_checking(
        &self,
        definition: DefinitionRow,
        plugins: &windlass_plugins::Host,
        is_new: bool,
    ) -> Result<Arc<Prepared>, Error> {
        self.by_size(definition.json.len(), move || {
            // Another thread may have prepared it meanwhile.
            if let Some(current) = self.current(definition.digest, plugins) {
                return Ok(current);
            }
            self.prepare_now(definition, plugins, is_new)
        })
    }

    fn prepare_now(
        &self,
        definition: DefinitionRow,
        plugins: &windlass_plugins::Host,
        is_new: bool,
    ) -> Result<Arc<Prepared>, Error> {
        let read = windlass_model::file::read_canonical(&definition.json);
        let read = read.map_err(Error::Definition)?;
        if is_new {
            let mistakes = prepare::runnable(&read, plugins).mistakes;
            if !mistakes.is_empty() {
                return Err(prepare::mistaken(&read, mistakes, plugins));
            }
        }
        let pins = prepare::resolve(&read, plugins)?;
        let prepared = match self.known(definition.digest, pins.digest) {
            Some(known) => known,
            None => self.keep(Arc::new(prepare::assemble(
                &read, definition, pins, plugins, is_new,
            )?)),
        };
        self.kept.lock().set_latest(&prepared);
        Ok(prepared)
    }

    /// The version last prepared for a definition, if a run that starts now would get the same
    /// components. A start uses this, so that it need not parse the definition again.
    pub(crate) fn current(
        &self,
        definition: Digest,
        plugins: &windlass_plugins::Host,
    ) -> Option<Arc<Prepared>> {
        let latest = self.kept.lock().latest(definition)?;
        let registry = plugins.registry();
        let generation = registry.generation();
        if latest.current_in.load(Ordering::Relaxed) == generation {
            return Some(latest);
        }
        let same = latest.uses.iter().all(|(asked, digest)| {
            registry
                .node(asked)
                .is_ok_and(|(plugin, _)| plugin.digest == *digest)
        });
        if same {
            latest.current_in.store(generation, Ordering::Relaxed);
        }
        same.then_some(latest)
    }

    /// Drops definitions prepared with components that have been replaced since. Runs in memory
    /// keep using them until they leave memory. A definition with a component that is no longer for
    /// new work is dropped as soon as no run in memory uses it: it would keep the code of the
    /// component in memory. A run that comes back takes the component from the component store.
    pub(crate) fn forget_replaced(&self, plugins: &windlass_plugins::Host) {
        let registered = plugins.registry().iter().into_iter();
        let registered: FxHashSet<Digest> = registered.map(|plugin| plugin.digest).collect();
        let stays = |prepared: &Prepared, is_used: bool| {
            let executors = prepared.nodes.iter().flatten();
            let mut used = executors.filter_map(|executor| executor.plugin.as_ref());
            used.all(|plugin| {
                !plugins.is_replaced(plugin) && (is_used || registered.contains(&plugin.digest))
            })
        };
        self.kept.lock().retain(stays);
    }

    pub(crate) fn keep(&self, prepared: Arc<Prepared>) -> Arc<Prepared> {
        let mut kept = self.kept.lock();
        let prepared = kept.keep(prepared);
        self.noted(&kept);
        prepared
    }
}
