//! A runtime on a store in memory, and a record of its writes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use windlass_model::stimulus::{self, Stimulus};
use windlass_model::{Body, Clock, Delivery, Digest, Payload, RunId, RunNo, Status};
use windlass_plugins::Host;
use windlass_runtime::definitions::Definitions;
use windlass_runtime::operations::Schedule;
use windlass_runtime::{
    BurstBounds, Error, EvaluationMemory, Operations, Options, RunResult, Runtime, Scope, Settings,
    StartRequest, Started, SystemClock, Topology, operations,
};
use windlass_store::external::Scheduled;
use windlass_store::rows::DefinitionRow;
use windlass_store::stimuli::{NewStimulus, Sent};
use windlass_store::write::Commit;
use windlass_store::{MemoryStore, Reader as _, Store as _, Write, Writer as _};

/// How long a test waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(120);

/// The settings of a process that differ from the defaults.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) burst: BurstBounds,
    pub(crate) in_flight: u32,
    /// Workflows that runs may call, by name.
    pub(crate) beside: Vec<(String, DefinitionRow)>,
    /// Components beside the default consumer. All of them may send and schedule.
    pub(crate) components: &'static [&'static str],
    /// The time limit of a guest call.
    pub(crate) deadline: Duration,
    /// The number of consecutive crashes after which calls are postponed.
    pub(crate) quarantine_after: Option<u32>,
    /// The limit of descendants of a run.
    pub(crate) max_descendants: u32,
    /// The memory of evaluations.
    pub(crate) evaluation: EvaluationMemory,
    /// The data that all runs in memory may hold, in bytes.
    pub(crate) run_data_bytes: u64,
    /// The memory that the states of runs may take, in bytes.
    pub(crate) run_state_bytes: u64,
    /// The memory of all plugins, in bytes, if it is not that of a machine.
    pub(crate) plugin_bytes: Option<u64>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            burst: BurstBounds::default(),
            in_flight: Settings::default().in_flight,
            beside: Vec::new(),
            components: &[],
            deadline: windlass_plugins::Limits::default().deadline,
            quarantine_after: Some(10),
            max_descendants: 10_000,
            evaluation: EvaluationMemory::default(),
            run_data_bytes: 128 << 20,
            run_state_bytes: 64 << 20,
            plugin_bytes: None,
        }
    }
}

/// The clock of another machine, which is ahead.
struct Ahead {
    clock: Arc<SystemClock>,
    ms: i64,
}

impl Clock for Ahead {
    fn wall_ms(&self) -> i64 {
        self.clock.wall_ms() + self.ms
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }
}

/// A running process.
pub(crate) struct Running {
    pub(crate) store: Arc<MemoryStore>,
    /// The handle of another process on the same store, so that the first is notified of its
    /// writes.
    other: Arc<MemoryStore>,
    pub(crate) runtime: Arc<Runtime>,
    plugins: Arc<Host>,
    clock: Arc<SystemClock>,
    commits: Arc<Mutex<Vec<Commit>>>,
    tokio: tokio::runtime::Runtime,
    /// Whether runs were imported that no host has made.
    pub(crate) has_forged_runs: AtomicBool,
    _dir: tempfile::TempDir,
}

/// A run that has ended, and the writes for it.
pub(crate) struct Ran {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) result: RunResult,
    pub(crate) row: windlass_store::rows::RunRow,
    /// In the order of their submission.
    pub(crate) commits: Vec<Commit>,
    /// The metrics of the process at the end.
    pub(crate) metrics: String,
}

impl Setup {
    /// Lets runs call a workflow.
    pub(crate) fn beside(mut self, name: &str, workflow: &str) -> Self {
        self.beside.push((name.to_owned(), definition(workflow)));
        self
    }

    /// Starts a process.
    pub(crate) fn start(&self) -> Running {
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(SystemClock::new());
        let mut plugins = windlass_plugins::Options::in_dir(dir.path());
        plugins.cache_dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("compiled");
        plugins.code_key = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("code-key");
        plugins.threads = 2;
        plugins.limits.deadline = self.deadline;
        plugins.quarantine_after = self.quarantine_after;
        plugins.memory_bytes = self.plugin_bytes.unwrap_or(plugins.memory_bytes);
        plugins.library.insert(digest("chain-executor"));
        for name in self.components {
            let mut settings = windlass_plugins::Settings::default();
            settings.grants.events = true;
            settings.grants.consumer = true;
            settings.proofs.digests.push(digest(name));
            plugins.settings.insert((*name).to_owned(), settings);
        }
        let plugins =
            Host::start(plugins, Arc::clone(&clock) as _, tokio.handle().clone()).unwrap();
        load(&plugins, "chain-executor");
        for name in self.components {
            load(&plugins, name);
        }
        let store = MemoryStore::new(Arc::clone(&clock) as _);
        let commits = record(&store);
        let beside = self.beside.clone();
        let runtime = Runtime::start(Options {
            store: Arc::clone(&store) as _,
            plugins: Arc::clone(&plugins),
            clock: Arc::clone(&clock) as _,
            io: tokio.handle().clone(),
            name: "test".to_owned(),
            scope: Scope::All,
            scheduler: Settings {
                in_flight: self.in_flight,
                ..Settings::default()
            },
            workers: 2,
            spare_workers: 1,
            burst: self.burst,
            links: Arc::new(windlass_runtime::Links::of_test()),
            exports: Arc::new(windlass_keys::export::ExportKeys::of_test()),
            beside: Some(Box::new(move |name| {
                let found = beside.iter().find(|(known, _)| known == name);
                Ok(found.map(|(_, row)| row.clone()))
            })),
            topology: windlass_runtime::Topology::Local,
            max_steps: 10_000,
            max_descendants: self.max_descendants,
            evaluation: self.evaluation,
            run_data_bytes: self.run_data_bytes,
            run_state_bytes: self.run_state_bytes,
            unwritten_bytes: 32 << 20,
            definition_bytes: 64 << 20,
            spans: None,
            observer: None,
            plugin_folders: None,
        })
        .unwrap();
        Running {
            other: store.another(),
            store,
            runtime,
            plugins,
            clock,
            commits,
            tokio,
            has_forged_runs: AtomicBool::new(false),
            _dir: dir,
        }
    }

    /// Runs a workflow to its end.
    pub(crate) fn run(&self, workflow: &str) -> Ran {
        self.run_on(workflow, Payload::null())
    }

    /// Runs a workflow on this input to its end.
    pub(crate) fn run_on(&self, workflow: &str, input: Payload) -> Ran {
        let running = self.start();
        let started = running.run_on(workflow, input);
        let result = running.ended(started.no);
        // One after the other: a writer of the store holds the store while it takes the lock of the
        // commits, so a reader of the store may not hold that lock.
        let commits = running.commits();
        let metrics = running.runtime.metrics();
        let store = Arc::clone(&running.store);
        let row = store.run(result.id).unwrap().unwrap();
        Ran {
            store,
            result,
            row,
            commits,
            metrics,
        }
    }
}

impl Running {
    /// The commits submitted so far.
    pub(crate) fn commits(&self) -> Vec<Commit> {
        self.commits.lock().clone()
    }

    /// Starts a run without input.
    pub(crate) fn run(&self, workflow: &str) -> Started {
        self.run_on(workflow, Payload::null())
    }

    /// Starts a run on this input.
    pub(crate) fn run_on(&self, workflow: &str, input: Payload) -> Started {
        let request = StartRequest {
            workflow: definition(workflow).into(),
            input,
            id: None,
            correlation: None,
            trace: None,
        };
        let client = Operations::local(&self.runtime);
        self.tokio.block_on(client.create_and_run(request)).unwrap()
    }

    /// Waits until a run has ended.
    pub(crate) fn ended(&self, no: RunNo) -> RunResult {
        let wait = async { tokio::time::timeout(PATIENCE, self.runtime.wait(no)).await };
        self.tokio
            .block_on(wait)
            .unwrap_or_else(|_| panic!("run {no} does not end: {:?}", self.store.triggers(no)))
            .unwrap()
    }

    /// Waits until a run is suspended.
    pub(crate) fn suspended(&self, no: RunNo) {
        let wait = self.runtime.wait_unless_suspended(no);
        let result = self.tokio.block_on(wait).unwrap();
        assert!(result.is_none(), "{result:?}");
    }

    /// Waits until `holds` is true of the store.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&MemoryStore) -> bool) {
        let end = self.clock.monotonic() + PATIENCE;
        while !holds(&self.store) {
            assert!(
                self.clock.monotonic() < end,
                "it does not come to this: {what}"
            );
            std::thread::yield_now();
        }
    }

    /// Sends a stimulus, as another process would.
    pub(crate) fn send(&self, stimulus: &Stimulus) -> Sent {
        self.try_send(stimulus).unwrap()
    }

    /// Sends a stimulus, which may be refused.
    pub(crate) fn try_send(&self, stimulus: &Stimulus) -> Result<Sent, Error> {
        self.try_send_ahead(0, stimulus)
    }

    /// Sends a stimulus by the clock of another machine, which is ahead.
    pub(crate) fn try_send_ahead(&self, ms: i64, stimulus: &Stimulus) -> Result<Sent, Error> {
        let clock = self.clock();
        let client = self.detached(Arc::new(Ahead { clock, ms }));
        self.block_on(client.send(operations::new_stimulus_id(), stimulus.clone()))
    }

    /// Schedules a trigger, as another process would.
    pub(crate) fn schedule(&self, new: Schedule) -> Scheduled {
        let client = self.detached(self.clock());
        let (_, scheduled) = self.block_on(client.schedule(new)).unwrap();
        scheduled
    }

    /// Cancels a run, as another process would.
    pub(crate) fn cancel(&self, id: RunId) {
        let client = self.detached(self.clock());
        self.block_on(client.cancel(id, Duration::ZERO)).unwrap();
    }

    /// Lets the delayed writes of the process proceed until `holds` is true.
    pub(crate) fn until_carried_on(&self, what: &str, holds: impl Fn(&MemoryStore) -> bool) {
        self.until(what, |store| {
            store.carry_on(usize::MAX);
            store.deliver(usize::MAX);
            holds(store)
        });
    }

    /// The dead letters, by reason, oldest first.
    pub(crate) fn letters(&self) -> Vec<String> {
        let query = windlass_store::letters::LetterQuery {
            limit: 100,
            ..Default::default()
        };
        let mut letters = self.store.dead_letters(&query).unwrap();
        letters.sort_by_key(|letter| letter.no);
        letters
            .into_iter()
            .map(|letter| letter.letter.reason)
            .collect()
    }

    /// The store's sources of definitions, as managed by one more process.
    pub(crate) fn definitions(
        &self,
        topology: &Topology,
        options: windlass_runtime::definitions::Options,
    ) -> Definitions {
        let store = self.store.another();
        let (plugins, clock) = (Arc::clone(&self.plugins), Arc::clone(&self.clock));
        Definitions::new(store, plugins, clock, self.io(), topology, options)
    }

    pub(crate) fn clock(&self) -> Arc<SystemClock> {
        Arc::clone(&self.clock)
    }

    pub(crate) fn io(&self) -> tokio::runtime::Handle {
        self.tokio.handle().clone()
    }

    /// The loaded plugins.
    pub(crate) fn plugins(&self) -> &Host {
        &self.plugins
    }

    /// Publishes a definition, unless it is refused.
    pub(crate) fn try_publish(
        &self,
        definition: DefinitionRow,
    ) -> Result<operations::Published, Error> {
        operations::publish(&*self.other, &self.plugins, self.now_ms(), definition)
    }

    /// Publishes a workflow.
    pub(crate) fn publish(&self, workflow: &str) {
        self.try_publish(definition(workflow)).unwrap();
    }

    /// Queues stimuli with this name.
    pub(crate) fn enqueue(&self, name: &str, count: usize) {
        self.enqueue_with(name, count, &Payload::null());
    }

    pub(crate) fn enqueue_with(&self, name: &str, count: usize, input: &Payload) {
        let matches = stimulus::canonical(&serde_json::Value::Null);
        for _ in 0..count {
            let new = NewStimulus {
                id: operations::new_stimulus_id(),
                name: name.to_owned(),
                hash: stimulus::hash(name, &matches, None),
                matches: matches.clone().into(),
                correlation: None,
                run: None,
                input: input.clone(),
                blobs: Vec::new(),
                delivery: Delivery::Start,
                ttl_ms: 0,
                at_ms: self.now_ms(),
                tree: None,
                trace: None,
            };
            self.other.write(new).unwrap();
        }
    }

    /// One more process on the same store.
    pub(crate) fn second(&self, topology: Topology) -> Arc<Runtime> {
        let store = self.store.another();
        let (plugins, clock) = (Arc::clone(&self.plugins), Arc::clone(&self.clock));
        let options = Options {
            store,
            plugins,
            clock,
            io: self.tokio.handle().clone(),
            name: "second".to_owned(),
            scope: Scope::All,
            scheduler: Settings::default(),
            workers: 2,
            spare_workers: 1,
            burst: BurstBounds::default(),
            beside: None,
            links: Arc::new(windlass_runtime::Links::of_test()),
            exports: Arc::new(windlass_keys::export::ExportKeys::of_test()),
            topology,
            max_steps: 10_000,
            max_descendants: 10_000,
            evaluation: EvaluationMemory::default(),
            run_data_bytes: 128 << 20,
            run_state_bytes: 64 << 20,
            unwritten_bytes: 32 << 20,
            definition_bytes: 64 << 20,
            spans: None,
            observer: None,
            plugin_folders: None,
        };
        Runtime::start(options).unwrap()
    }

    /// The handle of the other process.
    pub(crate) fn elsewhere(&self) -> &MemoryStore {
        &self.other
    }

    /// Notifies the process of a write.
    pub(crate) fn wake(&self) {
        self.other.notify();
    }

    /// A client in the process, and one in another.
    pub(crate) fn clients(&self) -> [Operations; 2] {
        let local = Operations::local(&self.runtime);
        let keys = Arc::clone(self.exports());
        [local, self.detached(self.clock()).with_exports(keys)]
    }

    /// A client in another process with this clock.
    fn detached(&self, clock: Arc<dyn Clock>) -> Operations {
        let plugins = Arc::new(Arc::clone(&self.plugins));
        Operations::detached(Arc::clone(&self.other) as _, clock, plugins)
    }

    /// A client that accepts the signature of another host.
    pub(crate) fn trusting(&self, other: &Self) -> Operations {
        let [_, client] = self.clients();
        let own = windlass_keys::Keys::fixed(windlass_keys::Keyring::random());
        let trusted = other.exports().own().unwrap();
        let keys = windlass_keys::export::ExportKeys::new(Arc::new(own), trusted);
        client.with_exports(Arc::new(keys))
    }

    /// The keys that sign exports.
    pub(crate) fn exports(&self) -> &Arc<windlass_keys::export::ExportKeys> {
        self.runtime.exports()
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.tokio.block_on(future)
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.wall_ms()
    }
}

/// Each run of a test is as its events make it.
impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let [_, client] = self.clients();
        let mut replayed = self.block_on(client.replay_runs()).unwrap();
        if self.has_forged_runs.load(Ordering::Relaxed) {
            return;
        }
        assert_eq!(replayed.different, operations::Named::default());
        // A run may go on for ever.
        let unknown = &mut replayed.unknown.first;
        unknown.retain(|(_, why)| !why.contains("faster"));
        assert_eq!(*unknown, []);
    }
}

impl Ran {
    /// The output, as JSON.
    #[track_caller]
    pub(crate) fn output(&self) -> Value {
        assert_eq!(
            self.result.status,
            Status::Completed,
            "{:?}",
            self.result.failure
        );
        json(self.result.output.as_ref().unwrap())
    }
}

/// An inline payload as JSON.
pub(crate) fn json(payload: &Payload) -> Value {
    match &payload.body {
        Body::Inline(bytes) => serde_json::from_slice(bytes).unwrap(),
        Body::Blob(blob) => panic!("{blob:?} is not inline"),
    }
}

/// Records every submitted commit.
fn record(store: &MemoryStore) -> Arc<Mutex<Vec<Commit>>> {
    let commits = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&commits);
    store.set_faults(Some(Box::new(move |write| {
        if let Write::Commit(commit) = write {
            noted.lock().push((**commit).clone());
        }
        None
    })));
    commits
}

pub(crate) fn definition(workflow: &str) -> DefinitionRow {
    let read = windlass_model::file::read(workflow, "test.yaml");
    assert!(read.diagnostics.is_empty(), "{:#?}", read.diagnostics);
    let json = read.canonical().unwrap();
    DefinitionRow {
        digest: Digest::of(&json),
        name: read.definition.unwrap().name,
        json: json.into(),
    }
}

/// The digest of a component that `cargo xtask guests` builds.
pub(crate) fn digest(name: &str) -> Digest {
    Digest::of(&std::fs::read(built(name)).unwrap())
}

/// Loads a component that `cargo xtask guests` builds.
pub(crate) fn load(host: &Host, name: &str) {
    let file = built(name);
    let plugin = host.load_file(&file).unwrap();
    host.registry().insert(&file, &plugin).unwrap();
}

fn built(name: &str) -> PathBuf {
    // The test executable is in `<target>/<profile>/deps`.
    let executable = std::env::current_exe().unwrap();
    let root = executable.ancestors().nth(3).unwrap();
    ["fixtures", "plugins"]
        .iter()
        .map(|dir| root.join(dir).join(format!("{name}.wasm")))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{name}.wasm is not built: run `cargo xtask guests`"))
}
