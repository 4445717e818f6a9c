//! The section `[plugins]`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Millis, Share, Size, Texts};

/// Which plugins there are, and what they may do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Plugins {
    /// Your own plugins: every `*.wasm` in it is loaded.
    pub(crate) directory: PathBuf,
    /// The node library that comes with windlass. Default: `plugins` beside the executable,
    /// or else beside the directory of the executable.
    pub(crate) library: Option<PathBuf>,
    /// Where compiled code is kept. Default: `windlass` in the user's cache directory.
    pub(crate) cache: Option<PathBuf>,
    /// The file of the key by which this user's hosts know compiled code of their own: code that
    /// others have put into `cache` is not run. Made if it is not there. Default: `code-key` of
    /// `windlass` in the user's data directory.
    pub(crate) code_key: Option<PathBuf>,
    /// The largest component file.
    pub(crate) max_component: Size,
    /// How many traps of a plugin in a row under one workflow delay its calls there; 0 means
    /// never.
    pub(crate) quarantine_after: u32,
    /// How much processor time a call may take before it counts as slow and gives way to
    /// others.
    pub(crate) slow: Millis,
    /// Threads that run plugins; 0 means one for each core.
    pub(crate) threads: u32,
    /// The memory that all plugins together may take: instances, those that idle included, and
    /// what their calls have in hand. A size, or a share in percent of the machine's memory or
    /// of what its control group allows.
    pub(crate) memory: Share,
    /// What one call may use, unless its grant says otherwise.
    pub(crate) limits: Limits,
    /// How much of everything there is at once, over all plugins.
    pub(crate) pool: Pool,
    /// What the HTTP requests of all plugins are held to, whatever they are granted.
    pub(crate) http: Http,
    /// Components that are neither loaded nor called, also for runs that began with them, by
    /// digest. What several files and variables deny adds up.
    pub(crate) deny: Vec<String>,
    /// What a plugin is given, by the name of its package. Without a grant it gets nothing. A
    /// grant is for the component of this name that came with the host; `digest`, `key` and
    /// `file` say which others it is for.
    #[schemars(extend("x-sample" = GRANTS))]
    pub(crate) grants: BTreeMap<String, Grant>,
}

const GRANTS: &str = r#"[plugins.grants.http]
http = ["https://prices.example", "https://shop.example:8443"]
secrets = ["price-service"]
isolation = "run"
limits = { memory = "128MiB", deadline = "30s" }

[plugins.grants.office]
file = "office.wasm"
events = true
consumer = true"#;

/// What one call may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Limits {
    /// All memories of the plugin together.
    pub(crate) memory: Size,
    /// How long a call may take by the clock, waiting included.
    pub(crate) deadline: Millis,
    /// Elements of all tables of the plugin together.
    pub(crate) table_elements: u32,
    /// An input or an output.
    pub(crate) payload: Size,
    /// Handles that are held at once.
    pub(crate) handles: u32,
    /// Lines that are logged.
    pub(crate) log_lines: u32,
    /// Bytes that are logged.
    pub(crate) log_bytes: Size,
    /// Blobs that are begun and not finished.
    pub(crate) blob_writers: u32,
    /// Bytes that are written to blobs.
    pub(crate) blob_bytes: Size,
    /// HTTP requests, redirects included.
    pub(crate) http_requests: u32,
    /// Stimuli that are sent and triggers that are scheduled, together.
    pub(crate) events: u32,
    /// Bytes of them.
    pub(crate) event_bytes: Size,
}

/// How much of everything there is at once, over all plugins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Pool {
    /// Instances, warm ones included.
    pub(crate) instances: u32,
    /// Calls that wait for something; more of them queue.
    pub(crate) fibers: u32,
    /// Components that are compiled at once.
    pub(crate) compiles: u32,
    /// The most memory that a plugin's limit may name.
    pub(crate) max_memory: Size,
    /// Calls after which an instance is retired, give or take a quarter.
    pub(crate) instance_calls: u32,
    /// How long an instance may idle.
    pub(crate) instance_idle: Millis,
}

/// What the HTTP requests of all plugins are held to, whatever they are granted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Http {
    /// How long a request may take, redirects included.
    pub(crate) timeout: Millis,
    /// How long it may take to look its name up, and how long to connect.
    pub(crate) connect_timeout: Millis,
    /// The largest body of a response.
    pub(crate) max_response: Size,
    /// Redirects that are followed.
    pub(crate) max_redirects: u32,
    /// Headers of a request, and of a response.
    pub(crate) max_headers: u32,
    /// Requests at once.
    pub(crate) concurrency: u32,
    /// Names that are looked up at once. A lookup counts until the system's resolver returns,
    /// also if nobody waits for it any more; further ones fail after a second.
    pub(crate) lookups: u32,
}

/// What a plugin is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Grant {
    /// Where it may send HTTP requests: `scheme://host[:port]`.
    pub(crate) http: Vec<String>,
    /// Secrets that may be put into its HTTP requests, by name.
    pub(crate) secrets: Vec<String>,
    /// Whether it may send stimuli and schedule triggers.
    pub(crate) events: bool,
    /// Whether it is asked about triggers. The consumers that came with the host are.
    pub(crate) consumer: bool,
    /// The grant is for the component of this digest, too, or for those of a list.
    #[serde(skip_serializing_if = "Texts::is_empty")]
    pub(crate) digest: Texts,
    /// The grant is for what this minisign key has signed, too, or one of a list: the signature of
    /// `NAME.wasm` is in the file `NAME.wasm.minisig` beside it.
    #[serde(skip_serializing_if = "Texts::is_empty")]
    pub(crate) key: Texts,
    /// The grant is for what is in this file, too, or in one of a list, so that a plugin can be
    /// built anew. In a project's file, a relative path counts from the plugin folder. In the
    /// user's file and in variables it does where one of these sets `directory`; otherwise it
    /// counts from the directory of the user's file, and not at all in a variable.
    #[serde(skip_serializing_if = "Texts::is_empty")]
    pub(crate) file: Texts,
    /// How long one of its instances lives. Default: `warm`.
    pub(crate) isolation: Option<Isolation>,
    /// Other limits for this plugin.
    pub(crate) limits: LimitsOverride,
}

/// Limits that a grant changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct LimitsOverride {
    /// As `plugins.limits.memory`.
    pub(crate) memory: Option<Size>,
    /// As `plugins.limits.deadline`.
    pub(crate) deadline: Option<Millis>,
    /// As `plugins.limits.table-elements`.
    pub(crate) table_elements: Option<u32>,
    /// As `plugins.limits.payload`.
    pub(crate) payload: Option<Size>,
    /// As `plugins.limits.handles`.
    pub(crate) handles: Option<u32>,
    /// As `plugins.limits.log-lines`.
    pub(crate) log_lines: Option<u32>,
    /// As `plugins.limits.log-bytes`.
    pub(crate) log_bytes: Option<Size>,
    /// As `plugins.limits.blob-writers`.
    pub(crate) blob_writers: Option<u32>,
    /// As `plugins.limits.blob-bytes`.
    pub(crate) blob_bytes: Option<Size>,
    /// As `plugins.limits.http-requests`.
    pub(crate) http_requests: Option<u32>,
    /// As `plugins.limits.events`.
    pub(crate) events: Option<u32>,
    /// As `plugins.limits.event-bytes`.
    pub(crate) event_bytes: Option<Size>,
}

/// How long an instance of a plugin lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Isolation {
    /// Used again by whichever call comes next.
    Warm,
    /// Used again only within one run.
    Run,
    /// Made anew for each call.
    Call,
}

impl Default for Plugins {
    fn default() -> Self {
        Self {
            directory: ".windlass/plugins".into(),
            library: None,
            cache: None,
            code_key: None,
            max_component: Size(64 << 20),
            quarantine_after: 10,
            slow: Millis(20),
            threads: 0,
            memory: Share::Percent(50),
            limits: Limits::default(),
            pool: Pool::default(),
            http: Http::default(),
            deny: Vec::new(),
            grants: BTreeMap::new(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: Size(64 << 20),
            deadline: Millis(10_000),
            table_elements: 20_000,
            payload: Size(4 << 20),
            handles: 1000,
            log_lines: 256,
            log_bytes: Size(64 << 10),
            blob_writers: 4,
            blob_bytes: Size(64 << 20),
            http_requests: 32,
            events: 64,
            event_bytes: Size(1 << 20),
        }
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            instances: 1000,
            fibers: 256,
            compiles: 1,
            max_memory: Size(256 << 20),
            instance_calls: 1000,
            instance_idle: Millis(30_000),
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self {
            timeout: Millis(30_000),
            connect_timeout: Millis(5000),
            max_response: Size(4 << 20),
            max_redirects: 10,
            max_headers: 64,
            concurrency: 256,
            lookups: 32,
        }
    }
}

impl LimitsOverride {
    /// The limits with what is overridden.
    pub(crate) fn over(&self, limits: &Limits) -> Limits {
        Limits {
            memory: self.memory.unwrap_or(limits.memory),
            deadline: self.deadline.unwrap_or(limits.deadline),
            table_elements: self.table_elements.unwrap_or(limits.table_elements),
            payload: self.payload.unwrap_or(limits.payload),
            handles: self.handles.unwrap_or(limits.handles),
            log_lines: self.log_lines.unwrap_or(limits.log_lines),
            log_bytes: self.log_bytes.unwrap_or(limits.log_bytes),
            blob_writers: self.blob_writers.unwrap_or(limits.blob_writers),
            blob_bytes: self.blob_bytes.unwrap_or(limits.blob_bytes),
            http_requests: self.http_requests.unwrap_or(limits.http_requests),
            events: self.events.unwrap_or(limits.events),
            event_bytes: self.event_bytes.unwrap_or(limits.event_bytes),
        }
    }
}
