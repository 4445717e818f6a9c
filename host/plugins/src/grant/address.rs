//! Which addresses are in the public internet.
//!
//! All others, from loopback over private networks to the metadata services of clouds, can be
//! reached only if a grant names them: a guest must not use the host as a way into its network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is public. In doubt it is not.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation()
        || a == 0
        // Shared by the customers of one provider (RFC 6598), protocol assignments (RFC 6890),
        // relays to 6to4 (RFC 7526), benchmarks (RFC 2544), reserved (RFC 1112).
        || (a == 100 && (64..128).contains(&b))
        || (a, b, c) == (192, 0, 0)
        || (a, b, c) == (192, 88, 99)
        || (a == 198 && (b == 18 || b == 19))
        || a >= 240;
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let [a, b, ..] = segments;
    // An embedded IPv4 address: mapped, or behind NAT64 (RFC 6052).
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_public_v4(inner);
    }
    if let [0x64, 0xff9b, 0, 0, 0, 0, high, low] = segments {
        let [c, d] = high.to_be_bytes();
        let [e, f] = low.to_be_bytes();
        return is_public_v4(Ipv4Addr::new(c, d, e, f));
    }
    // Only 2000::/3 is allocated at all. Inside it: protocol assignments with Teredo (2001::/23),
    // documentation (2001:db8::/32, 3fff::/20), 6to4 (2002::/16).
    (a & 0xe000) == 0x2000
        && !(a == 0x2001 && (b < 0x200 || b == 0xdb8))
        && a != 0x2002
        && !(a == 0x3fff && b < 0x1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(addresses: &[&str], public: bool) {
        for address in addresses {
            assert_eq!(is_public(address.parse().unwrap()), public, "{address}");
        }
    }

    #[test]
    fn ordinary_addresses_are_public() {
        check(
            &[
                "1.1.1.1",
                "93.184.216.34",
                "172.32.0.1",
                "2606:4700::1111",
                "::ffff:8.8.8.8",
            ],
            true,
        );
    }

    #[test]
    fn special_addresses_are_not() {
        check(
            &[
                "127.0.0.1",
                "127.9.9.9",
                "0.0.0.0",
                "10.0.0.1",
                "172.16.0.1",
                "192.168.1.1",
                "169.254.169.254",
                "100.64.0.1",
                "100.100.100.200",
                "192.0.0.192",
                "198.18.0.1",
                "224.0.0.1",
                "255.255.255.255",
                "240.0.0.1",
                "192.0.2.1",
            ],
            false,
        );
        check(
            &[
                "::",
                "::1",
                "fe80::1",
                "fc00::1",
                "fd00:ec2::254",
                "ff02::1",
                "fec0::1",
                "::ffff:127.0.0.1",
                "::ffff:169.254.169.254",
                "::127.0.0.1",
                "64:ff9b::7f00:1",
                "64:ff9b:1::1",
                "2002:7f00:1::",
                "2001::1",
                "2001:db8::1",
                "100::1",
            ],
            false,
        );
    }
}
