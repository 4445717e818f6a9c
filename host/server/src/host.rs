//! The header `Host`, as RFC 9112, section 3.2 demands it: an HTTP/1.1 request has exactly one, and
//! no request has two or a malformed one.
//!
//! Otherwise a proxy and the host behind it could read two different hosts from one request.

use std::net::Ipv6Addr;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::codes;
use crate::problem::Problem;

/// Answers a request whose `Host` is missing, repeated or malformed.
pub(crate) async fn demand(request: Request, next: Next) -> Response {
    match fault(request.version(), request.headers()) {
        None => next.run(request).await,
        Some(detail) => Problem::new(StatusCode::BAD_REQUEST, &codes::HOST, detail)
            .help("Send exactly one header `Host` with the name and port of this server.")
            .into_response(),
    }
}

/// The fault of the `Host` of a request, if there is one.
fn fault(version: Version, headers: &HeaderMap) -> Option<&'static str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        // Before 1.1 the header was optional.
        (None, _) if version < Version::HTTP_11 => None,
        (None, _) => Some("the request has no header `Host`"),
        (Some(_), Some(_)) => Some("the request has more than one header `Host`"),
        (Some(host), None) if Authority::read(host.as_bytes()).is_some() => None,
        (Some(_), None) => Some("the value of the header `Host` is not a host with a port"),
    }
}

/// A host and perhaps a port: `uri-host [":" port]` (RFC 3986, section 3.2).
pub(crate) struct Authority<'a> {
    /// A name, or an address; an IPv6 address in its brackets. Never empty: RFC 9110, section 4.2.1
    /// forbids that for `http`.
    pub(crate) host: &'a str,
    /// The port, if it is a valid number.
    pub(crate) port: Option<u16>,
    /// Whether there is a colon behind the host.
    pub(crate) has_port: bool,
}

impl<'a> Authority<'a> {
    /// Parses a text; none if it is malformed.
    pub(crate) fn read(text: &'a [u8]) -> Option<Self> {
        let end = match text.strip_prefix(b"[") {
            Some(inside) => {
                let end = inside.iter().position(|byte| *byte == b']')?;
                is_literal(inside.get(..end)?).then_some(end + 2)?
            }
            None => {
                let end = text.iter().position(|byte| *byte == b':');
                let end = end.unwrap_or(text.len());
                is_name(text.get(..end)?).then_some(end)?
            }
        };
        let (host, rest) = text.split_at_checked(end)?;
        let port = match rest.split_first() {
            None => None,
            Some((b':', port)) if port.iter().all(u8::is_ascii_digit) => Some(port),
            Some(_) => return None,
        };
        let number = port.and_then(|port| std::str::from_utf8(port).ok());
        Some(Self {
            host: std::str::from_utf8(host).ok()?,
            port: number.and_then(|port| port.parse().ok()),
            has_port: port.is_some(),
        })
    }
}

/// Whether a text is an `IPv6address` or an `IPvFuture`.
fn is_literal(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else {
        return false;
    };
    let future = || {
        let (version, rest) = text.strip_prefix(['v', 'V'])?.split_once('.')?;
        let hex = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_hexdigit());
        let plain = |byte: u8| is_plain(byte) || byte == b':';
        (hex && !rest.is_empty() && rest.bytes().all(plain)).then_some(())
    };
    text.parse::<Ipv6Addr>().is_ok() || future().is_some()
}

/// Whether a text is a non-empty `reg-name`; an IPv4 address is one, too.
fn is_name(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some((byte, behind)) = rest.split_first() {
        rest = match (byte, behind) {
            (b'%', [high, low, behind @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                behind
            }
            (byte, behind) if is_plain(*byte) => behind,
            _ => return false,
        };
    }
    !text.is_empty()
}

/// `unreserved` and `sub-delims`.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(version: Version, hosts: &[&str], good: bool) {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, host.parse().unwrap());
        }
        let fault = fault(version, &headers);
        assert_eq!(fault.is_none(), good, "{version:?} {hosts:?}: {fault:?}");
    }

    #[test]
    fn one_host_is_demanded_since_1_1() {
        check(Version::HTTP_11, &["a"], true);
        check(Version::HTTP_11, &[], false);
        check(Version::HTTP_11, &["a", "a"], false);
        check(Version::HTTP_10, &[], true);
        check(Version::HTTP_10, &["a"], true);
        check(Version::HTTP_10, &["a", "b"], false);
        check(Version::HTTP_10, &["a b"], false);
    }

    #[test]
    fn a_host_is_a_name_or_an_address_and_perhaps_a_port() {
        for host in [
            "localhost",
            "flows.example:7433",
            "flows.example:",
            "127.0.0.1:80",
            "[::1]",
            "[2001:db8::1]:7433",
            "[v1.a:b]",
            "a%20b",
            "under_score",
            "xn--bcher-kva.example",
        ] {
            check(Version::HTTP_11, &[host], true);
        }
        for host in [
            "",
            ":80",
            "a b",
            "a, b",
            "http://a",
            "a/b",
            "a?b",
            "a#b",
            "user@a",
            "a:b",
            "a:80:80",
            "a\\b",
            "[::1",
            "[::1]x",
            "[]",
            "[a]",
            "[fe80::1%25eth0]",
            "a%2",
            "a%zz",
            "<a>",
            "\"a\"",
        ] {
            check(Version::HTTP_11, &[host], false);
        }
    }
}
