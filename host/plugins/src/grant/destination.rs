//! The destinations of a plugin's requests.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use url::{Host, Url};

use crate::codes;
use crate::error::Error;
use crate::grant::address::is_public;

/// One allowed destination, written as `[scheme://]host[:port]`, perhaps with ` private` after
/// it.
///
/// * Without a scheme: `https`. Without a port: the scheme's own.
/// * `*.example.com` is every name below `example.com`, not that name itself. `*` is every name.
/// * An address (`http://127.0.0.1:8080`) allows exactly that address, be it public or not.
/// * A name allows public addresses only; `private` lifts that, for this name. `localhost`
///   needs no such word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    text: String,
    https: bool,
    host: Pattern,
    port: u16,
    private: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Any,
    Below(String),
    Name(String),
    Address(IpAddr),
}

impl Grant {
    /// Whether a request to this address may be sent at all, checked before its name is resolved.
    pub fn covers(&self, url: &Url) -> bool {
        let scheme = if self.https { "https" } else { "http" };
        if url.scheme() != scheme || url.port_or_known_default() != Some(self.port) {
            return false;
        }
        match (&self.host, url.host()) {
            (Pattern::Any, Some(Host::Domain(_))) => true,
            (Pattern::Below(parent), Some(Host::Domain(name))) => plain(name)
                .strip_suffix(parent.as_str())
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
            (Pattern::Name(name), Some(Host::Domain(asked))) => plain(asked) == name,
            (Pattern::Address(IpAddr::V4(a)), Some(Host::Ipv4(b))) => *a == b,
            (Pattern::Address(IpAddr::V6(a)), Some(Host::Ipv6(b))) => *a == b,
            _ => false,
        }
    }

    /// Whether a request that this grant covers may connect to this address.
    pub(crate) fn reaches(&self, address: IpAddr) -> bool {
        match &self.host {
            Pattern::Address(granted) => *granted == address,
            _ => self.private || is_public(address),
        }
    }
}

/// A name with a final dot is the same name.
fn plain(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

impl FromStr for Grant {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let fault = |message: &str| Error::new(codes::GRANT, format!("grant `{text}`"), message);
        let (place, private) = match text.trim().strip_suffix(" private") {
            Some(place) => (place.trim(), true),
            None => (text.trim(), false),
        };
        let (https, rest) = match place.split_once("://") {
            None => (true, place),
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            Some(_) => return Err(fault("the scheme is neither http nor https")),
        };
        let (wild, rest) = match rest.strip_prefix('*') {
            None => (false, rest),
            Some(rest) if rest.is_empty() || rest.starts_with(['.', ':']) => (true, rest),
            Some(_) => return Err(fault("a star stands alone or before a dot")),
        };
        let below = rest.strip_prefix('.').filter(|_| wild);
        // A single star still has to be parsed as an address, because of its port.
        let host = below.map_or_else(
            || {
                if wild {
                    format!("any{rest}")
                } else {
                    rest.to_owned()
                }
            },
            str::to_owned,
        );
        let scheme = if https { "https" } else { "http" };
        let url = Url::parse(&format!("{scheme}://{host}"))
            .map_err(|error| fault(&format!("it is no address: {error}")))?;
        let bare = url.path() == "/"
            && !rest.contains(['/', '?', '#', '@', '*'])
            && url.query().is_none()
            && url.username().is_empty();
        if !bare {
            return Err(fault(
                "a grant is a host and perhaps a port, with nothing after it",
            ));
        }
        let pattern = match url.host() {
            Some(Host::Domain(name)) => match (below, wild) {
                (Some(_), _) => Pattern::Below(plain(name).to_owned()),
                (None, true) => Pattern::Any,
                (None, false) => Pattern::Name(plain(name).to_owned()),
            },
            Some(_) if wild => return Err(fault("a star cannot stand before an address")),
            Some(Host::Ipv4(address)) => Pattern::Address(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Pattern::Address(IpAddr::V6(address)),
            None => return Err(fault("the host is missing")),
        };
        if private && !matches!(pattern, Pattern::Name(_) | Pattern::Below(_)) {
            return Err(fault("`private` goes with a name"));
        }
        let local = matches!(&pattern, Pattern::Name(name) if name == "localhost");
        Ok(Self {
            text: text.trim().to_owned(),
            https,
            host: pattern,
            port: url.port_or_known_default().unwrap_or_default(),
            private: private || local,
        })
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why a request may not be sent, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The address or the secret that the plugin does not get.
    pub message: String,
    /// What to write into which file, as TOML.
    pub help: String,
}

/// The grant that covers a request.
pub(crate) fn wanted(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url
        .port()
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    format!("{}://{host}{port}", url.scheme())
}

/// The settings that allow a request, in one line.
pub(crate) fn needed(package: &str, file: &str, url: &Url) -> String {
    let wanted = wanted(url);
    format!("the section [plugins.grants.{package}] needs `http = [\"{wanted}\"]`, in {file}")
}

/// The refusal of a request by a package with these grants, none of which covers the request.
/// `file` names the file for the settings.
pub(crate) fn refusal(package: &str, grants: &[Grant], file: &str, url: &Url) -> Refusal {
    let wanted = wanted(url);
    let help = match grants {
        [] => format!("write into {file}:\n[plugins.grants.{package}]\nhttp = [\"{wanted}\"]"),
        _ => format!(
            "add it to the list in {file}:\n[plugins.grants.{package}]\nhttp = […, \"{wanted}\"]"
        ),
    };
    Refusal {
        message: format!("`{wanted}` is not granted to `{package}`"),
        help,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(grant: &str, covered: &[&str], others: &[&str]) {
        let grant: Grant = grant.parse().unwrap();
        for (urls, expected) in [(covered, true), (others, false)] {
            for url in urls {
                assert_eq!(
                    grant.covers(&Url::parse(url).unwrap()),
                    expected,
                    "{grant} {url}"
                );
            }
        }
    }

    #[test]
    fn a_grant_covers_the_addresses_that_it_names_and_no_more() {
        check(
            "api.example.com",
            &[
                "https://api.example.com/x?y",
                "https://API.example.com.:443/",
            ],
            &[
                "http://api.example.com/",
                "https://api.example.com:8443/",
                "https://example.com/",
                "https://api.example.com.evil.net/",
                "https://evil.net/api.example.com",
            ],
        );
        check(
            "https://*.example.com:8443",
            &[
                "https://a.example.com:8443/",
                "https://a.b.example.com:8443/",
            ],
            &[
                "https://example.com:8443/",
                "https://aexample.com:8443/",
                "https://a.example.com/",
            ],
        );
        check(
            "http://127.0.0.1:8080",
            &["http://127.0.0.1:8080/", "http://0x7f.1:8080/"],
            &[
                "http://127.0.0.1/",
                "http://localhost:8080/",
                "http://[::ffff:127.0.0.1]:8080/",
            ],
        );
        check(
            "*",
            &["https://anything.net/"],
            &["https://1.1.1.1/", "http://anything.net/"],
        );
        check(
            "http://*:81",
            &["http://anything.net:81/"],
            &["http://anything.net/"],
        );
    }

    #[test]
    fn names_reach_private_addresses_only_if_that_is_said() {
        let reaches = |grant: &str, address: &str| {
            grant
                .parse::<Grant>()
                .unwrap()
                .reaches(address.parse().unwrap())
        };
        assert!(reaches("a.net", "1.1.1.1"));
        assert!(!reaches("a.net", "10.0.0.1"));
        assert!(!reaches("*", "169.254.169.254"));
        assert!(reaches("a.net private", "10.0.0.1"));
        assert!(reaches("http://localhost:80", "127.0.0.1"));
        assert!(reaches("http://10.0.0.1", "10.0.0.1"));
        assert!(!reaches("http://10.0.0.1", "10.0.0.2"));
    }

    #[test]
    fn a_refusal_has_the_settings_that_allow_the_request() {
        let url = Url::parse("http://a.net:8080/x?y").unwrap();
        let refused = refusal("http", &[], "windlass.toml", &url);
        assert_eq!(
            refused.message,
            "`http://a.net:8080` is not granted to `http`"
        );
        let (_, settings) = refused.help.split_once('\n').unwrap();
        assert_eq!(
            settings,
            "[plugins.grants.http]\nhttp = [\"http://a.net:8080\"]"
        );
        let grant: Grant = "http://a.net:8080".parse().unwrap();
        assert!(grant.covers(&url), "the settings allow it");
        let url = Url::parse("https://b.net/").unwrap();
        let more = refusal("http", &[grant], "windlass.toml", &url);
        assert!(
            more.help.ends_with("http = […, \"https://b.net\"]"),
            "{}",
            more.help
        );
    }

    #[test]
    fn grants_without_a_meaning_are_refused() {
        for text in [
            "",
            "*foo",
            "ftp://a.net",
            "https://a.net/path",
            "a.net?x",
            "u@a.net",
            "*.127.0.0.1",
            "* private",
            "http://10.0.0.1 private",
            "a.*.net",
            "**",
            "https://",
        ] {
            assert!(text.parse::<Grant>().is_err(), "{text}");
        }
    }
}
