//! One value, written as a text, or a list of values.

use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One directory, or a list of at most 100.
pub(crate) type Directories = Listed<PathBuf, 100>;

/// One text, or a list of at most 1,000.
pub(crate) type Texts = Listed<String, 1000>;

/// One value, written as a text, or a list of at most `MOST` values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed<T, const MOST: usize>(pub(crate) Vec<T>);

impl<T, const MOST: usize> Listed<T, MOST> {
    /// Whether the list is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Directories {
    /// Makes relative directories relative to a base.
    pub(crate) fn under(&mut self, base: &Path) {
        for directory in &mut self.0 {
            *directory = base.join(&*directory);
        }
    }
}

impl Texts {
    /// Makes those texts that are relative paths relative to a base.
    pub(crate) fn under(&mut self, base: &Path) {
        for path in &mut self.0 {
            *path = base.join(&*path).to_string_lossy().into_owned();
        }
    }
}

impl<T, const MOST: usize> Default for Listed<T, MOST> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: for<'a> From<&'a str>, const MOST: usize> From<&str> for Listed<T, MOST> {
    fn from(one: &str) -> Self {
        Self(vec![one.into()])
    }
}

impl<T: Serialize, const MOST: usize> Serialize for Listed<T, MOST> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [one] => one.serialize(serializer),
            several => several.serialize(serializer),
        }
    }
}

impl<'de, T, const MOST: usize> Deserialize<'de> for Listed<T, MOST>
where
    T: Deserialize<'de> + for<'a> From<&'a str>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader(PhantomData))
    }
}

struct Reader<T, const MOST: usize>(PhantomData<T>);

impl<'de, T, const MOST: usize> Visitor<'de> for Reader<T, MOST>
where
    T: Deserialize<'de> + for<'a> From<&'a str>,
{
    type Value = Listed<T, MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or a list of texts")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element()? {
            if all.len() == MOST {
                let text = format!("the list has more than {MOST} items");
                return Err(serde::de::Error::custom(text));
            }
            all.push(item);
        }
        Ok(Listed(all))
    }
}

impl<T, const MOST: usize> JsonSchema for Listed<T, MOST> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Listed".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "array"],
            "items": { "type": "string" },
            "maxItems": MOST
        })
    }
}
