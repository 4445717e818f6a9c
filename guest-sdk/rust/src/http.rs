//! HTTP requests to destinations that the operator has granted.

use crate::bindings::node::windlass::http::http as wit;
pub use crate::bindings::node::windlass::http::http::{
    Content, Header, HeaderValue, HttpError, Request,
};
use crate::bookmark::whole_ms;
use crate::error::{Error, Result};
use crate::host;
use serde::{Serialize, de::DeserializeOwned};
use std::time::Duration;

/// A response, with any status.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl From<wit::Response> for Response {
    fn from(response: wit::Response) -> Self {
        Self {
            status: response.status,
            headers: response.headers,
            body: match response.body {
                Content::Bytes(bytes) => bytes,
                Content::Text(text) => text.into_bytes(),
            },
        }
    }
}

impl Content {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Text(text) => text.as_bytes(),
        }
    }
}

/// A request under construction.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestBuilder {
    request: Request,
}

impl RequestBuilder {
    pub(crate) fn new(method: String, url: String) -> Self {
        Self {
            request: Request {
                method,
                url,
                headers: Vec::new(),
                body: None,
                timeout: None,
                max_response_bytes: None,
                max_redirects: None,
            },
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.put(name.into(), HeaderValue::Plain(value.into()))
    }

    /// Adds a header whose value is the secret of this name. The host inserts
    /// it; the node never sees it. Needs the capability `secrets`.
    #[must_use]
    pub fn secret_header(self, name: impl Into<String>, secret: impl Into<String>) -> Self {
        self.put(name.into(), HeaderValue::Secret(secret.into()))
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.request.body = Some(Content::Bytes(bytes.into()));
        self
    }

    /// Sets the body to JSON, and `content-type` accordingly.
    pub fn json(self, value: &impl Serialize) -> Result<Self> {
        let bytes = serde_json::to_vec(value)?;
        Ok(self.header("content-type", "application/json").body(bytes))
    }

    /// How long to wait in total; the deadline of the call is a bound anyway.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.request.timeout = Some(whole_ms(timeout));
        self
    }

    /// The largest accepted response body; the host's limit is a bound anyway.
    #[must_use]
    pub fn max_response_bytes(mut self, bytes: u64) -> Self {
        self.request.max_response_bytes = Some(bytes);
        self
    }

    /// How many redirects to follow. Default: none.
    #[must_use]
    pub fn max_redirects(mut self, redirects: u32) -> Self {
        self.request.max_redirects = Some(redirects);
        self
    }

    /// Whether a header of this name was added; case does not matter.
    pub fn has_header(&self, name: &str) -> bool {
        let headers = &self.request.headers;
        headers
            .iter()
            .any(|header| header.name.eq_ignore_ascii_case(name))
    }

    /// Sends the request and waits. A response of any status is a response;
    /// without one, the error says whether a retry makes sense.
    pub fn send(&self) -> Result<Response> {
        let sent = host::http::fetch(&self.request).map(Response::from);
        sent.map_err(|error| {
            // The query may contain confidential data, which must not be
            // logged.
            let url = self.request.url.split('?').next().unwrap_or_default();
            let to = format!("{} {url}", self.request.method);
            match error {
                HttpError::Denied(why) => Error::permanent(format!("{to} is not granted: {why}")),
                HttpError::Invalid(why) => Error::invalid(format!("{to} is malformed: {why}")),
                HttpError::Timeout => Error::retryable(format!("{to} got no answer in time")),
                HttpError::TooLarge(bytes) => {
                    Error::permanent(format!("{to} answered more than the {bytes} bytes allowed"))
                }
                HttpError::Unreachable(why) => {
                    Error::retryable(format!("{to} could not be reached: {why}"))
                }
                HttpError::NoSecret(name) => Error::permanent(format!(
                    "{to} needs the secret {name}, which is unknown, not granted, or not for this request"
                )),
                HttpError::Limit(why) => Error::permanent(format!("{to} was not sent: {why}")),
                HttpError::Other(why) => Error::other(format!("{to} failed: {why}")),
            }
        })
    }

    fn put(mut self, name: String, value: HeaderValue) -> Self {
        self.request.headers.push(Header { name, value });
        self
    }
}

impl Response {
    /// The first header of this name; case does not matter.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        Ok(serde_json::from_slice(&self.body)?)
    }
}
