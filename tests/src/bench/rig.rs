//! The host in this process for the scenarios.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use windlass_model::{Clock, Digest, Payload};
use windlass_plugins::{Isolation, Settings as PluginSettings};
use windlass_runtime::{
    BurstBounds, Observer, Operations, Options, Runtime, Scope, Settings, StartRequest, Started,
};
use windlass_store::Store;
use windlass_store::rows::DefinitionRow;
use windlass_store::sqlite::{Durability, SqliteOptions, SqliteStore};
use windlass_store::{PostgresOptions, PostgresStore};

/// How a host is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Flush every step, or leave it to the operating system.
    pub full: bool,
    /// Keep instances of plugins warm, or make one for each call.
    pub warm: bool,
    /// The directory of the components.
    pub components: PathBuf,
    /// The directory of the store.
    pub dir: PathBuf,
    /// A database to use instead.
    pub postgres: Option<String>,
}

/// Shards: one for each core.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

impl Setup {
    /// Opens the store, which is created if it does not exist.
    ///
    /// # Errors
    ///
    /// The store cannot be opened.
    pub fn store(&self, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
        if let Some(url) = &self.postgres {
            // One schema for each directory: a store that is opened again finds its data.
            let name = self.dir.file_name().unwrap_or_default();
            let options = PostgresOptions {
                schema: name.to_string_lossy().into_owned(),
                write_connections: workers(),
                ..PostgresOptions::new(Arc::clone(clock))
            };
            return Ok(PostgresStore::open(url, options)?);
        }
        let durability = if self.full {
            Durability::Full
        } else {
            Durability::Normal
        };
        let options = SqliteOptions {
            durability,
            ..SqliteOptions::new(Arc::clone(clock))
        };
        Ok(SqliteStore::open(self.dir.join("bench.db"), options)?)
    }

    /// Loads the plugins. Blocks.
    ///
    /// # Errors
    ///
    /// A component is missing, or cannot be loaded.
    pub fn plugins(&self, clock: &Arc<dyn Clock>) -> Result<Arc<windlass_plugins::Host>> {
        let io = tokio::runtime::Handle::current();
        let mut options = windlass_plugins::Options::in_dir(&self.dir);
        let isolation = if self.warm {
            Isolation::Warm
        } else {
            Isolation::Call
        };
        let settings = PluginSettings {
            isolation,
            ..PluginSettings::default()
        };
        options.settings.insert("data".to_owned(), settings);
        options.library.insert(self.digest("chain-executor")?);
        let plugins = windlass_plugins::Host::start(options, Arc::clone(clock), io)?;
        for name in ["chain-executor", "data"] {
            self.load(&plugins, name)?;
        }
        Ok(plugins)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.components.join(name).with_extension("wasm")
    }

    /// The digest of a component.
    ///
    /// # Errors
    ///
    /// The component is missing.
    pub fn digest(&self, name: &str) -> Result<Digest> {
        let file = self.file(name);
        let bytes = std::fs::read(&file).with_context(|| build_it(&file))?;
        Ok(Digest::of(&bytes))
    }

    /// Loads one more plugin. Blocks.
    ///
    /// # Errors
    ///
    /// The component is missing, or cannot be loaded.
    pub fn load(&self, plugins: &windlass_plugins::Host, name: &str) -> Result<()> {
        let file = self.file(name);
        let plugin = plugins.load_file(&file).with_context(|| build_it(&file))?;
        Ok(plugins.registry().insert(&file, &plugin)?)
    }
}

fn build_it(file: &Path) -> String {
    format!(
        "cannot load {}: build it with `cargo xtask guests`",
        file.display()
    )
}

/// Starts a host on a store. It begins to claim at once.
///
/// # Errors
///
/// The store fails, or threads cannot be started.
pub fn start(
    store: Arc<dyn Store>,
    plugins: Arc<windlass_plugins::Host>,
    clock: &Arc<dyn Clock>,
    observer: Option<Arc<dyn Observer>>,
) -> Result<Arc<Runtime>> {
    Ok(Runtime::start(Options {
        store,
        plugins,
        clock: Arc::clone(clock),
        io: tokio::runtime::Handle::current(),
        name: "bench".to_owned(),
        scope: Scope::All,
        scheduler: Settings::default(),
        workers: workers(),
        spare_workers: 4,
        burst: BurstBounds::default(),
        beside: None,
        links: Arc::new(windlass_runtime::Links::of_test()),
        exports: Arc::new(windlass_keys::export::ExportKeys::of_test()),
        topology: windlass_runtime::Topology::Local,
        max_steps: 1_000_000,
        max_descendants: u32::MAX,
        evaluation: windlass_runtime::EvaluationMemory::default(),
        run_data_bytes: 128 << 20,
        run_state_bytes: 64 << 20,
        unwritten_bytes: 32 << 20,
        definition_bytes: 256 << 20,
        spans: None,
        observer,
        plugin_folders: None,
    })?)
}

/// A client that the store sees as another process.
pub fn client(
    store: &Arc<dyn Store>,
    plugins: &Arc<windlass_plugins::Host>,
    clock: &Arc<dyn Clock>,
) -> Operations {
    let (store, clock) = (Arc::clone(store), Arc::clone(clock));
    Operations::detached(store, clock, Arc::new(Arc::clone(plugins)))
}

/// A request to run a workflow without input.
///
/// # Errors
///
/// The workflow does not validate.
pub fn request(name: &str, workflow: &Value) -> Result<StartRequest> {
    let read = windlass_model::file::read(&workflow.to_string(), name);
    if !read.diagnostics.is_empty() {
        bail!(
            "the scenario {name} does not validate: {:?}",
            read.diagnostics
        );
    }
    let json = read
        .canonical()
        .context("a valid file has a canonical form")?;
    let definition = DefinitionRow {
        digest: Digest::of(&json),
        name: name.to_owned(),
        json: json.into(),
    };
    Ok(StartRequest {
        workflow: definition.into(),
        input: Payload::null(),
        id: None,
        correlation: None,
        trace: None,
    })
}

/// Starts a run. Returns once the run is durable.
///
/// # Errors
///
/// As [`Operations::create_and_run`].
pub async fn start_run(runtime: &Arc<Runtime>, request: &StartRequest) -> Result<Started> {
    let client = Operations::local(runtime);
    Ok(client.create_and_run(request.clone()).await?)
}

/// Resident memory of this process, in MiB.
///
/// # Errors
///
/// The operating system does not tell.
pub fn resident_mb() -> Result<f64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = statm
        .split_whitespace()
        .nth(1)
        .context("statm has a second field")?
        .parse()?;
    Ok(pages * rustix::param::page_size() as f64 / (1024.0 * 1024.0))
}

/// The path of the store in a directory.
pub fn store_file(dir: &Path) -> PathBuf {
    dir.join("bench.db")
}
