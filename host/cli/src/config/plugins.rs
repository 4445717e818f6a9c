//! The section `[plugins]`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Millis, Share, Size, Texts};

/// Which plugins the host loads, and what each may do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Plugins {
    /// The folder of your own plugins: every `*.wasm` in it is loaded.
    pub(crate) directory: PathBuf,
    /// A directory with the node library, for developers of the library. Default: the library
    /// inside the program.
    pub(crate) library: Option<PathBuf>,
    /// The directory of compiled code. Default: `windlass` in the user's cache directory.
    pub(crate) cache: Option<PathBuf>,
    /// The file of the key that authenticates the compiled code of this user's hosts: code in
    /// `cache` that others put there is not run. Created if it does not exist. Default: `code-key`
    /// of `windlass` in the user's data directory.
    pub(crate) code_key: Option<PathBuf>,
    /// The file of the certificates by which the servers of HTTP requests are verified, in PEM.
    /// Default: the system's (SSL_CERT_FILE and SSL_CERT_DIR name others); on a system without any,
    /// those inside the program.
    pub(crate) roots: Option<PathBuf>,
    /// The largest component file.
    pub(crate) max_component: Size,
    /// How much memory the compiler of a component may take. It is a process of its own. All
    /// compilers together take at most a fourth of the machine's memory or of the limit of its
    /// control group; below 4GiB one compiles at a time, in an eighth or 128MiB.
    pub(crate) compile_memory: Size,
    /// How long compiling a component may take by the clock.
    pub(crate) compile_timeout: Millis,
    /// How long the start of a host waits for plugins that are not compiled yet. After that it serves,
    /// and work that needs one of them waits until it is compiled.
    pub(crate) start_wait: Millis,
    /// How many successive traps of a plugin in one workflow delay its calls there; 0 means never.
    pub(crate) quarantine_after: u32,
    /// How much processor time a call may use before it counts as slow and yields to others.
    pub(crate) slow: Millis,
    /// Threads that run plugins; 0 means one for each core.
    pub(crate) threads: u32,
    /// The memory of all plugins together: instances, idle ones included, and the data of their
    /// calls. A size, or a percentage of the machine's memory or of the limit of its control group.
    pub(crate) memory: Share,
    /// The limits of one call, unless a grant changes them.
    pub(crate) limits: Limits,
    /// The limits over all plugins together.
    pub(crate) pool: Pool,
    /// The limits of the HTTP requests of all plugins; no grant extends them. Requests go through the
    /// proxies that the environment names: `HTTPS_PROXY` for `https`, `HTTP_PROXY` for `http`,
    /// `ALL_PROXY` for both, each like `http://USER:PASSWORD@proxy.example:3128`, also in lower case.
    /// `NO_PROXY` lists the direct destinations: names (with all names below them), addresses and
    /// networks, separated by commas, or `*`. Requests to `localhost` and to loopback addresses are
    /// always direct. A proxy speaks HTTP; SOCKS is not offered.
    pub(crate) http: Http,
    /// Digests of components that are neither loaded nor called, not even by runs that began with
    /// them. The denials of all files and variables add up.
    pub(crate) deny: Vec<String>,
    /// The permissions of a plugin, by the name of its package. Without a grant it has none. A
    /// grant is for the component of this name that came with the host; `digest`, `key` and `file`
    /// extend it to others.
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

/// The limits of one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Limits {
    /// All memories of the plugin together.
    pub(crate) memory: Size,
    /// How long a call may take by the clock, waits included.
    pub(crate) deadline: Millis,
    /// Elements of all tables of the plugin together.
    pub(crate) table_elements: u32,
    /// The size of an input or an output.
    pub(crate) payload: Size,
    /// Open handles.
    pub(crate) handles: u32,
    /// Log lines.
    pub(crate) log_lines: u32,
    /// Bytes of log lines.
    pub(crate) log_bytes: Size,
    /// Blobs being written.
    pub(crate) blob_writers: u32,
    /// Bytes written to blobs.
    pub(crate) blob_bytes: Size,
    /// HTTP requests, redirects included.
    pub(crate) http_requests: u32,
    /// Stimuli sent and triggers scheduled, together.
    pub(crate) events: u32,
    /// Bytes of these stimuli and triggers.
    pub(crate) event_bytes: Size,
}

/// The limits over all plugins together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Pool {
    /// Instances, warm ones included.
    pub(crate) instances: u32,
    /// Concurrent calls that can suspend, each with its own stack; further calls queue.
    pub(crate) fibers: u32,
    /// Components being compiled at once.
    pub(crate) compiles: u32,
    /// The most that the memory limit of a plugin may be.
    pub(crate) max_memory: Size,
    /// Calls after which an instance is retired, plus or minus a quarter.
    pub(crate) instance_calls: u32,
    /// How long an instance may be idle.
    pub(crate) instance_idle: Millis,
}

/// The limits of the HTTP requests of all plugins; no grant extends them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Http {
    /// How long a request may take, redirects included.
    pub(crate) timeout: Millis,
    /// How long a request may take to look its name up, and how long to connect.
    pub(crate) connect_timeout: Millis,
    /// The largest body of a response, as it is sent and without its content codings.
    pub(crate) max_response: Size,
    /// Redirects that a request follows.
    pub(crate) max_redirects: u32,
    /// Headers of a request, and of a response.
    pub(crate) max_headers: u32,
    /// Concurrent requests.
    pub(crate) concurrency: u32,
    /// Concurrent name lookups. A lookup counts until the system's resolver returns, even if its
    /// request has been given up; further lookups fail after a second.
    pub(crate) lookups: u32,
}

/// The permissions of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Grant {
    /// Destinations of its HTTP requests: `scheme://host[:port]`.
    pub(crate) http: Vec<String>,
    /// Names of secrets that its HTTP requests may contain.
    pub(crate) secrets: Vec<String>,
    /// Whether it may send stimuli and schedule triggers.
    pub(crate) events: bool,
    /// Whether it is called as a consumer of triggers. The consumers that came with the host always
    /// are.
    pub(crate) consumer: bool,
    /// Digests of components that the grant is also for: one, or a list.
    #[serde(skip_serializing_if = "Texts::is_empty")]
    pub(crate) digest: Texts,
    /// Minisign keys, one or a list: the grant is also for components that one of them has signed.
    /// The signature of `NAME.wasm` is in the file `NAME.wasm.minisig` beside it.
    #[serde(skip_serializing_if = "Texts::is_empty")]
    pub(crate) key: Texts,
    /// Files, one or a list: the grant is also for the components in them, so that a plugin can be
    /// rebuilt. In a project's file, a relative path is relative to the plugin folder. In the
    /// user's file and in variables it is, too, if one of these sets `directory`; otherwise it is
    /// relative to the directory of the user's file, and invalid in a variable.
    #[serde(skip_serializing_if = "Texts::is_empty")]
    pub(crate) file: Texts,
    /// How long one of its instances is reused. Default: `warm`.
    pub(crate) isolation: Option<Isolation>,
    /// Other limits for this plugin.
    pub(crate) limits: LimitsOverride,
}

/// Changes of the limits in a grant.
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

/// How long an instance of a plugin is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Isolation {
    /// For any later call.
    Warm,
    /// For later calls of the same run.
    Run,
    /// For no further call: each call has a new instance.
    Call,
}

impl Default for Plugins {
    fn default() -> Self {
        Self {
            directory: ".windlass/plugins".into(),
            library: None,
            cache: None,
            code_key: None,
            roots: None,
            max_component: Size(64 << 20),
            compile_memory: Size(1 << 30),
            compile_timeout: Millis(120_000),
            start_wait: Millis(1_000),
            quarantine_after: 10,
            slow: Millis(20),
            threads: 0,
            memory: Share::Percent(25),
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
            compiles: 2,
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
    /// The limits with the changes of a grant.
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
