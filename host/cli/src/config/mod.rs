//! What can be configured, and nothing that nobody reads.
//!
//! The doc comments of the settings are the reference: the JSON Schema, the commented sample
//! in `docs/` and the messages about unknown keys are all made from these types.

pub(crate) mod cluster;
pub(crate) mod layers;
mod listed;
pub(crate) mod plugins;
#[cfg(test)]
mod reference;
pub(crate) mod sample;
pub(crate) mod schema;
mod sensitive;
mod server;
pub(crate) mod trust;
pub(crate) mod units;

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use cluster::{Cluster, LockBackend, Locks};
pub(crate) use layers::{Loaded, Sources};
pub(crate) use listed::{Directories, Texts};
pub(crate) use server::Server;
pub(crate) use units::{Millis, Rate, Share, Size};

/// The configuration of a windlass host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Config {
    /// Where runs are kept.
    pub(crate) store: Store,
    /// Whether several processes share the store.
    pub(crate) cluster: Cluster,
    /// Who gives out the locks in a cluster.
    pub(crate) locks: Locks,
    /// When work is looked for, and how much of it is taken on at once.
    pub(crate) scheduler: Scheduler,
    /// Which workflows `serve` publishes.
    pub(crate) definitions: Definitions,
    /// Which plugins there are, and what they may do.
    pub(crate) plugins: plugins::Plugins,
    /// How `serve` is reached over HTTP.
    pub(crate) server: Server,
    /// How long `serve` keeps what is over, and what becomes of it then.
    pub(crate) retention: Retention,
    /// The secrets, by name: where each comes from, where requests with it may go, and which
    /// workflows may use it.
    #[schemars(extend("x-sample" = SECRETS))]
    pub(crate) secrets: BTreeMap<String, Secret>,
    /// By which keys links and exports are known.
    pub(crate) keys: Keys,
    /// What the host says about its work, on stderr.
    pub(crate) telemetry: Telemetry,
}

const SECRETS: &str = r#"price-service = { env = "PRICE_SERVICE_TOKEN", to = ["https://prices.example"] }
mail = { directory = "/run/secrets", to = ["https://mail.example"], workflows = ["orders"] }"#;

/// Where runs are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Store {
    /// `sqlite:PATH`, a plain path, or `postgres://USER@HOST/DATABASE`. A relative path in a
    /// file counts from the directory of that file.
    pub(crate) url: String,
    /// `full`: what was acknowledged survives a power cut. `normal`: it survives the death of
    /// the process, and a power cut may take the last moments.
    pub(crate) durability: Durability,
    /// How much may wait to be written. Who brings more waits until there is room: so a process
    /// on a slow disk becomes slower, and not larger. At least 1MiB.
    pub(crate) queue: Size,
    /// How long `serve` waits at its start for a database server that cannot be reached. `0s`:
    /// not at all.
    pub(crate) connect_timeout: Millis,
}

/// Which workflows `serve` publishes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Definitions {
    /// The directory whose workflow files are published, and again when they change, or a list
    /// of such. A relative path in a file counts from the directory of that file.
    pub(crate) directory: Directories,
    /// What becomes of what a file has published when it is taken away. `retract`: it is taken
    /// back, unless something newer has come from elsewhere. `keep`: it stays published.
    pub(crate) on_removal: OnRemoval,
}

/// What becomes of what a file has published when it is taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OnRemoval {
    /// It is taken back.
    #[default]
    Retract,
    /// It stays published.
    Keep,
}

/// What survives what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Durability {
    /// What was acknowledged survives a power cut.
    #[default]
    Full,
    /// What was acknowledged survives the death of the process.
    Normal,
}

/// When work is looked for, and how much of it is taken on at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Scheduler {
    /// How often the store is looked through for due work, whatever the hints say. At least 1s.
    pub(crate) scan_interval: Millis,
    /// How long others trust in the life of this process without hearing of it. At least 3s.
    pub(crate) lease: Millis,
    /// How far ahead the scheduler waits for the next due time precisely; the scan finds later
    /// triggers. At least twice `scan-interval`.
    pub(crate) near_horizon: Millis,
    /// Threads that run workflows; 0 means one for each core.
    pub(crate) workers: u32,
    /// Further threads that take over while a plugin keeps one busy.
    pub(crate) spare_workers: u32,
    /// Instances claimed at once.
    pub(crate) claim_instances: u32,
    /// Triggers claimed at once of each instance.
    pub(crate) claim_triggers: u32,
    /// Instances freed at once of processes that have died.
    pub(crate) bury_instances: u32,
    /// Steps in flight at once; beyond, nothing is claimed.
    pub(crate) in_flight: u32,
    /// Steps of one run in a row before other runs get their turn.
    pub(crate) burst_steps: u32,
    /// How long one run is kept before other runs get their turn. At least 1ms.
    pub(crate) burst_time: Millis,
    /// How long a shutdown waits for what is running before it interrupts it.
    pub(crate) drain: Millis,
    /// Node executions of one run; beyond, it faults. Stops loops without an end.
    pub(crate) max_steps: u64,
}

/// How long `serve` keeps what is over, and what becomes of it then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Retention {
    /// How long a run is kept after it has ended. What waits is kept however long it waits.
    pub(crate) keep: Millis,
    /// How often it is looked for what is over. At least 1s.
    pub(crate) every: Millis,
    /// How long a large value is kept that nothing refers to any more.
    pub(crate) grace: Millis,
    /// A directory in which runs are written down before they are forgotten, as
    /// newline-delimited JSON, a file for each day. Default: nowhere.
    pub(crate) archive: Option<PathBuf>,
    /// Rows that are deleted at once at most; fewer if they take longer than 20 ms.
    pub(crate) slice_rows: u32,
}

/// By which keys links and exports are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Keys {
    /// The file of the keyring, as an operator or an orchestrator puts it there: owned by the
    /// user or root, and not readable by everybody. All hosts of a cluster have the same keys.
    /// WINDLASS_KEYRING may have the keyring itself. Default: a file of the user's, which is made
    /// if it is not there.
    pub(crate) file: Option<PathBuf>,
    /// Public keys of other hosts, as `windlass keys show` prints them there. Runs that they have
    /// signed are imported as if this host had signed them.
    pub(crate) trusted: Vec<String>,
}

/// A secret: exactly one of `env`, `file` and `directory` says where its value comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
#[schemars(extend("oneOf" = [{"required": ["env"]}, {"required": ["file"]}, {"required": ["directory"]}]))]
pub(crate) struct Secret {
    /// An environment variable has the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) env: Option<String>,
    /// A file has it; a line break at its end does not count. It is read again when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<PathBuf>,
    /// The file of the secret's name in this directory has it, as orchestrators mount secrets.
    /// It is read again when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) directory: Option<PathBuf>,
    /// Where requests with it may go, written like the grants of `http`. Default: nowhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) to: Vec<String>,
    /// The workflows that may use it. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workflows: Option<Vec<String>>,
}

/// What the host says about its work, on stderr.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Telemetry {
    /// What is logged, like `info` or `warn,windlass_runtime=debug`. Default: `info` for
    /// `serve`, `warn` for all other commands.
    pub(crate) log: Option<String>,
    /// How a log line looks.
    pub(crate) log_format: LogFormat,
    /// How many lines from one place in the code are logged in ten seconds. Those beyond are
    /// counted, and one line says how many they were. 0 means all; lines of the levels `debug`
    /// and `trace` are all logged.
    pub(crate) log_limit: u32,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            log: None,
            log_format: LogFormat::default(),
            log_limit: 50,
        }
    }
}

/// How a log line looks.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON document on a line.
    Json,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            url: "sqlite:.windlass/windlass.db".into(),
            durability: Durability::Full,
            queue: Size(64 << 20),
            connect_timeout: Millis(30_000),
        }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            keep: Millis(7 * 24 * 3_600_000),
            every: Millis(60_000),
            grace: Millis(3_600_000),
            archive: None,
            slice_rows: 1000,
        }
    }
}

impl Default for Definitions {
    fn default() -> Self {
        Self {
            directory: ".windlass/workflows".into(),
            on_removal: OnRemoval::default(),
        }
    }
}

impl Default for Scheduler {
    fn default() -> Self {
        Self {
            scan_interval: Millis(5000),
            lease: Millis(30_000),
            near_horizon: Millis(60_000),
            workers: 0,
            spare_workers: 4,
            claim_instances: 256,
            claim_triggers: 64,
            bury_instances: 1000,
            in_flight: 4096,
            burst_steps: 10_000,
            burst_time: Millis(5000),
            drain: Millis(30_000),
            max_steps: 100_000,
        }
    }
}

#[cfg(test)]
mod tests;
