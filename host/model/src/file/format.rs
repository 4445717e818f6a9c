//! The keys of the format, which stand once: in `docs/workflow.schema.json`. Editors complete and
//! check files by it, the reader takes the keys of each map from it, and a test makes the tables of
//! `docs/workflow-format.md` from its descriptions.

#[cfg(test)]
mod page;

use std::collections::BTreeMap;
use std::fmt::{Formatter, Result as Written};
use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

/// The JSON Schema of workflow files.
pub const JSON_SCHEMA: &str = include_str!("../../../../docs/workflow.schema.json");

/// Data of an editor, like positions and colours.
pub(super) const LAYOUT: &str = "layout";

/// Merges one map into another in YAML 1.1. The tree reports it as a mistake.
pub(super) const MERGE: &str = "<<";

/// Keys in the order of the schema, in which messages list them.
type Keys = Vec<&'static str>;

/// The keys of a map that is of exactly one kind.
#[derive(Default)]
pub(super) struct Kinds {
    /// The keys that name the kind: the map has exactly one of them.
    pub(super) names: Keys,
    /// The keys that belong to a kind, by that kind. Those of a trigger include the kind.
    pub(super) own: BTreeMap<&'static str, Keys>,
    /// The keys that a map of any kind may have.
    pub(super) common: Keys,
}

/// The parts of a schema that determine the keys of a map.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Map<'a> {
    #[serde(borrow, deserialize_with = "in_order")]
    properties: Vec<&'a str>,
    #[serde(borrow)]
    required: Vec<&'a str>,
    #[serde(borrow)]
    one_of: Vec<Map<'a>>,
    #[serde(borrow)]
    dependent_required: BTreeMap<&'a str, Vec<&'a str>>,
    #[serde(borrow, rename = "$ref")]
    reference: &'a str,
    #[serde(borrow, rename = "$defs")]
    definitions: BTreeMap<&'a str, Map<'a>>,
}

/// The workflow, and the definitions of the other maps. Tests find a schema that cannot be read.
static SCHEMA: LazyLock<Map<'static>> =
    LazyLock::new(|| serde_json::from_str(JSON_SCHEMA).unwrap_or_default());

/// The keys of a workflow.
pub(super) fn workflow() -> &'static [&'static str] {
    &SCHEMA.properties
}

/// The keys of the map that a definition of the schema describes.
pub(super) fn keys(definition: &str) -> &'static [&'static str] {
    self::definition(definition).map_or(&[], |map| &map.properties)
}

/// The keys of a node: it has one that an alternative requires, and others may require a kind.
pub(super) fn node() -> &'static Kinds {
    static NODE: LazyLock<Kinds> = LazyLock::new(|| {
        let mut kinds = Kinds::default();
        let Some(node) = definition("Node") else {
            return kinds;
        };
        let names = node.one_of.iter().filter_map(|it| it.required.first());
        kinds.names = names.copied().collect();
        for key in &node.properties {
            let requires = node.dependent_required.get(key);
            match requires.and_then(|keys| keys.first()) {
                _ if kinds.names.contains(key) => {}
                Some(kind) => kinds.own.entry(kind).or_default().push(key),
                None => kinds.common.push(key),
            }
        }
        kinds
    });
    &NODE
}

/// The keys of a trigger: it is one of several maps, each of which requires its kind.
pub(super) fn trigger() -> &'static Kinds {
    static TRIGGER: LazyLock<Kinds> = LazyLock::new(|| {
        let mut kinds = Kinds::default();
        let alternatives = definition("Trigger").map(|it| it.one_of.as_slice());
        let names = alternatives
            .unwrap_or_default()
            .iter()
            .map(|it| it.reference);
        let maps = names.filter_map(|name| definition(name.strip_prefix("#/$defs/")?));
        for map in maps {
            for kind in &map.required {
                kinds.names.push(kind);
                kinds.own.insert(kind, map.properties.clone());
            }
        }
        kinds
    });
    &TRIGGER
}

fn definition(name: &str) -> Option<&'static Map<'static>> {
    SCHEMA.definitions.get(name)
}

/// The keys of an object in the order of the text.
fn in_order<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<&'de str>, D::Error> {
    struct InOrder;
    impl<'de> Visitor<'de> for InOrder {
        type Value = Vec<&'de str>;

        fn expecting(&self, to: &mut Formatter<'_>) -> Written {
            to.write_str("an object")
        }

        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
            let mut keys = Vec::new();
            while let Some((key, IgnoredAny)) = map.next_entry()? {
                keys.push(key);
            }
            Ok(keys)
        }
    }
    from.deserialize_map(InOrder)
}
