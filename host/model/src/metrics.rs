//! The metrics of a process: the one place with the names, units and meaning of all metrics.
//!
//! Recording is a few atomic additions on a series that was looked up before, so a step can afford
//! it; nothing here waits, and the number of series is bounded. The caller passes the measured
//! time. No label contains an identifier of a run or of a trigger: those are in logs.

mod budget;
mod http;
mod process;
mod runs;
mod series;
mod text;

use std::sync::Arc;

pub use budget::{AboutBudget, BUDGETS, Budget};
pub use http::{Answers, Http, POOLS, Slots};
pub use process::Process;
pub use runs::RunEvent;
pub use series::{Counter, Family, Gauge, Histogram, Tally};

use crate::TriggerType;
use series::{MAX_HISTOGRAMS, MAX_TALLIES};

/// The description of a metric.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Its name when it is scraped. It ends with the unit, if there is one.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// Its meaning, in one sentence.
    pub help: &'static str,
}

const TRIGGER_EXECUTION: About = About {
    name: "trigger_execution_seconds",
    kind: "histogram",
    labels: &["type", "node"],
    help: "How long nodes were executed, by the type of the trigger and the name of the node.",
};
const EVALUATIONS_ASIDE: About = About {
    name: "windlass_evaluations_aside_total",
    kind: "counter",
    labels: &[],
    help: "Expressions that took long, read much or made much, and so were evaluated beside the \
           threads that run workflows.",
};
const EVALUATIONS_WAITING: About = About {
    name: "windlass_evaluations_waiting",
    kind: "gauge",
    labels: &[],
    help: "Those of them that wait for their turn.",
};
const CALL_DATA_WAITING: About = About {
    name: "windlass_call_data_waiting",
    kind: "gauge",
    labels: &[],
    help: "Steps that wait for room for the configuration and the input of their call.",
};
const TRIGGERS: About = About {
    name: "windlass_triggers",
    kind: "gauge",
    labels: &["state"],
    help: "Triggers by state. `due`: in the store, waiting for a claim; `pending`: in the store, \
        due later; `parked`: in the store, unable to run until plugins change; `claimed`: of this \
        process. Those in the store are counted up to 10,000.",
};
const TRIGGER_LATENESS: About = About {
    name: "windlass_trigger_lateness_seconds",
    kind: "histogram",
    labels: &[],
    help: "How long triggers had been due when they were claimed.",
};
const COMMIT: About = About {
    name: "windlass_commit_seconds",
    kind: "histogram",
    labels: &[],
    help: "How long the store took to make a group of writes durable.",
};
const COMMIT_BATCH: About = About {
    name: "windlass_commit_batch_size",
    kind: "histogram",
    labels: &[],
    help: "Writes in one group.",
};
const LOCK_WAIT: About = About {
    name: "windlass_lock_wait_seconds",
    kind: "histogram",
    labels: &[],
    help: "How long locks were waited for: those of a provider, until it had answered, and the \
        one that a store in SQLite writes a group under.",
};
const LEASE_LOST: About = About {
    name: "windlass_lease_lost_total",
    kind: "counter",
    labels: &[],
    help: "Leases that this process lost: its membership, so that it had to join again, or the \
        lock of a run.",
};
const TRIED_AGAIN: About = About {
    name: "windlass_triggers_tried_again_total",
    kind: "counter",
    labels: &[],
    help: "Triggers that processes had claimed when they died, which this process made pending.",
};
const SUSPECTS: About = About {
    name: "windlass_suspect_triggers_total",
    kind: "counter",
    labels: &[],
    help: "Those of the triggers that are tried again which several processes in a row died with: \
        they run in groups.",
};
const LOCK_RETRIES: About = About {
    name: "windlass_lock_retries_total",
    kind: "counter",
    labels: &[],
    help: "How often a lock was asked for again because its provider was in trouble.",
};
const LOCK_RELEASE_FAILURES: About = About {
    name: "windlass_lock_release_failures_total",
    kind: "counter",
    labels: &[],
    help: "Locks that could not be released, and so ended with their lease.",
};
const PLUGIN_CALL: About = About {
    name: "windlass_plugin_call_seconds",
    kind: "histogram",
    labels: &["plugin"],
    help: "How long calls of plugins took, by package; waiting for an instance is not included.",
};
const PLUGIN_MEMORY_WAITING: About = About {
    name: "windlass_plugin_memory_waiting",
    kind: "gauge",
    labels: &[],
    help: "Calls of plugins that wait for memory.",
};
const PLUGIN_MEMORY_REFUSED: About = About {
    name: "windlass_plugin_memory_refused_total",
    kind: "counter",
    labels: &[],
    help: "How often a call of a plugin found no memory to grow, and was made again or failed.",
};
const SPANS_EXPORTED: About = About {
    name: "windlass_spans_exported_total",
    kind: "counter",
    labels: &[],
    help: "Spans that the collector of OpenTelemetry has taken.",
};
const SPANS_DROPPED: About = About {
    name: "windlass_spans_dropped_total",
    kind: "counter",
    labels: &[],
    help: "Spans that were not exported: they found no room in the queue, or the collector did not \
        take them.",
};
const DEAD_LETTERS: About = About {
    name: "windlass_dead_letters",
    kind: "gauge",
    labels: &[],
    help: "Dead letters in the store that were not tried again, counted up to 10,000.",
};

/// The metrics of one process.
#[derive(Debug)]
pub struct Metrics {
    execution_times: Family<Histogram>,
    /// Indexed by [`ExecutionStatus`](crate::ExecutionStatus).
    executions: Family<Tally>,
    /// Indexed by [`RunEvent`].
    runs: Family<Tally>,
    plugin_calls: Family<Histogram>,
    /// Expressions that were evaluated beside the workers.
    pub evaluations_aside: Counter,
    /// Those of them that wait for their turn.
    pub evaluations_waiting: Gauge,
    /// Inputs, variables, outputs and lists of runs in memory.
    pub run_data: Budget,
    /// States and triggers of runs in memory.
    pub run_states: Budget,
    /// Configurations and inputs of calls that wait.
    pub call_data: Budget,
    /// Steps that wait for room in it.
    pub call_data_waiting: Gauge,
    /// Triggers in the store that are due and not claimed.
    pub triggers_due: Gauge,
    /// Triggers in the store that are due later.
    pub triggers_pending: Gauge,
    /// Triggers in the store that are parked.
    pub triggers_parked: Gauge,
    /// Triggers that this process has claimed.
    pub triggers_claimed: Gauge,
    /// Microseconds.
    pub trigger_lateness: Histogram,
    /// Microseconds.
    pub commit: Histogram,
    /// Writes.
    pub commit_batch: Histogram,
    /// Microseconds.
    pub lock_wait: Histogram,
    /// Memberships, and locks of runs, that were lost.
    pub lease_lost: Counter,
    /// Triggers that dead processes had claimed.
    pub tried_again: Counter,
    /// Those of [`Self::tried_again`] that are suspects.
    pub suspects: Counter,
    /// Requests to a lock provider that were repeated.
    pub lock_retries: Counter,
    /// Locks that ended with their lease.
    pub lock_release_failures: Counter,
    /// Instances of plugins, and the data of their calls.
    pub plugin_memory: Budget,
    /// Calls.
    pub plugin_memory_waiting: Gauge,
    /// Calls.
    pub plugin_memory_refused: Counter,
    /// Workflows that are ready to run.
    pub definitions: Budget,
    /// Writes that wait for the store.
    pub store_queue: Budget,
    /// Spans that a collector has taken.
    pub spans_exported: Counter,
    /// Spans that were dropped.
    pub spans_dropped: Counter,
    /// In the store.
    pub dead_letters: Gauge,
    /// The HTTP server.
    pub http: Http,
    /// The process.
    pub process: Process,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            execution_times: Family::new(MAX_HISTOGRAMS),
            executions: Family::new(MAX_TALLIES),
            runs: Family::new(MAX_TALLIES),
            plugin_calls: Family::new(MAX_HISTOGRAMS),
            evaluations_aside: Counter::default(),
            evaluations_waiting: Gauge::default(),
            run_data: Budget::default(),
            run_states: Budget::default(),
            call_data: Budget::default(),
            call_data_waiting: Gauge::default(),
            triggers_due: Gauge::default(),
            triggers_pending: Gauge::default(),
            triggers_parked: Gauge::default(),
            triggers_claimed: Gauge::default(),
            trigger_lateness: Histogram::of_time(),
            commit: Histogram::of_time(),
            commit_batch: Histogram::of_counts(),
            lock_wait: Histogram::of_time(),
            lease_lost: Counter::default(),
            tried_again: Counter::default(),
            suspects: Counter::default(),
            lock_retries: Counter::default(),
            lock_release_failures: Counter::default(),
            plugin_memory: Budget::default(),
            plugin_memory_waiting: Gauge::default(),
            plugin_memory_refused: Counter::default(),
            definitions: Budget::default(),
            store_queue: Budget::default(),
            spans_exported: Counter::default(),
            spans_dropped: Counter::default(),
            dead_letters: Gauge::default(),
            http: Http::default(),
            process: Process::default(),
        }
    }
}

impl Metrics {
    /// The histogram for the executions of a node, in microseconds. The look-up is slow: keep the
    /// result.
    pub fn execution(&self, kind: TriggerType, node: &str) -> Arc<Histogram> {
        self.execution_times.series(&[kind.name(), node])
    }

    /// The counts of the executions of a node of a workflow, indexed by
    /// [`ExecutionStatus`](crate::ExecutionStatus). The look-up is slow: keep the result.
    pub fn executions(&self, workflow: &str, node: &str) -> Arc<Tally> {
        self.executions.series(&[workflow, node])
    }

    /// The counts of the runs of a workflow, indexed by [`RunEvent`]. The look-up is slow: keep the
    /// result.
    pub fn runs(&self, workflow: &str) -> Arc<Tally> {
        self.runs.series(&[workflow])
    }

    /// The histogram for the calls of a plugin, in microseconds, by its package. The look-up is
    /// slow: keep the result.
    pub fn plugin_call(&self, package: &str) -> Arc<Histogram> {
        self.plugin_calls.series(&[package])
    }

    /// The budgets of memory, in the order of [`BUDGETS`].
    pub fn budgets(&self) -> [&Budget; BUDGETS.len()] {
        [
            &self.call_data,
            &self.definitions,
            &self.http.answers.memory,
            &self.http.bodies,
            &self.plugin_memory,
            &self.run_data,
            &self.run_states,
            &self.store_queue,
        ]
    }

    /// All metrics in the text format of Prometheus, version 0.0.4.
    pub fn text(&self) -> String {
        let mut text = text::Text::default();
        process::write(&self.process, &mut text);
        text.family(&TRIGGER_EXECUTION, &self.execution_times);
        runs::write(&self.runs, &self.executions, &mut text);
        text.counter(&EVALUATIONS_ASIDE, &self.evaluations_aside);
        text.gauge(&EVALUATIONS_WAITING, &self.evaluations_waiting);
        text.gauge(&CALL_DATA_WAITING, &self.call_data_waiting);
        let triggers = [
            ("due", self.triggers_due.get()),
            ("pending", self.triggers_pending.get()),
            ("parked", self.triggers_parked.get()),
            ("claimed", self.triggers_claimed.get()),
        ];
        text.labelled(&TRIGGERS, triggers);
        text.histogram(&TRIGGER_LATENESS, &self.trigger_lateness);
        text.histogram(&COMMIT, &self.commit);
        text.histogram(&COMMIT_BATCH, &self.commit_batch);
        text.histogram(&LOCK_WAIT, &self.lock_wait);
        text.counter(&LEASE_LOST, &self.lease_lost);
        text.counter(&TRIED_AGAIN, &self.tried_again);
        text.counter(&SUSPECTS, &self.suspects);
        text.counter(&LOCK_RETRIES, &self.lock_retries);
        text.counter(&LOCK_RELEASE_FAILURES, &self.lock_release_failures);
        text.family(&PLUGIN_CALL, &self.plugin_calls);
        text.gauge(&PLUGIN_MEMORY_WAITING, &self.plugin_memory_waiting);
        text.counter(&PLUGIN_MEMORY_REFUSED, &self.plugin_memory_refused);
        text.counter(&SPANS_EXPORTED, &self.spans_exported);
        text.counter(&SPANS_DROPPED, &self.spans_dropped);
        text.gauge(&DEAD_LETTERS, &self.dead_letters);
        let http = &self.http;
        text.gauge(&http::CONNECTIONS, &http.connections);
        text.counter(&http::EVICTED, &http.evicted);
        text.labelled(&http::SLOTS, http.pools(|slots| slots.all.get()));
        text.labelled(&http::SLOTS_USED, http.pools(|slots| slots.used.get()));
        text.labelled(&http::REFUSED, http.pools(|slots| slots.refused.get()));
        let limited = [
            ("hook", http.hooks_limited.get()),
            ("client", http.clients_limited.get()),
        ];
        text.labelled(&http::LIMITED, limited);
        text.values(&http::HOOKS, http.hooks.each());
        text.counter(&http::ANSWERS_REFUSED, &http.answers.refused);
        text.counter(&http::ANSWERS_GIVEN_UP, &http.answers.given_up);
        text.counter(&http::BODIES_REFUSED, &http.bodies_refused);
        for (about, budget) in BUDGETS.iter().zip(self.budgets()) {
            for (about, gauge) in about.metrics.iter().zip(budget.gauges()) {
                text.gauge(about, gauge);
            }
        }
        text.into_string()
    }
}

/// Every metric but those of [`BUDGETS`], in the order of the text.
pub const ALL: [About; 43] = [
    process::BUILD_INFO,
    process::CPU,
    process::RESIDENT,
    process::VIRTUAL,
    process::OPEN_FDS,
    process::MAX_FDS,
    process::THREADS,
    process::START_TIME,
    TRIGGER_EXECUTION,
    runs::STARTED,
    runs::FINISHED,
    runs::RETRIED,
    runs::SUSPENDED,
    runs::EXECUTIONS,
    EVALUATIONS_ASIDE,
    EVALUATIONS_WAITING,
    CALL_DATA_WAITING,
    TRIGGERS,
    TRIGGER_LATENESS,
    COMMIT,
    COMMIT_BATCH,
    LOCK_WAIT,
    LEASE_LOST,
    TRIED_AGAIN,
    SUSPECTS,
    LOCK_RETRIES,
    LOCK_RELEASE_FAILURES,
    PLUGIN_CALL,
    PLUGIN_MEMORY_WAITING,
    PLUGIN_MEMORY_REFUSED,
    SPANS_EXPORTED,
    SPANS_DROPPED,
    DEAD_LETTERS,
    http::CONNECTIONS,
    http::EVICTED,
    http::SLOTS,
    http::SLOTS_USED,
    http::REFUSED,
    http::LIMITED,
    http::HOOKS,
    http::ANSWERS_REFUSED,
    http::ANSWERS_GIVEN_UP,
    http::BODIES_REFUSED,
];

#[cfg(test)]
mod tests;
