//! Ensures that the hosts of one store have the same keyring.
//!
//! The store has the fingerprint of the signing key of its hosts: a digest that reveals nothing of
//! the key. A host without that key would refuse the links of the other hosts, so it does not join.
//! A host that has the key among its older keys has a newer key, and writes the fingerprint of the
//! newer one: so a key is rotated host by host.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use windlass_keys::{Key, Keys};
use windlass_model::Digest;
use windlass_store::{Store, Writer as _, settings};

use crate::codes;
use crate::error::Error;

/// The name of the setting in the store.
const SETTING: &str = "keyring";

/// The version of the setting.
const VERSION: u32 = 1;

/// The purpose of the derived key whose digest is the fingerprint.
const PURPOSE: &str = "windlass keyring 1";

#[derive(Serialize, Deserialize)]
struct Setting {
    windlass: u32,
    /// The fingerprint of the newest key.
    newest: Digest,
}

/// Checks that a host has the key that the other hosts of the store sign with.
///
/// # Errors
///
/// The host lacks that key, the keyring cannot be read, or the store fails.
pub fn check(store: &dyn Store, keys: &Keys) -> Result<(), Error> {
    let ring = keys.ring()?;
    let newest = fingerprint(ring.newest());
    let known = match store.setting(SETTING)? {
        None => return write(store, newest),
        Some(json) => read(&json)?,
    };
    if known == newest {
        return Ok(());
    }
    if ring.keys().any(|key| fingerprint(key) == known) {
        return write(store, newest);
    }
    Err(Error::Refused {
        code: codes::OTHER_KEYRING,
        message: "the keyring of this host lacks the key that the other hosts of the store sign \
                  with"
            .to_owned(),
        help: Some(
            "copy the keyring of another host (`windlass keys show --secret` prints it there); \
             if no host has it any more, say so with `windlass keys adopt`"
                .to_owned(),
        ),
    })
}

/// Makes the newest key of a keyring the key that every host of the store needs.
///
/// # Errors
///
/// The keyring cannot be read, or the store fails.
pub fn adopt(store: &dyn Store, keys: &Keys) -> Result<(), Error> {
    write(store, fingerprint(keys.ring()?.newest()))
}

fn fingerprint(key: &Key) -> Digest {
    Digest::of(&key.derive(PURPOSE))
}

fn read(json: &Bytes) -> Result<Digest, Error> {
    let setting: Setting = serde_json::from_slice(json)
        .map_err(|error| Error::Unreadable(format!("the setting `{SETTING}`: {error}")))?;
    if setting.windlass > VERSION {
        let text = format!(
            "the setting `{SETTING}` has version {}, and this host reads version {VERSION}",
            setting.windlass
        );
        return Err(Error::Unreadable(text));
    }
    Ok(setting.newest)
}

fn write(store: &dyn Store, newest: Digest) -> Result<(), Error> {
    let setting = Setting {
        windlass: VERSION,
        newest,
    };
    let json = serde_json::to_vec(&setting).map_err(|error| {
        Error::Unreadable(format!(
            "the setting `{SETTING}` cannot be written: {error}"
        ))
    })?;
    store.write(settings::Setting {
        name: SETTING.to_owned(),
        value: Some(json.into()),
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windlass_keys::Keyring;
    use windlass_store::{MemoryStore, Reader as _};

    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn a_host_without_the_key_of_the_others_does_not_join() {
        let store = MemoryStore::new(Arc::new(SystemClock::new()));
        let check = |ring: &Keyring| check(&*store, &Keys::fixed(ring.clone()));
        let mut ring = Keyring::random();
        check(&ring).unwrap();
        check(&ring).unwrap();
        let stranger = Keyring::random();
        let refused = check(&stranger).unwrap_err();
        assert_eq!(refused.code(), codes::OTHER_KEYRING, "{refused}");
        // A host with a newer key joins, and afterwards a host without that key cannot join.
        let old = ring.clone();
        ring.rotate().unwrap();
        check(&ring).unwrap();
        assert!(check(&old).is_err());
        check(&ring).unwrap();
        adopt(&*store, &Keys::fixed(stranger.clone())).unwrap();
        check(&stranger).unwrap();
        assert!(check(&ring).is_err());
    }

    #[test]
    fn the_fingerprint_in_the_store_tells_no_key_and_a_malformed_one_is_refused() {
        let store = MemoryStore::new(Arc::new(SystemClock::new()));
        let ring = Keyring::random();
        check(&*store, &Keys::fixed(ring.clone())).unwrap();
        let kept = store.setting(SETTING).unwrap().unwrap();
        let kept = String::from_utf8(kept.to_vec()).unwrap();
        let text = ring.to_text();
        let seed = text.split_whitespace().last().unwrap();
        assert!(!kept.contains(seed), "{kept}");
        for bad in ["", "{}", r#"{"windlass":2,"newest":"x"}"#, "null"] {
            let value = Some(Bytes::from_static(bad.as_bytes()));
            let name = SETTING.to_owned();
            store.write(settings::Setting { name, value }).unwrap();
            assert!(check(&*store, &Keys::fixed(ring.clone())).is_err(), "{bad}");
        }
    }
}
