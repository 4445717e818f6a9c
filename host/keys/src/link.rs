//! Resume tokens: the part of a link that resumes a run.
//!
//! A token names its wait, and proves that a key of the ring has made it. A node, the list of
//! bookmarks and an expression can each make one, and all of them stay valid until the wait is
//! over: the store, which knows no key, decides last.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use windlass_model::stimulus::{BookmarkTag, WaitId};
use windlass_model::{Digest, mac};

use crate::keys::{Keys, KeysError};
use crate::ring::{Key, KeyId};

/// The purpose of the derived key.
const PURPOSE: &str = "windlass resume links 1";

/// The bytes of the proof.
const TAG: usize = 16;

/// The first byte of a token names the kind of its target.
const WAIT: u8 = 1;
const ROW: u8 = 2;

/// The target of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A bookmark of a wait that may be in the future.
    Wait(WaitId, BookmarkTag),
    /// An existing bookmark, by the digest in the store.
    Row(Digest),
}

/// The token that resumes a target: 60 or 71 characters of URL-safe Base64.
pub fn token(key: &Key, target: &Target) -> String {
    let mut bytes = key.id().0.to_vec();
    match target {
        Target::Wait(wait, bookmark) => {
            bytes.push(WAIT);
            bytes.extend(wait.0);
            bytes.extend(bookmark.0);
        }
        Target::Row(digest) => {
            bytes.push(ROW);
            bytes.extend(digest.0);
        }
    }
    let tag = mac::tag(&key.derive(PURPOSE), &[&bytes]);
    bytes.extend(tag.iter().take(TAG));
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The target of a token; none if no key of the ring has made the token.
///
/// # Errors
///
/// The keyring cannot be read.
pub fn read(keys: &Keys, token: &str) -> Result<Option<Target>, KeysError> {
    let Some((id, bytes)) = split(token) else {
        return Ok(None);
    };
    let ring = keys.verifying()?;
    let Some(key) = ring.get(id) else {
        return Ok(None);
    };
    let Some((said, tag)) = bytes.split_last_chunk::<TAG>() else {
        return Ok(None);
    };
    Ok(mac::verify_left(&key.derive(PURPOSE), &[said], tag)
        .then(|| target(said))
        .flatten())
}

/// The name of the alleged key of a token, and the bytes of the token.
fn split(token: &str) -> Option<(KeyId, Vec<u8>)> {
    if token.len() > 128 {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let id = KeyId(*bytes.first_chunk()?);
    Some((id, bytes))
}

/// The target in verified bytes.
fn target(said: &[u8]) -> Option<Target> {
    let (_, said) = said.split_first_chunk::<4>()?;
    let (kind, said) = said.split_first()?;
    match *kind {
        WAIT => {
            let (wait, bookmark) = said.split_first_chunk()?;
            let bookmark = bookmark.try_into().ok()?;
            Some(Target::Wait(WaitId(*wait), BookmarkTag(bookmark)))
        }
        ROW => Some(Target::Row(Digest(said.try_into().ok()?))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use windlass_test_seeds::Seeds;

    use super::*;
    use crate::ring::Keyring;

    fn targets() -> [Target; 3] {
        [
            Target::Wait(WaitId([1; 16]), BookmarkTag::ANY),
            Target::Wait(WaitId([1; 16]), BookmarkTag::of("paid")),
            Target::Row(Digest([2; 32])),
        ]
    }

    #[test]
    fn tokens_are_read_back_by_any_key_of_the_ring() {
        let mut ring = Keyring::random();
        let old = targets().map(|target| token(ring.newest(), &target));
        let first = ring.newest().id();
        ring.rotate().unwrap();
        let new = targets().map(|target| token(ring.newest(), &target));
        let keys = Keys::fixed(ring.clone());
        for (made, wanted) in old.iter().chain(&new).zip(targets().iter().cycle()) {
            assert_eq!(read(&keys, made).unwrap().as_ref(), Some(wanted));
        }
        assert_eq!(old.each_ref().map(String::len), [60, 60, 71]);
        ring.remove(first).unwrap();
        let keys = Keys::fixed(ring);
        assert_eq!(read(&keys, &old[0]).unwrap(), None);
    }

    #[test]
    fn a_token_ends_with_its_key_while_the_host_runs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keyring");
        let (host, user) = (Keys::own(path.clone()), Keys::own(path));
        let ring = host.ring().unwrap();
        let target = targets()[0];
        let made = token(ring.newest(), &target);
        user.change(Keyring::rotate).unwrap();
        host.age();
        assert_eq!(read(&host, &made).unwrap(), Some(target));
        user.change(|keys| keys.remove(ring.newest().id())).unwrap();
        host.age();
        assert_eq!(read(&host, &made).unwrap(), None);
    }

    #[test]
    fn a_change_of_any_bit_is_noticed() {
        let ring = Keyring::random();
        let keys = Keys::fixed(ring.clone());
        for target in targets() {
            let good = URL_SAFE_NO_PAD
                .decode(token(ring.newest(), &target))
                .unwrap();
            for bit in 0..good.len() * 8 {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(read(&keys, &URL_SAFE_NO_PAD.encode(bad)).unwrap(), None);
            }
            for cut in 0..good.len() {
                let short = URL_SAFE_NO_PAD.encode(&good[..cut]);
                assert_eq!(read(&keys, &short).unwrap(), None, "{cut}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(Seeds::USUAL.cases()))]

        #[test]
        fn no_text_is_a_token(text in "\\PC{0,200}") {
            let keys = Keys::fixed(Keyring::random());
            prop_assert_eq!(read(&keys, &text).unwrap(), None);
        }
    }
}
