//! JSON that is kept as text: it is stored, passed on and returned, and seldom parsed.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::{RawValue, Value};

/// One JSON value as its text. A text costs one pass over its bytes; a [`Value`] costs an
/// allocation for each of its parts. Two texts are equal if their bytes are.
#[derive(Clone, Debug)]
pub struct JsonText(Arc<RawValue>);

impl JsonText {
    /// A text of untrusted origin that [`Value`] can read as well: nested 127 levels at the most.
    ///
    /// # Errors
    ///
    /// The bytes are not one JSON value, or [`Value`] refuses them.
    pub fn checked(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        Self::check(bytes)?;
        Self::stored(bytes)
    }

    /// Checks bytes without keeping them.
    ///
    /// # Errors
    ///
    /// The bytes are not one JSON value, or [`Value`] refuses them.
    pub fn check(bytes: &[u8]) -> Result<(), serde_json::Error> {
        serde_json::from_slice::<Readable>(bytes).map(drop)
    }

    /// A text that was checked before it was stored.
    ///
    /// # Errors
    ///
    /// The bytes are not one JSON value.
    pub fn stored(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    /// The text of a value.
    ///
    /// # Errors
    ///
    /// Never for a value that was read from JSON.
    pub fn of(value: &Value) -> Result<Self, serde_json::Error> {
        let text = serde_json::value::to_raw_value(value)?;
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The text as bytes of its own.
    pub fn to_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(self.as_str().as_bytes())
    }

    /// The value. None: its text is nested too deeply, which [`JsonText::checked`] refuses.
    pub fn value(&self) -> Option<Value> {
        serde_json::from_str(self.as_str()).ok()
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for JsonText {}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(text.into()))
    }
}

/// The members of an object in their order, repeated ones as well, each with its text.
pub(crate) struct Members<'a>(pub(crate) Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOrder(PhantomData))
    }
}

struct InOrder<'a>(PhantomData<&'a ()>);

impl<'de: 'a, 'a> Visitor<'de> for InOrder<'a> {
    type Value = Members<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'a>, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry::<String, &'a RawValue>()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

/// Accepts every value that [`Value`] can read, without keeping it.
struct Readable;

impl<'de> Deserialize<'de> for Readable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Readable;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_str<E>(self, _: &str) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_unit<E>(self) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Readable, A::Error> {
        while seq.next_element::<Readable>()?.is_some() {}
        Ok(Readable)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Readable, A::Error> {
        while map.next_entry::<Readable, Readable>()?.is_some() {}
        Ok(Readable)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_stays_as_it_is() {
        let text = br#" {"b": 1, "a": [ 1.50, "\u0000"] } "#;
        let read = JsonText::checked(text).unwrap();
        assert_eq!(read.as_str(), r#"{"b": 1, "a": [ 1.50, "\u0000"] }"#);
        assert_eq!(
            read.value(),
            serde_json::from_str(r#"{"a": [1.50, "\u0000"], "b": 1}"#).ok()
        );
        let document = serde_json::to_string(&json!({"n": null})).unwrap();
        assert_eq!(
            JsonText::of(&json!({"n": null})).unwrap().as_str(),
            document
        );
        let within = serde_json::to_string(&[&read]).unwrap();
        let again: Vec<JsonText> = serde_json::from_str(&within).unwrap();
        assert_eq!(again, [read]);
    }

    #[test]
    fn text_that_a_value_refuses_is_no_json_text() {
        let deep = |levels: usize| [vec![b'['; levels], vec![b']'; levels]].concat();
        for bytes in [
            &b""[..],
            b"{",
            b"1 2",
            b"nul",
            b"\"\xff\"",
            b"\"\n\"",
            b"1e",
            br#""\ud800""#,
            br#"{"\ud800":1}"#,
            b"{\"a\":1,}",
            &deep(128),
            &deep(1_000_000),
        ] {
            assert!(serde_json::from_slice::<Value>(bytes).is_err());
            assert!(JsonText::checked(bytes).is_err());
        }
        assert!(JsonText::checked(&deep(127)).is_ok());
        let numbers = b"{\"a\":1,\"a\":[null,true,-1,1.50,1e999,18446744073709551616]}";
        let numbers = JsonText::checked(numbers).unwrap();
        let value = numbers.value().unwrap().to_string();
        assert_eq!(
            value,
            r#"{"a":[null,true,-1,1.50,1e+999,18446744073709551616]}"#
        );
    }
}
