//! One text, or a list of them.

use std::fmt;
use std::path::Path;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Texts in a list.
const MOST: usize = 1000;

/// One text, or a list of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Texts(pub(crate) Vec<String>);

impl Texts {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes those that are relative paths count from a directory.
    pub(crate) fn under(&mut self, base: &Path) {
        for path in &mut self.0 {
            *path = base.join(&*path).to_string_lossy().into_owned();
        }
    }
}

impl Serialize for Texts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [one] => one.serialize(serializer),
            several => several.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Texts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or a list of texts")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Texts, E> {
        Ok(Texts(vec![text.to_owned()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Texts, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = items.next_element()? {
            if texts.len() == MOST {
                let text = format!("there are at most {MOST} texts");
                return Err(serde::de::Error::custom(text));
            }
            texts.push(text);
        }
        Ok(Texts(texts))
    }
}

impl JsonSchema for Texts {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Texts".into()
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
