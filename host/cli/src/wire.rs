//! Builds the parts of the process from the configuration: the store, the plugins, the runtime.
//!
//! This is the one place where settings meet the options of the other crates.

mod cluster;
pub(crate) mod library;
pub(crate) mod place;
mod resources;

use std::env::VarError;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use windlass_keys::export::{ExportKeys, MOST_TRUSTED};
use windlass_keys::minisign::PublicKey;
use windlass_keys::{Keyring, Keys};
use windlass_model::metrics::Metrics;
use windlass_model::{Clock, Digest};
use windlass_plugins as plugins;
use windlass_plugins::{Host, LoadEvent};
use windlass_runtime::definitions::{self, Definitions, OnRemoval};
use windlass_runtime::{
    BurstBounds, Links, Options, Scope, Settings, SystemClock, Topology, retention,
};
use windlass_store::sqlite::{Durability, SqliteOptions, SqliteStore};
use windlass_store::{PostgresOptions, PostgresStore, Store};

use crate::codes;
use crate::config::plugins::{Grant, Isolation, Limits};
use crate::config::{self, Config, Secret, Share};
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::Output;
use crate::private;
use crate::web;
use place::StoreLocation;

pub(crate) use resources::{CommandResources, HostResources};

/// The variable that may contain the keyring itself.
const KEYRING: &str = "WINDLASS_KEYRING";

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
        options.queue_bytes = self.config.store.queue.bytes();
        options.migrates = migrates;
        Ok(SqliteStore::open(path, options)?)
    }

    /// The options of a store in PostgreSQL.
    pub(crate) fn postgres(&self) -> PostgresOptions {
        let mut options = PostgresOptions::new(Arc::clone(&self.clock));
        options.metrics = Arc::clone(&self.metrics);
        // A process that is stopped within a transaction must not hold it longer than its own
        // lease.
        options.idle_in_transaction_ms = self.config.scheduler.lease.0 / 3;
        options.write_connections = or_cores(self.config.scheduler.workers);
        options.queue_bytes = self.config.store.queue.bytes();
        options
    }

    /// As [`Self::unmigrated_store`], but does not create the store.
    pub(crate) fn existing_store(&self) -> anyhow::Result<Arc<dyn Store>> {
        self.existing_place()?;
        self.unmigrated_store()
    }

    /// The location of the store; a file only if it exists.
    pub(crate) fn existing_place(&self) -> Result<StoreLocation, Expected> {
        let place = StoreLocation::of(&self.config)?;
        if place.file().is_some_and(|path| !path.exists()) {
            let text = format!("There is no store at {place}");
            return Err(Expected::new(codes::NO_STORE, text)
                .help("The first `windlass run` makes one; `--store PATH` names another.")
                .exit(Exit::NotFound));
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

    /// Starts the plugin host, with no plugin in it.
    pub(crate) fn host(&self) -> anyhow::Result<Arc<Host>> {
        let mut options = plugin_options(&self.config)?;
        options.metrics = Arc::clone(&self.metrics);
        Ok(Host::start(
            options,
            Arc::clone(&self.clock),
            self.io.clone(),
        )?)
    }

    /// Starts the plugin host with all plugins. A plugin that cannot be loaded causes a warning:
    /// only workflows that use it are affected, and they report it themselves.
    pub(crate) fn loaded_host(&self, output: &Output) -> anyhow::Result<Arc<Host>> {
        let host = self.host()?;
        self.load(&host, output);
        Ok(host)
    }

    /// Loads all plugins, and warns about each that cannot be loaded.
    fn load(&self, host: &Host, output: &Output) {
        for event in host.scan(&plugin_directories(&self.config)) {
            if let LoadEvent::Failed { file, error, .. } = event {
                output.warn(&format!(
                    "[{}] {}: {}",
                    error.code,
                    file.display(),
                    error.message
                ));
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
            tracing::warn!(code = %plugins::codes::NO_LIBRARY, "{}", library::UNKNOWN);
        }
        if self.config.cluster.enabled {
            windlass_runtime::keyring::check(store.as_ref(), &*self.keys()?)?;
        }
        let scheduler = &self.config.scheduler;
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
            observer: None,
            plugin_folders: None,
        })
    }
}

/// Names a thread of tokio. Each number is used once.
fn io_name() -> String {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    format!("io-{}", THREADS.fetch_add(1, Ordering::Relaxed))
}

/// The directories of plugins: the library first, if it is not the one inside the program.
pub(crate) fn plugin_directories(config: &Config) -> Vec<PathBuf> {
    let library = config.plugins.library.clone();
    library
        .into_iter()
        .chain([config.plugins.directory.clone()])
        .collect()
}

/// Where the node library is, or why there is none and the remedy.
pub(crate) fn library_in_use(config: &Config) -> Result<String, (String, &'static str)> {
    match &config.plugins.library {
        Some(path) if path.is_dir() => Ok(path.display().to_string()),
        Some(path) => Err((
            format!("{} is not a directory", path.display()),
            "Correct `library` in the section [plugins].",
        )),
        None if library::bundle().is_empty() => Err((
            library::UNKNOWN.to_owned(),
            "`windlass explain WL-P022` says more.",
        )),
        None => Ok("inside the program".to_owned()),
    }
}

/// The directory of compiled code.
pub(crate) fn cache(config: &Config) -> Result<PathBuf, Expected> {
    let cache = config.plugins.cache.clone().or_else(private::cache);
    cache.ok_or_else(|| {
        let instead = "set `cache` in [plugins]";
        private::no_home(codes::CONFIG_VALUE, "compiled code", instead)
    })
}

/// The file of the key that authenticates compiled code.
fn code_key(config: &Config) -> Result<PathBuf, Expected> {
    let own = || Some(private::data()?.join("code-key"));
    let key = config.plugins.code_key.clone().or_else(own);
    key.ok_or_else(|| {
        let instead = "set `code-key` in [plugins]";
        private::no_home(codes::CONFIG_VALUE, "the key of compiled code", instead)
    })
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
    let section = &config.plugins;
    let _denied: Vec<Digest> = read_all("plugins.deny", &section.deny, "digest")?;
    for (package, grant) in &section.grants {
        settings(package, grant, &section.limits)?;
    }
    Ok(())
}

fn plugin_options(config: &Config) -> Result<plugins::Options, Expected> {
    let section = &config.plugins;
    let mut options = plugins::Options::in_dir(cache(config)?);
    options.code_key = code_key(config)?;
    options.limits = limits(&section.limits);
    options.threads = or_cores(section.threads);
    options.max_slow_inline = (options.threads / 2).max(1);
    options.slow = section.slow.duration();
    options.quarantine_after = (section.quarantine_after > 0).then_some(section.quarantine_after);
    options.max_component_bytes = section.max_component.0;
    options.memory_bytes = match section.memory {
        Share::Bytes(size) => size.0,
        Share::Percent(percent) => plugins::machine_memory() / 100 * u64::from(percent),
    };
    options.pool = plugins::PoolSize {
        instances: section.pool.instances,
        fibers: section.pool.fibers,
        compiles: section.pool.compiles as usize,
        max_memory_bytes: section.pool.max_memory.bytes(),
        slot_calls: section.pool.instance_calls,
        slot_idle: section.pool.instance_idle.duration(),
    };
    options.http = plugins::HttpPolicy {
        timeout: section.http.timeout.duration(),
        connect_timeout: section.http.connect_timeout.duration(),
        max_response_bytes: section.http.max_response.0,
        max_redirects: section.http.max_redirects,
        max_headers: section.http.max_headers as usize,
        concurrency: section.http.concurrency as usize,
        lookups: section.http.lookups as usize,
        extra_roots: Vec::new(),
    };
    options.secrets = secrets(config)?;
    options.bundle = library::bundle().clone();
    options.load_bundle = section.library.is_none();
    options.library = options.bundle.digests().collect();
    options.denied = read_all("plugins.deny", &section.deny, "digest")?;
    for (package, grant) in &section.grants {
        options
            .settings
            .insert(package.clone(), settings(package, grant, &section.limits)?);
    }
    Ok(options)
}

fn limits(limits: &Limits) -> plugins::Limits {
    plugins::Limits {
        memory_bytes: limits.memory.bytes(),
        deadline: limits.deadline.duration(),
        table_elements: limits.table_elements as usize,
        payload_bytes: limits.payload.bytes(),
        handles: limits.handles as usize,
        log_lines: limits.log_lines as usize,
        log_bytes: limits.log_bytes.bytes(),
        blob_writers: limits.blob_writers as usize,
        blob_bytes: limits.blob_bytes.bytes(),
        http_requests: limits.http_requests,
        events: limits.events as usize,
        event_bytes: limits.event_bytes.bytes(),
    }
}

fn settings(
    package: &str,
    grant: &Grant,
    defaults: &Limits,
) -> Result<plugins::Settings, Expected> {
    let http = grant.http.iter().map(|text| {
        text.parse().map_err(|error| {
            let key = format!("plugins.grants.{package}.http");
            Expected::new(
                codes::CONFIG_VALUE,
                format!("{key}: `{text}` is no grant: {error}"),
            )
            .help("Write it like `https://prices.example` or `http://10.0.0.7:8080`.")
        })
    });
    Ok(plugins::Settings {
        grants: plugins::Grants {
            http: http.collect::<Result<_, _>>()?,
            secrets: grant.secrets.clone(),
            events: grant.events,
            consumer: grant.consumer,
        },
        proofs: proofs(package, grant)?,
        limits: Some(limits(&grant.limits.over(defaults))),
        isolation: match grant.isolation {
            None | Some(Isolation::Warm) => plugins::Isolation::Warm,
            Some(Isolation::Run) => plugins::Isolation::Run,
            Some(Isolation::Call) => plugins::Isolation::Call,
        },
    })
}

/// The proofs by which a grant recognises its components.
fn proofs(package: &str, grant: &Grant) -> Result<plugins::Proofs, Expected> {
    let key = |name: &str| format!("plugins.grants.{package}.{name}");
    Ok(plugins::Proofs {
        digests: read_all(&key("digest"), &grant.digest.0, "digest")?,
        keys: read_all(&key("key"), &grant.key.0, "key")?,
        files: grant.file.0.iter().map(PathBuf::from).collect(),
    })
}

/// Parses the texts of one setting.
fn read_all<T, C>(key: &str, texts: &[String], what: &str) -> Result<C, Expected>
where
    T: FromStr<Err: std::fmt::Display>,
    C: FromIterator<T>,
{
    let read = texts.iter().map(|text| {
        text.parse::<T>().map_err(|error| {
            let text = format!("{key}: `{text}` is no {what}: {error}");
            Expected::new(codes::CONFIG_VALUE, text)
                .help("`windlass plugin list` shows digests; `minisign -G` prints a public key.")
        })
    });
    read.collect()
}

/// The secrets, with their bindings.
fn secrets(config: &Config) -> Result<plugins::Secrets, Expected> {
    let all = config.secrets.iter().map(|(name, secret)| {
        let secret = one_secret(name, secret)?;
        Ok((name.clone(), secret))
    });
    let all = all.collect::<Result<_, Expected>>()?;
    plugins::Secrets::new(all).map_err(|error| {
        let mut text = error.to_string();
        text.replace_range(..1, "T");
        Expected::new(codes::SECRET_UNREADABLE, text)
            .help("Make the file, or take the secret out of [secrets].")
    })
}

/// The error for a variable that holds no secret. The error itself would show the value.
fn no_variable(name: &str, variable: &str, error: &VarError) -> Expected {
    let why = match error {
        VarError::NotPresent => "is not set",
        VarError::NotUnicode(_) => "is no Unicode",
    };
    let text = format!("The secret `{name}` cannot be read: ${variable} {why}");
    Expected::new(codes::SECRET_UNREADABLE, text)
        .help("Set the variable, or take the secret out of [secrets].")
}

fn one_secret(name: &str, secret: &Secret) -> Result<plugins::Secret, Expected> {
    let wrong = |key: &str, text: &str, help: &str| {
        let text = format!("secrets.{name}{key}: {text}");
        Expected::new(codes::CONFIG_VALUE, text).help(help.to_owned())
    };
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "-_.".contains(sign);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        let help = "Use letters, digits, `-`, `_` and `.`.";
        return Err(wrong("", "this is no name of a secret", help));
    }
    let source = match (&secret.env, &secret.file, &secret.directory) {
        (Some(variable), None, None) => {
            let value = std::env::var(variable);
            plugins::Source::Value(value.map_err(|error| no_variable(name, variable, &error))?)
        }
        (None, Some(path), None) => plugins::Source::File(path.clone()),
        (None, None, Some(directory)) => plugins::Source::File(directory.join(name)),
        _ => {
            let help = "Give exactly one of `env`, `file` and `directory`.";
            return Err(wrong("", "its value has to come from one place", help));
        }
    };
    let to = secret.to.iter().map(|text| {
        text.parse().map_err(|error| {
            let help = "Write it like `https://prices.example`.";
            wrong(".to", &format!("`{text}` is no destination: {error}"), help)
        })
    });
    Ok(plugins::Secret {
        source,
        to: to.collect::<Result<_, _>>()?,
        workflows: secret.workflows.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn a_secret_that_is_no_text_is_not_shown() {
        let value = OsString::from_vec(b"hunter2\xff".to_vec());
        for (error, why) in [
            (VarError::NotUnicode(value), "$PRICE is no Unicode"),
            (VarError::NotPresent, "$PRICE is not set"),
        ] {
            let said = no_variable("price", "PRICE", &error);
            assert_eq!(said.code, codes::SECRET_UNREADABLE);
            assert!(said.message.ends_with(why), "{}", said.message);
            assert!(!said.message.contains("hunter2"), "{}", said.message);
        }
    }

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
