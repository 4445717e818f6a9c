//! The list of a for-each: JSON that is held once, with the places of some of its items.

use std::sync::Arc;

use bytes::Bytes;
use serde::de::{Deserializer as _, SeqAccess, Visitor};
use serde_json::value::RawValue;
use windlass_model::{Class, Failure};

use crate::codes;

/// The bytes of JSON between two marks, at least.
const STRIDE: usize = 1024;

/// A list that several loops may share. Its items are parts of one text.
#[derive(Debug)]
pub(crate) struct List {
    json: Bytes,
    count: u32,
    /// Items and the places at which they begin: the first one, and one after each [`STRIDE`].
    marks: Box<[Mark]>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    index: u32,
    at: u32,
}

impl List {
    /// The list that this JSON text is.
    pub(crate) fn of(json: Bytes) -> Result<Arc<Self>, Failure> {
        let invalid = |what: String| Failure::new(Class::Invalid, codes::RENDER, what);
        let text = std::str::from_utf8(&json)
            .map_err(|error| invalid(format!("the list of a for-each is not JSON: {error}")))?;
        if !text.trim_start().starts_with('[') {
            let kind = match serde_json::from_str::<serde_json::Value>(text) {
                Ok(other) => kind_of(&other),
                Err(error) => {
                    let message = format!("the list of a for-each is not JSON: {error}");
                    return Err(invalid(message));
                }
            };
            let message = format!("a for-each works on a list, and `for-each` has {kind}");
            return Err(invalid(message));
        }
        let mut reader = serde_json::Deserializer::from_str(text);
        let found = reader.deserialize_seq(Marks {
            start: text.as_ptr() as usize,
        });
        let (count, marks) = found
            .and_then(|found| reader.end().map(|()| found))
            .map_err(|error| invalid(format!("the list of a for-each is not JSON: {error}")))?;
        Ok(Arc::new(Self {
            json,
            count,
            marks: marks.into(),
        }))
    }

    /// The number of items.
    pub(crate) fn len(&self) -> u32 {
        self.count
    }

    /// The bytes that it holds, about.
    pub(crate) fn bytes(&self) -> usize {
        self.json.len() + size_of_val(&*self.marks)
    }

    /// One item, as JSON: a part of the list. Reads at most one stride and one item.
    pub(crate) fn item(&self, index: u32) -> Option<Bytes> {
        if index >= self.count {
            return None;
        }
        let after = self.marks.partition_point(|mark| mark.index <= index);
        let mark = self.marks.get(after.checked_sub(1)?)?;
        let mut at = mark.at as usize;
        for current in mark.index..=index {
            let rest = self.json.get(at..)?;
            let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<&RawValue>();
            let item = values.next()?.ok()?.get();
            if current == index {
                return Some(self.json.slice_ref(item.as_bytes()));
            }
            at += values.byte_offset();
            let gap = self.json.get(at..)?;
            let skipped = gap
                .iter()
                .position(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b','))?;
            at += skipped;
        }
        None
    }
}

/// Reads the marks of a list.
struct Marks {
    /// The address at which the text begins.
    start: usize,
}

impl<'de> Visitor<'de> for Marks {
    type Value = (u32, Vec<Mark>);

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let (mut count, mut marks): (u32, Vec<Mark>) = (0, Vec::new());
        while let Some(item) = items.next_element::<&'de RawValue>()? {
            let at = (item.get().as_ptr() as usize).saturating_sub(self.start);
            let is_far = marks
                .last()
                .is_none_or(|last| at.saturating_sub(last.at as usize) >= STRIDE);
            if is_far {
                let at = u32::try_from(at).map_err(serde::de::Error::custom)?;
                marks.push(Mark { index: count, at });
            }
            count = count
                .checked_add(1)
                .ok_or_else(|| serde::de::Error::custom("the list has too many items"))?;
        }
        Ok((count, marks))
    }
}

/// The kind of a JSON value that is not a list.
fn kind_of(value: &serde_json::Value) -> &'static str {
    match value {
        serde_json::Value::Null => "the value null",
        serde_json::Value::Bool(_) => "a boolean",
        serde_json::Value::Number(_) => "a number",
        serde_json::Value::String(_) => "a text",
        serde_json::Value::Object(_) => "a map",
        serde_json::Value::Array(_) => "a list",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn each_item_is_a_part_of_the_list() {
        let values: Vec<Value> = (0..5_000)
            .map(|at| match at % 7 {
                0 => json!(at),
                1 => json!("a,b]\"\\ü".repeat(at % 50)),
                2 => json!([at, [], {}, [","]]),
                3 => json!({ "a": [at], "b": "}" }),
                4 => Value::Null,
                5 => json!("x".repeat(3_000 * usize::from(at % 100 == 5))),
                _ => json!(-1.5e-7),
            })
            .collect();
        for text in [
            serde_json::to_string(&values).unwrap(),
            serde_json::to_string_pretty(&values).unwrap(),
            format!(" \n{}\t ", serde_json::to_string_pretty(&values).unwrap()),
        ] {
            let list = List::of(Bytes::from(text)).unwrap();
            assert_eq!(list.len() as usize, values.len());
            for (index, value) in values.iter().enumerate() {
                let item = list.item(index as u32).unwrap();
                assert_eq!(serde_json::from_slice::<Value>(&item).unwrap(), *value);
            }
            assert_eq!(list.item(5_000), None);
        }
        let long = List::of(Bytes::from(format!("[{}0]", "0,".repeat(2_000_000)))).unwrap();
        assert!(long.bytes() < 4_100_000, "{}", long.bytes());
        assert_eq!(long.len(), 2_000_001);
        assert_eq!(&long.item(2_000_000).unwrap()[..], b"0");
        assert_eq!(List::of(Bytes::from_static(b"[]")).unwrap().len(), 0);
    }

    #[test]
    fn anything_else_is_refused() {
        for (text, says) in [
            ("{}", "a map"),
            (" null ", "the value null"),
            ("\"[\"", "a text"),
            ("[1,]", "not JSON"),
            ("[1] 2", "not JSON"),
            ("[1", "not JSON"),
            ("", "not JSON"),
        ] {
            let failure = List::of(Bytes::from(text)).unwrap_err();
            assert!(failure.message.contains(says), "{text}: {failure}");
        }
        assert!(List::of(Bytes::from_static(b"[\"\xff\"]")).is_err());
    }
}
