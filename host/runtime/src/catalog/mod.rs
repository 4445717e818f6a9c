//! Definitions made ready to run: compiled, with every node's plugin found and pinned.
//!
//! A prepared definition is named by what it runs and on which components, so that a plugin
//! loaded later changes only what starts later.

mod pins;
mod prepare;

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use windlass_engine::Graph;
use windlass_model::definition::UseRef;
use windlass_model::metrics::{Histogram, Metrics};
use windlass_model::schema::{Refused, Schema};
use windlass_model::secrets::Reference;
use windlass_model::{Class, Digest, Failure, TriggerType};
use windlass_plugins::Plugin;
use windlass_store::rows::{DefinitionRow, PinsRow};

use crate::codes;
use crate::error::Error;
use crate::transfer::malformed;

pub(crate) use pins::Pins;
pub(crate) use prepare::{answering_nodes, is_pure, schedule_inputs, uses};
pub use prepare::{check, warnings};

/// Prepared definitions that are kept at most. What is in use lives on outside.
const KEPT: usize = 1_000;

/// A definition, ready to run.
pub(crate) struct Prepared {
    pub(crate) definition: Arc<DefinitionRow>,
    pub(crate) pins: Arc<PinsRow>,
    pub(crate) name: Arc<str>,
    pub(crate) graph: Graph,
    /// By node.
    pub(crate) nodes: Vec<Executor>,
    /// Which component each use was pinned to.
    pub(crate) uses: Vec<(UseRef, Digest)>,
    /// What its input has to fit. A run that was started earlier goes on although the schema
    /// is refused now; none starts.
    pub(crate) input: Option<Result<Schema, Refused>>,
    /// Whether incidents start it: what such a run comes to is not announced in turn.
    pub(crate) hears_incidents: bool,
    /// The values that `vars` begin with, as JSON.
    pub(crate) vars: Vec<(String, bytes::Bytes)>,
}

/// Who runs a node.
pub(crate) struct Executor {
    /// The node's name.
    pub(crate) name: Arc<str>,
    /// The plugin, unless the host runs the node itself.
    pub(crate) plugin: Option<Arc<Plugin>>,
    /// The node type as the plugin knows it.
    pub(crate) node_type: Arc<str>,
    /// Why the node fails without being executed, if it does.
    pub(crate) refused: Option<Box<Failure>>,
    /// What the rendered configuration has to fit.
    pub(crate) config: Option<Arc<Schema>>,
    /// The secrets that the definition of the node refers to.
    pub(crate) secrets: Arc<[Reference]>,
    /// Whether the plugin can ask for memory or blobs.
    pub(crate) reads: bool,
    /// Whether an execution that is done again, because the host died before it was durable,
    /// goes unnoticed: nothing outside sees it, and it sees nothing that is not durable.
    pub(crate) pure: bool,
    /// How long it was executed, in microseconds, by the type of the trigger.
    times: [OnceLock<Arc<Histogram>>; TriggerType::ALL.len()],
}

impl Executor {
    /// Where an execution is recorded. Looked up when the first one ends.
    pub(crate) fn times(&self, kind: TriggerType, metrics: &Metrics) -> Option<&Histogram> {
        let place = TriggerType::ALL.iter().position(|other| *other == kind)?;
        let times = self.times.get(place)?;
        Some(times.get_or_init(|| metrics.execution(kind, &self.name)))
    }

    /// Checks a configuration that was rendered for this execution.
    pub(crate) fn check_config(&self, json: &[u8]) -> Result<(), Failure> {
        let Some(schema) = &self.config else {
            return Ok(());
        };
        let value = serde_json::from_slice(json).unwrap_or_default();
        let wrong = schema.check(&value, &format!("/nodes/{}/with", self.name));
        if wrong.is_empty() {
            return Ok(());
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

/// What has been prepared so far.
#[derive(Default)]
pub(crate) struct Catalog {
    known: Mutex<FxHashMap<(Digest, Digest), Arc<Prepared>>>,
    /// By definition, what was last prepared for a new run.
    latest: Mutex<FxHashMap<Digest, Arc<Prepared>>>,
}

impl Catalog {
    /// What is at hand.
    pub(crate) fn known(&self, definition: Digest, pins: Digest) -> Option<Arc<Prepared>> {
        self.known.lock().get(&(definition, pins)).cloned()
    }

    /// What is at hand, or else prepared from what the store has. Slow then.
    pub(crate) fn load(
        &self,
        store: &dyn windlass_store::Store,
        plugins: &windlass_plugins::Host,
        definition: Digest,
        pins: Digest,
    ) -> Result<Arc<Prepared>, Error> {
        if let Some(known) = self.known(definition, pins) {
            return Ok(known);
        }
        let missing = |what: &str, digest: Digest| {
            Error::Unreadable(format!(
                "the store has no {what} {digest}, though a run names it"
            ))
        };
        let row = store
            .definition(definition)?
            .ok_or_else(|| missing("definition", definition))?;
        let pinned = store.pins(pins)?.ok_or_else(|| missing("pins", pins))?;
        let prepared = Arc::new(prepare::from_store(row, pinned, store, plugins)?);
        Ok(self.keep(prepared))
    }

    /// What a run from another store goes on with: what is at hand, or else prepared from what
    /// came with it. Slow then.
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
        let prepared = prepare::from_store(definition, pins, store, plugins)?;
        if *prepared.name != *prepared.definition.name {
            return Err(malformed("its workflow has another name"));
        }
        Ok(self.keep(Arc::new(prepared)))
    }

    /// Prepares a definition for runs that start now, on the plugins there are now.
    pub(crate) fn prepare(
        &self,
        definition: DefinitionRow,
        plugins: &windlass_plugins::Host,
    ) -> Result<Arc<Prepared>, Error> {
        if let Some(current) = self.current(definition.digest, plugins) {
            return Ok(current);
        }
        let (parsed, pins) = prepare::resolve(&definition, plugins)?;
        let digest = definition.digest;
        let prepared = match self.known(digest, pins.digest) {
            Some(known) => known,
            None => self.keep(Arc::new(prepare::assemble(
                &parsed, definition, pins, plugins,
            )?)),
        };
        let mut latest = self.latest.lock();
        if latest.len() >= KEPT {
            latest.clear();
        }
        latest.insert(digest, Arc::clone(&prepared));
        Ok(prepared)
    }

    /// What was last prepared for a definition, if a run that starts now would get the same
    /// components. Starting a run goes through here, so nothing is parsed again.
    pub(crate) fn current(
        &self,
        definition: Digest,
        plugins: &windlass_plugins::Host,
    ) -> Option<Arc<Prepared>> {
        let latest = self.latest.lock().get(&definition).cloned()?;
        let registry = plugins.registry();
        let same = latest.uses.iter().all(|(asked, digest)| {
            registry
                .node(asked)
                .is_ok_and(|(plugin, _)| plugin.digest == *digest)
        });
        same.then_some(latest)
    }

    /// Forgets what was prepared with components that were loaded anew since. Runs that are in
    /// memory go on with them until they leave it.
    pub(crate) fn forget_replaced(&self, plugins: &windlass_plugins::Host) {
        let is_replaced = |executor: &Executor| {
            let plugin = executor.plugin.as_ref();
            plugin.is_some_and(|plugin| plugins.is_replaced(plugin))
        };
        let stays = |prepared: &Arc<Prepared>| !prepared.nodes.iter().any(is_replaced);
        self.known.lock().retain(|_, prepared| stays(prepared));
        self.latest.lock().retain(|_, prepared| stays(prepared));
    }

    pub(crate) fn keep(&self, prepared: Arc<Prepared>) -> Arc<Prepared> {
        let mut known = self.known.lock();
        if known.len() >= KEPT {
            known.retain(|_, kept| Arc::strong_count(kept) > 1);
        }
        let key = (prepared.definition.digest, prepared.pins.digest);
        Arc::clone(known.entry(key).or_insert(prepared))
    }
}
