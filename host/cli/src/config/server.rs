//! `[server]`: how `serve` is reached.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::units::{Millis, Rate, Size};

/// How `serve` is reached over HTTP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Server {
    /// The address and port to listen on, or `off` for no web server. Beyond loopback only with
    /// a token.
    pub(crate) listen: String,
    /// What requests have to bring as `Authorization: Bearer TOKEN`: 16 characters at least.
    /// Better set by WINDLASS_SERVER__TOKEN than in a file. `auto`: `serve` makes a token at each
    /// start, in a file that only its user can read, where the command line finds it. Default:
    /// none is needed.
    pub(crate) token: Option<String>,
    /// What the server is reached by from outside, like `https://flows.example`: what the links
    /// in its answers begin with. Default: links are relative to the request.
    pub(crate) public_url: Option<String>,
    /// Names of this host, like `flows.example`, without ports. A request without a token has to
    /// use one of them as `Host`, or `localhost`, or the address that it connects to. The name in
    /// `public-url` is one. Default: no others.
    pub(crate) hosts: Vec<String>,
    /// Origins of pages, like `https://shop.example`, that may send requests which change
    /// something. Pages of other origins cannot, nor can what a browser fetches for them; the
    /// origins of this host and of `public-url` can. Default: no others.
    pub(crate) origins: Vec<String>,
    /// Proxies that are believed about where a request comes from: networks like `10.0.0.0/8`,
    /// or addresses. `X-Forwarded-For` is read from its end, and the first address that is not
    /// in this list is the client's. Default: none, and the client is who connects.
    pub(crate) trusted_proxies: Vec<String>,
    /// How often one hook may be called, like `10/s`, `100/m` or `1000/h`. Further calls are
    /// answered with 429. Default: as often as there is room.
    pub(crate) hook_rate: Option<Rate>,
    /// How many calls of one hook may come at once. Default: as many as `hook-rate` counts.
    pub(crate) hook_burst: Option<u32>,
    /// How often one client may call hooks and resume links together, like `10/s`. A client is
    /// an IPv4 address or an IPv6 network of 64 bits. Default: as often as there is room.
    pub(crate) client_rate: Option<Rate>,
    /// How many calls of one client may come at once. Default: as many as `client-rate` counts.
    pub(crate) client_burst: Option<u32>,
    /// Connections at once. For a further one, the one that has been idle for the longest time
    /// is closed. Fewer, with smaller pools, if the system lets the process open too few files.
    /// More than all pools together hold: so full pools leave connections to each other.
    pub(crate) connections: u32,
    /// Requests of the API that are worked on at once. Further ones wait for a second, and are
    /// then answered with 503.
    pub(crate) requests: u32,
    /// Hooks and resume links that are worked on at once. Further ones wait for a second, and
    /// are then answered with 503.
    pub(crate) hooks: u32,
    /// Streams of events at once.
    pub(crate) streams: u32,
    /// Requests of the API that wait for runs at once.
    pub(crate) waiting: u32,
    /// Hooks that wait for runs at once.
    pub(crate) hooks_waiting: u32,
    /// Reads and writes of the store at once.
    pub(crate) blocking: u32,
    /// The largest body.
    pub(crate) max_body: Size,
    /// How many bytes of a body have to come in each second, after five seconds; `0B`: as few as
    /// `timeout` allows.
    pub(crate) body_rate: Size,
    /// How long the header of a request may take to come: the first one from the beginning of
    /// the connection, and each further one from its first byte.
    pub(crate) header_timeout: Millis,
    /// How long a request may take to come and to be answered, and how long a connection may be
    /// idle. What a request waits for a run comes on top.
    pub(crate) timeout: Millis,
    /// How long a request may wait for a run.
    pub(crate) max_wait: Millis,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7433".to_owned(),
            token: None,
            public_url: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            trusted_proxies: Vec::new(),
            hook_rate: None,
            hook_burst: None,
            client_rate: None,
            client_burst: None,
            connections: 4096,
            requests: 512,
            hooks: 256,
            streams: 1024,
            waiting: 512,
            hooks_waiting: 512,
            blocking: 64,
            max_body: Size(1024 * 1024),
            body_rate: Size(1024),
            header_timeout: Millis(10_000),
            timeout: Millis(30_000),
            max_wait: Millis(60_000),
        }
    }
}
