//! The options of the server, and its bounds.

use std::net::SocketAddr;
use std::sync::Arc;

use ipnet::IpNet;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_model::metrics::Metrics;
use windlass_model::{Clock, Code};
use windlass_runtime::Runtime;
use windlass_runtime::operations::Resources;
use windlass_store::Store;

use crate::answers::MOST_READ;
use crate::live_feed::LiveFeed;
use crate::rates::Rate;

/// The options of the server.
pub struct Options {
    /// The address to listen on. An address beyond loopback needs a token.
    pub listen: SocketAddr,
    /// The token that requests have to carry, if one is required.
    pub token: Option<String>,
    /// How callers may reach this host, and how often.
    pub callers: Callers,
    /// The URL by which clients reach the server from outside, like `https://flows.example`:
    /// `Location` begins with it.
    pub public_url: Option<String>,
    /// The bounds.
    pub bounds: Bounds,
    /// The store of the runs.
    pub store: Arc<dyn Store>,
    /// The place of the store without its password, for people, if it is known.
    pub store_place: Option<String>,
    /// Plugins, keys, locks and definitions, which only some requests need.
    pub resources: Arc<dyn Resources>,
    /// The runtime. A process that only reads or writes the store has none.
    pub runtime: Option<Arc<Runtime>>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The live feed: the observer of the runtime.
    pub live_feed: Arc<LiveFeed>,
    /// The page that explains a code, as Markdown.
    pub page: fn(&str) -> Option<&'static str>,
    /// Reads the settings of the host again, and takes those that have changed. None: the process
    /// is no host.
    pub reload: Option<Arc<Reload>>,
}

/// Reads the settings of a host again. An error has its code and its text.
pub type Reload = dyn Fn() -> Result<Settings, (Code, String)> + Send + Sync;

/// The settings that have changed, by their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Settings {
    /// Those that the host has taken now.
    pub applied: Vec<String>,
    /// Those that differ from the start, and need a restart.
    pub restart: Vec<String>,
}

/// How callers may name this host, the rates of callers without a token, and how callers are told
/// apart. By default the rates are not bounded.
#[derive(Clone, Debug, Default)]
pub struct Callers {
    /// Names of this host besides loopback's and its addresses: [`is_host`](crate::is_host).
    /// Requests without a token have to use one of them.
    pub hosts: Vec<String>,
    /// Origins of pages that may send requests that change something, and may read answers:
    /// [`is_origin`](crate::is_origin).
    pub origins: Vec<String>,
    /// Proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// The most calls of one hook.
    pub hook_rate: Option<Rate>,
    /// The most calls of hooks and resume links by one client.
    pub client_rate: Option<Rate>,
}

/// The bounds of the server. Every field is in the configuration reference.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Concurrent connections. A further one closes the connection that has been idle for the
    /// longest time.
    pub connections: usize,
    /// Concurrent requests of the API. Further ones wait for a second, and are then answered with
    /// 503.
    pub requests: usize,
    /// The same for hooks and resume links.
    pub hooks: usize,
    /// Concurrent event streams.
    pub streams: usize,
    /// Concurrent API requests that wait for runs.
    pub waiting: usize,
    /// Concurrent hook calls that wait for runs.
    pub hooks_waiting: usize,
    /// Concurrent reads and writes of the store.
    pub blocking: usize,
    /// The largest request body, in bytes.
    pub body_bytes: usize,
    /// How much memory bodies over 64 KiB may hold, in bytes, while they arrive and are read.
    /// Requests without room wait, and are then answered with 503.
    pub bodies: usize,
    /// How many bytes of a body have to arrive in each second, after a grace period; 0: no minimum.
    pub body_rate: u64,
    /// How much memory large answers may hold, in bytes: half of it while they are made, half until
    /// their clients have read them. Requests without room wait, and are then answered with 503.
    pub answers: usize,
    /// The most room that a request takes for making an answer, in bytes: for one value and its text.
    /// It may be more than there is: such a request is alone.
    pub most_read: usize,
    /// The largest body of an answer that a node gives by `respond`, in bytes.
    pub answer_bytes: usize,
    /// How long a client may read nothing of an answer, in milliseconds. Then its connection is
    /// closed; after a second, if requests wait for room for their answers.
    pub stall_ms: u64,
    /// How long the head of a request may take to arrive, in milliseconds, from the start of the
    /// connection or from its first byte.
    pub header_ms: u64,
    /// How long a request may take to arrive and to be answered, in milliseconds; its wait for a
    /// run is added.
    pub timeout_ms: u64,
    /// How long a request may wait for a run, in milliseconds.
    pub wait_ms: u64,
}

impl Bounds {
    /// The bounds of a process that answers its own requests: a command reads any file that the
    /// store accepts, and waits as long as its user does.
    pub(crate) fn in_process() -> Self {
        Self {
            body_bytes: usize::MAX,
            bodies: usize::MAX,
            answers: usize::MAX,
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
            bodies: 64 * 1024 * 1024,
            body_rate: 1024,
            answers: 128 * 1024 * 1024,
            most_read: MOST_READ,
            answer_bytes: 1024 * 1024,
            stall_ms: 10_000,
            header_ms: 10_000,
            timeout_ms: 30_000,
            wait_ms: 60_000,
        }
    }
}
