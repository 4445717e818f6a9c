//! A runtime on a store in memory, and what it writes there.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use windlass_model::{Body, Digest, Payload, Status};
use windlass_plugins::Host;
use windlass_runtime::{
    BurstBounds, Options, RunResult, Runtime, Scope, Settings, StartRequest, SystemClock,
};
use windlass_store::rows::DefinitionRow;
use windlass_store::write::Commit;
use windlass_store::{MemoryStore, Write};

/// How a process takes part, where that is not the default.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) burst: BurstBounds,
    pub(crate) in_flight: u32,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            burst: BurstBounds::default(),
            in_flight: Settings::default().in_flight,
        }
    }
}

/// One run that has ended, and what was written for it.
pub(crate) struct Ran {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) result: RunResult,
    pub(crate) row: windlass_store::rows::InstanceRow,
    /// In the order in which they were handed over.
    pub(crate) commits: Vec<Commit>,
    /// What the process had measured in the end.
    pub(crate) metrics: String,
}

impl Setup {
    /// Runs a workflow to its end.
    pub(crate) fn run(&self, workflow: &str) -> Ran {
        self.run_on(workflow, Payload::null())
    }

    /// Runs a workflow on this input to its end.
    pub(crate) fn run_on(&self, workflow: &str, input: Payload) -> Ran {
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(SystemClock::new());
        let mut plugins = windlass_plugins::Options::in_dir(dir.path());
        plugins.cache_dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("compiled");
        plugins.threads = 2;
        let host = Host::start(plugins, Arc::clone(&clock) as _, tokio.handle().clone()).unwrap();
        load(&host, "chain-executor");
        let store = MemoryStore::new(Arc::clone(&clock) as _);
        let commits = record(&store);
        let runtime = Runtime::start(Options {
            store: Arc::clone(&store) as _,
            plugins: host,
            clock,
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
            beside: None,
            max_steps: 10_000,
            observer: None,
        })
        .unwrap();
        let result = tokio.block_on(async {
            let started = runtime.run(&request(workflow, input)).await.unwrap();
            runtime.wait(started.no).await.unwrap()
        });
        let metrics = runtime.metrics();
        drop(runtime);
        let row = windlass_store::Reader::instance(&*store, result.id)
            .unwrap()
            .unwrap();
        let commits = std::mem::take(&mut *commits.lock());
        Ran {
            store,
            result,
            row,
            commits,
            metrics,
        }
    }
}

impl Ran {
    /// What came out, as JSON.
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

/// Notes every commit that is handed over.
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

fn request(workflow: &str, input: Payload) -> StartRequest {
    let read = windlass_model::file::read(workflow, "test.yaml");
    assert!(read.diagnostics.is_empty(), "{:#?}", read.diagnostics);
    let json = read.canonical().unwrap();
    let definition = DefinitionRow {
        digest: Digest::of(&json),
        name: "test".to_owned(),
        json: json.into(),
    };
    StartRequest {
        definition,
        input,
        id: None,
        correlation: None,
    }
}

/// Loads a component that `cargo xtask guests` builds.
fn load(host: &Host, name: &str) {
    // The test executable is in `<target>/<profile>/deps`.
    let executable = std::env::current_exe().unwrap();
    let root = executable.ancestors().nth(3).unwrap();
    let file = ["fixtures", "plugins"]
        .iter()
        .map(|dir| root.join(dir).join(format!("{name}.wasm")))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{name}.wasm is not built: run `cargo xtask guests`"));
    let plugin = host.load_file(&file).unwrap();
    host.registry().insert(&file, &plugin).unwrap();
}
