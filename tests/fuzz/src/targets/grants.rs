//! A grant, a NUL, and the address of a guest's request. The whole input is parsed as a public key
//! and as a signature, too.

use url::{Host, Url};
use windlass_keys::minisign::{PublicKey, Signature};
use windlass_plugins::Grant;

use super::halves;

/// A key that has signed none of these messages.
const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";

pub(crate) fn run(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        signatures(text);
    }
    let (grant, url) = halves(data);
    let (Ok(text), Ok(url)) = (std::str::from_utf8(grant), std::str::from_utf8(url)) else {
        return;
    };
    let (Ok(grant), Ok(url)) = (text.parse::<Grant>(), Url::parse(url)) else {
        return;
    };
    let again: Grant = grant.to_string().parse().unwrap();
    assert_eq!(grant, again, "a grant is not what it is written as");
    if grant.covers(&url) {
        check(text, &url);
    }
}

/// A grant that covers an address has its scheme, its port and its host.
fn check(grant: &str, url: &Url) {
    let place = grant.trim();
    let place = place.strip_suffix(" private").unwrap_or(place).trim();
    let (scheme, place) = place.split_once("://").unwrap_or(("https", place));
    assert_eq!(url.scheme(), scheme);
    // Parse the rest by the standard; any name can replace the star.
    let plain = place.replacen('*', "star", 1);
    let read = Url::parse(&format!("{scheme}://{plain}")).unwrap();
    assert_eq!(url.port_or_known_default(), read.port_or_known_default());
    let name = |url: &Url| {
        let name = url.host_str().unwrap_or_default();
        name.strip_suffix('.').unwrap_or(name).to_owned()
    };
    let (asked, granted) = (name(url), name(&read));
    if let Some(parent) = place.strip_prefix("*.") {
        let of = Url::parse(&format!("{scheme}://{parent}")).unwrap();
        let parent = format!(".{}", name(&of));
        assert!(asked.ends_with(&parent) && asked.len() > parent.len());
    } else if place.starts_with('*') {
        assert!(matches!(url.host(), Some(Host::Domain(_))));
    } else {
        assert_eq!(asked, granted);
        assert_eq!(
            matches!(url.host(), Some(Host::Domain(_))),
            matches!(read.host(), Some(Host::Domain(_)))
        );
    }
}

fn signatures(text: &str) {
    if let Ok(key) = text.parse::<PublicKey>() {
        assert_eq!(Ok(key.clone()), key.to_string().parse());
    }
    let Ok(signature) = text.parse::<Signature>() else {
        return;
    };
    assert_eq!(Ok(signature.clone()), signature.to_string().parse());
    let key: PublicKey = KEY.parse().unwrap();
    // The only published message that this key has signed is `test`.
    for message in [&b"Test"[..], b"", text.as_bytes()] {
        assert!(!signature.is_of(&key, message), "a signature was forged");
    }
}
