//! How the server listens, and what it bounds.

use std::net::SocketAddr;
use std::sync::Arc;

use windlass_locks::LockProvider;
use windlass_model::Clock;
use windlass_plugins::Host;
use windlass_runtime::Runtime;
use windlass_runtime::definitions::Definitions;
use windlass_store::Store;

use crate::hub::Hub;

/// How the server listens, and on whose behalf.
pub struct Options {
    /// Where to listen. Beyond loopback only with a token.
    pub listen: SocketAddr,
    /// What requests have to bring, if anything.
    pub token: Option<String>,
    /// What the server is reached by from outside, like `https://flows.example`: what
    /// `Location` begins with.
    pub public_url: Option<String>,
    /// What is bounded.
    pub bounds: Bounds,
    /// Where the work is kept.
    pub store: Arc<dyn Store>,
    /// Who does the work.
    pub plugins: Arc<Host>,
    /// Where definitions come from.
    pub definitions: Arc<Definitions>,
    /// Who runs the workflows.
    pub runtime: Arc<Runtime>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Who gives out locks, if anybody but the store does.
    pub locks: Option<Arc<dyn LockProvider>>,
    /// What live runs are heard by: the observer of the runtime.
    pub hub: Arc<Hub>,
    /// The page that explains a code, as Markdown.
    pub page: fn(&str) -> Option<&'static str>,
}

/// What is bounded. Every field is in the configuration reference.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections at once. Further ones wait to be accepted.
    pub connections: usize,
    /// Requests that are worked on at once. Further ones wait a moment, and are then answered
    /// with 503.
    pub requests: usize,
    /// Requests that wait for runs, and streams of events, at once.
    pub streams: usize,
    /// Reads and writes of the store at once.
    pub blocking: usize,
    /// The largest body, in bytes.
    pub body_bytes: usize,
    /// How long a request may take to come, and to be worked on, in milliseconds; what it
    /// waits for a run comes on top.
    pub timeout_ms: u64,
    /// How long a request may wait for a run, in milliseconds.
    pub wait_ms: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 4096,
            requests: 512,
            streams: 1024,
            blocking: 64,
            body_bytes: 1024 * 1024,
            timeout_ms: 30_000,
            wait_ms: 60_000,
        }
    }
}
