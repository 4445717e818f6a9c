//! The proxies through which requests go, by the variables that other programs use too:
//! `HTTP_PROXY` for `http`, `HTTPS_PROXY` for `https`, `ALL_PROXY` for both, and `NO_PROXY` for the
//! hosts that are reached directly. Each may be written in lower case.
//!
//! An address of a proxy may hold a user and a password, so no text here repeats it.

use std::fmt;
use std::sync::Arc;

use hyper_util::client::proxy::matcher::Matcher;
use url::{Host, Url};

use crate::codes;

/// The proxies of requests.
#[derive(Clone, Default)]
pub struct Proxies {
    http: Option<Variable>,
    https: Option<Variable>,
    /// It intercepts the hosts that go through a proxy.
    not_direct: Option<Arc<Matcher>>,
}

/// A variable that names a proxy.
#[derive(Clone)]
struct Variable {
    /// As it is set: in upper or in lower case.
    name: Arc<str>,
    proxy: Result<Arc<Proxy>, &'static str>,
}

/// One proxy.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Proxy {
    /// The address, with user and password.
    pub(super) url: Url,
}

impl Proxies {
    /// The proxies that variables of the environment name. An empty variable names none.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: String| {
            let value = variable(&name).filter(|it| !it.trim().is_empty())?;
            Some((name, value))
        };
        let value = |name: &str| set(name.to_owned()).or_else(|| set(name.to_ascii_lowercase()));
        let proxy = |name: &str| {
            let (name, address) = value(name)?;
            let proxy = Proxy::of(address.trim()).map(Arc::new);
            let name = name.into();
            Some(Variable { name, proxy })
        };
        let all = proxy("ALL_PROXY");
        let not_direct = value("NO_PROXY").map(|(_, hosts)| {
            let all = "http://proxy.invalid".to_owned();
            Arc::new(
                Matcher::builder()
                    .all(all)
                    .no(hosts.to_ascii_lowercase())
                    .build(),
            )
        });
        Self {
            http: proxy("HTTP_PROXY").or_else(|| all.clone()),
            https: proxy("HTTPS_PROXY").or(all),
            not_direct,
        }
    }

    /// The proxies that the variables of this process name.
    pub fn of_process() -> Self {
        Self::of(|name| std::env::var(name).ok())
    }

    /// The proxy of a request. None: the request goes directly, as those to the machine itself
    /// always do.
    ///
    /// # Errors
    ///
    /// The variable of this request names no proxy that can be used; the text says why.
    pub(super) fn to(&self, url: &Url) -> Result<Option<Arc<Proxy>>, String> {
        let variable = match url.scheme() {
            "https" => &self.https,
            _ => &self.http,
        };
        let Some(variable) = variable else {
            return Ok(None);
        };
        if is_this_machine(url) || self.is_direct(url) {
            return Ok(None);
        }
        match &variable.proxy {
            Ok(proxy) => Ok(Some(Arc::clone(proxy))),
            Err(why) => Err(format!("{} ({})", variable.fault(why), codes::NO_PROXY)),
        }
    }

    /// The variables that name no proxy that can be used: each with the reason, in one sentence.
    /// Every request that needs one of them fails.
    pub fn faults(&self) -> Vec<String> {
        let mut faults: Vec<String> = [&self.http, &self.https]
            .into_iter()
            .flatten()
            .filter_map(|variable| Some(variable.fault(variable.proxy.as_ref().err()?)))
            .collect();
        faults.dedup();
        faults
    }

    /// Whether `NO_PROXY` names the host.
    fn is_direct(&self, url: &Url) -> bool {
        let Some(matcher) = &self.not_direct else {
            return false;
        };
        let host = url.host_str().unwrap_or_default();
        let host = host.strip_suffix('.').unwrap_or(host);
        let uri = format!("http://{host}/").parse();
        uri.is_ok_and(|uri| matcher.intercept(&uri).is_none())
    }
}

impl Variable {
    fn fault(&self, why: &str) -> String {
        let name = &self.name;
        format!("the proxy that the variable {name} names cannot be used: {why}")
    }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [&self.http, &self.https].map(|it| it.as_ref().map(|it| &it.name));
        f.debug_tuple("Proxies").field(&names).finish()
    }
}

/// Whether an address is on this machine. A proxy would take it for its own.
pub fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback() || address.is_unspecified(),
        Some(Host::Ipv6(address)) => {
            let mapped = address.to_ipv4_mapped();
            address.is_loopback()
                || address.is_unspecified()
                || mapped.is_some_and(|it| it.is_loopback() || it.is_unspecified())
        }
        Some(Host::Domain(name)) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            name == "localhost" || name.ends_with(".localhost")
        }
        None => false,
    }
}

impl Proxy {
    fn of(text: &str) -> Result<Self, &'static str> {
        let whole = match text.contains("://") {
            true => text.to_owned(),
            false => format!("http://{text}"),
        };
        let url = Url::parse(&whole).map_err(|_| "its address is malformed")?;
        match url.scheme() {
            "http" | "https" => {}
            scheme if scheme.starts_with("socks") => {
                return Err("it speaks SOCKS, and only HTTP is spoken with a proxy");
            }
            _ => return Err("the scheme of its address is neither http nor https"),
        }
        match url.host() {
            Some(_) => Ok(Self { url }),
            None => Err("its address has no host"),
        }
    }

    pub(super) fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }
}

/// Host and port: nothing that is confidential.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port_or_known_default().unwrap_or_default();
        write!(f, "{host}:{port}")
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The proxy of a request, `-` if there is none.
    #[track_caller]
    fn check(variables: &[(&str, &str)], url: &str, expected: &str) {
        let value = |name: &str| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let proxies = Proxies::of(value);
        let proxy = proxies.to(&Url::parse(url).unwrap());
        let shown = match &proxy {
            Ok(None) => "-".to_owned(),
            Ok(Some(proxy)) => proxy.to_string(),
            Err(why) => why.clone(),
        };
        assert_eq!(shown, expected, "{variables:?} {url}");
        let all = format!("{shown}{proxy:?}{proxies:?}");
        assert!(!all.contains("hunter2") && !all.contains("bob"), "{all}");
    }

    #[test]
    fn each_scheme_has_its_variable() {
        let both = [("HTTP_PROXY", "http://a:1"), ("HTTPS_PROXY", "http://b:2")];
        check(&both, "http://x.example/", "a:1");
        check(&both, "https://x.example/", "b:2");
        check(&both[..1], "https://x.example/", "-");
        check(&[], "http://x.example/", "-");
        let all = [("ALL_PROXY", "c:3"), ("http_proxy", "a")];
        check(&all, "http://x.example/", "a:80");
        check(&all, "https://x.example/", "c:3");
        check(
            &[("https_proxy", "https://d/")],
            "https://x.example/",
            "d:443",
        );
        check(
            &[("HTTP_PROXY", "  "), ("http_proxy", "e:5")],
            "http://x.example/",
            "e:5",
        );
        check(
            &[("HTTP_PROXY", "http://[::1]:3128")],
            "http://x.example/",
            "[::1]:3128",
        );
    }

    #[test]
    fn a_user_and_a_password_are_never_shown() {
        let with = |value| [("HTTP_PROXY", value)];
        check(
            &with("http://bob:hunter2@p:8080"),
            "http://x.example/",
            "p:8080",
        );
        check(&with("bob:hunter2@p"), "http://x.example/", "p:80");
        let cannot = |why: &str| {
            format!("the proxy that the variable HTTP_PROXY names cannot be used: {why} (WL-P024)")
        };
        check(
            &with("http://bob:hunter2@p:99999"),
            "http://x.example/",
            &cannot("its address is malformed"),
        );
        check(
            &with("socks5://bob:hunter2@p:1"),
            "http://x.example/",
            &cannot("it speaks SOCKS, and only HTTP is spoken with a proxy"),
        );
        check(
            &with("ftp://bob:hunter2@p"),
            "http://x.example/",
            &cannot("the scheme of its address is neither http nor https"),
        );
        check(
            &[("all_proxy", "socks5://bob:hunter2@p:1")],
            "http://x.example/",
            "the proxy that the variable all_proxy names cannot be used: it speaks SOCKS, and only \
             HTTP is spoken with a proxy (WL-P024)",
        );
        // A variable that no request needs harms none.
        check(&with("socks5://bob:hunter2@p:1"), "https://x.example/", "-");
    }

    #[test]
    fn variables_that_cannot_be_used_are_told_before_a_request() {
        let faults = |variables: &[(&str, &str)]| {
            let value = |name: &str| {
                let found = variables.iter().find(|(other, _)| *other == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            Proxies::of(value).faults()
        };
        let socks = "cannot be used: it speaks SOCKS, and only HTTP is spoken with a proxy";
        for scheme in ["socks", "socks4", "socks4a", "socks5", "socks5h", "SOCKS5"] {
            let all = format!("{scheme}://bob:hunter2@p:1080");
            let expected = format!("the proxy that the variable all_proxy names {socks}");
            assert_eq!(faults(&[("all_proxy", &all)]), [expected]);
        }
        assert_eq!(
            faults(&[("HTTP_PROXY", "http://p"), ("all_proxy", "socks5://p")]),
            [format!(
                "the proxy that the variable all_proxy names {socks}"
            )]
        );
        let both = [
            ("http_proxy", "http://p"),
            ("https_proxy", "p:1"),
            ("all_proxy", "socks5://p"),
        ];
        assert_eq!(faults(&both), [""; 0]);
        assert_eq!(
            faults(&[("http_proxy", "socks5://p"), ("HTTPS_PROXY", "ftp://p")]).len(),
            2
        );
        assert_eq!(faults(&[]), [""; 0]);
    }

    #[test]
    fn some_hosts_are_reached_directly() {
        let of = |hosts| [("ALL_PROXY", "p:1"), ("NO_PROXY", hosts)];
        let named = of("Inside.example, .corp ,10.0.0.0/8,192.0.2.7,fd00::/8");
        for url in [
            "http://inside.example/",
            "https://a.inside.example:8443/",
            "http://INSIDE.example./",
            "http://a.corp/",
            "http://10.1.2.3/",
            "http://192.0.2.7:99/",
            "http://[fd00::1]/",
        ] {
            check(&named, url, "-");
        }
        for url in [
            "http://outinside.example/",
            "http://11.0.0.1/",
            "http://corp.net/",
        ] {
            check(&named, url, "p:1");
        }
        check(&of("*"), "https://x.example/", "-");
        check(&of(""), "https://x.example/", "p:1");
        // For the proxy, they would be the proxy itself.
        for url in [
            "http://localhost:1/",
            "http://a.localhost/",
            "http://127.0.0.9/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://0.0.0.0/",
        ] {
            check(&of(""), url, "-");
        }
    }
}
