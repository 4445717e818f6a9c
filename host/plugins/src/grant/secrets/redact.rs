//! Removes secret values from results: as they are, and in the encodings in which servers echo
//! requests.
//!
//! * as they are, with any of their characters percent-encoded or escaped as JSON does,
//! * in Base64, standard or URL-safe, at any position of the encoded text,
//! * in hexadecimal digits.
//!
//! A value of fewer than eight bytes is kept: removing it would damage unrelated text, and it can
//! be guessed.

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value;

/// The shortest value that is removed, in bytes.
const SHORTEST: usize = 8;

/// The most positions that are followed at once during a search.
const PLACES: usize = 8;

/// Finds and replaces the values of secrets.
#[derive(Default)]
pub(super) struct Redactor {
    /// The encodings that change the whole text, with the secret of each.
    encoded: Option<(AhoCorasick, Vec<usize>)>,
    /// The values and their encodings, without regard to case: names of headers have none.
    names: Option<AhoCorasick>,
    secrets: Vec<Plain>,
    /// Bytes with which a value can begin.
    begins: Vec<bool>,
}

struct Plain {
    mark: String,
    units: Vec<Unit>,
}

/// A character, in its possible encodings.
struct Unit {
    utf8: Vec<u8>,
    utf16: Vec<u16>,
    /// The letter after a backslash that encodes it in JSON.
    short: Option<u8>,
}

impl Redactor {
    pub(super) fn new<'a>(secrets: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut redactor = Self {
            begins: vec![false; 256],
            ..Self::default()
        };
        let (mut patterns, mut of) = (Vec::new(), Vec::new());
        let mut values = Vec::new();
        for (name, value) in secrets.filter(|(_, value)| value.len() >= SHORTEST) {
            for pattern in encodings(value.as_bytes()) {
                patterns.push(pattern);
                of.push(redactor.secrets.len());
            }
            values.push(value.as_bytes().to_vec());
            let units: Vec<Unit> = value.chars().map(Unit::of).collect();
            if let Some(first) = units.first() {
                for begin in first.utf8.iter().take(1).chain(b"%\\") {
                    redactor.may_begin(*begin);
                }
                if first.utf8 == b" " {
                    redactor.may_begin(b'+');
                }
            }
            let mark = format!("[secret {name}]");
            redactor.secrets.push(Plain { mark, units });
        }
        let mut builder = AhoCorasick::builder();
        let built = builder
            .match_kind(MatchKind::LeftmostLongest)
            .build(&patterns);
        if !patterns.is_empty() {
            // Only patterns of gigabytes cannot be built, and a secret is a small file.
            redactor.encoded = built.ok().map(|finder| (finder, of));
            values.append(&mut patterns);
            let names = AhoCorasick::builder()
                .ascii_case_insensitive(true)
                .build(&values);
            redactor.names = names.ok();
        }
        redactor
    }

    /// The bytes of the longest value.
    pub(super) fn longest(&self) -> usize {
        let bytes = |secret: &Plain| secret.units.iter().map(|unit| unit.utf8.len()).sum();
        self.secrets.iter().map(bytes).max().unwrap_or_default()
    }

    /// Whether a name contains a value, in any case and encoding.
    pub(super) fn is_in_name(&self, name: &str) -> bool {
        let Some(names) = &self.names else {
            return false;
        };
        let is_in = |name: &[u8]| names.is_match(name);
        is_in(name.as_bytes()) || name.contains('%') && is_in(&unescaped(name.as_bytes()))
    }

    fn may_begin(&mut self, byte: u8) {
        if let Some(begins) = self.begins.get_mut(usize::from(byte)) {
            *begins = true;
        }
    }

    /// The same bytes without secrets; none if there is none in them.
    pub(super) fn bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut found = self.find(bytes);
        if found.is_empty() {
            return None;
        }
        found.sort_unstable();
        let mut clean = Vec::with_capacity(bytes.len());
        let mut done = 0;
        for (from, to, secret) in found {
            // Overlapping finds share one mark.
            if from >= done {
                clean.extend_from_slice(bytes.get(done..from).unwrap_or_default());
                let mark = self.secrets.get(secret).map(|plain| plain.mark.as_bytes());
                clean.extend_from_slice(mark.unwrap_or_default());
            }
            done = done.max(to);
        }
        clean.extend_from_slice(bytes.get(done..).unwrap_or_default());
        Some(clean)
    }

    /// The same JSON without secrets; none if there is none in it.
    pub(super) fn json(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let found = self.find(bytes);
        // A secret that is escaped twice is found only in the parsed value.
        if self.secrets.is_empty() || found.is_empty() && !bytes.contains(&b'\\') {
            return None;
        }
        let Ok(mut value) = serde_json::from_slice::<Value>(bytes) else {
            // Nested too deeply, or not JSON.
            return self.bytes(bytes);
        };
        if !self.value(&mut value) {
            // The secret is in a part that parsing loses: a repeated member, the order of members.
            let (.., secret) = found.first()?;
            value = self.whole(*secret);
        }
        serde_json::to_vec(&value).ok()
    }

    /// Removes secrets from a value. Returns whether there were any.
    pub(super) fn value(&self, value: &mut Value) -> bool {
        if self.secrets.is_empty() {
            return false;
        }
        let some = self.walk(value);
        // A secret that is itself JSON can be in a value without being in any of its texts.
        let json = serde_json::to_vec(&*value).unwrap_or_default();
        match self.find(&json).first() {
            Some((.., secret)) => {
                *value = self.whole(*secret);
                true
            }
            None => some,
        }
    }

    /// The replacement of a value of which no part can be kept.
    fn whole(&self, secret: usize) -> Value {
        let mark = self.secrets.get(secret).map(|plain| plain.mark.clone());
        Value::String(mark.unwrap_or_default())
    }

    /// Removes secrets from the texts, names and numbers of a value.
    fn walk(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => match self.text(text) {
                Some(clean) => {
                    *text = clean;
                    true
                }
                None => false,
            },
            Value::Number(number) => match self.text(&number.to_string()) {
                Some(clean) => {
                    *value = Value::String(clean);
                    true
                }
                None => false,
            },
            Value::Array(items) => {
                let mut some = false;
                for item in items {
                    some |= self.walk(item);
                }
                some
            }
            Value::Object(members) => {
                let mut some = false;
                for value in members.values_mut() {
                    some |= self.walk(value);
                }
                if members.keys().any(|key| self.text(key).is_some()) {
                    some = true;
                    let old = std::mem::take(members);
                    members.extend(
                        old.into_iter()
                            .map(|(key, value)| (self.text(&key).unwrap_or(key), value)),
                    );
                }
                some
            }
            Value::Null | Value::Bool(_) => false,
        }
    }

    /// The same text without secrets; none if there is none in it.
    pub(super) fn text(&self, text: &str) -> Option<String> {
        let clean = self.bytes(text.as_bytes())?;
        Some(String::from_utf8_lossy(&clean).into_owned())
    }

    /// The beginnings and ends of secrets, and their indices.
    fn find(&self, bytes: &[u8]) -> Vec<(usize, usize, usize)> {
        let mut found = Vec::new();
        if self.secrets.is_empty() {
            return found;
        }
        if let Some((finder, of)) = &self.encoded {
            let all = finder.find_iter(bytes);
            found.extend(
                all.filter_map(|at| {
                    Some((at.start(), at.end(), *of.get(at.pattern().as_usize())?))
                }),
            );
        }
        let mut from = 0;
        while let Some(byte) = bytes.get(from) {
            let begins = self.begins.get(usize::from(*byte)).copied();
            if begins.unwrap_or_default() {
                let ends = self.secrets.iter().map(|plain| plain.ends(bytes, from));
                let ends = ends.enumerate();
                found.extend(ends.filter_map(|(at, to)| Some((from, to?, at))));
            }
            from += 1;
        }
        found
    }
}

impl Plain {
    /// The end of a secret's value that begins here.
    fn ends(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let mut places = vec![from];
        let mut next = Vec::new();
        for unit in &self.units {
            next.clear();
            for place in &places {
                unit.after(bytes, *place, &mut next);
            }
            next.sort_unstable();
            next.dedup();
            next.truncate(PLACES);
            if next.is_empty() {
                return None;
            }
            std::mem::swap(&mut places, &mut next);
        }
        places.last().copied()
    }
}

impl Unit {
    fn of(sign: char) -> Self {
        let mut utf8 = [0; 4];
        let mut utf16 = [0; 2];
        let short = match sign {
            '"' | '\\' | '/' => u8::try_from(sign).ok(),
            '\u{8}' => Some(b'b'),
            '\u{c}' => Some(b'f'),
            '\n' => Some(b'n'),
            '\r' => Some(b'r'),
            '\t' => Some(b't'),
            _ => None,
        };
        Self {
            utf8: sign.encode_utf8(&mut utf8).as_bytes().to_vec(),
            utf16: sign.encode_utf16(&mut utf16).to_vec(),
            short,
        }
    }

    /// The possible ends of the character that begins here.
    fn after(&self, bytes: &[u8], from: usize, ends: &mut Vec<usize>) {
        let mut at = Some(from);
        for byte in &self.utf8 {
            at = at.and_then(|at| match *bytes.get(at)? {
                found if found == *byte => Some(at + 1),
                b'+' if *byte == b' ' => Some(at + 1),
                b'%' if hexadecimal(bytes.get(at + 1..at + 3)?)? == u16::from(*byte) => {
                    Some(at + 3)
                }
                _ => None,
            });
        }
        ends.extend(at);
        if self.utf8 == b"%" && bytes.get(from..from + 3) == Some(b"%25") {
            ends.push(from + 3);
        }
        if bytes.get(from) != Some(&b'\\') {
            return;
        }
        if self.short.is_some() && bytes.get(from + 1).copied() == self.short {
            ends.push(from + 2);
        }
        let mut at = Some(from);
        for unit in &self.utf16 {
            at = at.and_then(|at| {
                let escaped = bytes.get(at..at + 6)?;
                let digits = escaped.strip_prefix(b"\\u")?;
                (hexadecimal(digits)? == *unit).then_some(at + 6)
            });
        }
        ends.extend(at);
    }
}

/// A text without percent-encoding.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, behind)) = rest.split_first() {
        let digits = behind.get(..2).filter(|_| *byte == b'%');
        let escaped = digits
            .and_then(hexadecimal)
            .and_then(|it| u8::try_from(it).ok());
        match escaped {
            Some(escaped) => {
                plain.push(escaped);
                rest = behind.get(2..).unwrap_or_default();
            }
            None => {
                plain.push(*byte);
                rest = behind;
            }
        }
    }
    plain
}

fn hexadecimal(digits: &[u8]) -> Option<u16> {
    digits.iter().try_fold(0_u16, |number, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(number << 4 | u16::try_from(digit).ok()?)
    })
}

/// The encodings of a value that change the whole text.
fn encodings(value: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for digits in ["0123456789abcdef", "0123456789ABCDEF"] {
        let digit = |of: u8| digits.as_bytes().get(usize::from(of)).copied();
        let pair = |byte: &u8| [digit(byte >> 4), digit(byte & 15)];
        all.push(value.iter().flat_map(pair).flatten().collect());
    }
    for shift in 0..3 {
        // The bytes before and after share a character with the value.
        let shifted: Vec<u8> = std::iter::repeat_n(&0, shift)
            .chain(value)
            .copied()
            .collect();
        let before = [0, 2, 3].get(shift).copied().unwrap_or_default();
        let behind = usize::from(!shifted.len().is_multiple_of(3));
        for text in [
            STANDARD_NO_PAD.encode(&shifted),
            URL_SAFE_NO_PAD.encode(&shifted),
        ] {
            let core = text.get(before..text.len() - behind).unwrap_or_default();
            all.push(core.as_bytes().to_vec());
        }
    }
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use windlass_test_seeds::Seeds;

    use super::*;

    const SECRET: &str = "pä/ss \"word\"+%?~";

    fn redactor(value: &str) -> Redactor {
        Redactor::new([("s", value)].into_iter())
    }

    fn cut(value: &str, text: &[u8]) -> String {
        let clean = redactor(value).bytes(text);
        String::from_utf8_lossy(&clean.unwrap_or_else(|| text.to_vec())).into_owned()
    }

    fn percent(value: &str, all: bool) -> String {
        let encode = |byte: &u8| match byte {
            byte if !all && byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
            byte => format!("%{byte:02X}"),
        };
        value.as_bytes().iter().map(encode).collect()
    }

    #[test]
    fn a_value_is_cut_out_in_each_encoding() {
        let form: String = url::form_urlencoded::byte_serialize(SECRET.as_bytes()).collect();
        let escaped: String = SECRET
            .encode_utf16()
            .map(|unit| format!("\\u{unit:04x}"))
            .collect();
        let json = serde_json::to_string(SECRET).unwrap();
        let hex: String = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
        for text in [
            SECRET.to_owned(),
            percent(SECRET, false),
            percent(SECRET, true).to_lowercase(),
            form,
            escaped,
            json.trim_matches('"').to_owned(),
            json.trim_matches('"').replace('/', "\\/"),
            hex.to_uppercase(),
            hex,
        ] {
            let said = cut(SECRET, format!("<{text}>{text}").as_bytes());
            assert_eq!(said, "<[secret s]>[secret s]", "{text}");
        }
        for before in 0..7 {
            for behind in 0..4 {
                let plain = [&b"abcdefg"[..before], SECRET.as_bytes(), &b"xyz"[..behind]].concat();
                for text in [
                    STANDARD_NO_PAD.encode(&plain),
                    URL_SAFE_NO_PAD.encode(&plain),
                ] {
                    let said = cut(SECRET, text.as_bytes());
                    assert!(said.contains("[secret s]"), "{text}");
                    assert!(said.len() <= 10 + 10 + 8 + 2, "{said}");
                }
            }
        }
    }

    #[test]
    fn a_value_is_found_in_a_name_in_any_case() {
        let redactor = redactor("AbC-dEf_123");
        for name in [
            "x-abc-def_123",
            "abc-def_123-x",
            "x-%41%62c-def_123",
            &STANDARD_NO_PAD.encode("xxAbC-dEf_123").to_lowercase(),
            &"AbC-dEf_123"
                .bytes()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>(),
        ] {
            assert!(redactor.is_in_name(name), "{name}");
        }
        for name in ["x-abc-def-123", "content-type", "%", "%4", "%zz", ""] {
            assert!(!redactor.is_in_name(name), "{name}");
        }
        assert!(!Redactor::default().is_in_name("abc-def_123"));
    }

    #[test]
    fn json_stays_json() {
        let clean = |value: &str, json: Value| {
            let bytes = serde_json::to_vec(&json).unwrap();
            let clean = redactor(value).json(&bytes).expect("it is cut out");
            serde_json::from_slice::<Value>(&clean).unwrap()
        };
        let nested = serde_json::to_string(&json!({ "a": SECRET })).unwrap();
        assert_eq!(
            clean(SECRET, json!({ "a": [SECRET], SECRET: nested })),
            json!({ "a": ["[secret s]"], "[secret s]": "{\"a\":\"[secret s]\"}" })
        );
        let number = json!({ "a": 1_234_567_890, "b": true });
        assert_eq!(
            clean("12345678", number),
            json!({ "a": "[secret s]90", "b": true })
        );
        // A number keeps all of its digits.
        let long = "12345678901234567890123";
        assert_eq!(
            clean(long, serde_json::from_str(&format!("[{long}]")).unwrap()),
            json!(["[secret s]"])
        );
        assert_eq!(redactor(SECRET).json(br#"{"a":"\n"}"#), None);
        let deep = format!("{}\"12345678\"{}", "[".repeat(500), "]".repeat(500));
        let clean = redactor("12345678").json(deep.as_bytes()).unwrap();
        assert!(!String::from_utf8(clean).unwrap().contains("12345678"));
    }

    #[test]
    fn a_secret_across_parts_of_the_json_takes_all_of_it() {
        let check = |value: &str, json: &str| {
            let clean = redactor(value)
                .json(json.as_bytes())
                .expect("it is cut out");
            assert_eq!(
                String::from_utf8(clean).unwrap(),
                "\"[secret s]\"",
                "{json}"
            );
        };
        check("12345678", r#"{"a":"12345678","a":1}"#);
        let key = r#"{"kty":"oct","k":"c2VjcmV0"}"#;
        check(key, &format!("[{key}]"));
        // Parsing changes the order of its members.
        let ordered = r#"{"k":"c2VjcmV0","kty":"oct"}"#;
        check(ordered, &format!("[{ordered}]"));
        let mut value: Value = serde_json::from_str(&format!("[{ordered}]")).unwrap();
        assert!(redactor(ordered).value(&mut value));
        assert_eq!(value, json!("[secret s]"));
    }

    #[test]
    fn short_values_and_other_texts_stay() {
        assert_eq!(cut("1234567", b"1234567"), "1234567");
        assert_eq!(cut("12345678", b"1234567"), "1234567");
        assert!(redactor("12345678").bytes(b"%31%32 \\u0031 \\").is_none());
        assert!(Redactor::default().bytes(b"12345678").is_none());
    }

    #[test]
    fn values_that_overlap_leave_nothing_of_either() {
        let secrets = [("a", "12345678"), ("b", "567890ab")];
        let clean = Redactor::new(secrets.into_iter()).bytes(b"<1234567890ab>");
        assert_eq!(clean.unwrap(), b"<[secret a]>");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(Seeds::USUAL.cases()))]

        #[test]
        fn a_value_never_stays(
            secret in "\\PC{8,24}",
            before in "\\PC{0,12}",
            behind in "\\PC{0,12}",
        ) {
            let text = format!("{before}{secret}{behind}");
            let clean = redactor(&secret).bytes(text.as_bytes()).unwrap();
            let clean = String::from_utf8_lossy(&clean).replace("[secret s]", "\u{0}");
            prop_assert!(!clean.contains(&secret), "{clean}");
        }

        #[test]
        fn no_bytes_are_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = redactor(SECRET).bytes(&bytes);
            let _ = redactor(SECRET).json(&bytes);
        }
    }
}
