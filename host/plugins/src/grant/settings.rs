//! The settings of packages: permissions, limits, and how long instances are reused.

use std::time::Duration;

use super::destination::Grant;
use super::proof::Proofs;
use crate::hold::budget::INSTANCE_BYTES;

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The proofs of a component, besides being part of the library.
    pub proofs: Proofs,
    /// Its permissions. None by default.
    pub grants: Grants,
    /// Replaces [`crate::Options::limits`]. A component that is not proved has the smaller one of
    /// both.
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
