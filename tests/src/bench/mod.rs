//! Measures the whole path: a workflow of sandboxed nodes, every step flushed.
//!
//! Each scenario runs in a process of its own, so that its memory is its own. Times of a
//! shared machine mean little by themselves: the time of one flush is measured in the same
//! process, before and after, and stands beside every figure.

pub mod flush;
pub mod measure;
pub mod scenario;
pub mod start_up;
pub mod table;

use serde::{Deserialize, Serialize};

/// One line of the result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Which workflow.
    pub scenario: String,
    /// Runs at the same time.
    pub in_flight: usize,
    /// `full` or `normal`.
    pub durability: String,
    /// `warm` or `call`.
    pub isolation: String,
    /// Executions of nodes, recorded durably, per second.
    pub node_executions_per_second: f64,
    /// Whole runs per second.
    pub runs_per_second: f64,
    /// Of a whole run, in milliseconds.
    pub p50_ms: f64,
    /// Of a whole run, in milliseconds.
    pub p99_ms: f64,
    /// Resident memory at the end, in MiB.
    pub rss_mb: f64,
    /// One 8 KiB write with its flush, in milliseconds: the median of this process.
    pub flush_ms: f64,
    /// Runs that were measured.
    pub runs: u64,
    /// What one run takes beyond the flushes that it cannot avoid, in milliseconds; only for
    /// one run at a time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub beyond_flushes_ms: Option<f64>,
}
