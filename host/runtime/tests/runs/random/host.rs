//! A process on a store that may be closed and opened again.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use windlass_model::definition::NodeKind;
use windlass_model::stimulus::{Delivery, Stimulus};
use windlass_model::{ExecutionStatus, Payload, RunId};
use windlass_plugins::Host;
use windlass_runtime::operations::Given;
use windlass_runtime::{
    BurstBounds, Operations, Options, Runtime, Scope, Settings, StartRequest, SystemClock,
    Topology, operations,
};
use windlass_store::published::{NewPublication, Retract};
use windlass_store::rows::DefinitionRow;
use windlass_store::{Store, Writer as _};

use super::flow::Workflow;
use super::make::Case;
use crate::rig::{definition, digest, json, load};

/// The time limit of a run.
const PATIENCE: Duration = Duration::from_secs(15);

/// The parts that outlive the process.
pub(crate) struct Machine {
    tokio: tokio::runtime::Runtime,
    pub(crate) clock: Arc<SystemClock>,
    plugins: Arc<Host>,
    /// Workflows that are called by name.
    beside: Arc<Mutex<BTreeMap<String, DefinitionRow>>>,
    _dir: tempfile::TempDir,
}

pub(crate) struct Process<'a> {
    machine: &'a Machine,
    pub(crate) store: Arc<dyn Store>,
    runtime: Arc<Runtime>,
    client: Operations,
    /// How many inputs were rendered again, and how many could not be.
    pub(crate) inputs: Cell<(usize, usize)>,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(SystemClock::new());
        let mut options = windlass_plugins::Options::in_dir(dir.path());
        options.cache_dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("compiled");
        options.threads = 2;
        options.library.insert(digest("chain-executor"));
        let plugins =
            Host::start(options, Arc::clone(&clock) as _, tokio.handle().clone()).unwrap();
        for name in ["chain-executor", "echo", "steps"] {
            load(&plugins, name);
        }
        Self {
            tokio,
            clock,
            plugins,
            beside: Arc::default(),
            _dir: dir,
        }
    }

    pub(crate) fn start(&self, store: Arc<dyn Store>, burst: BurstBounds) -> Process<'_> {
        let beside = Arc::clone(&self.beside);
        let runtime = Runtime::start(Options {
            store: Arc::clone(&store),
            plugins: Arc::clone(&self.plugins),
            clock: Arc::clone(&self.clock) as _,
            io: self.tokio.handle().clone(),
            name: "random".to_owned(),
            scope: Scope::All,
            scheduler: Settings::default(),
            workers: 2,
            spare_workers: 1,
            burst,
            links: Arc::new(windlass_runtime::Links::of_test()),
            exports: Arc::new(windlass_keys::export::ExportKeys::of_test()),
            beside: Some(Box::new(move |name| Ok(beside.lock().get(name).cloned()))),
            topology: Topology::Local,
            max_steps: 2_000,
            max_descendants: 10_000,
            evaluation: windlass_runtime::EvaluationMemory::default(),
            // Half of the processes keep only what the store does not have.
            run_data_bytes: u64::from(burst.steps % 2) << 27,
            run_state_bytes: u64::from(burst.steps / 4 % 2) << 26,
            unwritten_bytes: u64::from(burst.steps / 2 % 2) << 25,
            definition_bytes: 64 << 20,
            spans: None,
            observer: None,
            plugin_folders: None,
        })
        .unwrap();
        Process {
            machine: self,
            store,
            client: Operations::local(&runtime),
            runtime,
            inputs: Cell::default(),
        }
    }
}

/// The id of the run of a seed.
pub(crate) fn id_of(seed: u64) -> RunId {
    RunId(uuid::Uuid::from_u128(u128::from(seed) + 1))
}

impl Process<'_> {
    /// Starts the run of a case.
    pub(crate) fn begin(&self, case: &Case, seed: u64) {
        let add = |workflow: &Workflow| {
            let row = definition(&workflow.written());
            self.machine
                .beside
                .lock()
                .insert(workflow.name.clone(), row);
        };
        case.children.iter().for_each(add);
        self.send(case, true);
        let main = definition(&case.main.written());
        self.was_published(&main);
        let request = StartRequest {
            workflow: main.into(),
            input: Payload::of(&case.input),
            id: Some(id_of(seed)),
            correlation: None,
            trace: None,
        };
        let tokio = &self.machine.tokio;
        tokio.block_on(self.client.create_and_run(request)).unwrap();
    }

    /// Makes a definition one that the store knows: cases read outputs that are null by
    /// construction, and a definition that is new must not do that.
    fn was_published(&self, definition: &DefinitionRow) {
        let name = definition.name.clone();
        let publication = NewPublication {
            definition: Arc::new(definition.clone()),
            bindings: Vec::new(),
            schedules: Vec::new(),
            only: None,
            draft: None,
            source: None,
            text: None,
            at_ms: 0,
        };
        let retract = Retract {
            name,
            only: None,
            at_ms: 0,
        };
        self.store.write(publication).unwrap().unwrap();
        self.store.write(retract).unwrap().unwrap();
    }

    /// Sends the stimuli of a case to its run after it began.
    pub(crate) fn tell(&self, case: &Case, seed: u64) {
        self.send(case, false);
        if case.cancelled {
            let cancelled = self.client.cancel(id_of(seed), Duration::ZERO);
            // A run that has ended cannot be cancelled.
            let _ = self.machine.tokio.block_on(cancelled);
        }
    }

    fn send(&self, case: &Case, early: bool) {
        for (name, matches, input, _) in case.stimuli.iter().filter(|told| told.3 == early) {
            let stimulus = Stimulus {
                name: name.clone(),
                matches: matches.clone(),
                correlation: None,
                run: None,
                input: Payload::of(input),
                delivery: Delivery::Buffer,
                ttl_ms: 600_000,
                trace: None,
            };
            let sent = self.client.send(operations::new_stimulus_id(), stimulus);
            self.machine.tokio.block_on(sent).unwrap();
        }
    }

    /// Waits until a run has ended.
    pub(crate) fn wait(&self, seed: u64) -> Result<(), String> {
        let id = id_of(seed);
        let waited = self
            .machine
            .tokio
            .block_on(self.client.result(id, PATIENCE));
        match waited.unwrap().result {
            Some(_) => Ok(()),
            None => {
                let no = self.store.run(id).unwrap().unwrap().no;
                Err(format!("it does not end: {:#?}", self.store.triggers(no)))
            }
        }
    }

    /// Compares what a trace says that the nodes of a run and its children got with the outputs of
    /// those that give it back.
    pub(crate) fn compare_inputs(&self, id: RunId) -> Result<(), String> {
        let row = self.store.run(id).unwrap().unwrap();
        let stored = self.store.definition(row.definition).unwrap().unwrap();
        let file = windlass_model::file::read_canonical(&stored.json).unwrap();
        let (names, nodes) = (file.node_names(), file.all_nodes());
        let echoes = |no: u32| {
            let name = names.get(no as usize);
            let mut nodes = nodes.iter().filter(|(_, node, _)| Some(node) == name);
            nodes.any(|(_, _, node)| {
                matches!(&node.kind, NodeKind::Use { node_type, .. } if node_type.name == "echo")
            })
        };
        let (mut shown, mut missing) = self.inputs.get();
        for record in self.store.executions(row.no, None, u32::MAX).unwrap() {
            if !echoes(record.node) || record.status != ExecutionStatus::Completed {
                continue;
            }
            let inputs = self.client.inputs(&row, &record).unwrap();
            match inputs.input.unwrap() {
                Given::Missing(_) => missing += 1,
                Given::Recorded(value) | Given::Recomputed(value) => {
                    let got = record.output.as_ref().map(json);
                    if Some(json(&value)) != got {
                        let no = record.no;
                        return Err(format!("{no} got {got:?}, and {value:?} is shown"));
                    }
                    shown += 1;
                }
            }
        }
        self.inputs.set((shown, missing));
        let children = self.store.children(row.no, None, u32::MAX).unwrap();
        children
            .iter()
            .try_for_each(|child| self.compare_inputs(child.id))
    }

    /// Leaves the store, even with work in progress.
    pub(crate) fn leave(self) {
        let tokio = &self.machine.tokio;
        tokio.block_on(self.runtime.drain(Duration::ZERO));
        drop((self.client, self.runtime));
        self.store.close();
    }
}
