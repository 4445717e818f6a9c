//! The options of a process that runs workflows.

use std::sync::Arc;

use windlass_engine::expr::Bounds;
use windlass_keys::export::ExportKeys;
use windlass_model::Clock;
use windlass_model::span::SpanSink;
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

/// Finds a workflow by its name; none if there is none. It may block.
pub type UnpublishedLookup =
    Box<dyn Fn(&str) -> Result<Option<DefinitionRow>, Error> + Send + Sync>;

/// The memory that evaluations of expressions may take.
///
/// A step has three bounds of its own. Steps whose expressions take little run on the threads that
/// run workflows; all others are aside, and few are at a time. A step that has been aside counts as
/// aside until its node begins its call, or until its write is durable if that is large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvaluationMemory {
    /// The bounds of one step.
    pub step: Bounds,
    /// What the expressions of a step may make, and what each may allocate, on a thread that runs
    /// workflows, in bytes. They read JSON of a 32nd of it there.
    pub inline: usize,
    /// The number of steps that may be aside at a time, at least 1; one for two threads that run
    /// workflows, if that is less.
    pub aside: usize,
}

impl Default for EvaluationMemory {
    fn default() -> Self {
        Self {
            step: Bounds::default(),
            inline: 8 * 1024 * 1024,
            aside: usize::MAX,
        }
    }
}

/// The options of a process that runs workflows. The store and the plugin host that are passed in
/// have their own settings.
pub struct Options {
    /// The store of the runs.
    pub store: Arc<dyn Store>,
    /// The plugin host that executes nodes.
    pub plugins: Arc<windlass_plugins::Host>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The tokio runtime for nodes that do I/O.
    pub io: tokio::runtime::Handle,
    /// The name of the process, for people: like `serve`.
    pub name: String,
    /// The work that it claims.
    pub scope: Scope,
    /// The settings of the scheduler.
    pub scheduler: Settings,
    /// Threads that run pure nodes. At least 1.
    pub workers: usize,
    /// Additional threads, used while a pure node is slow.
    pub spare_workers: usize,
    /// How long a run is kept before other runs have their turn.
    pub burst: BurstBounds,
    /// Workflows that a run may call although they are not published.
    pub beside: Option<UnpublishedLookup>,
    /// Makes the links that resume runs.
    pub links: Arc<Links>,
    /// The keys that sign exports and verify imports.
    pub exports: Arc<ExportKeys>,
    /// Whether other processes work on the same store, and how they exclude each other.
    pub topology: Topology,
    /// The limit of executions of one run.
    pub max_steps: u64,
    /// The limit of descendants of a run without a parent.
    pub max_descendants: u32,
    /// The memory of evaluations.
    pub evaluation: EvaluationMemory,
    /// The data that all runs in memory may hold, in bytes. With more, each keeps only what the
    /// store does not have yet.
    pub run_data_bytes: u64,
    /// The memory that the states and triggers of runs may take, in bytes. With more, the process claims
    /// nothing, and large runs leave it. One run is always in memory, however much it takes.
    pub run_state_bytes: u64,
    /// The writes in progress of one shard, in bytes. With more, the shard begins no step and takes
    /// no result until some of them are durable.
    pub unwritten_bytes: u64,
    /// The memory of prepared definitions, in bytes, except for those of runs in memory.
    pub definition_bytes: u64,
    /// Takes the spans of executions and runs; none: traces are not exported.
    pub spans: Option<Arc<dyn SpanSink>>,
    /// The observer of runs.
    pub observer: Option<Arc<dyn Observer>>,
    /// Folders whose plugins are loaded while the process runs.
    pub plugin_folders: Option<PluginFolders>,
}
