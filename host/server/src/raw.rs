//! Stored JSON in answers, as the text that it is.
//!
//! Parsed JSON takes many times the memory of its text: a list of zeros fifty times. So answers
//! contain stored values without parsing them.

use serde::Serialize;
use serde_json::value::RawValue;

/// How deep a value may nest: parsers of clients have bounds, and an answer adds levels.
const DEPTH: usize = 120;

/// A stored value.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Raw(Box<RawValue>);

impl Default for Raw {
    fn default() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

impl Raw {
    /// The value as JSON, or else as text.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        if !is_readable(bytes) {
            return Self::text(bytes);
        }
        serde_json::from_slice(bytes).map_or_else(|_| Self::text(bytes), Self)
    }

    /// A text.
    pub(crate) fn text(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        serde_json::value::to_raw_value(&text).map_or_else(|_| Self::default(), Self)
    }

    /// The JSON.
    pub(crate) fn json(&self) -> &RawValue {
        &self.0
    }
}

/// Whether parsers accept the depth of JSON, and each of its escapes is a character. The library
/// checks everything else.
fn is_readable(json: &[u8]) -> bool {
    let (mut depth, mut in_text) = (0_usize, false);
    let mut rest = json;
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        match (in_text, byte) {
            (_, b'"') => in_text = !in_text,
            (true, b'\\') => match escape(behind) {
                Some(behind) => rest = behind,
                None => return false,
            },
            (false, b'[' | b'{') => {
                depth += 1;
                if depth > DEPTH {
                    return false;
                }
            }
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    true
}

/// The bytes behind an escape, whose backslash precedes these bytes.
fn escape(bytes: &[u8]) -> Option<&[u8]> {
    let (kind, rest) = bytes.split_first()?;
    if *kind != b'u' {
        return Some(rest);
    }
    let (unit, rest) = unit(rest)?;
    match unit {
        0xd800..=0xdbff => {
            let (low, rest) = self::unit(rest.strip_prefix(b"\\u")?)?;
            (0xdc00..=0xdfff).contains(&low).then_some(rest)
        }
        0xdc00..=0xdfff => None,
        _ => Some(rest),
    }
}

/// Four digits, and the bytes behind them.
fn unit(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (digits, rest) = bytes.split_at_checked(4)?;
    let digits = std::str::from_utf8(digits).ok()?;
    let unit = u16::from_str_radix(digits, 16).ok()?;
    Some((unit, rest))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(bytes: &[u8]) -> Value {
        serde_json::to_value(Raw::read(bytes)).unwrap()
    }

    #[test]
    fn json_is_passed_on_and_everything_else_is_a_text() {
        for json in [
            "1",
            " {\"a\": [1.50, \"\\\"]\\u00e9\\ud83d\\ude00\\\\\"]} ",
            "null",
            "\"[[\"",
        ] {
            let value: Value = serde_json::from_str(json).unwrap();
            assert_eq!(shown(json.as_bytes()), value, "{json}");
        }
        for text in [
            "",
            "{",
            "1 2",
            "\"\\ud800\"",
            "\"\\udc00\"",
            "\"\\ud800\\u0061\"",
            "\"\\u00\"",
            "\"\\",
            "nul",
            "\"a\nb\"",
        ] {
            assert_eq!(shown(text.as_bytes()), json!(text), "{text}");
        }
        assert_eq!(shown(b"\"\xff\""), json!("\"\u{fffd}\""));
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(shown(deep(DEPTH).as_bytes()).is_array());
        assert!(shown(deep(DEPTH + 1).as_bytes()).is_string());
    }

    #[test]
    fn raw_json_in_an_answer_can_be_parsed() {
        for json in ["[1,2]", "{\"a\":{\"b\":\"\\n\"}}"] {
            let answer = serde_json::to_string(&json!({ "items": [Raw::read(json.as_bytes())] }));
            let parsed: Value = serde_json::from_str(&answer.unwrap()).unwrap();
            assert!(parsed["items"][0].is_array() || parsed["items"][0].is_object());
        }
    }
}
