//! One directory, or a list of them.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Directories in a list.
const MOST: usize = 100;

/// One directory, or a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directories(pub(crate) Vec<PathBuf>);

impl Directories {
    /// Makes the relative ones count from a directory.
    pub(crate) fn under(&mut self, base: &Path) {
        for directory in &mut self.0 {
            *directory = base.join(&*directory);
        }
    }
}

impl From<&str> for Directories {
    fn from(directory: &str) -> Self {
        Self(vec![directory.into()])
    }
}

impl Serialize for Directories {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [one] => one.serialize(serializer),
            several => several.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Directories {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Directories;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a directory, or a list of directories")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Directories, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Directories, A::Error> {
        let mut directories = Vec::new();
        while let Some(directory) = items.next_element::<PathBuf>()? {
            if directories.len() == MOST {
                let text = format!("there are at most {MOST} directories");
                return Err(serde::de::Error::custom(text));
            }
            directories.push(directory);
        }
        Ok(Directories(directories))
    }
}

impl JsonSchema for Directories {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Directories".into()
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
