//! Message authentication: HMAC-SHA256 (RFC 2104).

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// How long a key is, in bytes.
pub const KEY_BYTES: usize = 32;

/// The tag of a message that is the concatenation of these parts. If parts have no fixed length,
/// the caller has to make the concatenation unambiguous.
pub fn tag(key: &[u8; KEY_BYTES], parts: &[&[u8]]) -> [u8; 32] {
    with(key, parts).finalize().into_bytes().into()
}

/// Whether a tag is that of a message. The time that this takes does not depend on the tag.
pub fn verify(key: &[u8; KEY_BYTES], parts: &[&[u8]], tag: &[u8]) -> bool {
    with(key, parts).verify_slice(tag).is_ok()
}

/// A message that is authenticated while it is read.
pub struct Message(Hmac<Sha256>);

impl Message {
    /// A message that begins with the concatenation of these parts.
    pub fn begin(key: &[u8; KEY_BYTES], parts: &[&[u8]]) -> Self {
        Self(with(key, parts))
    }

    /// Its next part.
    pub fn add(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    /// The tag of the whole message.
    pub fn tag(self) -> [u8; 32] {
        self.0.finalize().into_bytes().into()
    }

    /// As [`verify`], for the whole message.
    pub fn verify(self, tag: &[u8]) -> bool {
        self.0.verify_slice(tag).is_ok()
    }
}

/// As [`verify`], for the beginning of a tag.
pub fn verify_left(key: &[u8; KEY_BYTES], parts: &[&[u8]], tag: &[u8]) -> bool {
    with(key, parts).verify_truncated_left(tag).is_ok()
}

fn with(key: &[u8; KEY_BYTES], parts: &[&[u8]]) -> Hmac<Sha256> {
    // The key fits into a block, which is 64 bytes long.
    let mut block = [0; 64];
    for (byte, key) in block.iter_mut().zip(key) {
        *byte = *key;
    }
    let mut mac = Hmac::<Sha256>::new(&block.into());
    for part in parts {
        mac.update(part);
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test case 1 of RFC 4231 has a key of twenty bytes; zeros at its end do not change the tag.
    #[test]
    fn the_tag_is_that_of_the_standard() {
        let mut key = [0; KEY_BYTES];
        key[..20].fill(0x0b);
        let hex = tag(&key, &[b"Hi ", b"There"]).map(|byte| format!("{byte:02x}"));
        let wanted = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
        assert_eq!(hex.concat(), wanted);
        assert!(verify(&key, &[b"Hi There"], &tag(&key, &[b"Hi There"])));
    }

    #[test]
    fn a_message_that_is_read_in_parts_has_the_same_tag() {
        let key = [7; KEY_BYTES];
        let mut message = Message::begin(&key, &[b"a", b"b"]);
        message.add(b"c");
        assert_eq!(message.tag(), tag(&key, &[b"abc"]));
        assert!(Message::begin(&key, &[b"abc"]).verify(&tag(&key, &[b"abc"])));
        assert!(!Message::begin(&key, &[b"ab"]).verify(&tag(&key, &[b"abc"])));
    }

    #[test]
    fn a_tag_is_of_one_key_and_one_message() {
        let key = [7; KEY_BYTES];
        let good = tag(&key, &[b"a"]);
        assert!(verify(&key, &[b"a"], &good));
        assert!(!verify(&key, &[b"b"], &good));
        assert!(!verify(&[8; KEY_BYTES], &[b"a"], &good));
        assert!(!verify(&key, &[b"a"], &good[..31]));
        assert!(!verify(&key, &[b"a"], &[]));
    }
}
