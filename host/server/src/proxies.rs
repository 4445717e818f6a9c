//! The address of the client if there are proxies in front of the host.
//!
//! Any client can send `X-Forwarded-For`, so only the entries of trusted proxies count: the header
//! is read from its end, and the first address that belongs to no trusted proxy is the client's.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use ipnet::IpNet;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// Parses a network of the configuration: `10.0.0.0/8`, or one address.
pub fn network(text: &str) -> Option<IpNet> {
    let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
    text.parse::<IpNet>().ok().or_else(address)
}

/// The address of the client behind a connection.
pub(crate) fn client(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let is_trusted = |address: IpAddr| {
        let address = address.to_canonical();
        trusted.iter().any(|network| network.contains(&address))
    };
    let mut client = peer;
    if !is_trusted(client) {
        return client;
    }
    let lines = headers.get_all(FORWARDED_FOR).iter().rev();
    for line in lines {
        // A line that is not text comes from beyond the trusted proxies.
        let Ok(line) = line.to_str() else {
            return client;
        };
        for text in line.rsplit(',') {
            let Some(address) = address(text.trim()) else {
                return client;
            };
            client = address;
            if !is_trusted(client) {
                return client;
            }
        }
    }
    client
}

/// An address with an optional port, as proxies write it.
fn address(text: &str) -> Option<IpAddr> {
    let bare = || text.parse::<IpAddr>().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|place| place.ip());
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    bare().or_else(with_port).or_else(bracketed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(peer: &str, lines: &[&str], expected: &str) {
        let trusted = ["10.0.0.0/8", "127.0.0.1", "fd00::/8"].map(|text| network(text).unwrap());
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED_FOR, line.parse().unwrap());
        }
        let found = client(peer.parse().unwrap(), &headers, &trusted);
        assert_eq!(found.to_string(), expected, "{peer} {lines:?}");
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        check("1.1.1.1", &["2.2.2.2"], "1.1.1.1");
        check("10.0.0.1", &["2.2.2.2"], "2.2.2.2");
        check("::ffff:10.0.0.1", &["2.2.2.2"], "2.2.2.2");
        check("fd00::1", &["2001:db8::1"], "2001:db8::1");
        check("10.0.0.1", &[], "10.0.0.1");
    }

    #[test]
    fn the_header_is_read_from_its_end() {
        check("10.0.0.1", &["9.9.9.9, 2.2.2.2"], "2.2.2.2");
        check("10.0.0.1", &["9.9.9.9, 2.2.2.2, 10.3.0.1"], "2.2.2.2");
        check("10.0.0.1", &["9.9.9.9", "2.2.2.2,10.3.0.1"], "2.2.2.2");
        check("10.0.0.1", &["2.2.2.2", "10.3.0.1"], "2.2.2.2");
        check("10.0.0.1", &["10.0.0.9, 127.0.0.1"], "10.0.0.9");
    }

    #[test]
    fn an_unreadable_address_ends_at_the_proxy_that_sent_it() {
        check("10.0.0.1", &["2.2.2.2, unknown"], "10.0.0.1");
        check("10.0.0.1", &["x, 10.3.0.1"], "10.3.0.1");
        check("10.0.0.1", &[""], "10.0.0.1");
        check("10.0.0.1", &["2.2.2.2:80"], "2.2.2.2");
        check("10.0.0.1", &["[2001:db8::1]:80"], "2001:db8::1");
        check("10.0.0.1", &["[2001:db8::1]"], "2001:db8::1");
    }
}
