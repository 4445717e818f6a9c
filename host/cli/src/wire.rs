//! Builds the parts of the process from the configuration: the store, the plugins, the runtime.
//!
//! This is the one place where settings meet the options of the other crates.

pub(crate) mod budgets;
mod cluster;
pub(crate) mod compile;
mod library;
pub(crate) mod place;
pub(crate) mod plugins;
mod resources;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use jiff::tz::TimeZoneDatabase;
use windlass_keys::export::{ExportKeys, MOST_TRUSTED};
use windlass_keys::minisign::PublicKey;
use windlass_keys::{Keyring, Keys};
use windlass_model::Clock;
use windlass_model::metrics::Metrics;
use windlass_plugins::{CompileReport, Host, LoadEvent};
use windlass_runtime::definitions::{self, Definitions, OnRemoval};
use windlass_runtime::{
    BurstBounds, Links, Options, Scope, Settings, SystemClock, Topology, retention,
};
use windlass_store::sqlite::{Durability, SqliteOptions, SqliteStore};
use windlass_store::{PostgresOptions, PostgresStore, Store};

use crate::codes;
use crate::config::{self, Config};
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::{self, Output};
use crate::private;
use crate::web;
use budgets::Budgets;
use place::StoreLocation;

pub(crate) use plugins::{cache, library_in_use, plugin_directories, proxy_faults};
pub(crate) use resources::{CommandResources, HostResources};

/// The variable that may contain the keyring itself.
const KEYRING: &str = "WINDLASS_KEYRING";

/// The writes in progress of a thread that runs workflows, in bytes, where the budget of run data
/// allows as much. They keep a disk busy, and the steps of all runs wait behind them.
const UNWRITTEN: u64 = 8 * 1024 * 1024;

/// The memory that the states and triggers of runs may take in any case, in bytes.
const RUN_STATES: u64 = 16 * 1024 * 1024;

/// The parts that every acting command uses.
pub(crate) struct Machine {
    /// The source of the parts.
    pub(crate) setup: Arc<Setup>,
    /// The runtime of tokio that waits for sockets and timers.
    pub(crate) tokio: tokio::runtime::Runtime,
}

impl std::ops::Deref for Machine {
    type Target = Setup;

    fn deref(&self) -> &Setup {
        &self.setup
    }
}

/// The configuration, and the shared objects that the parts are made from.
pub(crate) struct Setup {
    /// The effective configuration.
    pub(crate) config: Config,
    /// The clock of all parts.
    pub(crate) clock: Arc<dyn Clock>,
    /// The handle of tokio.
    io: tokio::runtime::Handle,
    /// The metrics of all parts.
    metrics: Arc<Metrics>,
    /// The keyring, after its first use.
    keys: OnceLock<Arc<Keys>>,
}

impl Machine {
    /// Starts the threads that wait for sockets and timers.
    pub(crate) fn new(config: Config) -> anyhow::Result<Self> {
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name_fn(io_name)
            .enable_all()
            .build()?;
        let setup = Setup {
            config,
            clock: Arc::new(SystemClock::new()),
            io: tokio.handle().clone(),
            metrics: Arc::default(),
            keys: OnceLock::new(),
        };
        let setup = Arc::new(setup);
        Ok(Self { setup, tokio })
    }
}

impl Setup {
    /// The metrics of all parts.
    pub(crate) fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Opens the store for a process that executes runs: creates it if it does not exist, and
    /// migrates one of an older layout.
    pub(crate) fn store(&self) -> anyhow::Result<Arc<dyn Store>> {
        self.store_by(0, true)
    }

    /// As [`Self::store`], for a process that may start before its database: it waits for a
    /// database that cannot be reached.
    pub(crate) fn awaited_store(&self) -> anyhow::Result<Arc<dyn Store>> {
        self.store_by(self.config.store.connect_timeout.0, true)
    }

    /// Opens the store for a command that reads or writes it beside the hosts: creates it if it
    /// does not exist. A store of an older layout is refused, because hosts of an older version may
    /// work on it.
    pub(crate) fn unmigrated_store(&self) -> anyhow::Result<Arc<dyn Store>> {
        self.store_by(0, false)
    }

    fn store_by(&self, patience_ms: u64, migrates: bool) -> anyhow::Result<Arc<dyn Store>> {
        match StoreLocation::of(&self.config)? {
            StoreLocation::Sqlite(path) => self.sqlite(&path, migrates),
            StoreLocation::Postgres(url) => {
                let options = PostgresOptions {
                    patience_ms,
                    migrates,
                    ..self.postgres()
                };
                Ok(PostgresStore::open(&url, options)?)
            }
        }
    }

    fn sqlite(&self, path: &Path, migrates: bool) -> anyhow::Result<Arc<dyn Store>> {
        if let Some(directory) = path.parent().filter(|path| !path.as_os_str().is_empty()) {
            windlass_files::make_directory(directory).map_err(|error| {
                let text = format!("{} cannot be made: {error}", directory.display());
                Expected::new(windlass_store::codes::CANNOT_OPEN, text)
                    .help("Name another place with `--store PATH`, or look at the permissions.")
            })?;
        }
        let mut options = SqliteOptions::new(Arc::clone(&self.clock));
        options.metrics = Arc::clone(&self.metrics);
        options.durability = match self.config.store.durability {
            config::Durability::Full => Durability::Full,
            config::Durability::Normal => Durability::Normal,
        };
        let budgets = Budgets::of(&self.config);
        options.queue_bytes = budgets.queue.bytes();
        options.cache_bytes = budgets.cache.bytes();
        options.migrates = migrates;
        Ok(SqliteStore::open(path, options)?)
    }

    /// The options of a store in PostgreSQL.
    pub(crate) fn postgres(&self) -> PostgresOptions {
        let mut options = PostgresOptions::new(Arc::clone(&self.clock));
        options.metrics = Arc::clone(&self.metrics);
        // Where a dead process keeps locks elsewhere until their leases end, its runs wait, too.
        let locks = self.config.locks.provider;
        let held_on = !matches!(
            locks,
            config::LockBackend::Store | config::LockBackend::File
        );
        if !(self.config.cluster.enabled && held_on) {
            let state = crate::private::state();
            options.members = state.map(|directory| directory.join("members"));
        }
        // A process that is stopped within a transaction must not hold it longer than its own
        // lease.
        options.idle_in_transaction_ms = self.config.scheduler.lease.0 / 3;
        options.write_connections = or_cores(self.config.scheduler.workers);
        options.queue_bytes = Budgets::of(&self.config).queue.bytes();
        options
    }

    /// As [`Self::unmigrated_store`], but does not create the store.
    pub(crate) fn existing_store(&self) -> anyhow::Result<Arc<dyn Store>> {
        self.existing_place()?;
        self.unmigrated_store()
    }

    /// The location of the store; a file only if it exists.
    pub(crate) fn existing_place(&self) -> anyhow::Result<StoreLocation> {
        let place = StoreLocation::of(&self.config)?;
        if !place.exists()? {
            let text = format!("There is no store at {place}");
            return Err(Expected::new(codes::NO_STORE, text)
                .help("The first `windlass run` makes one; `--store PATH` names another.")
                .exit(Exit::NotFound)
                .into());
        }
        Ok(place)
    }

    /// The keyring of this host.
    pub(crate) fn keys(&self) -> Result<Arc<Keys>, Expected> {
        if let Some(keys) = self.keys.get() {
            return Ok(Arc::clone(keys));
        }
        let keys = Arc::new(keyring(&self.config)?);
        Ok(Arc::clone(self.keys.get_or_init(|| keys)))
    }

    /// The maker of the links that resume runs.
    pub(crate) fn links(&self) -> Result<Links, Expected> {
        Ok(Links::new(self.keys()?, link_base(&self.config.server)))
    }

    /// The keys that sign exports and verify imports.
    pub(crate) fn exports(&self) -> Result<Arc<ExportKeys>, Expected> {
        let trusted = trusted(&self.config.keys)?;
        Ok(Arc::new(ExportKeys::new(self.keys()?, trusted)))
    }

    /// Starts the plugin host, with no plugin in it. `compiling` receives reports about
    /// compilations that take long.
    pub(crate) fn host(&self, compiling: CompileReport) -> anyhow::Result<Arc<Host>> {
        self.host_with(compiling, |_| ())
    }

    /// As [`Self::host`], with changed options.
    pub(crate) fn host_with(
        &self,
        compiling: CompileReport,
        change: impl FnOnce(&mut windlass_plugins::Options),
    ) -> anyhow::Result<Arc<Host>> {
        let mut options = plugins::options(&self.config)?;
        options.compiling = Some(compiling);
        options.metrics = Arc::clone(&self.metrics);
        change(&mut options);
        Ok(Host::start(
            options,
            Arc::clone(&self.clock),
            self.io.clone(),
        )?)
    }

    /// Starts the plugin host with all plugins. A plugin that cannot be loaded causes a warning:
    /// only workflows that use it are affected, and they report it themselves.
    pub(crate) fn loaded_host(&self, output: &Output) -> anyhow::Result<Arc<Host>> {
        let host = self.host(compile::noted(*output))?;
        self.load(&host, output);
        Ok(host)
    }

    /// Loads all plugins, and warns about each that cannot be loaded.
    fn load(&self, host: &Host, output: &Output) {
        for event in host.scan(&plugin_directories(&self.config)) {
            match event {
                LoadEvent::Failed { file, error, .. } => output.warn(&format!(
                    "[{}] {}: {}",
                    error.code,
                    output::file(&file),
                    error.message
                )),
                LoadEvent::Ignored { path, why } => {
                    output.warn(&format!("{} is ignored: {why}", output::file(&path)));
                }
                LoadEvent::Loaded { .. }
                | LoadEvent::Compiling { .. }
                | LoadEvent::Compiled { .. }
                | LoadEvent::Removed { .. } => {}
            }
        }
    }

    /// The options of retention.
    pub(crate) fn retention(&self) -> retention::Options {
        let section = &self.config.retention;
        retention::Options {
            keep_ms: section.keep.0,
            every_ms: section.every.0,
            grace_ms: section.grace.0,
            archive: section.archive.clone(),
            slice_rows: section.slice_rows,
        }
    }

    /// The options of definition directories. Without a web server (`web`), triggers by `http`
    /// start nothing.
    pub(crate) fn definition_options(&self, web: bool) -> definitions::Options {
        let section = &self.config.definitions;
        definitions::Options {
            directories: section.directory.0.clone(),
            on_removal: match section.on_removal {
                config::OnRemoval::Retract => OnRemoval::Retract,
                config::OnRemoval::Keep => OnRemoval::Keep,
            },
            web,
        }
    }

    /// The definitions, as this process maintains them.
    pub(crate) fn definitions(
        &self,
        store: &Arc<dyn Store>,
        plugins: &Arc<Host>,
        topology: &Topology,
        web: bool,
    ) -> Definitions {
        let options = self.definition_options(web);
        let io = self.io.clone();
        let (store, plugins) = (Arc::clone(store), Arc::clone(plugins));
        Definitions::new(
            store,
            plugins,
            Arc::clone(&self.clock),
            io,
            topology,
            options,
        )
    }

    /// The options of a runtime.
    pub(crate) fn runtime(
        &self,
        name: &str,
        scope: Scope,
        store: Arc<dyn Store>,
        plugins: Arc<Host>,
    ) -> anyhow::Result<Options> {
        if library::bundle().is_empty() {
            tracing::warn!(code = %windlass_plugins::codes::NO_LIBRARY, "{}", library::UNKNOWN);
        }
        if self.config.cluster.enabled {
            windlass_runtime::keyring::check(store.as_ref(), &*self.keys()?)?;
        }
        let scheduler = &self.config.scheduler;
        let budgets = Budgets::of(&self.config);
        let workers = or_cores(scheduler.workers);
        Ok(Options {
            store,
            plugins,
            clock: Arc::clone(&self.clock),
            io: self.io.clone(),
            name: format!("{name} {}", std::process::id()),
            scope,
            scheduler: Settings {
                scan_interval_ms: scheduler.scan_interval.0,
                lease_ms: scheduler.lease.0,
                near_horizon_ms: scheduler.near_horizon.0,
                claim_runs: scheduler.claim_runs,
                claim_triggers: scheduler.claim_triggers,
                in_flight: scheduler.in_flight,
                reap_runs: scheduler.reap_runs,
            },
            workers,
            spare_workers: scheduler.spare_workers as usize,
            burst: BurstBounds {
                steps: scheduler.burst_steps,
                time_ms: scheduler.burst_time.0,
            },
            beside: None,
            links: Arc::new(self.links()?),
            exports: self.exports()?,
            topology: self.topology()?,
            max_steps: scheduler.max_steps,
            max_descendants: scheduler.max_descendants,
            evaluation: budgets.evaluation,
            run_data_bytes: budgets.run_data.0,
            run_state_bytes: (budgets.run_data.0 / 2).max(RUN_STATES),
            unwritten_bytes: (budgets.run_data.0 / 2 / workers.max(1) as u64).min(UNWRITTEN),
            definition_bytes: budgets.definitions.0,
            spans: None,
            observer: None,
            plugin_folders: None,
        })
    }
}

/// Makes this process use the rules of time zones that a configuration names.
pub(crate) fn use_zones(config: &Config) -> Result<(), Expected> {
    let Some(directory) = &config.scheduler.zoneinfo else {
        return Ok(());
    };
    let zones = TimeZoneDatabase::from_dir(directory).map_err(|error| {
        let text = format!("scheduler.zoneinfo: {error}");
        Expected::new(codes::CONFIG_VALUE, text)
            .help("Name a directory like /usr/share/zoneinfo, or take `zoneinfo` out.")
    })?;
    // A process has one configuration, so the first call decides.
    windlass_model::schedule::use_zones(zones);
    Ok(())
}

/// Names a thread of tokio. Each number is used once.
fn io_name() -> String {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    format!("io-{}", THREADS.fetch_add(1, Ordering::Relaxed))
}

/// The keyring that a configuration names, or else that of the user. It is read at its first use.
fn keyring(config: &Config) -> Result<Keys, Expected> {
    if let Some(text) = std::env::var_os(KEYRING) {
        let unusable = |reason: String| {
            let text = format!("The keyring in ${KEYRING} cannot be used: {reason}");
            Expected::new(codes::KEYRING, text)
                .help("Write keys as `windlass keys show --secret` prints them.")
                .exit(Exit::Usage)
        };
        let text = text.into_string();
        let text = text.map_err(|_| unusable("it is no Unicode".to_owned()))?;
        let ring = Keyring::parse(&text).map_err(|error| unusable(error.to_string()))?;
        return Ok(Keys::fixed(ring));
    }
    if let Some(path) = &config.keys.file {
        return Ok(Keys::given(path.clone()));
    }
    let data = private::data().ok_or_else(|| {
        let instead = "set `file` in [keys], or WINDLASS_KEYRING";
        private::no_home(codes::KEYRING, "the keyring", instead)
    })?;
    Ok(Keys::own(data.join("keyring")))
}

/// The public keys of other hosts whose exports are imported.
fn trusted(keys: &config::Keys) -> Result<Vec<PublicKey>, Expected> {
    let wrong = |text: String| {
        Expected::new(codes::CONFIG_VALUE, format!("keys.trusted: {text}"))
            .help("Write keys as `windlass keys show` prints them on the other host.")
            .exit(Exit::Usage)
    };
    if keys.trusted.len() > MOST_TRUSTED {
        return Err(wrong(format!("there are more than {MOST_TRUSTED} keys")));
    }
    let read = |text: &String| {
        let key = text.parse();
        key.map_err(|error| wrong(format!("`{text}`: {error}")))
    };
    keys.trusted.iter().map(read).collect()
}

/// The beginning of resume links: the public address of the host, or else the address that it
/// listens on.
fn link_base(server: &config::Server) -> String {
    if let Some(url) = &server.public_url {
        return url.trim_end_matches('/').to_owned();
    }
    match server.listen.as_str() {
        // The port is not known yet, or there is no web server.
        listen if listen == "off" || listen.ends_with(":0") => String::new(),
        listen => format!("http://{listen}"),
    }
}

fn or_cores(threads: u32) -> usize {
    match threads {
        0 => std::thread::available_parallelism().map_or(2, usize::from),
        threads => threads as usize,
    }
}

/// Refuses the settings that `serve` refuses, as far as they can be checked on a machine that does
/// not serve: without the secrets, the store and the keyring.
pub(crate) fn check(config: &Config) -> Result<(), Expected> {
    web::check(&config.server)?;
    cluster::check(config)?;
    trusted(&config.keys)?;
    plugins::check(&config.plugins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, wanted: &str) {
        let config: Config = toml::from_str(text).unwrap();
        let error = check(&config).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }

    #[test]
    fn settings_that_serve_refuses_are_refused_without_serving() {
        check(&Config::default()).unwrap();
        refused(
            "[server]\nlisten = \"nowhere\"",
            "`nowhere` is no address to listen on",
        );
        refused(
            "[plugins.grants.http]\nhttp = [\"ftp://prices.example\"]",
            "plugins.grants.http.http",
        );
        refused("[plugins]\ndeny = [\"cafe\"]", "plugins.deny");
        refused("[keys]\ntrusted = [\"cafe\"]", "keys.trusted");
    }
}
