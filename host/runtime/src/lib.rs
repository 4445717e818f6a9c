//! Runs workflows: decides when work happens, and carries it out.
//!
//! A [`Runtime`] is the part of one process in running workflows. It is a member of a store, claims
//! due triggers, offers each trigger to its consumer, runs the node that the engine names, and
//! commits the results. To follow a trigger, read in this order: `scheduler/core.rs` (when),
//! `scheduler/driver.rs` (the claim), `shard/step.rs` (consumer and node), `shard/settle.rs` (the
//! engine), `shard/commit.rs` (the transaction), and `shard/shard_state.rs` (its acknowledgement,
//! and the next trigger).

mod burst_locks;
mod call_data;
mod catalog;
mod clock;
pub mod codes;
mod components;
pub mod definitions;
mod derived;
mod entry;
mod error;
mod evaluators;
mod exclusive;
mod guest_view;
pub mod heavy;
pub mod keyring;
mod links;
mod lookout;
mod observe;
pub mod operations;
mod options;
mod outputs;
mod parts;
mod pause;
mod process;
mod queue;
pub mod rebuilding;
mod reserving;
pub mod retention;
mod runtime;
pub mod scheduler;
mod schedules;
mod shard;
mod shared;
#[cfg(test)]
mod sim;
mod starting;
mod suspects;
mod taking;
mod topology;
pub mod transfer;
mod wait;
mod watching;
mod workers;

pub use catalog::{
    Answering, Others, PublishedOthers, Report, cannot_run, check, check_file, warnings_before_run,
};
pub use clock::{SystemClock, new_run_id};
pub use derived::check_chosen;
pub use error::Error;
pub use links::Links;
pub use lookout::RunWatch;
pub use observe::{Observed, Observer};
pub use operations::Operations;
pub use options::{BurstBounds, EvaluationMemory, Options, Scope, UnpublishedLookup};
pub use pause::Paused;
pub use runtime::{Drained, Runtime, result_of};
pub use scheduler::core::Settings;
pub use starting::{StartRequest, Started, Workflow, published_for};
pub use topology::{BurstLock, Distribution, Topology};
pub use wait::RunResult;
pub use watching::{FolderLog, FolderReport, PluginFolders, Watch};
