//! The operator's options for plugins. Every configurable bound of this crate is here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use windlass_model::Digest;
use windlass_model::metrics::Metrics;

use crate::grant::secrets::Secrets;
use crate::grant::settings::{Limits, Settings};
use crate::hold::PoolSize;
use crate::hold::budget::machine_memory;
use crate::load::bundle::Bundle;
use crate::load::compiler::Compiler;
use crate::load::report::CompileReport;
use crate::offer::http::policy::HttpPolicy;

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
