//! The metrics of the HTTP server: its pools, its connections, and the requests that it refused.

use super::{About, Budget, Counter, Gauge};

pub(super) const CONNECTIONS: About = About {
    name: "windlass_http_connections",
    kind: "gauge",
    labels: &[],
    help: "Connections to the HTTP server that are open.",
};
pub(super) const EVICTED: About = About {
    name: "windlass_http_connections_evicted_total",
    kind: "counter",
    labels: &[],
    help: "Idle connections that the HTTP server closed to make room for others.",
};
pub(super) const SLOTS: About = About {
    name: "windlass_http_slots",
    kind: "gauge",
    labels: &["pool"],
    help: "Requests that each pool of the HTTP server holds at most.",
};
pub(super) const SLOTS_USED: About = About {
    name: "windlass_http_slots_used",
    kind: "gauge",
    labels: &["pool"],
    help: "Requests that each pool of the HTTP server holds.",
};
pub(super) const REFUSED: About = About {
    name: "windlass_http_refused_total",
    kind: "counter",
    labels: &["pool"],
    help: "Requests that were answered with 503 or 429 because their pool was full.",
};
pub(super) const LIMITED: About = About {
    name: "windlass_http_limited_total",
    kind: "counter",
    labels: &["by"],
    help: "Requests that were answered with 429 because of the rate of their `hook` or `client`.",
};

pub(super) const HOOKS: About = About {
    name: "windlass_hook_requests_total",
    kind: "counter",
    labels: &["status"],
    help: "Requests to hooks, by the status of their answer.",
};
pub(super) const ANSWERS_REFUSED: About = About {
    name: "windlass_http_answers_refused_total",
    kind: "counter",
    labels: &[],
    help: "Requests that were answered with 503 because there was no memory for their answer.",
};
pub(super) const ANSWERS_GIVEN_UP: About = About {
    name: "windlass_http_answers_given_up_total",
    kind: "counter",
    labels: &[],
    help: "Connections that the HTTP server closed because their clients did not read an answer.",
};
pub(super) const BODIES_REFUSED: About = About {
    name: "windlass_http_bodies_refused_total",
    kind: "counter",
    labels: &[],
    help: "Requests that were answered with 503 because there was no memory for their body.",
};

/// The metrics of the HTTP server.
#[derive(Debug, Default)]
pub struct Http {
    /// Open connections.
    pub connections: Gauge,
    /// Connections that were closed to make room.
    pub evicted: Counter,
    /// Indexed by the position of the pool in [`POOLS`].
    pub pools: [Slots; POOLS.len()],
    /// Requests to hooks.
    pub hooks: Statuses,
    /// The budget of answers.
    pub answers: Answers,
    /// The memory of bodies.
    pub bodies: Budget,
    /// Requests that found no room for their body.
    pub bodies_refused: Counter,
    /// Requests refused because of the rate of their hook.
    pub hooks_limited: Counter,
    /// Requests refused because of the rate of their client.
    pub clients_limited: Counter,
}

/// The names of the pools: those of their settings in `[server]`, if they have one.
pub const POOLS: [&str; 6] = [
    "health",
    "requests",
    "hooks",
    "streams",
    "waiting",
    "hooks-waiting",
];

/// Requests by the status of their answer.
#[derive(Debug)]
pub struct Statuses(Box<[Counter]>);

/// The first status of HTTP, and the first number that is none.
const STATUSES: (u16, u16) = (100, 600);

impl Default for Statuses {
    fn default() -> Self {
        let all = STATUSES.0..STATUSES.1;
        Self(all.map(|_| Counter::default()).collect())
    }
}

impl Statuses {
    /// Counts an answer.
    pub fn add(&self, status: u16) {
        let at = status.checked_sub(STATUSES.0).map(usize::from);
        if let Some(count) = at.and_then(|at| self.0.get(at)) {
            count.add(1);
        }
    }

    /// The counts of the statuses that there were.
    pub(super) fn each(&self) -> impl Iterator<Item = (Vec<String>, u64)> {
        let all = (STATUSES.0..STATUSES.1).zip(&self.0);
        let all = all.map(|(status, count)| (vec![status.to_string()], count.get()));
        all.filter(|(_, count)| *count > 0)
    }
}

/// The metrics of one pool.
#[derive(Debug, Default)]
pub struct Slots {
    /// Slots.
    pub all: Gauge,
    /// Slots in use.
    pub used: Gauge,
    /// Requests that found no free slot.
    pub refused: Counter,
}

/// The metrics of the budget of answers.
#[derive(Debug, Default)]
pub struct Answers {
    /// Their memory.
    pub memory: Budget,
    /// Requests that found no room.
    pub refused: Counter,
    /// Answers that their clients did not read.
    pub given_up: Counter,
}

impl Http {
    /// One value of each pool, with the pool's name.
    pub(super) fn pools<'a>(
        &'a self,
        value: impl Fn(&'a Slots) -> u64,
    ) -> impl Iterator<Item = (&'static str, u64)> {
        POOLS.into_iter().zip(self.pools.iter().map(value))
    }
}
