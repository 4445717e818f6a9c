//! Signatures in the format of minisign: Ed25519, verified by `ring`.
//!
//! A public key is one line of Base64; a signature is four lines of text, which `minisign -S` makes
//! and `minisign -V` checks. The format is described by its makers:
//! <https://jedisct1.github.io/minisign/>. Both of its kinds are verified, the signature of a
//! message and the signature of its BLAKE2b digest; this module makes the second kind.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use blake2::{Blake2b512, Digest as _};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use windlass_model::Digest;

use crate::ring::Key;

/// A signature of the message itself, by the first two bytes of keys and signatures.
const OF_MESSAGE: [u8; 2] = *b"Ed";
/// A signature of the BLAKE2b digest of the message.
const OF_DIGEST: [u8; 2] = *b"ED";

/// The prefix of the line that no signature covers.
const UNTRUSTED: &str = "untrusted comment:";
/// The prefix of the line that the second signature covers.
const TRUSTED: &str = "trusted comment: ";

/// The longest text that is read as a signature, in bytes.
pub const LONGEST: usize = 4096;

/// The text is not a public key, or not a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(&'static str);

/// The name of a key, as minisign prints it: 16 hexadecimal digits. It is a hint, and proves
/// nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(u64);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The key that verifies signatures.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey {
    name: Name,
    bytes: [u8; 32],
}

impl PublicKey {
    /// Its name.
    pub fn name(&self) -> Name {
        self.name
    }
}

/// Writes the one line of Base64 of a public key file.
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.0.to_le_bytes();
        f.write_str(&STANDARD.encode([&OF_MESSAGE[..], &name, &self.bytes].concat()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// Reads the line of Base64, alone or below its comment.
impl FromStr for PublicKey {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        const NONE: Malformed = Malformed(
            "this is no public key of minisign, which is 56 characters and begins with `RW`",
        );
        if text.len() > LONGEST {
            return Err(NONE);
        }
        let mut lines = text.trim().lines();
        let first = lines.next().unwrap_or_default();
        let line = match first.starts_with(UNTRUSTED) {
            true => lines.next().unwrap_or_default(),
            false => first,
        };
        if lines.next().is_some() {
            return Err(NONE);
        }
        let bytes = STANDARD.decode(line.trim()).map_err(|_| NONE)?;
        let (name, key) = named::<32>(&bytes, &[OF_MESSAGE]).ok_or(NONE)?;
        Ok(Self { name, bytes: key })
    }
}

/// A signature, with the comment that it covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    name: Name,
    of_digest: bool,
    bytes: [u8; 64],
    comment: String,
    of_comment: [u8; 64],
}

impl Signature {
    /// The name of the key that has allegedly made it.
    pub fn name(&self) -> Name {
        self.name
    }

    /// The comment that the signature covers.
    pub fn comment(&self) -> &str {
        &self.comment
    }

    /// Whether this key has signed this message, and the comment.
    pub fn is_of(&self, key: &PublicKey, message: &[u8]) -> bool {
        if self.name != key.name {
            return false;
        }
        let verifier = UnparsedPublicKey::new(&ED25519, &key.bytes);
        let message = match self.of_digest {
            true => verifier.verify(&Blake2b512::digest(message), &self.bytes),
            false => verifier.verify(message, &self.bytes),
        };
        let with_comment = [&self.bytes, self.comment.as_bytes()].concat();
        message.is_ok() && verifier.verify(&with_comment, &self.of_comment).is_ok()
    }
}

impl FromStr for Signature {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        const NONE: Malformed = Malformed(
            "this is no signature of minisign, which is four lines: a comment, the signature, \
             the trusted comment, and the signature of both",
        );
        const CONTROL: Malformed = Malformed("a comment of this signature has control characters");
        if text.len() > LONGEST {
            return Err(NONE);
        }
        let mut lines = text.lines();
        let mut line = || lines.next().ok_or(NONE);
        let untrusted = line()?;
        if !untrusted.starts_with(UNTRUSTED) {
            return Err(NONE);
        }
        let signed = STANDARD.decode(line()?.trim_end()).map_err(|_| NONE)?;
        let comment = line()?.strip_prefix(TRUSTED).ok_or(NONE)?;
        let comment = comment.trim_end_matches('\r');
        if [untrusted.trim_end_matches('\r'), comment]
            .iter()
            .any(|text| text.contains(is_control))
        {
            return Err(CONTROL);
        }
        let of_comment = STANDARD.decode(line()?.trim_end()).map_err(|_| NONE)?;
        if lines.any(|line| !line.trim().is_empty()) {
            return Err(NONE);
        }
        let (name, bytes) = named::<64>(&signed, &[OF_MESSAGE, OF_DIGEST]).ok_or(NONE)?;
        Ok(Self {
            name,
            of_digest: signed.starts_with(&OF_DIGEST),
            bytes,
            comment: comment.to_owned(),
            of_comment: of_comment.try_into().map_err(|_| NONE)?,
        })
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.of_digest {
            OF_DIGEST
        } else {
            OF_MESSAGE
        };
        let signed = [&kind[..], &self.name.0.to_le_bytes(), &self.bytes].concat();
        writeln!(f, "{UNTRUSTED} signature of key {}", self.name)?;
        writeln!(f, "{}", STANDARD.encode(signed))?;
        writeln!(f, "{TRUSTED}{}", self.comment)?;
        writeln!(f, "{}", STANDARD.encode(self.of_comment))
    }
}

/// Whether a character is not allowed in comments, because terminals and databases have trouble
/// with it. Minisign itself writes tabs.
fn is_control(sign: char) -> bool {
    sign.is_control() && sign != '\t'
}

/// The name and the following bytes, of a key or a signature of one of these kinds.
fn named<const N: usize>(bytes: &[u8], kinds: &[[u8; 2]]) -> Option<(Name, [u8; N])> {
    let (kind, rest) = bytes.split_first_chunk::<2>()?;
    let (name, rest) = rest.split_first_chunk::<8>()?;
    let rest = rest.try_into().ok()?;
    kinds
        .contains(kind)
        .then(|| (Name(u64::from_le_bytes(*name)), rest))
}

/// Makes signatures for one purpose.
pub struct Signer {
    pair: Ed25519KeyPair,
    public: PublicKey,
}

impl Signer {
    /// The signer of a key of the ring for this purpose.
    ///
    /// # Errors
    ///
    /// `ring` refuses the seed, which does not happen with 32 bytes.
    pub fn of(key: &Key, purpose: &str) -> Result<Self, Malformed> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&key.derive(purpose))
            .map_err(|_| Malformed("this is no seed of a signing key"))?;
        let bytes = <[u8; 32]>::try_from(pair.public_key().as_ref())
            .map_err(|_| Malformed("this is no public key"))?;
        let [a, b, c, d, e, f, g, h, ..] = Digest::of(&bytes).0;
        let name = Name(u64::from_le_bytes([a, b, c, d, e, f, g, h]));
        let public = PublicKey { name, bytes };
        Ok(Self { pair, public })
    }

    /// The key that verifies its signatures.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs a message, and a comment of one line: line breaks in it become blanks.
    pub fn sign(&self, message: &[u8], comment: &str) -> Signature {
        let comment: String = comment
            .chars()
            .map(|sign| if sign.is_control() { ' ' } else { sign })
            .collect();
        let sign = |bytes: &[u8]| {
            let mut signature = [0; 64];
            for (to, from) in signature.iter_mut().zip(self.pair.sign(bytes).as_ref()) {
                *to = *from;
            }
            signature
        };
        let bytes = sign(&Blake2b512::digest(message));
        let of_comment = sign(&[&bytes, comment.as_bytes()].concat());
        Signature {
            name: self.public.name,
            of_digest: true,
            bytes,
            comment,
            of_comment,
        }
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.public.name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use windlass_test_seeds::Seeds;

    use super::*;

    /// Made by `minisign -G`, and two signatures of the text `test`, by `minisign -S` and by
    /// `minisign -S -l`; they are from the tests of `minisign-verify`.
    const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
    const OF_DIGEST: &str = "untrusted comment: signature from minisign secret key
RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLzZwo=
trusted comment: timestamp:1556193335\tfile:test
y/rUw2y8/hOUYjZU71eHp/Wo1KZ40fGy2VJEDl34XMJM+TX48Ss/17u3IvIfbVR1FkZZSNCisQbuQY+bHwhEBg==
";
    const OF_MESSAGE: &str = "untrusted comment: signature from minisign secret key
RWQf6LRCGA9i59SLOFxz6NxvASXDJeRtuZykwQepbDEGt87ig1BNpWaVWuNrm73YiIiJbq71Wi+dP9eKL8OC351vwIasSSbXxwA=
trusted comment: timestamp:1555779966\tfile:test
QtKMXWyYcwdpZAlPF7tE2ENJkRd1ujvKjlj1m9RtHTBnZPa5WKU5uWRs5GoP5M/VqE81QFuMKI5k/SfNQUaOAA==
";

    fn signer() -> Signer {
        Signer::of(&Key::random(), "test").unwrap()
    }

    #[test]
    fn signatures_of_minisign_are_verified() {
        let key: PublicKey = KEY.parse().unwrap();
        assert_eq!(key.to_string(), KEY);
        let file = format!("untrusted comment: minisign public key\r\n{KEY}\r\n");
        assert_eq!(file.parse(), Ok(key.clone()));
        for text in [OF_DIGEST, OF_MESSAGE] {
            let signature: Signature = text.parse().unwrap();
            assert!(signature.is_of(&key, b"test"), "{text}");
            assert!(!signature.is_of(&key, b"Test"), "{text}");
            assert!(!signature.is_of(signer().public(), b"test"), "{text}");
        }
    }

    #[test]
    fn a_signature_verifies_its_message_and_no_other() {
        let signer = signer();
        let text = signer.sign(b"message", "a\ncomment").to_string();
        let signature: Signature = text.parse().unwrap();
        assert_eq!(signature.comment(), "a comment");
        assert!(signature.is_of(signer.public(), b"message"));
        let changed: Signature = text.replace("a comment", "b comment").parse().unwrap();
        assert!(!changed.is_of(signer.public(), b"message"));
        // Another key of the same name is a different key.
        let mut other = self::signer().public().clone();
        other.name = signer.public().name;
        assert!(!signature.is_of(&other, b"message"));
    }

    #[test]
    fn a_purpose_has_a_signer_of_its_own() {
        let key = Key::random();
        let public = |purpose| Signer::of(&key, purpose).unwrap().public().clone();
        assert_eq!(public("a"), public("a"));
        assert_ne!(public("a"), public("b"));
    }

    #[test]
    fn malformed_signatures_are_refused() {
        for text in [
            "",
            "RW",
            &KEY[1..],
            &format!("{KEY}\n{KEY}"),
            &"R".repeat(9000),
        ] {
            assert!(text.parse::<PublicKey>().is_err(), "{text}");
        }
        let lines: Vec<_> = OF_DIGEST.lines().collect();
        for cut in 0..lines.len() {
            let mut some = lines.clone();
            some.remove(cut);
            assert!(some.join("\n").parse::<Signature>().is_err(), "{cut}");
        }
        assert!(format!("{OF_DIGEST}more").parse::<Signature>().is_err());
    }

    #[test]
    fn control_characters_in_comments_are_refused() {
        let key: PublicKey = KEY.parse().unwrap();
        for sign in ['\0', '\u{1b}', '\u{7f}', '\u{85}'] {
            for before in ["from minisign", "file:"] {
                let text = OF_DIGEST.replace(before, &format!("{before}{sign}"));
                assert_ne!(text, OF_DIGEST);
                assert!(text.parse::<Signature>().is_err(), "{text:?}");
            }
        }
        // The rewritten text is the same signature, with its tab.
        let windows = OF_DIGEST.replace('\n', "\r\n");
        let signature: Signature = windows.parse().unwrap();
        assert!(signature.is_of(&key, b"test"));
        assert_eq!(signature.to_string().parse(), Ok(signature));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(Seeds::USUAL.cases()))]

        #[test]
        fn no_text_is_too_odd(text in "\\PC{0,200}") {
            prop_assert!(text.parse::<PublicKey>().is_err());
            prop_assert!(text.parse::<Signature>().is_err());
        }
    }
}
