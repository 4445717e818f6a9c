//! Keys and keyrings as text.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use windlass_model::{Digest, mac};

/// The most keys of one ring.
const MOST: usize = 64;

/// The beginning of a new file.
const HEAD: &str = "# Keys of Windlass, the newest last. A reader of this file can make resume \
                    links and sign exports.\n";

/// The name of a key: the beginning of a digest of it, so that no two keys have the same name by
/// accident, and the name reveals nothing about the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 4]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

impl FromStr for KeyId {
    type Err = BadKeyring;

    fn from_str(text: &str) -> Result<Self, BadKeyring> {
        let digits = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = u32::from_str_radix(text, 16).ok().filter(|_| digits);
        id.map(|id| Self(id.to_be_bytes()))
            .ok_or_else(|| BadKeyring::new("a key is named by 8 hexadecimal digits"))
    }
}

/// One key: 32 random bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    id: KeyId,
    seed: [u8; mac::KEY_BYTES],
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id)
    }
}

impl Key {
    fn new(seed: [u8; mac::KEY_BYTES]) -> Self {
        let digest = Digest::of(&[&b"windlass key "[..], &seed].concat());
        let [a, b, c, d, ..] = digest.0;
        Self {
            id: KeyId([a, b, c, d]),
            seed,
        }
    }

    /// A new random key.
    pub fn random() -> Self {
        Self::new(rand::random())
    }

    /// Its name.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The key for one purpose.
    pub fn derive(&self, purpose: &str) -> [u8; mac::KEY_BYTES] {
        mac::tag(&self.seed, &[purpose.as_bytes()])
    }
}

/// The text is not a keyring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadKeyring(String);

impl BadKeyring {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// The keys of a host, the newest last. There is at least one.
///
/// As text: each key is its name, a blank and its 32 bytes in URL-safe Base64 without padding. Keys
/// are separated by line breaks or commas, and a line that begins with `#` is a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyring {
    newest: Key,
    /// The oldest first.
    older: Vec<Key>,
}

impl Keyring {
    /// A ring with one new key.
    pub fn random() -> Self {
        Self {
            newest: Key::random(),
            older: Vec::new(),
        }
    }

    /// Parses a keyring.
    ///
    /// # Errors
    ///
    /// The text contains no key, more than 64, one twice, or a line that is not a key. The message
    /// never shows a key.
    pub fn parse(text: &str) -> Result<Self, BadKeyring> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let entries = lines.flat_map(|line| line.split(',')).map(str::trim);
        let mut keys: Vec<Key> = Vec::new();
        for (at, entry) in entries.filter(|entry| !entry.is_empty()).enumerate() {
            let number = at + 1;
            if number > MOST {
                return Err(BadKeyring::new(format!("it has more than {MOST} keys")));
            }
            let key = entry
                .split_once(char::is_whitespace)
                .and_then(|(id, seed)| {
                    let id: KeyId = id.parse().ok()?;
                    let seed = URL_SAFE_NO_PAD.decode(seed.trim()).ok()?;
                    let key = Key::new(seed.try_into().ok()?);
                    (key.id == id).then_some(key)
                });
            let key = key.ok_or_else(|| {
                BadKeyring::new(format!(
                    "its key number {number} is none: a key is `NAME BASE64`, and its name fits it"
                ))
            })?;
            if keys.iter().any(|other| other.id == key.id) {
                return Err(BadKeyring::new(format!("it has the key {} twice", key.id)));
            }
            keys.push(key);
        }
        let newest = keys.pop().ok_or_else(|| BadKeyring::new("it has no key"))?;
        let older = keys;
        Ok(Self { newest, older })
    }

    /// The ring as text.
    pub fn to_text(&self) -> String {
        let line = |key: &Key| format!("{} {}\n", key.id, URL_SAFE_NO_PAD.encode(key.seed));
        let lines: String = self.keys().map(line).collect();
        format!("{HEAD}{lines}")
    }

    /// All keys, the newest last.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.older.iter().chain([&self.newest])
    }

    /// The key that creates links and signatures.
    pub fn newest(&self) -> &Key {
        &self.newest
    }

    /// The key of this name.
    pub fn get(&self, id: KeyId) -> Option<&Key> {
        self.keys().find(|key| key.id == id)
    }

    /// The same keys, with this one as the creating key if it is among them.
    pub(crate) fn made_by(mut self, id: KeyId) -> Self {
        if let Some(key) = self.older.iter_mut().find(|key| key.id == id) {
            std::mem::swap(key, &mut self.newest);
        }
        self
    }

    /// Adds a new key, which creates links and signatures from now on.
    ///
    /// # Errors
    ///
    /// There are 64 keys already.
    pub fn rotate(&mut self) -> Result<KeyId, BadKeyring> {
        self.check_room()?;
        let last = std::mem::replace(&mut self.newest, Key::random());
        self.older.push(last);
        Ok(self.newest.id)
    }

    /// Adds the keys of another ring that this one lacks, as older ones. Returns how many.
    ///
    /// # Errors
    ///
    /// There would be more than 64.
    pub fn learn(&mut self, other: &Self) -> Result<usize, BadKeyring> {
        let mut learnt = 0;
        for key in other.keys() {
            if self.get(key.id).is_none() {
                self.check_room()?;
                self.older.insert(learnt, key.clone());
                learnt += 1;
            }
        }
        Ok(learnt)
    }

    /// Removes an older key. Returns whether it existed.
    ///
    /// # Errors
    ///
    /// It is the newest.
    pub fn remove(&mut self, id: KeyId) -> Result<bool, BadKeyring> {
        if self.newest.id == id {
            let text = "it is the newest key, and there has to be one: rotate first";
            return Err(BadKeyring::new(text));
        }
        let before = self.older.len();
        self.older.retain(|key| key.id != id);
        Ok(self.older.len() < before)
    }

    fn check_room(&self) -> Result<(), BadKeyring> {
        if self.older.len() + 1 >= MOST {
            return Err(BadKeyring::new(format!("it has {MOST} keys already")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keyring_is_read_back() {
        let mut ring = Keyring::random();
        let first = ring.newest().id();
        let second = ring.rotate().unwrap();
        assert_ne!(first, second);
        let text = ring.to_text();
        assert_eq!(Keyring::parse(&text).unwrap(), ring);
        let lines: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(Keyring::parse(&lines.join(", ")).unwrap(), ring);
        assert_eq!(ring.newest().id(), second);
        assert_eq!(ring.get(first).unwrap().id(), first);
        assert_eq!(first.to_string().parse(), Ok(first));
    }

    #[test]
    fn malformed_keyrings_are_refused_and_not_shown() {
        let good = Keyring::random().to_text();
        let line = good.lines().nth(1).unwrap();
        let (id, seed) = line.split_once(' ').unwrap();
        for (text, why) in [
            (String::new(), "no key"),
            ("# nothing\n".to_owned(), "no key"),
            (seed.to_owned(), "number 1"),
            (format!("00000000 {seed}"), "number 1"),
            (format!("{id} {}", &seed[1..]), "number 1"),
            (format!("{id} {seed}=="), "number 1"),
            (format!("{line}\n{line}"), "twice"),
            (format!("{line}\nx"), "number 2"),
        ] {
            let error = Keyring::parse(&text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            assert!(!error.contains(seed), "{error}");
        }
        let many: String = (0..=MOST).map(|_| Keyring::random().to_text()).collect();
        assert!(Keyring::parse(&many).is_err());
        assert!(!format!("{:?}", Keyring::parse(&good).unwrap()).contains(seed));
    }

    #[test]
    fn keys_of_another_ring_are_older_ones() {
        let mut ring = Keyring::random();
        let own = ring.newest().id();
        let mut other = Keyring::random();
        other.rotate().unwrap();
        assert_eq!(ring.learn(&other), Ok(2));
        assert_eq!(ring.learn(&other), Ok(0));
        assert_eq!(ring.newest().id(), own);
        let ids: Vec<_> = ring.keys().map(Key::id).collect();
        let others: Vec<_> = other.keys().map(Key::id).collect();
        assert_eq!(ids[..2], others[..]);
        assert!(ring.remove(own).is_err());
        assert_eq!(ring.remove(others[0]), Ok(true));
        assert_eq!(ring.remove(others[0]), Ok(false));
        while ring.rotate().is_ok() {}
        assert_eq!(ring.keys().count(), MOST);
        assert!(ring.learn(&Keyring::random()).is_err());
    }

    #[test]
    fn purposes_have_keys_of_their_own() {
        let key = Key::random();
        assert_eq!(key.derive("a"), key.derive("a"));
        assert_ne!(key.derive("a"), key.derive("b"));
        assert_ne!(key.derive("a"), Key::random().derive("a"));
    }
}
