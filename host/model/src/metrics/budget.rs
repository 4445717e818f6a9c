//! Budgets of memory. Each has three metrics, whose names have one shape: `windlass_NAME_bytes` is
//! the use, `windlass_NAME_limit_bytes` the bound, `windlass_NAME_peak_bytes` the highest use.

use super::{About, Gauge};

/// The description of a budget.
#[derive(Clone, Copy, Debug)]
pub struct AboutBudget {
    /// The name in its metrics.
    pub name: &'static str,
    /// What takes its memory, for people.
    pub of: &'static str,
    /// Use, bound and highest use.
    pub metrics: [About; 3],
}

macro_rules! budget {
    ($name:literal, $of:literal) => {
        AboutBudget {
            name: $name,
            of: $of,
            metrics: [
                About {
                    name: concat!("windlass_", $name, "_bytes"),
                    kind: "gauge",
                    labels: &[],
                    help: concat!("Memory of ", $of, "."),
                },
                About {
                    name: concat!("windlass_", $name, "_limit_bytes"),
                    kind: "gauge",
                    labels: &[],
                    help: concat!("The bound of the memory of ", $of, "."),
                },
                About {
                    name: concat!("windlass_", $name, "_peak_bytes"),
                    kind: "gauge",
                    labels: &[],
                    help: concat!("The highest memory of ", $of, ", since the start."),
                },
            ],
        }
    };
}

/// Every budget of a host, sorted by name. [`super::Metrics::budgets`] has them in this order.
pub const BUDGETS: [AboutBudget; 8] = [
    budget!("call_data", "configurations and inputs of calls that wait"),
    budget!("definitions", "workflows that are ready to run, estimated"),
    budget!(
        "http_answers",
        "answers that are made, or that their clients have not read"
    ),
    budget!(
        "http_bodies",
        "bodies of requests over 64 KiB, as they arrive and while they are read"
    ),
    budget!(
        "plugin_memory",
        "instances of plugins, idle ones included, and the data of their calls"
    ),
    budget!(
        "run_data",
        "inputs, variables, outputs and lists of runs in memory"
    ),
    budget!(
        "run_states",
        "states and triggers of runs in memory, estimated"
    ),
    budget!("store_queue", "writes that wait for the store"),
];

/// The use of a budget, its bound and its highest use, in bytes.
#[derive(Debug, Default)]
pub struct Budget {
    used: Gauge,
    limit: Gauge,
    peak: Gauge,
}

impl Budget {
    /// Sets the bound.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.set(bytes);
    }

    /// Sets the use.
    pub fn set(&self, bytes: u64) {
        self.used.set(bytes);
        self.peak.raise(bytes);
    }

    /// Adds to the use.
    pub fn add(&self, bytes: u64) {
        if bytes > 0 {
            self.peak.raise(self.used.add(bytes));
        }
    }

    /// Subtracts an amount that was added before.
    pub fn sub(&self, bytes: u64) {
        self.used.sub(bytes);
    }

    /// The use.
    pub fn get(&self) -> u64 {
        self.used.get()
    }

    /// The bound.
    pub fn limit(&self) -> u64 {
        self.limit.get()
    }

    /// The highest use.
    pub fn peak(&self) -> u64 {
        self.peak.get()
    }

    /// The gauges, in the order of [`AboutBudget::metrics`].
    pub(super) fn gauges(&self) -> [&Gauge; 3] {
        [&self.used, &self.limit, &self.peak]
    }
}
