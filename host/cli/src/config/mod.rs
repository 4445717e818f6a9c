//! The settings.
//!
//! The doc comments of the settings are the reference: the JSON Schema, the commented sample in
//! `docs/` and the messages about unknown keys are all generated from these types.

mod bounds;
pub(crate) mod cluster;
#[cfg(test)]
mod constants;
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
    /// Which provider the locks of a cluster come from.
    pub(crate) locks: Locks,
    /// When the host looks for due work, and how much it takes on at once.
    pub(crate) scheduler: Scheduler,
    /// Which workflows `serve` publishes.
    pub(crate) definitions: Definitions,
    /// Which plugins the host loads, and what each may do.
    pub(crate) plugins: plugins::Plugins,
    /// How clients reach `serve` over HTTP.
    pub(crate) server: Server,
    /// How long `serve` keeps finished runs, and where it archives them.
    pub(crate) retention: Retention,
    /// The secrets, by name: where each value comes from, where requests may send it, and which
    /// workflows may use it.
    #[schemars(extend("x-sample" = SECRETS))]
    pub(crate) secrets: BTreeMap<String, Secret>,
    /// Which keys sign and verify links and exports.
    pub(crate) keys: Keys,
    /// What the host logs on stderr, and how.
    pub(crate) telemetry: Telemetry,
    /// The file for further grants, as messages name it. Not a setting.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) grants_file: String,
}

const SECRETS: &str = r#"price-service = { env = "PRICE_SERVICE_TOKEN", to = ["https://prices.example"] }
mail = { directory = "/run/secrets", to = ["https://mail.example"], workflows = ["orders"] }"#;

/// Where runs are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Store {
    /// `sqlite:PATH`, a plain path, or `postgres://USER@HOST/DATABASE`. A relative path in a file
    /// is relative to the directory of that file.
    pub(crate) url: String,
    /// `full`: acknowledged work survives a power cut. `normal`: it survives the death of the
    /// process, but a power cut may lose the last moments.
    pub(crate) durability: Durability,
    /// How much unwritten work may queue. Further writes wait until there is room, so that a slow
    /// disk slows the process down instead of filling its memory. At least 1MiB. At most a
    /// 64th of the machine's memory or of the limit of its control group.
    pub(crate) queue: Size,
    /// How long `serve` waits at its start for a database server that cannot be reached. `0s`:
    /// not at all.
    pub(crate) connect_timeout: Millis,
}

/// Which workflows `serve` publishes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Definitions {
    /// The directory whose workflow files are published, and again when they change, or a list of
    /// directories. A relative path in a file is relative to the directory of that file.
    pub(crate) directory: Directories,
    /// What happens to a workflow when its file is removed. `retract`: it is retracted, unless a
    /// newer version came from elsewhere. `keep`: it stays published.
    pub(crate) on_removal: OnRemoval,
}

/// What happens to a workflow when its file is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OnRemoval {
    /// It is retracted.
    #[default]
    Retract,
    /// It stays published.
    Keep,
}

/// Which failures acknowledged work survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Durability {
    /// Acknowledged work survives a power cut.
    #[default]
    Full,
    /// Acknowledged work survives the death of the process.
    Normal,
}

/// When the host looks for due work, and how much it takes on at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Scheduler {
    /// How often the store is searched for due work, even if no timer or message calls for it. At
    /// least 1s.
    pub(crate) scan_interval: Millis,
    /// How long other processes consider this one alive without a heartbeat. At least 3s.
    pub(crate) lease: Millis,
    /// How far ahead the scheduler waits for a due time with a timer; the scan finds later ones. At
    /// least twice `scan-interval`.
    pub(crate) near_horizon: Millis,
    /// Threads that run workflows; 0 means one for each core.
    pub(crate) workers: u32,
    /// Additional threads that take over while plugins keep workers busy.
    pub(crate) spare_workers: u32,
    /// Runs per claim.
    pub(crate) claim_runs: u32,
    /// Triggers per run and claim.
    pub(crate) claim_triggers: u32,
    /// Runs of dead processes that one transaction frees.
    pub(crate) reap_runs: u32,
    /// Steps in flight. At seven eighths of this number, nothing more is claimed; new runs use the rest.
    pub(crate) in_flight: u32,
    /// Steps of one run in a row before other runs get their turn.
    pub(crate) burst_steps: u32,
    /// How long one run keeps its thread before other runs get their turn; its first 16 steps are not interrupted. At least 1ms.
    pub(crate) burst_time: Millis,
    /// How long a shutdown waits for executions in progress before it interrupts them.
    pub(crate) drain: Millis,
    /// Node executions of one run; with more, it faults. Stops endless loops.
    pub(crate) max_steps: u64,
    /// Descendants that a run may have in its life if no other run has started it: children, and
    /// runs that start by events of its tree. With more, the node that would start one fails, and
    /// an event that would start one becomes a dead letter. Stops workflows that start each other
    /// without end. A workflow may set less.
    pub(crate) max_descendants: u32,
    /// How much memory the values may take that one step makes: the variables of a `set` node, its
    /// configuration and its input, or the output of its run. With more, the node fails. At most a
    /// 48th of the machine's memory or of the limit of its control group.
    pub(crate) step_memory: Size,
    /// How much memory the data of runs may take: inputs, variables, outputs and lists. With more,
    /// a run keeps only the data that the store does not have yet, reads the rest again, and reads
    /// lists in pages. The states and triggers of runs may take half of it: with more, few runs are
    /// in memory at a time. At most a sixteenth of the machine's memory or of the limit of its control
    /// group.
    pub(crate) run_data: Size,
    /// How much memory the workflows take that are kept ready to run. The one used longest ago is
    /// dropped first, and read from the store again when a run needs it. Workflows of runs that are
    /// in memory stay beyond this size, and count. At most a 64th of the machine's memory or of the
    /// limit of its control group.
    pub(crate) definition_cache: Size,
    /// A directory with newer rules of time zones than those inside the program, in the layout of
    /// `/usr/share/zoneinfo`: the same for all processes on one store. Default: the rules inside the
    /// program.
    pub(crate) zoneinfo: Option<PathBuf>,
}

/// How long `serve` keeps finished runs, and where it archives them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Retention {
    /// How long a finished run is kept. Unfinished runs are kept without a limit.
    pub(crate) keep: Millis,
    /// How often `serve` looks for finished runs to delete. At least 1s.
    pub(crate) every: Millis,
    /// How long a large value is kept after the last reference to it is gone.
    pub(crate) grace: Millis,
    /// A directory in which runs are archived before they are deleted, as newline-delimited JSON, a
    /// file for each day. Default: no archive.
    pub(crate) archive: Option<PathBuf>,
    /// The most rows that one transaction deletes; fewer if they take longer than 20 ms.
    pub(crate) slice_rows: u32,
}

/// Which keys sign and verify links and exports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Keys {
    /// The file of the keyring, as an operator or an orchestrator provides it: owned by the user or
    /// root, and not readable by all users. All hosts of a cluster have the same keys.
    /// WINDLASS_KEYRING may contain the keyring itself. Default: a file of the user's, which is
    /// created if it does not exist.
    pub(crate) file: Option<PathBuf>,
    /// Public keys of other hosts, as `windlass keys show` prints them there. Runs signed by them
    /// are imported like runs signed by this host.
    pub(crate) trusted: Vec<String>,
}

/// A secret: exactly one of `env`, `file` and `directory` gives the source of its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
#[schemars(extend("oneOf" = [{"required": ["env"]}, {"required": ["file"]}, {"required": ["directory"]}]))]
pub(crate) struct Secret {
    /// The environment variable that contains the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) env: Option<String>,
    /// The file that contains the value; a line break at its end does not count. The file is read
    /// again when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<PathBuf>,
    /// The directory that contains a file of the secret's name, as orchestrators mount secrets. The
    /// file is read again when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) directory: Option<PathBuf>,
    /// The destinations of requests with the secret, written like the grants of `http`. Default:
    /// none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) to: Vec<String>,
    /// The workflows that may use it. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workflows: Option<Vec<String>>,
}

/// What the host logs on stderr, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Telemetry {
    /// The filter of the log, like `info` or `warn,windlass_runtime=debug`. Default: `info` for
    /// `serve`, `warn` for all other commands.
    pub(crate) log: Option<String>,
    /// The format of log lines.
    pub(crate) log_format: LogFormat,
    /// How many lines of one kind are logged in ten seconds, like those about runs that fault; a
    /// tenth of them with the same workflow, file and code. Further lines are counted, and one line for
    /// each workflow, file and code reports their number. 0 means no limit; lines of the levels `debug`
    /// and `trace` have no limit.
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

/// The format of log lines.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON document per line.
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
            claim_runs: 256,
            claim_triggers: 64,
            reap_runs: 1000,
            in_flight: 4096,
            burst_steps: 10_000,
            burst_time: Millis(5000),
            drain: Millis(30_000),
            max_steps: 100_000,
            max_descendants: 10_000,
            step_memory: Size(64 << 20),
            run_data: Size(128 << 20),
            definition_cache: Size(256 << 20),
            zoneinfo: None,
        }
    }
}

#[cfg(test)]
mod tests;
