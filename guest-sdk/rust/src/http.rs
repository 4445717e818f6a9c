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

const BOM: &[u8] = b"\xef\xbb\xbf";

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
            let to = format!("{} {}", self.request.method, shown_url(&self.request.url));
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
                HttpError::Limit(why) => Error::permanent(format!("{to} is over a limit: {why}")),
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

    /// The body as JSON, without a byte order mark.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        let body = self.body.strip_prefix(BOM).unwrap_or(&self.body);
        Ok(serde_json::from_slice(body)?)
    }

    /// The body as a text without a byte order mark; none if its bytes are not
    /// UTF-8. The host has already written a text that declares another
    /// charset in UTF-8.
    pub fn text(&self) -> Option<&str> {
        let body = self.body.strip_prefix(BOM).unwrap_or(&self.body);
        std::str::from_utf8(body).ok()
    }
}

/// A URL for messages: without user and password, and without the query and
/// the fragment, which may contain confidential data. It hides too much rather
/// than too little of a malformed URL.
pub fn shown_url(url: &str) -> String {
    let (scheme, rest) = match url.find(':') {
        Some(at) if url.get(..at).is_some_and(is_scheme) => url.split_at(at + 1),
        _ => ("", url),
    };
    let slashes = rest.len() - rest.trim_start_matches(['/', '\\']).len();
    let (slashes, rest) = rest.split_at(slashes);
    let ends = |c: char| matches!(c, '/' | '\\' | '?' | '#');
    let authority = rest.split(ends).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let port = host.rsplit(']').next().and_then(|it| it.split_once(':'));
    let has_port = port.is_none_or(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    // Without a host and a port, the end of a password cannot be told.
    let place = match (slashes.is_empty() || !has_port, rest.rsplit_once('@')) {
        (true, Some((_, place))) => place,
        _ => rest.get(authority.len() - host.len()..).unwrap_or_default(),
    };
    let place = place.split(['?', '#']).next().unwrap_or_default();
    match scheme {
        // What looks like a scheme may be the name of a user.
        _ if slashes.is_empty() && rest.contains('@') => place.to_owned(),
        scheme => format!("{scheme}{slashes}{place}"),
    }
}

fn is_scheme(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::shown_url;

    #[test]
    fn a_shown_url_has_no_user_password_or_query() {
        for (url, expected) in [
            ("https://a.example/x?token=1#f", "https://a.example/x"),
            (
                "http://bob:hunter2@a.example:80/x?y",
                "http://a.example:80/x",
            ),
            ("http://bob@a.example/", "http://a.example/"),
            ("http://bob:hun@ter2@a.example", "http://a.example"),
            ("http://bob:hun/ter2@a.example/x", "http://a.example/x"),
            ("http://bob:hun?ter2@a.example/x", "http://a.example/x"),
            ("http://bob:hun#ter2@a.example/x", "http://a.example/x"),
            ("http:\\\\bob:hunter2@a.example\\x", "http:\\\\a.example\\x"),
            ("http:/bob:hunter2@a.example/", "http:/a.example/"),
            ("http:bob:hunter2@a.example/", "a.example/"),
            ("bob:hunter2@a.example/", "a.example/"),
            ("//bob:hunter2@a.example/", "//a.example/"),
            ("http://a.example/@user", "http://a.example/@user"),
            ("http://a.example:80/a@b:c", "http://a.example:80/a@b:c"),
            ("http://[::1]:80/a@b", "http://[::1]:80/a@b"),
            ("http://bob:hunter2@[::1]/", "http://[::1]/"),
            (
                "http://bob:hunter2@a.example:99999/",
                "http://a.example:99999/",
            ),
            ("a.example/x", "a.example/x"),
            ("", ""),
            ("@", ""),
            ("http://@", "http://"),
            ("http://ü:ß@é/", "http://é/"),
        ] {
            assert_eq!(shown_url(url), expected, "{url}");
        }
    }
}
