//! Sends requests of guests.
//!
//! Names are resolved here and every address is checked against the grant; the connection goes to a
//! checked address only, so that a name which resolves differently the second time has no effect.
//! Redirects are followed by hand, each with the same checks. A request that waits for a name
//! server does not count among the requests in progress.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use reqwest::redirect::Policy;
use tokio::sync::Semaphore;
use url::{Host, Url};
use windlass_model::Clock;

use super::grant::needed;
use super::request::{Ready, Usable};
use super::resolve::{self, Lookup, Resolver};
use super::roots::{Trusted, certificate_refused};
use crate::bindings::host::windlass::http::http::{Content, HttpError, Request, Response};
use crate::budget::Account;
use crate::codes;
use crate::error::Error;
use crate::options::{Grants, HttpPolicy};

/// The most destinations whose connections are kept.
const MAX_KEPT: usize = 64;
/// Bytes of all headers of a response.
const MAX_HEADER_BYTES: usize = 64 * 1024;

/// Sends requests, for all plugins.
pub(crate) struct Client {
    policy: HttpPolicy,
    roots: Trusted,
    names: Resolver,
    sending: Semaphore,
    /// Requests may share connections if they may connect to the same addresses by the same name,
    /// which is the key.
    kept: Mutex<VecDeque<(Key, reqwest::Client)>>,
}

type Key = (bool, String, Vec<SocketAddr>);

/// The caller of a request, and its bounds.
pub(crate) struct Ask<'a> {
    pub(crate) grants: &'a Grants,
    /// The name of the package that the grants are for.
    pub(crate) package: &'a str,
    /// The file for further grants, if they would help.
    pub(crate) grants_file: Option<&'a str>,
    pub(crate) usable: Usable<'a>,
    /// The time until the deadline of the call.
    pub(crate) left: Duration,
    /// Requests that the call has made.
    pub(crate) requests: &'a mut u32,
    pub(crate) max_requests: u32,
    pub(crate) max_body: usize,
    /// Counts the bodies in the budget.
    pub(crate) bodies: Bodies<'a>,
}

/// Counts bodies in the memory budget before they are allocated.
pub(crate) struct Bodies<'a> {
    pub(crate) account: &'a mut Account,
    /// Bytes that are counted and have to be returned.
    pub(crate) charged: &'a mut u64,
}

impl Bodies<'_> {
    fn charge(&mut self, bytes: usize) -> Result<(), HttpError> {
        let bytes = bytes as u64;
        if !self.account.charge(bytes) {
            return Err(HttpError::Other(
                "there is no memory for the body".to_owned(),
            ));
        }
        *self.charged += bytes;
        Ok(())
    }
}

impl Client {
    pub(crate) fn new(policy: HttpPolicy, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        Self::with(Box::new(resolve::system), policy, clock)
    }

    /// A client that looks names up by `lookup`.
    fn with(lookup: Box<Lookup>, policy: HttpPolicy, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        // Another part of the process may have installed a provider; it is the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let fault = |error: String| {
            let text = format!("the certificates of [plugins] roots cannot be used: {error}");
            Error::new(codes::ENGINE, "http", text)
        };
        Ok(Self {
            roots: Trusted::of(&policy.roots).map_err(fault)?,
            names: Resolver::new(lookup, policy.lookups, policy.connect_timeout, clock),
            sending: Semaphore::new(policy.concurrency),
            kept: Mutex::default(),
            policy,
        })
    }

    pub(crate) async fn fetch(
        &self,
        request: Request,
        ask: &mut Ask<'_>,
    ) -> Result<Response, HttpError> {
        let wanted = request.timeout.map_or(Duration::MAX, Duration::from_millis);
        let timeout = wanted.min(self.policy.timeout).min(ask.left);
        match tokio::time::timeout(timeout, self.fetch_now(request, ask)).await {
            Ok(answer) => answer,
            Err(_) => Err(HttpError::Timeout),
        }
    }

    async fn fetch_now(&self, request: Request, ask: &mut Ask<'_>) -> Result<Response, HttpError> {
        let mut ready = Ready::new(request, &self.policy, ask.grants, &ask.usable, ask.max_body)?;
        ask.bodies
            .charge(ready.body.as_ref().map_or(0, Bytes::len))?;
        let closed = |_| HttpError::Other("the host is closing".to_owned());
        let mut redirects = 0;
        loop {
            if *ask.requests >= ask.max_requests {
                return Err(HttpError::Limit(format!(
                    "{} requests in one call",
                    ask.max_requests
                )));
            }
            *ask.requests += 1;
            let addresses = self.allowed(&ready.url, ask).await?;
            let _permit = self.sending.acquire().await.map_err(closed)?;
            let response = self.send(&ready, addresses).await?;
            let status = response.status().as_u16();
            let location = response
                .headers()
                .get("location")
                .and_then(|to| to.to_str().ok());
            match location {
                Some(to) if matches!(status, 301 | 302 | 303 | 307 | 308) => {
                    if redirects >= ready.max_redirects {
                        // The guest asked for the redirect itself, or the limit of redirects is
                        // reached.
                        return self.read(response, &ready, ask).await;
                    }
                    redirects += 1;
                    ready.follow(status, to)?;
                }
                _ => return self.read(response, &ready, ask).await,
            }
        }
    }

    async fn send(
        &self,
        ready: &Ready,
        addresses: Vec<SocketAddr>,
    ) -> Result<reqwest::Response, HttpError> {
        let client = self.client(&ready.url, addresses).await?;
        let mut builder = client
            .request(ready.method.clone(), ready.url.clone())
            .headers(ready.headers.clone());
        if let Some(body) = &ready.body {
            builder = builder.body(body.clone());
        }
        builder
            .send()
            .await
            .map_err(|error| broken(&error, &ready.url))
    }

    async fn read(
        &self,
        mut response: reqwest::Response,
        ready: &Ready,
        ask: &mut Ask<'_>,
    ) -> Result<Response, HttpError> {
        let (secrets, bodies) = (ask.usable.secrets, &mut ask.bodies);
        let status = response.status().as_u16();
        let headers = response.headers();
        let bytes: usize = headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len())
            .sum();
        if headers.len() > self.policy.max_headers || bytes > MAX_HEADER_BYTES {
            return Err(HttpError::TooLarge(MAX_HEADER_BYTES as u64));
        }
        let headers = headers
            .iter()
            .filter_map(|(name, value)| {
                let name = name.as_str();
                // A placeholder of a secret is not a name of a header.
                if secrets.redact(name) != name {
                    return None;
                }
                let clean = secrets.clean(value.as_bytes().to_vec());
                Some((name.to_owned(), String::from_utf8(clean).ok()?))
            })
            .collect::<Vec<_>>();
        let max = ready.max_response;
        if response.content_length().is_some_and(|length| length > max) {
            return Err(HttpError::TooLarge(max));
        }
        let length = response.content_length().unwrap_or_default().min(max);
        let mut body = Vec::new();
        let mut room = 0;
        let mut wanted = usize::try_from(length).unwrap_or_default();
        while let Some(chunk) = response.chunk().await.map_err(|e| broken(&e, &ready.url))? {
            let filled = body.len() + chunk.len();
            if filled as u64 > max {
                return Err(HttpError::TooLarge(max));
            }
            if filled > room {
                // Grow to the announced length, and otherwise double each time.
                let more = wanted.max(filled) - room;
                bodies.charge(more)?;
                room += more;
                body.reserve_exact(room - body.len());
                wanted = room.saturating_mul(2).min(as_size(max));
            }
            body.extend_from_slice(&chunk);
        }
        let body = content(secrets.clean(body), &headers);
        Ok(Response {
            status,
            headers,
            body,
        })
    }

    /// A client that connects only to these addresses.
    async fn client(
        &self,
        url: &Url,
        mut addresses: Vec<SocketAddr>,
    ) -> Result<reqwest::Client, HttpError> {
        addresses.sort();
        let host = url.host_str().unwrap_or_default().to_owned();
        let key = (url.scheme() == "https", host, addresses);
        {
            let mut kept = self.kept.lock();
            if let Some(at) = kept.iter().position(|(there, _)| *there == key)
                && let Some(found) = kept.remove(at)
            {
                let client = found.1.clone();
                kept.push_back(found);
                return Ok(client);
            }
        }
        let (policy, roots, of) = (self.policy.clone(), self.roots.clone(), key.clone());
        // Reading the system's certificates takes a while.
        let made = tokio::task::spawn_blocking(move || make(&policy, &roots, &of)).await;
        let client = made
            .map_err(|_| HttpError::Other("the client could not be made".to_owned()))?
            .map_err(|_| HttpError::Other("the certificates cannot be read".to_owned()))?;
        let mut kept = self.kept.lock();
        if kept.len() >= MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back((key, client.clone()));
        Ok(client)
    }

    /// The addresses of a host that a grant lets this request reach.
    async fn allowed(&self, url: &Url, ask: &Ask<'_>) -> Result<Vec<SocketAddr>, HttpError> {
        let grants = ask.grants;
        let port = url.port_or_known_default().unwrap_or_default();
        let place = format!(
            "{}://{}:{port}",
            url.scheme(),
            url.host_str().unwrap_or_default()
        );
        let covering: Vec<_> = grants
            .http
            .iter()
            .filter(|grant| grant.covers(url))
            .collect();
        if covering.is_empty() {
            return Err(HttpError::Denied(match ask.grants_file {
                // A failure is one line.
                Some(file) => needed(ask.package, file, url),
                None => format!("`{place}` is not granted"),
            }));
        }
        let addresses: Vec<SocketAddr> = match url.host() {
            Some(Host::Ipv4(address)) => vec![(address, port).into()],
            Some(Host::Ipv6(address)) => vec![(address, port).into()],
            Some(Host::Domain(name)) => {
                let found = self.names.resolve(name).await;
                let found =
                    found.map_err(|error| HttpError::Unreachable(format!("`{name}` {error}")))?;
                let with_port = |address: &SocketAddr| {
                    let mut address = *address;
                    address.set_port(port);
                    address
                };
                found.iter().map(with_port).collect()
            }
            None => return Err(HttpError::Invalid("the address has no host".to_owned())),
        };
        let reached: Vec<SocketAddr> = addresses
            .into_iter()
            .filter(|address| covering.iter().any(|grant| grant.reaches(address.ip())))
            .collect();
        if reached.is_empty() {
            let message = format!(
                "`{place}` leads to an address that is not public; grant `{place} private` if it is meant"
            );
            return Err(HttpError::Denied(message));
        }
        Ok(reached)
    }
}

fn make(
    policy: &HttpPolicy,
    roots: &Trusted,
    (https, host, addresses): &Key,
) -> reqwest::Result<reqwest::Client> {
    let builder = || {
        reqwest::Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .referer(false)
            .http1_only()
            .http1_max_headers(policy.max_headers.max(1))
            .connect_timeout(policy.connect_timeout)
            .pool_max_idle_per_host(16)
            .pool_idle_timeout(Duration::from_secs(30))
            .resolve_to_addrs(host, addresses)
    };
    // Plain HTTP needs no certificates.
    if *https {
        roots.client(builder)
    } else {
        builder().tls_certs_only([]).build()
    }
}

/// The body as a text, if its media type is one and its bytes are UTF-8.
fn content(body: Vec<u8>, headers: &[(String, String)]) -> Content {
    let media = headers.iter().find(|(name, _)| name == "content-type");
    let is_text = media.is_some_and(|(_, media)| {
        let mut parts = media.split(';').map(str::trim);
        let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
        let text = essence.starts_with("text/")
            || essence.ends_with("+json")
            || essence.ends_with("+xml")
            || matches!(
                essence.as_str(),
                "application/json" | "application/xml" | "application/x-www-form-urlencoded"
            );
        let mut charsets = parts.filter_map(|part| part.split_once('='));
        let other = charsets.any(|(name, value)| {
            let value = value.trim_matches('"');
            name.eq_ignore_ascii_case("charset")
                && !value.eq_ignore_ascii_case("utf-8")
                && !value.eq_ignore_ascii_case("us-ascii")
        });
        text && !other
    });
    if !is_text {
        return Content::Bytes(body);
    }
    match String::from_utf8(body) {
        Ok(text) => Content::Text(text),
        Err(wrong) => Content::Bytes(wrong.into_bytes()),
    }
}

fn as_size(max: u64) -> usize {
    usize::try_from(max).unwrap_or(usize::MAX)
}

/// The errors of the client may contain addresses with their credentials, so they are not shown.
fn broken(error: &reqwest::Error, url: &Url) -> HttpError {
    let host = url.host_str().unwrap_or_default();
    if error.is_timeout() {
        HttpError::Timeout
    } else if let Some(why) = certificate_refused(error) {
        HttpError::Unreachable(format!(
            "the certificate of `{host}` is refused: {why}; `roots` in [plugins] names a file with \
             the authorities that count"
        ))
    } else if error.is_connect() {
        HttpError::Unreachable(format!("no connection to `{host}`"))
    } else {
        HttpError::Unreachable(format!("the connection to `{host}` broke"))
    }
}

#[cfg(test)]
mod tests;
