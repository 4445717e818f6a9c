//! How the server listens, and what it bounds.

use std::net::SocketAddr;
use std::sync::Arc;

use ipnet::IpNet;
use windlass_model::Clock;
use windlass_model::metrics::Metrics;
use windlass_runtime::Runtime;
use windlass_runtime::client::Resources;
use windlass_store::Store;

use crate::live_feed::LiveFeed;
use crate::rates::Rate;

/// How the server listens, and on whose behalf.
pub struct Options {
    /// Where to listen. Beyond loopback only with a token.
    pub listen: SocketAddr,
    /// What requests have to bring, if anything.
    pub token: Option<String>,
    /// How callers may reach this host, and how often.
    pub callers: Callers,
    /// What the server is reached by from outside, like `https://flows.example`: what
    /// `Location` begins with.
    pub public_url: Option<String>,
    /// What is bounded.
    pub bounds: Bounds,
    /// Where the work is kept.
    pub store: Arc<dyn Store>,
    /// Plugins, keys, locks and definitions, which only some requests need.
    pub resources: Arc<dyn Resources>,
    /// What runs the workflows. A process that only looks at the store, or writes into it, has no
    /// runtime.
    pub runtime: Option<Arc<Runtime>>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where requests are measured.
    pub metrics: Arc<Metrics>,
    /// What live runs are heard by: the observer of the runtime.
    pub live_feed: Arc<LiveFeed>,
    /// The page that explains a code, as Markdown.
    pub page: fn(&str) -> Option<&'static str>,
}

/// How callers may reach this host, how often those without a token may come, and how they are
/// told apart. By default their rate is not bounded.
#[derive(Clone, Debug, Default)]
pub struct Callers {
    /// Names of this host besides loopback's and its addresses: [`is_host`](crate::is_host).
    /// Requests without a token have to use one of them.
    pub hosts: Vec<String>,
    /// Origins of pages that may send requests that change something:
    /// [`is_origin`](crate::is_origin).
    pub origins: Vec<String>,
    /// Proxies that are believed about where a request comes from.
    pub trusted_proxies: Vec<IpNet>,
    /// How often one hook may be called.
    pub hook_rate: Option<Rate>,
    /// How often one client may call hooks and resume links.
    pub client_rate: Option<Rate>,
}

/// What is bounded. Every field is in the configuration reference.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections at once. For a further one, that which has been idle for longest is closed.
    pub connections: usize,
    /// Requests of the API that are worked on at once. Further ones wait a moment, and are then
    /// answered with 503.
    pub requests: usize,
    /// The same for hooks and resume links.
    pub hooks: usize,
    /// Streams of events at once.
    pub streams: usize,
    /// Requests of the API that wait for runs at once.
    pub waiting: usize,
    /// Hooks that wait for runs at once.
    pub hooks_waiting: usize,
    /// Reads and writes of the store at once.
    pub blocking: usize,
    /// The largest body, in bytes.
    pub body_bytes: usize,
    /// How many bytes of a body have to come in each second, after a few; 0: none.
    pub body_rate: u64,
    /// How long the head of a request may take to come, in milliseconds, from the beginning of
    /// the connection or from its first byte.
    pub header_ms: u64,
    /// How long a request may take to come, and to be worked on, in milliseconds; what it
    /// waits for a run comes on top.
    pub timeout_ms: u64,
    /// How long a request may wait for a run, in milliseconds.
    pub wait_ms: u64,
}

impl Bounds {
    /// The bounds of a process that answers its own requests: a command reads any file that the
    /// store takes, and waits for as long as the user does.
    pub(crate) fn in_process() -> Self {
        Self {
            body_bytes: usize::MAX,
            body_rate: 0,
            timeout_ms: u64::from(u32::MAX),
            wait_ms: u64::from(u32::MAX),
            ..Self::default()
        }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 4096,
            requests: 512,
            hooks: 256,
            streams: 1024,
            waiting: 512,
            hooks_waiting: 512,
            blocking: 64,
            body_bytes: 1024 * 1024,
            body_rate: 1024,
            header_ms: 10_000,
            timeout_ms: 30_000,
            wait_ms: 60_000,
        }
    }
}
