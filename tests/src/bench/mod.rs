//! Measures the whole path: a workflow of sandboxed nodes, with every step flushed.
//!
//! Each scenario runs in a separate process, so that its memory can be measured. Absolute times on
//! a shared machine mean little, so the time of one flush is measured in the same process, before
//! and after, and is printed beside every result.

pub mod bulk;
pub mod burn_down;
pub mod flush;
pub mod http_resume;
pub mod idle;
pub mod locking;
pub mod long_run;
pub mod measure;
pub mod open_transaction;
pub mod resumes;
pub mod retention;
pub mod rig;
pub mod scaling;
pub mod scenario;
pub mod start_up;
pub mod steady;
pub mod table;
pub mod timers;

use serde::{Deserialize, Serialize};

/// One line of the result.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// The workflow.
    pub scenario: String,
    /// Runs at the same time; zero if the host decides.
    pub in_flight: usize,
    /// `full` or `normal`.
    pub durability: String,
    /// `warm` or `call`.
    pub isolation: String,
    /// `sqlite` or `postgres`.
    #[serde(default)]
    pub store: String,
    /// Executions of nodes, recorded durably, per second.
    pub node_executions_per_second: f64,
    /// Whole runs per second.
    pub runs_per_second: f64,
    /// The duration of a whole run, in milliseconds.
    pub p50_ms: f64,
    /// The duration of a whole run, in milliseconds.
    pub p99_ms: f64,
    /// Resident memory at the end, in MiB.
    pub rss_mb: f64,
    /// One 8 KiB write with its flush, in milliseconds: the median of this process.
    pub flush_ms: f64,
    /// Runs that were measured.
    pub runs: u64,
    /// The duration of one run without its unavoidable flushes, in milliseconds; only for one run
    /// at a time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub beyond_flushes_ms: Option<f64>,
    /// Triggers that were pending before the host was started.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pending: Option<u64>,
    /// From opening the store to the first execution, in seconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub recovery_s: Option<f64>,
    /// The delay of nodes while 1,000 became due each second, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lateness_p99_ms: Option<f64>,
    /// The delay of nodes when 10,000 became due at once, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lateness_burst_p99_ms: Option<f64>,
    /// Waiting runs that were resumed per second.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resumes_per_second: Option<f64>,
    /// From a request over HTTP to the execution of the node that it resumes, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub to_node_p50_ms: Option<f64>,
    /// As `to_node_p50_ms`, for the 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub to_node_p99_ms: Option<f64>,
    /// The duration of the last thousand steps, as a multiple of that of the second thousand.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_over_first: Option<f64>,
    /// Locks that were taken and released per second, each by its own task.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub locks_per_second: Option<f64>,
    /// Processor time of idle hosts per minute, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_ms_per_minute: Option<f64>,
    /// Statements of idle hosts per minute.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub statements_per_minute: Option<f64>,
    /// The longest slice of a sweep, with the wait for the writer, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub worst_slice_ms: Option<f64>,
    /// Runs per second while a transaction is open, as a share of those without it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub share_of_alternating: Option<f64>,
    /// Pages that the database reads per committed transaction: without an open transaction, in the
    /// first round with it, and in the last one.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub buffers_per_commit: Vec<f64>,
    /// The size of the store and its log after each part of the load, in MiB.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub file_mb: Vec<f64>,
}

impl Record {
    /// A record without measurements.
    fn of(scenario: &str, in_flight: usize, setup: &rig::Setup) -> Self {
        Self {
            scenario: scenario.to_owned(),
            in_flight,
            durability: if setup.full { "full" } else { "normal" }.to_owned(),
            isolation: if setup.warm { "warm" } else { "call" }.to_owned(),
            store: setup
                .postgres
                .as_ref()
                .map_or("sqlite", |_| "postgres")
                .to_owned(),
            ..Self::default()
        }
    }

    /// The measurements of this scenario only, for people.
    pub fn extras(&self) -> String {
        let buffers = |at: usize| self.buffers_per_commit.get(at).copied();
        let named = [
            ("pending", self.pending.map(|count| count as f64), 0),
            ("recovery s", self.recovery_s, 2),
            ("late p99 ms", self.lateness_p99_ms, 0),
            ("late at once p99 ms", self.lateness_burst_p99_ms, 0),
            ("resumes/s", self.resumes_per_second, 0),
            ("to the node p50 ms", self.to_node_p50_ms, 2),
            ("to the node p99 ms", self.to_node_p99_ms, 2),
            ("last/first", self.last_over_first, 3),
            ("locks/s", self.locks_per_second, 0),
            ("CPU ms/min", self.cpu_ms_per_minute, 0),
            ("statements/min", self.statements_per_minute, 0),
            ("worst slice ms", self.worst_slice_ms, 1),
            ("share of alternating", self.share_of_alternating, 2),
            ("buffers/commit without", buffers(0), 0),
            ("at first", buffers(1), 0),
            ("at last", buffers(2), 0),
            ("file MiB at first", self.file_mb.first().copied(), 1),
            ("file MiB at last", self.file_mb.last().copied(), 1),
        ];
        let shown = named.into_iter().filter_map(|(name, value, digits)| {
            value.map(|value| format!("{name} {value:.digits$}"))
        });
        shown.collect::<Vec<_>>().join(", ")
    }
}
