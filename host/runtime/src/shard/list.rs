//! The list of a for-each: JSON that is held once, with the places of some of its items; or only the
//! places of its pages, while the store has the list.

use std::hash::Hasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rustc_hash::FxHasher;
use serde::de::{Deserializer as _, SeqAccess, Visitor};
use serde_json::value::RawValue;
use windlass_model::{Class, Failure};

use crate::codes;

/// The bytes of JSON between two marks, at least.
const STRIDE: usize = 128;

/// The bytes of a page, at least. A page ends with an item.
const PAGE_BYTES: usize = 64 * 1024;

/// A list that several loops may share. Its items are parts of one text.
#[derive(Debug)]
pub(crate) struct List {
    json: Bytes,
    count: u32,
    /// Items and the places at which they begin: the first one, and one after each [`STRIDE`].
    marks: Box<[Mark]>,
    /// The mark of the item that was read last: loops read a list in its order.
    last: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    index: u32,
    at: u32,
}

impl Mark {
    fn packed(self) -> u64 {
        (u64::from(self.index) << 32) | u64::from(self.at)
    }

    fn unpacked(packed: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "each half has 32 bits")]
        Self {
            index: (packed >> 32) as u32,
            at: packed as u32,
        }
    }
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
            last: AtomicU64::new(u64::MAX),
        }))
    }

    /// The number of items.
    pub(crate) fn len(&self) -> u32 {
        self.count
    }

    /// The bytes of its text.
    pub(crate) fn len_of_text(&self) -> usize {
        self.json.len()
    }

    /// The bytes that it holds, about.
    pub(crate) fn bytes(&self) -> usize {
        self.json.len() + size_of_val(&*self.marks)
    }

    /// One item, as JSON: a part of the list. Reads at most the item that was read last and the one
    /// behind it, or one stride and one item.
    pub(crate) fn item(&self, index: u32) -> Option<Bytes> {
        if index >= self.count {
            return None;
        }
        let after = self.marks.partition_point(|mark| mark.index <= index);
        let mark = self.marks.get(after.checked_sub(1)?)?;
        let last = Mark::unpacked(self.last.load(Ordering::Relaxed));
        let is_near = (mark.index..=index).contains(&last.index);
        let from = if is_near { last } else { *mark };
        let mut at = from.at as usize;
        for current in from.index..=index {
            let rest = self.json.get(at..)?;
            let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<&RawValue>();
            let item = values.next()?.ok()?.get();
            if current == index {
                // The list has no more bytes than a number of 32 bits counts.
                if let Ok(at) = u32::try_from(at) {
                    let last = Mark { index, at };
                    self.last.store(last.packed(), Ordering::Relaxed);
                }
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

/// The pages of a list that the store has.
#[derive(Debug)]
pub(crate) struct Pages {
    count: u32,
    pages: Box<[Page]>,
}

/// A part of the text of a list: some items, and what follows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    /// Its first item.
    pub(crate) first: u32,
    items: u32,
    pub(crate) at: u32,
    pub(crate) bytes: u32,
    sum: u64,
}

impl Pages {
    /// The pages of a list.
    pub(crate) fn of(list: &List) -> Self {
        let mut begins: Vec<Mark> = Vec::new();
        for mark in &list.marks {
            let is_far = begins
                .last()
                .is_none_or(|last| mark.at.saturating_sub(last.at) as usize >= PAGE_BYTES);
            if is_far {
                begins.push(*mark);
            }
        }
        // The marks are numbers of 32 bits.
        let end = Mark {
            index: list.count,
            at: u32::try_from(list.json.len()).unwrap_or(u32::MAX),
        };
        let ends = begins.iter().skip(1).chain([&end]);
        let pages = begins.iter().zip(ends).map(|(from, to)| Page {
            first: from.index,
            items: to.index.saturating_sub(from.index),
            at: from.at,
            bytes: to.at.saturating_sub(from.at),
            sum: sum(list
                .json
                .get(from.at as usize..to.at as usize)
                .unwrap_or_default()),
        });
        Self {
            count: list.count,
            pages: pages.collect(),
        }
    }

    /// The number of items.
    pub(crate) fn len(&self) -> u32 {
        self.count
    }

    /// The bytes that it holds, about.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.pages)
    }

    /// The page that has an item.
    pub(crate) fn page(&self, index: u32) -> Option<Page> {
        let after = self.pages.partition_point(|page| page.first <= index);
        let page = self.pages.get(after.checked_sub(1)?)?;
        (index < self.count).then_some(*page)
    }
}

impl Page {
    /// The items of this page, from its text; none if the text is another one.
    pub(crate) fn read(&self, text: &[u8]) -> Option<Arc<List>> {
        if text.len() != self.bytes as usize || sum(text) != self.sum {
            return None;
        }
        // A comma follows the items, or the bracket that ends the list.
        let (_, items) = text.trim_ascii_end().split_last()?;
        let mut json = Vec::with_capacity(items.len() + 2);
        json.push(b'[');
        json.extend_from_slice(items);
        json.push(b']');
        let list = List::of(json.into()).ok()?;
        (list.count == self.items).then_some(list)
    }
}

/// A sum that shows whether the store returned other bytes than those that were written.
fn sum(text: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(text);
    hasher.finish()
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
            // In the order of the list, and in one that begins anew in each part.
            let mixed = (0..5_000).map(|at| at * 1_237 % 5_000);
            for index in (0..5_000).chain(mixed).chain([7, 7, 6, 8]) {
                let item = list.item(index as u32).unwrap();
                assert_eq!(
                    serde_json::from_slice::<Value>(&item).unwrap(),
                    values[index]
                );
            }
            assert_eq!(list.item(5_000), None);
            let pages = Pages::of(&list);
            assert_eq!(pages.len(), 5_000);
            assert!(pages.pages.len() > 3, "{pages:?}");
            assert!(pages.page(5_000).is_none());
            for (index, value) in values.iter().enumerate() {
                let page = pages.page(index as u32).unwrap();
                let (at, to) = (page.at as usize, (page.at + page.bytes) as usize);
                let items = page.read(&list.json[at..to]).unwrap();
                let item = items.item(index as u32 - page.first).unwrap();
                assert_eq!(item, list.item(index as u32).unwrap());
                assert_eq!(serde_json::from_slice::<Value>(&item).unwrap(), *value);
            }
            let page = pages.page(2_500).unwrap();
            let at = page.at as usize;
            let other = [&list.json[at..at + page.bytes as usize - 1], b"\n"].concat();
            assert!(page.read(&other).is_none());
            assert!(page.read(&list.json[at..]).is_none());
        }
        let long = List::of(Bytes::from(format!("[{}0]", "0,".repeat(2_000_000)))).unwrap();
        assert!(long.bytes() < 4_300_000, "{}", long.bytes());
        assert_eq!(long.len(), 2_000_001);
        assert_eq!(&long.item(2_000_000).unwrap()[..], b"0");
        assert_eq!(Pages::of(&long).pages.len(), 62);
        let empty = List::of(Bytes::from_static(b"[]")).unwrap();
        assert_eq!((empty.len(), Pages::of(&empty).len()), (0, 0));
        assert!(Pages::of(&empty).page(0).is_none());
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
