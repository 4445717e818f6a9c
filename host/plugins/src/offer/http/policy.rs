//! The bounds of the requests of guests.

use std::time::Duration;

use super::proxy::Proxies;

/// The certificates by which servers are verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Roots {
    /// Those of the system; on a system without any, those inside the program.
    #[default]
    System,
    /// These alone, as the content of a PEM file.
    Only(Vec<u8>),
}

/// The bounds of every HTTP request of a guest.
#[derive(Clone, Debug)]
pub struct HttpPolicy {
    /// How long a request may take, redirects included.
    pub timeout: Duration,
    /// How long a request may take to look its name up, and how long to connect.
    pub connect_timeout: Duration,
    /// The largest body of a response, in bytes.
    pub max_response_bytes: u64,
    /// The most redirects that a request follows.
    pub max_redirects: u32,
    /// The most headers of a request, and of a response.
    pub max_headers: usize,
    /// Concurrent requests of all plugins.
    pub concurrency: usize,
    /// Concurrent name lookups. A lookup counts until the system's resolver returns.
    pub lookups: usize,
    /// The trusted certificates.
    pub roots: Roots,
    /// The proxies through which requests go.
    pub proxies: Proxies,
}

impl Default for HttpPolicy {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            max_response_bytes: 4 * 1024 * 1024,
            max_redirects: 10,
            max_headers: 64,
            concurrency: 256,
            lookups: 32,
            roots: Roots::System,
            proxies: Proxies::default(),
        }
    }
}
