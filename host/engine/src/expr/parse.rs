//! Reads JSON into the values of expressions, without rounding a number.

use std::cell::Cell;
use std::fmt;

use minijinja::Value;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::machine::number;

/// The bytes that a number takes which no integer and no float holds, beside its text.
const EXACT: usize = 96;

/// The name of the only member of a float as `serde_json` gives it to readers.
const FLOAT: &str = "$serde_json::private::Number";

/// Why a text was not read.
pub(super) enum Unread {
    /// It is not JSON.
    Syntax(String),
    /// Its numbers take more memory than there is.
    TooLarge,
}

/// Reads a JSON text. `room` is the number of bytes that its numbers may take beyond the bound of
/// the other values, and is reduced by the bytes that they take.
pub(super) fn json(text: &[u8], room: &mut usize) -> Result<Value, Unread> {
    let left = Cell::new(Some(*room));
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = Reader(&left).deserialize(&mut reader);
    let value = value.and_then(|value| reader.end().map(|()| value));
    match (left.get(), value) {
        (None, _) => Err(Unread::TooLarge),
        (_, Err(error)) => Err(Unread::Syntax(error.to_string())),
        (Some(left), Ok(value)) => {
            *room = left;
            Ok(value)
        }
    }
}

/// Reads a value. Holds the room that is left, none if it was not enough.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a Cell<Option<usize>>);

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::from(()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::from(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let Some(first) = members.next_key::<Key>()? else {
            return Ok(Value::from_pairs([] as [(Value, Value); 0]));
        };
        let value = match first.0.as_str() {
            Some(FLOAT) => match members.next_value_seed(Float(self))? {
                Member::Number(number) => return Ok(number),
                Member::Value(value) => value,
            },
            _ => members.next_value_seed(self)?,
        };
        let mut first = Some((first.0, value));
        let mut failed = None;
        // The map is made while it is read, so that it is in memory only once.
        let map = Value::from_pairs(std::iter::from_fn(|| {
            if let Some(first) = first.take() {
                return Some(first);
            }
            let key = members.next_key::<Key>().transpose()?;
            let pair = key.and_then(|key| Ok((key.0, members.next_value_seed(self)?)));
            pair.map_err(|error| failed = Some(error)).ok()
        }));
        failed.map_or(Ok(map), Err)
    }
}

/// The name of a member.
struct Key(Value);

impl<'de> serde::Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Name;

        impl Visitor<'_> for Name {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a member")
            }

            fn visit_str<E>(self, name: &str) -> Result<Key, E> {
                Ok(Key(Value::from(name)))
            }
        }

        reader.deserialize_str(Name)
    }
}

/// A value behind the name that floats have.
enum Member {
    Number(Value),
    /// A text has a member of this name.
    Value(Value),
}

/// Reads the value behind that name. A float is a string of Rust; a text in JSON is asked for as
/// bytes, and so is told apart.
struct Float<'a>(Reader<'a>);

impl<'de> DeserializeSeed<'de> for Float<'_> {
    type Value = Member;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Member, D::Error> {
        reader.deserialize_bytes(self)
    }
}

#[expect(
    clippy::serde_api_misuse,
    reason = "a float comes as a string of its own, a text as bytes"
)]
impl<'de> Visitor<'de> for Float<'_> {
    type Value = Member;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a text")
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Member, E> {
        let left = self.0.0;
        let number = number::read(&text);
        if number.as_object().is_some() {
            let size = text.len().saturating_add(EXACT);
            left.set(left.get().and_then(|left| left.checked_sub(size)));
            if left.get().is_none() {
                return Err(E::custom("its numbers take too much memory"));
            }
        }
        Ok(Member::Number(number))
    }

    fn visit_bytes<E: Error>(self, text: &[u8]) -> Result<Member, E> {
        let text = std::str::from_utf8(text).map_err(E::custom)?;
        Ok(Member::Value(Value::from(text)))
    }
}
