//! The operator's options for plugins. Every configurable bound of this crate is here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use windlass_model::Digest;
use windlass_model::metrics::Metrics;

use crate::budget::{INSTANCE_BYTES, machine_memory};
use crate::bundle::Bundle;
use crate::compiler::Compiler;
use crate::http::proxy::Proxies;

pub use crate::http::grant::Grant;
pub use crate::proof::Proofs;
pub use crate::secrets::{Secret, Secrets, Source};

/// The options of a host.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory of components by their digest. Created if it does not exist.
    pub store_dir: PathBuf,
    /// The directory of compiled code. Created if it does not exist, readable by this user alone:
    /// its content is run.
    pub cache_dir: PathBuf,
    /// The file of the key that authenticates the code that this user's hosts have compiled.
    /// Created if it does not exist, readable by this user alone.
    pub code_key: PathBuf,
    /// The limits of a call, unless the plugin's own settings change them.
    pub limits: Limits,
    /// By package name. A package without an entry gets [`Settings::default`].
    pub settings: BTreeMap<String, Settings>,
    /// The file in which an operator writes grants, for messages about missing ones.
    pub grants_file: String,
    /// The components of the library that came with the host. They need no further proof, and their
    /// consumers need no grant.
    pub library: BTreeSet<Digest>,
    /// The components inside this program. [`Folders`](crate::Folders) load them first.
    pub bundle: Bundle,
    /// Whether they do. Otherwise only the code in the bundle is used, for the same components in
    /// files.
    pub load_bundle: bool,
    /// Why a package of the node library may be missing, and the remedy, for messages.
    pub library_missing: String,
    /// Components, or files that components are made of, that are never loaded or called.
    pub denied: BTreeSet<Digest>,
    /// The limits over all plugins together.
    pub pool: PoolSize,
    /// The memory of all plugins together, in bytes: instances, idle ones included, and the data of
    /// their calls.
    pub memory_bytes: u64,
    /// How much processor time a call may use before it counts as slow.
    pub slow: Duration,
    /// With so many slow inline calls at once, no further call is made inline.
    pub max_slow_inline: usize,
    /// The number of threads that run guests. Slow fibers get half of them.
    pub threads: usize,
    /// The bounds of the guests' HTTP client, in addition to the grants.
    pub http: HttpPolicy,
    /// The secrets that grants name.
    pub secrets: Secrets,
    /// How many successive traps of a plugin in one workflow delay its calls there. None: never.
    pub quarantine_after: Option<u32>,
    /// The largest component file, in bytes.
    pub max_component_bytes: u64,
    /// Where components are compiled.
    pub compiler: Compiler,
    /// Where calls are measured.
    pub metrics: Arc<Metrics>,
    /// Receives reports about compilations that take long. None: there are no reports.
    pub compiling: Option<CompileReport>,
}

/// Reports about compilations that take longer than `after`: once when the time is over, and once
/// at the end.
#[derive(Clone)]
pub struct CompileReport {
    /// The time without a report.
    pub after: Duration,
    /// Receives the reports, on threads that load plugins.
    pub tell: Arc<dyn Fn(&Compiling<'_>) + Send + Sync>,
}

impl std::fmt::Debug for CompileReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompileReport")
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

/// A compilation that takes long.
#[derive(Clone, Copy, Debug)]
pub struct Compiling<'a> {
    /// The file, or the digest of a component that is loaded from the store.
    pub subject: &'a str,
    /// The size of the component, in bytes.
    pub bytes: usize,
    /// How long it took; none while it goes on.
    pub took: Option<Duration>,
}

impl Options {
    /// The defaults, with all files below `dir`.
    pub fn in_dir(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            store_dir: dir.join("components"),
            cache_dir: dir.join("compiled"),
            code_key: dir.join("code-key"),
            limits: Limits::default(),
            settings: BTreeMap::new(),
            grants_file: "windlass.toml".to_owned(),
            library: BTreeSet::new(),
            bundle: Bundle::default(),
            load_bundle: true,
            library_missing: "the node library is not loaded".to_owned(),
            denied: BTreeSet::new(),
            pool: PoolSize::default(),
            memory_bytes: machine_memory() / 2,
            slow: Duration::from_millis(20),
            max_slow_inline: (threads / 2).max(1),
            threads,
            http: HttpPolicy::default(),
            secrets: Secrets::default(),
            quarantine_after: Some(10),
            max_component_bytes: 64 * 1024 * 1024,
            compiler: Compiler::Here,
            metrics: Arc::default(),
            compiling: None,
        }
    }
}

impl Options {
    /// The most memory that a call of any package can use.
    pub(crate) fn most_memory(&self) -> u64 {
        let own = self
            .settings
            .values()
            .filter_map(|settings| settings.limits.as_ref());
        let most = own.chain([&self.limits]).map(Limits::most_memory);
        most.fold(0, u64::max)
    }

    /// The largest value of a limit over all packages.
    pub(crate) fn most(&self, of: impl Fn(&Limits) -> usize) -> usize {
        let own = self
            .settings
            .values()
            .filter_map(|settings| settings.limits.as_ref());
        own.map(&of).fold(of(&self.limits), usize::max)
    }
}

/// The limits of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory in bytes, all memories of the instance together.
    pub memory_bytes: usize,
    /// How long a call may take by the clock, waits included.
    pub deadline: Duration,
    /// Elements of all tables of the instance together.
    pub table_elements: usize,
    /// Bytes of a payload, into the guest and out of it.
    pub payload_bytes: usize,
    /// Handles that a guest may hold at once.
    pub handles: usize,
    /// Lines that a call may log.
    pub log_lines: usize,
    /// Bytes that a call may log, names and values of fields included.
    pub log_bytes: usize,
    /// Blobs that a call may have begun and not finished.
    pub blob_writers: usize,
    /// Bytes of blobs that a call may write.
    pub blob_bytes: usize,
    /// HTTP requests that a call may make, redirects included.
    pub http_requests: u32,
    /// Stimuli that a call may send and triggers that it may schedule, together.
    pub events: usize,
    /// Bytes of these stimuli and triggers, names and values together.
    pub event_bytes: usize,
}

impl Limits {
    /// The most memory that a call within these limits can use: its input, its output and a body in
    /// each direction are payloads.
    pub(crate) fn most_memory(&self) -> u64 {
        let payloads = self.payload_bytes.saturating_mul(4);
        let bytes = self
            .memory_bytes
            .saturating_add(payloads)
            .saturating_add(self.blob_bytes);
        (bytes as u64).saturating_add(INSTANCE_BYTES)
    }

    /// The smaller one of each limit.
    pub(crate) fn least(&self, other: &Self) -> Self {
        Self {
            memory_bytes: self.memory_bytes.min(other.memory_bytes),
            deadline: self.deadline.min(other.deadline),
            table_elements: self.table_elements.min(other.table_elements),
            payload_bytes: self.payload_bytes.min(other.payload_bytes),
            handles: self.handles.min(other.handles),
            log_lines: self.log_lines.min(other.log_lines),
            log_bytes: self.log_bytes.min(other.log_bytes),
            blob_writers: self.blob_writers.min(other.blob_writers),
            blob_bytes: self.blob_bytes.min(other.blob_bytes),
            http_requests: self.http_requests.min(other.http_requests),
            events: self.events.min(other.events),
            event_bytes: self.event_bytes.min(other.event_bytes),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 * 1024 * 1024,
            deadline: Duration::from_secs(10),
            table_elements: 20_000,
            payload_bytes: 4 * 1024 * 1024,
            handles: 1_000,
            log_lines: 256,
            log_bytes: 64 * 1024,
            blob_writers: 4,
            blob_bytes: 64 * 1024 * 1024,
            http_requests: 32,
            events: 64,
            event_bytes: 1024 * 1024,
        }
    }
}

/// The operator's settings for one package. Permissions are for proved components only;
/// restrictions hold for every component of the name.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The proofs of a component, besides being part of the library.
    pub proofs: Proofs,
    /// Its permissions. None by default.
    pub grants: Grants,
    /// Replaces [`Options::limits`]. A component that is not proved has the smaller one of both.
    pub limits: Option<Limits>,
    /// How long its instances are reused.
    pub isolation: Isolation,
}

impl Settings {
    /// Whether they give a component more than the default.
    pub(crate) fn give(&self, default: &Limits) -> bool {
        let grants = &self.grants;
        let raised = |own: &Limits| own.least(default) != *own;
        !grants.http.is_empty()
            || !grants.secrets.is_empty()
            || grants.events
            || grants.consumer
            || self.limits.as_ref().is_some_and(raised)
    }
}

/// How long an instance of a plugin is reused. Its memory survives exactly as long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isolation {
    /// A call may use any warm instance.
    #[default]
    Warm,
    /// A call uses only instances of the same workflow run.
    Run,
    /// Each call has an instance of its own.
    Call,
}

/// The permissions of a plugin: each needs a request of the plugin *and* a grant.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    /// Destinations of its HTTP requests.
    pub http: Vec<Grant>,
    /// Names of secrets that its HTTP requests may contain.
    pub secrets: Vec<String>,
    /// Whether it may send stimuli and schedule triggers.
    pub events: bool,
    /// Whether it is called as a consumer of triggers.
    pub consumer: bool,
}

/// The certificates by which servers are verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Roots {
    /// Those of the system; on a system without any, those inside the program.
    #[default]
    System,
    /// These alone, as the content of a PEM file.
    Only(Vec<u8>),
}

/// The bounds of every HTTP request of a guest.
#[derive(Clone, Debug)]
pub struct HttpPolicy {
    /// How long a request may take, redirects included.
    pub timeout: Duration,
    /// How long a request may take to look its name up, and how long to connect.
    pub connect_timeout: Duration,
    /// The largest body of a response, in bytes.
    pub max_response_bytes: u64,
    /// The most redirects that a request follows.
    pub max_redirects: u32,
    /// The most headers of a request, and of a response.
    pub max_headers: usize,
    /// Concurrent requests of all plugins.
    pub concurrency: usize,
    /// Concurrent name lookups. A lookup counts until the system's resolver returns.
    pub lookups: usize,
    /// The trusted certificates.
    pub roots: Roots,
    /// The proxies through which requests go.
    pub proxies: Proxies,
}

impl Default for HttpPolicy {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            max_response_bytes: 4 * 1024 * 1024,
            max_redirects: 10,
            max_headers: 64,
            concurrency: 256,
            lookups: 32,
            roots: Roots::System,
            proxies: Proxies::default(),
        }
    }
}

/// The limits over all plugins together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// Instances, warm ones included.
    pub instances: u32,
    /// Concurrent calls on fibers; further calls wait.
    pub fibers: u32,
    /// Components being compiled at once.
    pub compiles: usize,
    /// The most that the memory limit of a plugin may be, in bytes.
    pub max_memory_bytes: usize,
    /// Calls after which an instance is retired, plus or minus a quarter.
    pub slot_calls: u32,
    /// How long an instance may be idle.
    pub slot_idle: Duration,
}

impl Default for PoolSize {
    fn default() -> Self {
        Self {
            instances: 1_000,
            fibers: 256,
            compiles: 1,
            max_memory_bytes: 256 * 1024 * 1024,
            slot_calls: 1_000,
            slot_idle: Duration::from_secs(30),
        }
    }
}
