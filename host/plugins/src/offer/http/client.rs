//! Sends requests of guests.
//!
//! Names are resolved here and every address is checked against the grant; the connection goes to a
//! checked address only, so that a name which resolves differently the second time has no effect.
//! Redirects are followed by hand, each with the same checks. A request that waits for a name
//! server does not count among the requests in progress.
//!
//! A proxy looks names up by itself, so the host can check only what it finds out: a name that it
//! finds at addresses without a grant is refused, and a name that it does not find is the proxy's.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use reqwest::header::{CONTENT_ENCODING, LOCATION};
use reqwest::redirect::Policy;
use tokio::sync::Semaphore;
use url::{Host, Url};
use windlass_body::{
    Inflate, MediaType, Memory, NotText, decode_text, header_text, inflate, is_coded,
};
use windlass_model::{Clock, TraceContext};

use super::policy::HttpPolicy;
use super::proxy::Proxy;
use super::request::{Ready, Usable};
use super::resolve::{self, Lookup, Resolver, Unresolved};
use super::roots::{Trusted, certificate_refused};
use crate::bindings::host::windlass::http::http::{Content, HttpError, Request, Response};
use crate::codes;
use crate::error::Error;
use crate::grant::destination::needed;
use crate::grant::settings::Grants;
use crate::hold::budget::Account;

/// The most destinations whose connections are kept.
const MAX_KEPT: usize = 64;
/// Bytes of all headers of a response.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// How long a request that goes through a proxy waits for the host's own lookup of its name.
const LOOK: Duration = Duration::from_secs(2);

/// Sends requests, for all plugins.
pub(crate) struct Client {
    policy: HttpPolicy,
    roots: Trusted,
    names: Resolver,
    sending: Semaphore,
    /// Requests may share connections if they take the same way.
    kept: Mutex<VecDeque<(Way, reqwest::Client)>>,
}

/// The way of a request to its host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Way {
    /// Whether a server is verified by its certificate.
    https: bool,
    /// The host that is connected: the proxy's if there is one.
    host: String,
    /// The only addresses that are connected, in order.
    addresses: Vec<SocketAddr>,
    proxy: Option<Arc<Proxy>>,
}

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
    /// The trace of the call, unless the request names another.
    pub(crate) trace: Option<TraceContext>,
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
    fn count(&mut self, bytes: usize) -> Result<(), HttpError> {
        match self.charge(bytes) {
            true => Ok(()),
            false => Err(no_memory()),
        }
    }
}

impl Memory for Bodies<'_> {
    fn charge(&mut self, bytes: usize) -> bool {
        let charged = self.account.charge(bytes as u64);
        *self.charged += if charged { bytes as u64 } else { 0 };
        charged
    }

    fn discharge(&mut self, bytes: usize) {
        let bytes = (bytes as u64).min(*self.charged);
        self.account.discharge(bytes);
        *self.charged -= bytes;
    }
}

fn no_memory() -> HttpError {
    HttpError::Other("there is no memory for the body".to_owned())
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
        ready.belong_to(ask.trace.as_ref());
        ask.bodies
            .count(ready.body.as_ref().map_or(0, Bytes::len))?;
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
            let way = self.allowed(&ready.url, ask).await?;
            let _permit = self.sending.acquire().await.map_err(closed)?;
            let response = self.send(&ready, &way).await?;
            let status = response.status().as_u16();
            match response.headers().get(LOCATION) {
                // Without redirects, the guest asked for this response itself.
                Some(to)
                    if ready.max_redirects > 0 && matches!(status, 301 | 302 | 303 | 307 | 308) =>
                {
                    if redirects == ready.max_redirects {
                        return Err(HttpError::Other(format!(
                            "the server answers with more than {redirects} redirects"
                        )));
                    }
                    redirects += 1;
                    ready.follow(status, to.as_bytes())?;
                }
                _ => return self.read(response, &ready, &way, ask).await,
            }
        }
    }

    async fn send(&self, ready: &Ready, way: &Way) -> Result<reqwest::Response, HttpError> {
        let client = self.client(way).await?;
        let mut builder = client
            .request(ready.method.clone(), ready.url.clone())
            .headers(ready.headers.clone());
        if let Some(body) = &ready.body {
            builder = builder.body(body.clone());
        }
        builder
            .send()
            .await
            .map_err(|error| broken(&error, &ready.url, way))
    }

    async fn read(
        &self,
        mut response: reqwest::Response,
        ready: &Ready,
        way: &Way,
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
        let encodings = headers.get_all(CONTENT_ENCODING).iter();
        let encodings: Vec<_> = encodings
            .map(|value| header_text(value.as_bytes()))
            .collect();
        let headers = headers
            .iter()
            .filter_map(|(name, value)| {
                let name = name.as_str();
                // A placeholder of a secret is not a name of a header.
                if secrets.are_in_name(name) {
                    return None;
                }
                let mut value = header_text(value.as_bytes());
                secrets.clean_text(&mut value);
                Some((name.to_owned(), value))
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
        let lost = |error| broken(&error, &ready.url, way);
        while let Some(chunk) = response.chunk().await.map_err(lost)? {
            let filled = body.len() + chunk.len();
            if filled as u64 > max {
                return Err(HttpError::TooLarge(max));
            }
            if filled > room {
                // Grow to the announced length, and otherwise double each time.
                let more = wanted.max(filled) - room;
                bodies.count(more)?;
                room += more;
                body.reserve_exact(room - body.len());
                wanted = room.saturating_mul(2).min(as_size(max));
            }
            body.extend_from_slice(&chunk);
        }
        let raw = RawBody {
            headers,
            body,
            charged: room,
            // A part of a coded body cannot be decoded.
            encoding: encodings.join(","),
            is_part: status == 206,
        };
        let (headers, content) = raw.decode(max, bodies)?;
        let body = match content {
            Content::Bytes(bytes) => Content::Bytes(secrets.clean(bytes)),
            Content::Text(mut text) => {
                secrets.clean_text(&mut text);
                Content::Text(text)
            }
        };
        Ok(Response {
            status,
            headers,
            body,
        })
    }

    /// A client that takes this way and no other.
    async fn client(&self, way: &Way) -> Result<reqwest::Client, HttpError> {
        {
            let mut kept = self.kept.lock();
            if let Some(at) = kept.iter().position(|(there, _)| there == way)
                && let Some(found) = kept.remove(at)
            {
                let client = found.1.clone();
                kept.push_back(found);
                return Ok(client);
            }
        }
        let (policy, roots, of) = (self.policy.clone(), self.roots.clone(), way.clone());
        // Reading the system's certificates takes a while.
        let made = tokio::task::spawn_blocking(move || make(&policy, &roots, &of)).await;
        let client = made
            .map_err(|_| HttpError::Other("the client could not be made".to_owned()))?
            .map_err(|_| HttpError::Other("the certificates cannot be read".to_owned()))?;
        let mut kept = self.kept.lock();
        if kept.len() >= MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back((way.clone(), client.clone()));
        Ok(client)
    }

    /// The way of this request, if a grant covers it.
    async fn allowed(&self, url: &Url, ask: &Ask<'_>) -> Result<Way, HttpError> {
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
        let proxy = self.policy.proxies.to(url).map_err(HttpError::Other)?;
        let found = match url.host() {
            Some(Host::Ipv4(address)) => Some(vec![(address, port).into()]),
            Some(Host::Ipv6(address)) => Some(vec![(address, port).into()]),
            Some(Host::Domain(name)) => match &proxy {
                None => Some(self.addresses(name, port).await?),
                // The proxy looks the name up, and may find what the host does not.
                Some(_) => match tokio::time::timeout(LOOK, self.names.resolve(name)).await {
                    Ok(Ok(found)) => Some(found.to_vec()),
                    Ok(Err(Unresolved::Missing | Unresolved::Silent)) | Err(_) => None,
                    // Other requests must not be able to prevent the check.
                    Ok(Err(full @ Unresolved::Full)) => {
                        return Err(HttpError::Unreachable(format!("`{name}` {full}")));
                    }
                },
            },
            None => return Err(HttpError::Invalid("the address has no host".to_owned())),
        };
        let reached = found.map(|mut addresses| {
            addresses.retain(|it| covering.iter().any(|grant| grant.reaches(it.ip())));
            addresses
        });
        if reached.as_ref().is_some_and(Vec::is_empty) {
            let message = format!(
                "`{place}` leads to an address that is not public; grant `{place} private` if it is meant"
            );
            return Err(HttpError::Denied(message));
        }
        let https = url.scheme() == "https";
        let (https, to, mut addresses) = match &proxy {
            None => (https, url, reached.unwrap_or_default()),
            Some(proxy) => {
                let port = proxy.url.port_or_known_default().unwrap_or_default();
                let addresses = match proxy.url.host() {
                    Some(Host::Domain(name)) => {
                        let found = self.addresses(name, port).await;
                        found.map_err(|error| match error {
                            HttpError::Unreachable(why) => {
                                HttpError::Unreachable(format!("the proxy {why}"))
                            }
                            error => error,
                        })?
                    }
                    Some(Host::Ipv4(address)) => vec![(address, port).into()],
                    Some(Host::Ipv6(address)) => vec![(address, port).into()],
                    None => Vec::new(),
                };
                (https || proxy.is_https(), &proxy.url, addresses)
            }
        };
        addresses.sort();
        Ok(Way {
            https,
            host: to.host_str().unwrap_or_default().to_owned(),
            addresses,
            proxy,
        })
    }

    /// The addresses of a name.
    async fn addresses(&self, name: &str, port: u16) -> Result<Vec<SocketAddr>, HttpError> {
        let found = self.names.resolve(name).await;
        let found = found.map_err(|error| HttpError::Unreachable(format!("`{name}` {error}")))?;
        let with_port = |address: &SocketAddr| {
            let mut address = *address;
            address.set_port(port);
            address
        };
        Ok(found.iter().map(with_port).collect())
    }
}

fn make(policy: &HttpPolicy, roots: &Trusted, way: &Way) -> reqwest::Result<reqwest::Client> {
    let proxy = way.proxy.as_ref();
    let proxy = proxy.map(|proxy| reqwest::Proxy::all(proxy.url.clone()));
    let proxy = proxy.transpose()?;
    let builder = || {
        // Not those of the environment, which are already chosen.
        let builder = reqwest::Client::builder().no_proxy();
        let builder = match proxy.clone() {
            Some(proxy) => builder.proxy(proxy),
            None => builder,
        };
        builder
            .redirect(Policy::none())
            .referer(false)
            .http1_only()
            .http1_max_headers(policy.max_headers.max(1))
            .connect_timeout(policy.connect_timeout)
            .pool_max_idle_per_host(16)
            .pool_idle_timeout(Duration::from_secs(30))
            .resolve_to_addrs(&way.host, &way.addresses)
    };
    // Plain HTTP needs no certificates.
    if way.https {
        roots.client(builder)
    } else {
        builder().tls_certs_only([]).build()
    }
}

/// A response as the server wrote it.
struct RawBody {
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// Bytes that are charged for the body.
    charged: usize,
    encoding: String,
    is_part: bool,
}

impl RawBody {
    /// The body without content codings, and as a text in UTF-8 if its media type is one. The
    /// headers say the same: no `content-encoding`, and `charset=utf-8`. A body that cannot be
    /// decoded is passed on with its headers.
    fn decode(
        mut self,
        max: u64,
        bodies: &mut Bodies<'_>,
    ) -> Result<(Vec<(String, String)>, Content), HttpError> {
        if self.body.is_empty() {
            return Ok((self.headers, Content::Bytes(self.body)));
        }
        if is_coded(&self.encoding) {
            if self.is_part {
                return Ok((self.headers, Content::Bytes(self.body)));
            }
            match inflate(&self.encoding, &self.body, as_size(max), bodies) {
                Ok(inflated) => {
                    let inflated = inflated.into_owned();
                    self.replace(inflated, bodies);
                    self.drop_header("content-encoding");
                }
                Err(Inflate::Unknown(_) | Inflate::TooMany(_)) => {
                    return Ok((self.headers, Content::Bytes(self.body)));
                }
                Err(Inflate::TooLarge(_)) => return Err(HttpError::TooLarge(max)),
                Err(Inflate::NoMemory) => return Err(no_memory()),
                Err(error @ Inflate::Broken(_)) => {
                    return Err(HttpError::Other(format!(
                        "the body of the response cannot be read: {error}"
                    )));
                }
            }
        }
        let media = self.headers.iter().find(|(name, _)| name == "content-type");
        let media = media.map(|(_, value)| value.clone()).unwrap_or_default();
        let media_type = MediaType::of(&media);
        if !media_type.is_text() {
            return Ok((self.headers, Content::Bytes(self.body)));
        }
        let charset = media_type.charset;
        let had_utf8 = std::str::from_utf8(&self.body).is_ok();
        match decode_text(Some(&media), &self.body, as_size(max), bodies) {
            Ok(Cow::Borrowed(text)) => {
                let mark = self.body.len() - text.len();
                self.body.drain(..mark);
            }
            Ok(Cow::Owned(text)) => self.replace(text.into_bytes(), bodies),
            Err(NotText::TooLarge(_)) => return Err(HttpError::TooLarge(max)),
            Err(NotText::NoMemory) => return Err(no_memory()),
            Err(NotText::Unknown(_) | NotText::Malformed(_)) => {
                return Ok((self.headers, Content::Bytes(self.body)));
            }
        }
        let is_utf8 = matches!(
            charset.as_deref(),
            Some("utf-8" | "utf8" | "us-ascii" | "ascii")
        );
        if !is_utf8 && (charset.is_some() || !had_utf8) {
            let declared = self
                .headers
                .iter_mut()
                .filter(|(name, _)| name == "content-type");
            for (_, value) in declared {
                *value = MediaType::in_utf8(value);
            }
        }
        let content = match String::from_utf8(self.body) {
            Ok(text) => Content::Text(text),
            Err(wrong) => Content::Bytes(wrong.into_bytes()),
        };
        Ok((self.headers, content))
    }

    /// Takes over a body that is charged already.
    fn replace(&mut self, body: Vec<u8>, bodies: &mut Bodies<'_>) {
        self.body = body;
        bodies.discharge(std::mem::replace(&mut self.charged, self.body.capacity()));
        self.drop_header("content-length");
    }

    fn drop_header(&mut self, dropped: &str) {
        self.headers.retain(|(name, _)| name != dropped);
    }
}

fn as_size(max: u64) -> usize {
    usize::try_from(max).unwrap_or(usize::MAX)
}

/// The errors of the client may contain addresses with their credentials, so they are not shown.
fn broken(error: &reqwest::Error, url: &Url, way: &Way) -> HttpError {
    let host = url.host_str().unwrap_or_default();
    let through = way.proxy.as_ref();
    let through = through.map_or_else(String::new, |proxy| format!(" through the proxy `{proxy}`"));
    if error.is_timeout() {
        HttpError::Timeout
    } else if let Some(why) = certificate_refused(error) {
        HttpError::Unreachable(format!(
            "the certificate of `{host}`{through} is refused: {why}; `roots` in [plugins] names a file with \
             the authorities that count"
        ))
    } else if error.is_connect() {
        HttpError::Unreachable(format!("no connection to `{host}`{through}"))
    } else {
        HttpError::Unreachable(format!("the connection to `{host}`{through} broke"))
    }
}

#[cfg(test)]
mod tests;
