//! The text of a session, which its cookie has.
//!
//! The text names its session and the end of the session, and proves that a key of the ring has
//! made it for this token. So it is good on each host with the same ring and token, no store keeps
//! it, and another token or the removal of the key ends it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use windlass_keys::{Key, KeyId, Keys, KeysError};
use windlass_model::{Digest, mac};

/// The purpose of the derived key.
const PURPOSE: &str = "windlass sessions 1";

/// The bytes of a text: a key, the end, the id, and the proof.
const BYTES: usize = 4 + 8 + 16 + 32;

/// A session of a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// Its random name.
    pub(crate) id: [u8; 16],
    /// Its end: epoch milliseconds.
    pub(crate) until_ms: i64,
}

impl Session {
    /// A new session until this moment, in epoch milliseconds.
    pub(crate) fn until(until_ms: i64) -> Self {
        Self {
            id: rand::random(),
            until_ms,
        }
    }

    /// Its text: 80 characters of URL-safe Base64. `token` is the digest of the token that it
    /// stands for.
    ///
    /// # Errors
    ///
    /// The keyring cannot be read.
    pub(crate) fn text(&self, keys: &Keys, token: &Digest) -> Result<String, KeysError> {
        let ring = keys.ring()?;
        let key = ring.newest();
        let mut bytes = key.id().0.to_vec();
        bytes.extend(self.until_ms.to_be_bytes());
        bytes.extend(self.id);
        let proof = proof(key, &bytes, token);
        bytes.extend(proof);
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// The session of a text; none if no key of the ring has made it for this token. The caller
    /// compares its end with the clock.
    ///
    /// # Errors
    ///
    /// The keyring cannot be read.
    pub(crate) fn read(keys: &Keys, text: &str, token: &Digest) -> Result<Option<Self>, KeysError> {
        let Some((said, given)) = split(text) else {
            return Ok(None);
        };
        let Some((key, rest)) = said.split_first_chunk() else {
            return Ok(None);
        };
        let ring = keys.ring()?;
        let Some(key) = ring.get(KeyId(*key)) else {
            return Ok(None);
        };
        if !mac::verify(&key.derive(PURPOSE), &[&said, &token.0], &given) {
            return Ok(None);
        }
        let parts = rest.split_first_chunk();
        Ok(parts.and_then(|(until, id)| {
            Some(Self {
                id: id.try_into().ok()?,
                until_ms: i64::from_be_bytes(*until),
            })
        }))
    }
}

fn proof(key: &Key, said: &[u8], token: &Digest) -> [u8; 32] {
    mac::tag(&key.derive(PURPOSE), &[said, &token.0])
}

/// The statement of a text, and its alleged proof.
fn split(text: &str) -> Option<(Vec<u8>, [u8; 32])> {
    if text.len() > 2 * BYTES {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (said, proof) = bytes.split_last_chunk::<32>()?;
    (bytes.len() == BYTES).then(|| (said.to_vec(), *proof))
}

#[cfg(test)]
mod tests {
    use windlass_keys::Keyring;

    use super::*;

    #[test]
    fn a_session_is_read_with_its_ring_and_its_token_alone() {
        let mut ring = Keyring::random();
        let keys = Keys::fixed(ring.clone());
        let token = Digest::of(b"token");
        let session = Session::until(1_800_000_000_000);
        let text = session.text(&keys, &token).unwrap();
        assert_eq!(text.len(), 80);
        assert_eq!(Session::read(&keys, &text, &token).unwrap(), Some(session));
        let other = Digest::of(b"another token");
        assert_eq!(Session::read(&keys, &text, &other).unwrap(), None);
        let strange = Keys::fixed(Keyring::random());
        assert_eq!(Session::read(&strange, &text, &token).unwrap(), None);
        // It holds while its key is in the ring.
        let first = ring.newest().id();
        ring.rotate().unwrap();
        let keys = Keys::fixed(ring.clone());
        assert_eq!(Session::read(&keys, &text, &token).unwrap(), Some(session));
        ring.remove(first).unwrap();
        let keys = Keys::fixed(ring);
        assert_eq!(Session::read(&keys, &text, &token).unwrap(), None);
    }

    #[test]
    fn a_change_of_any_bit_is_noticed() {
        let keys = Keys::fixed(Keyring::random());
        let token = Digest::of(b"token");
        let text = Session::until(0).text(&keys, &token).unwrap();
        let good = URL_SAFE_NO_PAD.decode(&text).unwrap();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let bad = URL_SAFE_NO_PAD.encode(bad);
            assert_eq!(Session::read(&keys, &bad, &token).unwrap(), None);
        }
        for text in ["", "a", "*", &text[..79], &format!("{text}AAAA")] {
            assert_eq!(Session::read(&keys, text, &token).unwrap(), None, "{text}");
        }
        let long = "A".repeat(10_000);
        assert_eq!(Session::read(&keys, &long, &token).unwrap(), None);
    }
}
