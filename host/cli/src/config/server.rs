//! `[server]`: how `serve` is reached.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::units::{Millis, Size};

/// How `serve` is reached over HTTP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Server {
    /// The address and port to listen on, or `off` for no web server. Beyond loopback only with
    /// a token.
    pub(crate) listen: String,
    /// What requests have to bring as `Authorization: Bearer TOKEN`: 16 characters at least.
    /// Better set by WINDLASS_SERVER__TOKEN than in a file. Default: none is needed.
    pub(crate) token: Option<String>,
    /// What the server is reached by from outside, like `https://flows.example`: what the links
    /// in its answers begin with. Default: links are relative to the request.
    pub(crate) public_url: Option<String>,
    /// Connections at once; further ones wait.
    pub(crate) connections: u32,
    /// Requests that are worked on at once. Further ones wait for a second, and are then
    /// answered with 503.
    pub(crate) requests: u32,
    /// Requests that wait for runs, and streams of events, at once.
    pub(crate) streams: u32,
    /// Reads and writes of the store at once.
    pub(crate) blocking: u32,
    /// The largest body.
    pub(crate) max_body: Size,
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
            connections: 4096,
            requests: 512,
            streams: 1024,
            blocking: 64,
            max_body: Size(1024 * 1024),
            timeout: Millis(30_000),
            max_wait: Millis(60_000),
        }
    }
}
