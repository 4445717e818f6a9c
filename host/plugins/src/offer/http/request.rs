//! Checks the request of a guest and prepares it.

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use url::Url;
use windlass_model::TraceContext;
use windlass_model::secrets::{Reference, name_in};
use windlass_model::trace::{TRACE_PARENT, TRACE_STATE, TraceState};

use super::policy::HttpPolicy;
use crate::bindings::host::windlass::http::http::{
    Content, HeaderValue as Given, HttpError, Request,
};
use crate::grant::secrets::Secrets;
use crate::grant::settings::Grants;

/// The longest address, in bytes.
const MAX_URL: usize = 8 * 1024;
/// The longest value of a header, in bytes.
const MAX_VALUE: usize = 8 * 1024;
/// The header `User-Agent` of a request that has none.
const AGENT: &str = concat!("windlass/", env!("CARGO_PKG_VERSION"));
/// Headers of the connection, which belongs to the host.
const HOSTS_OWN: [&str; 12] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A request that can be sent.
pub(super) struct Ready {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    /// The names of the headers that contain secrets.
    pub(super) secret_headers: Vec<HeaderName>,
    pub(super) body: Option<Bytes>,
    pub(super) max_redirects: u32,
    pub(super) max_response: u64,
}

/// The secrets that a call may use.
pub(crate) struct Usable<'a> {
    /// All secrets of the host.
    pub(crate) secrets: &'a Secrets,
    /// The workflow that calls.
    pub(crate) workflow: &'a str,
    /// Those to which its definition refers at this node.
    pub(crate) named: &'a [Reference],
}

impl Usable<'_> {
    /// The value of a secret behind its prefix, by the handle that replaces its name in the definition. A name alone
    /// is data, which must not refer to secrets.
    fn secret(&self, asked: &str, grants: &Grants, url: &Url) -> Option<String> {
        let is_named = |named: &&Reference| *named.handle == *asked;
        let reference = self.named.iter().find(is_named)?;
        let name = &*reference.name;
        let is_granted = grants.secrets.iter().any(|granted| granted == name);
        let value = is_granted.then(|| self.secrets.usable(name, self.workflow, url))??;
        Some(format!("{}{value}", reference.prefix))
    }
}

impl Ready {
    pub(super) fn new(
        request: Request,
        policy: &HttpPolicy,
        grants: &Grants,
        usable: &Usable<'_>,
        max_body: usize,
    ) -> Result<Self, HttpError> {
        let invalid = |message: &str| HttpError::Invalid(message.to_owned());
        let method = Method::from_bytes(request.method.as_bytes())
            .map_err(|_| invalid("the method is malformed"))?;
        if matches!(method, Method::CONNECT | Method::TRACE) {
            return Err(invalid("the methods CONNECT and TRACE are not offered"));
        }
        let body = request.body.map(|content| match content {
            Content::Bytes(bytes) => Bytes::from(bytes),
            Content::Text(text) => Bytes::from(text),
        });
        if body.as_ref().is_some_and(|body| body.len() > max_body) {
            return Err(HttpError::Limit(format!(
                "the body is over {max_body} bytes long"
            )));
        }
        if request.headers.len() > policy.max_headers {
            return Err(HttpError::Limit(format!(
                "{} headers at most",
                policy.max_headers
            )));
        }
        let url = address(&request.url)?;
        let mut headers = HeaderMap::new();
        let mut secret_headers = Vec::new();
        for header in request.headers {
            let name = HeaderName::from_bytes(header.name.as_bytes())
                .map_err(|_| invalid("the name of a header is malformed"))?;
            if HOSTS_OWN.contains(&name.as_str()) {
                return Err(HttpError::Invalid(format!(
                    "the header `{name}` is the host's"
                )));
            }
            let value = match header.value {
                Given::Plain(text) => value(&text)?,
                Given::Secret(secret) => {
                    // The guest cannot distinguish an unknown secret from one that is not allowed.
                    let text = usable.secret(&secret, grants, &url);
                    let unknown = || HttpError::NoSecret(name_in(&secret).to_owned());
                    let text = text.ok_or_else(unknown)?;
                    let mut value = value(&text)?;
                    value.set_sensitive(true);
                    secret_headers.push(name.clone());
                    value
                }
            };
            headers.append(name, value);
        }
        let agent = headers.entry(USER_AGENT);
        agent.or_insert(HeaderValue::from_static(AGENT));
        Ok(Self {
            method,
            url,
            headers,
            secret_headers,
            body,
            max_redirects: request.max_redirects.unwrap_or(0).min(policy.max_redirects),
            max_response: request
                .max_response_bytes
                .unwrap_or(u64::MAX)
                .min(policy.max_response_bytes)
                .min(max_body as u64),
        })
    }

    /// Names the trace of the call, unless the guest has named one.
    pub(super) fn belong_to(&mut self, trace: Option<&TraceContext>) {
        let Some(trace) = trace else { return };
        if self.headers.contains_key(TRACE_PARENT) {
            return;
        }
        let state = trace.state.as_ref().map(TraceState::as_str);
        let state = state.filter(|_| !self.headers.contains_key(TRACE_STATE));
        let parent = trace.to_string();
        let named = [(TRACE_PARENT, Some(&*parent)), (TRACE_STATE, state)];
        for (name, value) in named {
            if let Some(Ok(value)) = value.map(HeaderValue::from_str) {
                self.headers.insert(HeaderName::from_static(name), value);
            }
        }
    }

    /// Changes the request for a redirect. Credentials for one origin are not sent to another.
    pub(super) fn follow(&mut self, status: u16, location: &[u8]) -> Result<(), HttpError> {
        let nowhere = |why: &str| HttpError::Other(format!("a redirect leads nowhere: {why}"));
        let to = self.url.join(&location_text(location));
        let to = to.map_err(|_| nowhere("the address is malformed"))?;
        let url = address(to.as_str()).map_err(|error| match error {
            HttpError::Invalid(why) | HttpError::Limit(why) => nowhere(&why),
            error => error,
        })?;
        if url.origin() != self.url.origin() {
            for name in self.secret_headers.drain(..) {
                self.headers.remove(name);
            }
            for name in ["authorization", "cookie"] {
                self.headers.remove(name);
            }
        }
        let get = status == 303 && self.method != Method::HEAD
            || matches!(status, 301 | 302) && self.method == Method::POST;
        if get {
            self.method = Method::GET;
            self.body = None;
            for name in ["content-type", "content-encoding", "content-language"] {
                self.headers.remove(name);
            }
        }
        self.url = url;
        Ok(())
    }
}

/// The address in a header `Location`, whose bytes beyond ASCII count as percent-encoded, as in
/// browsers. Spaces are left to the parser of addresses.
fn location_text(value: &[u8]) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value {
        match byte.is_ascii() {
            true => text.push(char::from(*byte)),
            false => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn address(text: &str) -> Result<Url, HttpError> {
    let invalid = |message: &str| HttpError::Invalid(message.to_owned());
    if text.len() > MAX_URL {
        return Err(HttpError::Limit(format!(
            "the address is over {MAX_URL} bytes long"
        )));
    }
    let mut url = Url::parse(text).map_err(|_| invalid("the address is malformed"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("the scheme is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("credentials do not belong into an address"));
    }
    url.set_fragment(None);
    Ok(url)
}

fn value(text: &str) -> Result<HeaderValue, HttpError> {
    if text.len() > MAX_VALUE {
        return Err(HttpError::Limit(format!(
            "the value of a header is over {MAX_VALUE} bytes"
        )));
    }
    // The error would show the value, which may be a secret.
    HeaderValue::from_str(text)
        .map_err(|_| HttpError::Invalid("the value of a header is malformed".to_owned()))
}
