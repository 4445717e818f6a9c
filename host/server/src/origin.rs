//! The names of this host in requests, and the origins of pages that may send requests.
//!
//! A browser sends requests on behalf of any page that it shows. A stranger's page reaches a host
//! on the same machine in two ways. Either the stranger's own name resolves to the address of the
//! host (DNS rebinding): then `Host` has that name. Or the page sends a form or a plain request to
//! the host's address: then `Origin` and `Sec-Fetch-Site` reveal it. A program that is no browser
//! sends neither header, and is not affected.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::{HeaderMap, HeaderValue, Uri, header};

use crate::host::Authority;

/// The header in which a browser classifies the origin of a request: `same-origin`, `same-site`,
/// `cross-site`, or `none` if a person has entered the address.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// The longest name in the configuration, in bytes.
const NAME_BYTES: usize = 255;

/// The names of this host, and the origins whose pages may send requests.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Names of this host in lower case, without ports.
    hosts: Vec<String>,
    /// Origins with the same rights as this host's own, like `https://shop.example`.
    origins: Vec<Origin>,
    /// How many of the origins the configuration lists: the first ones. The other is that of the
    /// public URL, whose pages are this host's own.
    listed: usize,
}

/// The origin of a page, in the sense of RFC 6454.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    https: bool,
    host: String,
    /// None: the default port of the scheme.
    port: Option<u16>,
}

/// Whether a text is valid in `hosts` of the configuration: a name or an address, without a port.
pub fn is_host(text: &str) -> bool {
    let authority = Authority::read(text.as_bytes());
    text.len() <= NAME_BYTES
        && authority.is_some_and(|authority| !authority.has_port && !authority.host.is_empty())
}

/// Whether a text is valid in `origins` of the configuration: a scheme, a host, and an optional
/// port.
pub fn is_origin(text: &str) -> bool {
    text.len() <= 2 * NAME_BYTES && Origin::read(text).is_some()
}

impl Names {
    /// The names and origins of the configuration. The public URL is both a name and an origin.
    pub(crate) fn new(hosts: &[String], origins: &[String], public_url: Option<&str>) -> Self {
        let public = public_url.and_then(Origin::of_url);
        let hosts = hosts.iter().map(|host| lower(host));
        let hosts = hosts.chain(public.iter().map(|public| public.host.clone()));
        let hosts = hosts.collect();
        let origins = origins.iter().filter_map(|text| Origin::read(text));
        let mut origins: Vec<_> = origins.collect();
        let listed = origins.len();
        origins.extend(public);
        Self {
            hosts,
            origins,
            listed,
        }
    }

    /// Whether the configuration lists origins of pages.
    pub(crate) fn lists_pages(&self) -> bool {
        self.listed > 0
    }

    /// The origin of the page that sends a request, as it was sent, if the configuration lists it.
    pub(crate) fn listed_page<'h>(&self, headers: &'h HeaderMap) -> Option<&'h HeaderValue> {
        let mut values = headers.get_all(header::ORIGIN).iter();
        let value = values.next().filter(|_| values.next().is_none())?;
        let origin = Origin::read(value.to_str().ok()?)?;
        let listed = self.origins.iter().take(self.listed);
        (listed.into_iter().any(|it| *it == origin)).then_some(value)
    }

    /// Whether a request calls this host by one of its names: `localhost`, a loopback address, the
    /// address that the connection came to, or a name from the configuration. A request without a
    /// name does not.
    pub(crate) fn are_used(&self, headers: &HeaderMap, uri: &Uri, local: Option<IpAddr>) -> bool {
        let named = headers.get(header::HOST).map(|host| host.as_bytes());
        // An absolute target has a name, too, which has to be one of this host.
        let target = uri
            .authority()
            .map(|authority| authority.as_str().as_bytes());
        let ours = |text: &[u8]| {
            Authority::read(text).is_some_and(|authority| self.has(authority.host, local))
        };
        let mut names = named.into_iter().chain(target).peekable();
        names.peek().is_some() && names.all(ours)
    }

    fn has(&self, host: &str, local: Option<IpAddr>) -> bool {
        let host = lower(host);
        if let Some(address) = address(&host) {
            let local = local.map(|local| local.to_canonical());
            return address.is_loopback()
                || local == Some(address)
                || self.hosts.iter().any(|known| known == &host);
        }
        // RFC 6761, section 6.3: these names are of the machine itself.
        host == "localhost"
            || host.ends_with(".localhost")
            || self.hosts.iter().any(|known| known == &host)
    }

    /// Whether a browser sends a request on behalf of a page that is not of this host.
    pub(crate) fn is_foreign(&self, headers: &HeaderMap) -> bool {
        let origins = headers.get_all(header::ORIGIN);
        let mut origins = origins.iter().map(|value| value.to_str().ok()).peekable();
        let has_origin = origins.peek().is_some();
        let own = headers.get(header::HOST).map(|host| host.as_bytes());
        let own = own.and_then(Authority::read);
        let mut listed = has_origin;
        for text in origins {
            let Some(origin) = text.and_then(Origin::read) else {
                // `null`, or a malformed origin.
                return true;
            };
            let is_listed = self.origins.contains(&origin);
            if !is_listed && !own.as_ref().is_some_and(|own| origin.is_at(own)) {
                return true;
            }
            listed &= is_listed;
        }
        let sites = headers.get_all(SEC_FETCH_SITE);
        let mut sites = sites.iter().map(|value| value.as_bytes());
        // A page with a listed origin may be of another site.
        !listed && !sites.all(|site| matches!(site, b"same-origin" | b"none"))
    }
}

impl Origin {
    /// Parses the value of `Origin`.
    fn read(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let https = match scheme {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let authority = Authority::read(rest.as_bytes())?;
        Some(Self {
            https,
            host: lower(authority.host),
            port: authority.port.filter(|port| *port != default_port(https)),
        })
    }

    /// The origin of a URL, which may have a path.
    fn of_url(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let authority = rest.get(..end)?;
        Self::read(&format!("{scheme}://{authority}"))
    }

    /// Whether this is the origin of a page from this host. The scheme is not compared: a proxy may
    /// end TLS.
    fn is_at(&self, own: &Authority<'_>) -> bool {
        let port = own.port.filter(|port| *port != default_port(self.https));
        self.host == lower(own.host) && self.port == port
    }
}

fn default_port(https: bool) -> u16 {
    if https { 443 } else { 80 }
}

/// A name in the form that is compared: in lower case, without a final dot.
fn lower(host: &str) -> String {
    let host = host.strip_suffix('.').unwrap_or(host);
    host.to_ascii_lowercase()
}

/// The address that a host is, with an IPv4 address within IPv6 as an IPv4 address.
fn address(host: &str) -> Option<IpAddr> {
    let literal = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let address = match literal {
        Some(literal) => literal.parse::<Ipv6Addr>().ok().map(IpAddr::from),
        None => host.parse::<IpAddr>().ok(),
    };
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name: header::HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    fn names() -> Names {
        let hosts = ["Flows.example".to_owned(), "10.9.9.9".to_owned()];
        let origins = ["https://shop.example".to_owned()];
        Names::new(&hosts, &origins, Some("https://public.example/windlass"))
    }

    #[track_caller]
    fn check_name(host: &str, good: bool) {
        let local = Some([192, 168, 1, 5].into());
        let headers = headers(&[("host", host)]);
        let uri = Uri::from_static("/api/v1/runs");
        assert_eq!(names().are_used(&headers, &uri, local), good, "{host}");
    }

    #[test]
    fn a_host_has_its_loopback_names_its_address_and_those_that_are_listed() {
        for host in [
            "localhost",
            "LOCALHOST:7433",
            "localhost.",
            "flows.localhost:1",
            "127.0.0.1",
            "127.8.9.1:7433",
            "[::1]:7433",
            "[::ffff:127.0.0.1]",
            "192.168.1.5:80",
            "[::ffff:192.168.1.5]",
            "flows.example",
            "FLOWS.example.:443",
            "public.example",
            "10.9.9.9",
        ] {
            check_name(host, true);
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evillocalhost",
            "192.168.1.6",
            "shop.example",
            "[::2]",
            "2130706433",
            "0x7f.1",
            "flows.example.evil",
            "..",
            ".",
        ] {
            check_name(host, false);
        }
    }

    #[test]
    fn a_target_with_a_name_has_to_be_this_host_as_well() {
        let uri = Uri::from_static("http://evil.example/api/v1/runs");
        assert!(!names().are_used(&headers(&[("host", "localhost")]), &uri, None));
        assert!(!names().are_used(&headers(&[]), &uri, None));
        let uri = Uri::from_static("http://localhost:1/api/v1/runs");
        assert!(names().are_used(&headers(&[("host", "localhost:1")]), &uri, None));
        let uri = Uri::from_static("/api/v1/runs");
        assert!(
            !names().are_used(&headers(&[]), &uri, None),
            "no name at all"
        );
    }

    #[track_caller]
    fn check_page(lines: &[(&str, &str)], foreign: bool) {
        assert_eq!(names().is_foreign(&headers(lines)), foreign, "{lines:?}");
    }

    #[test]
    fn programs_and_pages_of_the_host_are_not_foreign() {
        let host = ("host", "localhost:7433");
        check_page(&[host], false);
        check_page(&[host, ("origin", "http://localhost:7433")], false);
        check_page(&[host, ("origin", "https://LOCALHOST:7433")], false);
        check_page(&[host, ("origin", "https://public.example")], false);
        check_page(&[host, ("origin", "https://public.example:443")], false);
        check_page(&[host, ("sec-fetch-site", "same-origin")], false);
        check_page(&[host, ("sec-fetch-site", "none")], false);
        let listed = ("origin", "https://shop.example");
        check_page(&[host, listed, ("sec-fetch-site", "cross-site")], false);
        check_page(&[("host", "a"), ("origin", "https://a")], false);
        check_page(&[("host", "a:80"), ("origin", "http://a")], false);
    }

    #[test]
    fn pages_from_elsewhere_are_foreign() {
        let host = ("host", "localhost:7433");
        for origin in [
            "https://evil.example",
            "http://localhost",
            "http://localhost:3000",
            "http://localhost:7433.evil.example",
            "http://user@localhost:7433",
            "null",
            "",
            "localhost:7433",
            "file://",
            "chrome-extension://localhost:7433",
            "http://shop.example",
            "https://shop.example:8443",
            "https://shop.example, http://localhost:7433",
        ] {
            check_page(&[host, ("origin", origin)], true);
        }
        check_page(&[host, ("sec-fetch-site", "cross-site")], true);
        check_page(&[host, ("sec-fetch-site", "same-site")], true);
        check_page(&[host, ("sec-fetch-site", "")], true);
        let good = ("origin", "http://localhost:7433");
        check_page(&[host, good, ("origin", "https://evil.example")], true);
        check_page(&[host, good, ("sec-fetch-site", "cross-site")], true);
        let sites = [("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")];
        check_page(&[host, sites[0], sites[1]], true);
        // Of two origins, one is listed; the other one is still foreign.
        let listed = ("origin", "https://shop.example");
        check_page(&[host, listed, good, sites[1]], true);
        check_page(&[("origin", "http://localhost")], true);
    }

    #[test]
    fn a_page_is_listed_by_its_exact_origin() {
        let names = names();
        for (lines, listed) in [
            (&["https://shop.example"][..], true),
            (&["https://shop.example:443"], true),
            (&["https://public.example"], false),
            (&["http://shop.example"], false),
            (&["https://shop.example.evil.example"], false),
            (&["https://evil-shop.example"], false),
            (&["https://shop.example:8443"], false),
            (&["https://a.shop.example"], false),
            (&["https://shop.example", "https://shop.example"], false),
            (&["https://shop.example, https://shop.example"], false),
            (&["https://shop.example/"], false),
            (&["null"], false),
            (&["*"], false),
            (&[""], false),
            (&[], false),
        ] {
            let lines: Vec<_> = lines.iter().map(|value| ("origin", *value)).collect();
            let headers = headers(&lines);
            assert_eq!(names.listed_page(&headers).is_some(), listed, "{lines:?}");
        }
        assert!(names.lists_pages());
        assert!(!Names::new(&[], &[], Some("https://public.example")).lists_pages());
    }

    #[test]
    fn settings_are_names_and_origins() {
        for good in ["flows.example", "10.0.0.7", "[::1]", "a_b"] {
            assert!(is_host(good), "{good}");
        }
        for bad in ["", "a:80", "http://a", "a/b", "a b", "[::1", "é"] {
            assert!(!is_host(bad), "{bad}");
        }
        for good in ["http://a", "https://a:8443", "http://[::1]:1"] {
            assert!(is_origin(good), "{good}");
        }
        for bad in ["", "a", "https://a/", "ftp://a", "https://", "HTTPS://a"] {
            assert!(!is_origin(bad), "{bad}");
        }
    }
}
