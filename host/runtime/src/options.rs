//! How a process takes part.

use std::sync::Arc;

use windlass_keys::export::ExportKeys;
use windlass_model::Clock;
use windlass_store::Store;
use windlass_store::rows::DefinitionRow;

use crate::error::Error;
use crate::links::Links;
use crate::observe::Observer;
use crate::scheduler::core::Settings;
pub use crate::scheduler::driver::Scope;
pub use crate::shard::BurstBounds;
use crate::topology::Topology;
use crate::watching::PluginFolders;

/// Finds a workflow by its name: none if there is none. Called where blocking is allowed.
pub type UnpublishedLookup =
    Box<dyn Fn(&str) -> Result<Option<DefinitionRow>, Error> + Send + Sync>;

/// How a process takes part. What is not here is decided by the store and the plugin host
/// that are passed in.
pub struct Options {
    /// Where the work is kept.
    pub store: Arc<dyn Store>,
    /// Who does the work.
    pub plugins: Arc<windlass_plugins::Host>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where nodes that do I/O run.
    pub io: tokio::runtime::Handle,
    /// What the process calls itself, for people: like `serve`.
    pub name: String,
    /// Which work it claims.
    pub scope: Scope,
    /// How the scheduler behaves.
    pub scheduler: Settings,
    /// Threads that run pure nodes. At least 1.
    pub workers: usize,
    /// Further threads, for when a pure node is slow.
    pub spare_workers: usize,
    /// How long an instance is kept before others get their turn.
    pub burst: BurstBounds,
    /// Workflows that a run may call although they are not published.
    pub beside: Option<UnpublishedLookup>,
    /// Makes the links by which runs go on.
    pub links: Arc<Links>,
    /// The keys that exports are signed with, and by which imports are known.
    pub exports: Arc<ExportKeys>,
    /// Whether other processes do the same on the same store, and how they keep apart.
    pub topology: Topology,
    /// Executions that one run may have.
    pub max_steps: u64,
    /// Who is told what happens.
    pub observer: Option<Arc<dyn Observer>>,
    /// Folders whose plugins are loaded while the process runs.
    pub plugin_folders: Option<PluginFolders>,
}
