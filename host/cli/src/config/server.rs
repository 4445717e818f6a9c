//! `[server]`: how clients reach `serve`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::units::{Millis, Rate, Size};

/// How clients reach `serve` over HTTP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Server {
    /// The address and port to listen on, or `off` for no web server. An address beyond loopback
    /// needs a token.
    pub(crate) listen: String,
    /// The token of requests, sent as `Authorization: Bearer TOKEN`: at least 16 characters. Set it
    /// by WINDLASS_SERVER__TOKEN rather than in a file. `auto`: `serve` makes a token at each
    /// start, in a file that only its user can read; the command line finds it there. Default: no
    /// token is required.
    pub(crate) token: Option<String>,
    /// The file that contains the token, as an operator or an orchestrator provides it: owned by the
    /// user or root, and not readable by all users. A line break at its end does not count. Default:
    /// no file.
    pub(crate) token_file: Option<PathBuf>,
    /// The URL by which clients reach the server from outside, like `https://flows.example`: links
    /// in answers begin with it. Default: links are relative to the request.
    pub(crate) public_url: Option<String>,
    /// Names of this host, like `flows.example`, without ports. A request without a token has to
    /// use one of them as `Host`, or `localhost`, or the address that it connects to. The name in
    /// `public-url` is one. Default: no others.
    pub(crate) hosts: Vec<String>,
    /// Origins of pages, like `https://shop.example`, that may send requests that change something,
    /// and that may read answers: the host answers their preflights (CORS). Pages of this host and
    /// of `public-url` always may; pages of other origins, and content that a browser fetches for
    /// them, may not. Default: no others.
    pub(crate) origins: Vec<String>,
    /// Trusted proxies: networks like `10.0.0.0/8`, or addresses. `X-Forwarded-For` is read from
    /// its end, and the first address that is not in this list is the client's. Default: none, and
    /// the client is the peer of the connection.
    pub(crate) trusted_proxies: Vec<String>,
    /// The most calls of one hook, like `10/s`, `100/m` or `1000/h`. Further calls are answered
    /// with 429. Default: no limit.
    pub(crate) hook_rate: Option<Rate>,
    /// How many calls of one hook may come at once. Default: the count of `hook-rate`.
    pub(crate) hook_burst: Option<u32>,
    /// The most calls of hooks and resume links by one client, like `10/s`. A client is an IPv4
    /// address or an IPv6 network of 64 bits. Default: no limit.
    pub(crate) client_rate: Option<Rate>,
    /// How many calls of one client may come at once. Default: the count of `client-rate`.
    pub(crate) client_burst: Option<u32>,
    /// Concurrent connections. A further connection closes the one that has been idle for the
    /// longest time. There are fewer connections, and smaller pools, if the system lets the process
    /// open too few files. Should exceed the sum of all pools, so that full pools leave connections
    /// to each other.
    pub(crate) connections: u32,
    /// Concurrent requests of the API. Further ones wait for a second, and are then answered with
    /// 503.
    pub(crate) requests: u32,
    /// Concurrent calls of hooks and resume links. Further ones wait for a second, and are then
    /// answered with 503.
    pub(crate) hooks: u32,
    /// Concurrent event streams.
    pub(crate) streams: u32,
    /// Concurrent API requests that wait for runs.
    pub(crate) waiting: u32,
    /// Concurrent hook calls that wait for runs.
    pub(crate) hooks_waiting: u32,
    /// Concurrent reads and writes of the store.
    pub(crate) blocking: u32,
    /// The largest request body.
    pub(crate) max_body: Size,
    /// How much memory request bodies over 64 KiB may hold, until their data are handed on. A
    /// request without room for its body waits for up to three seconds, and is then answered with
    /// 503. At most a 64th of the machine's memory or of the limit of its control group.
    pub(crate) bodies: Size,
    /// How many bytes of a body have to arrive in each second, after five seconds; `0B`: only
    /// `timeout` bounds a slow body.
    pub(crate) body_rate: Size,
    /// How much memory answers over 64 KiB may hold: half of it while they are made, half until
    /// their clients have read them. A request without room for its answer waits for up to three
    /// seconds, and is then answered with 503. At most a 32nd of the machine's memory or of the
    /// limit of its control group.
    pub(crate) answers: Size,
    /// The largest body of an answer that a node gives by `respond`.
    pub(crate) max_answer: Size,
    /// How long a client may read nothing of an answer. Then its connection is closed; after a
    /// second, if requests wait for room for their answers.
    pub(crate) stall_timeout: Millis,
    /// How long the header of a request may take to arrive: the first one from the start of the
    /// connection, each further one from its first byte.
    pub(crate) header_timeout: Millis,
    /// How long a request may take to arrive and to be answered, and how long a connection may be
    /// idle. The time for which a request waits for a run is added.
    pub(crate) timeout: Millis,
    /// How long a request may wait for a run.
    pub(crate) max_wait: Millis,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7433".to_owned(),
            token: None,
            token_file: None,
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
            bodies: Size(64 * 1024 * 1024),
            body_rate: Size(1024),
            answers: Size(128 * 1024 * 1024),
            max_answer: Size(1024 * 1024),
            stall_timeout: Millis(10_000),
            header_timeout: Millis(10_000),
            timeout: Millis(30_000),
            max_wait: Millis(60_000),
        }
    }
}
