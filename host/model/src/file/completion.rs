//! The JSON Schema of workflow files with the node types of a host: editors complete `use`, and `with`
//! and `input` follow the schemas of the plugin.
//!
//! These schemas are about rendered values. In a file every value may be an expression, so each
//! schema is loosened: it takes a text with an expression as well, and keywords that count or compare
//! values are left out. What the loosened schema refuses, the host refuses, too.
//!
//! A plugin writes its schemas, so they are hostile here. A schema that [`Schema::compile`] refuses
//! takes any value here: its bounds hold for the loosened schema, too, which an editor applies. So does
//! one over [`BYTES`]. The whole document has at most [`WHOLE_BYTES`] of plugins: the node types beyond
//! it have only their names.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::format::JSON_SCHEMA;
use crate::schema::Schema;

/// The largest schema of a plugin that is taken over, in bytes.
const BYTES: usize = 256 * 1024;

/// The longest description that is taken over, in bytes.
const TEXT_BYTES: usize = 2_000;

/// How large the schemas of all plugins may be together, in bytes.
const WHOLE_BYTES: usize = 8 * 1024 * 1024;

/// Keywords that say nothing about the value.
const NOTES: [&str; 5] = ["title", "description", "default", "examples", "deprecated"];

/// Keywords about the value that hold for a rendered value and for the text of the file, as far as the
/// text has no expressions.
const TAKEN: [&str; 18] = [
    "const",
    "dependentRequired",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
    "type",
];

/// A node type of a plugin.
#[derive(Clone, Copy, Debug)]
pub struct NodeSchema<'a> {
    /// As `package/name`.
    pub id: &'a str,
    /// Its title.
    pub title: &'a str,
    /// Its description.
    pub description: &'a str,
    /// JSON Schema of the rendered `with`.
    pub config: &'a Value,
    /// JSON Schema of the input.
    pub input: &'a Value,
}

/// The JSON Schema of workflow files that use these node types, the last of those with the same id.
pub fn json_schema_with<'a>(nodes: impl IntoIterator<Item = NodeSchema<'a>>) -> Value {
    let mut whole: Value = serde_json::from_str(JSON_SCHEMA).unwrap_or_default();
    let nodes: BTreeMap<&str, NodeSchema<'_>> =
        nodes.into_iter().map(|node| (node.id, node)).collect();
    let (mut names, mut rules) = (Vec::new(), Vec::new());
    let mut definitions = Map::new();
    let mut bytes = 0;
    for node in nodes.values() {
        names.push(named(node));
        let key = node.id.replace('/', ".");
        let mut properties = Map::new();
        for (part, schema) in [("with", node.config), ("input", node.input)] {
            let made = Loosened::of(schema, &format!("plugin.{key}.{part}"));
            let size = made.values().map(size_of).sum::<usize>();
            if made.is_empty() || bytes + size > WHOLE_BYTES {
                continue;
            }
            bytes += size;
            properties.insert(part.to_owned(), reference(&format!("plugin.{key}.{part}")));
            definitions.extend(made);
        }
        if !properties.is_empty() {
            rules.push(json!({
                "if": {
                    "required": ["use"],
                    "properties": { "use": { "pattern": format!("^{}(@.*)?$", node.id) } },
                },
                "then": { "properties": properties },
            }));
        }
    }
    // A value of the program's own schema is there, which a test checks.
    if let Some(own) = whole.pointer_mut("/$defs").and_then(Value::as_object_mut) {
        own.extend(definitions);
        if let Some(node) = own.get_mut("Node").and_then(Value::as_object_mut)
            && !rules.is_empty()
        {
            node.insert("allOf".to_owned(), Value::Array(rules));
        }
    }
    let of_use = whole.pointer_mut("/$defs/Node/properties/use");
    if let Some(of_use) = of_use.and_then(Value::as_object_mut)
        && !names.is_empty()
    {
        // Any other name may be that of a plugin that this host does not have.
        names.push(json!({ "type": "string" }));
        of_use.insert("anyOf".to_owned(), Value::Array(names));
    }
    whole
}

/// A name that an editor offers.
fn named(node: &NodeSchema<'_>) -> Value {
    let text = match (node.title, node.description) {
        ("", text) | (text, "") => cut(text).to_owned(),
        (title, text) => format!("{}: {}", cut(title), cut(text)),
    };
    json!({ "const": node.id, "description": text })
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_BYTES))
        .unwrap_or_default()
}

fn size_of(value: &Value) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |json| json.len())
}

/// A reference to a definition of the whole document.
fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// A text with an expression.
fn expression() -> Value {
    json!({ "type": "string", "pattern": r"\{[{%#]" })
}

/// The schema of a plugin on its way into the whole document. Definition 0 is the schema itself, the
/// others are those that it refers to.
struct Loosened<'s> {
    root: &'s Value,
    prefix: &'s str,
    /// The schemas that are referred to.
    found: Vec<&'s Value>,
    /// Their places in `found`, by pointer.
    places: BTreeMap<String, usize>,
}

impl<'s> Loosened<'s> {
    /// The definitions of a schema, by name. None: it takes any value.
    fn of(root: &'s Value, prefix: &'s str) -> BTreeMap<String, Value> {
        if !root.is_object() || size_of(root) > BYTES || Schema::compile(root).is_err() {
            return BTreeMap::new();
        }
        let mut all = Self {
            root,
            prefix,
            found: vec![root],
            places: BTreeMap::from([(String::new(), 0)]),
        };
        let (mut made, mut bytes) = (BTreeMap::new(), 0);
        while let Some(schema) = all.found.get(made.len()).copied() {
            // A part of a part may be referred to as well, and each is written whole.
            bytes += size_of(schema);
            if bytes > 2 * BYTES {
                return BTreeMap::new();
            }
            made.insert(all.name(made.len()), all.schema(schema));
        }
        made
    }

    fn name(&self, place: usize) -> String {
        match place {
            0 => self.prefix.to_owned(),
            place => format!("{}.{place}", self.prefix),
        }
    }

    /// A schema that takes expressions, too.
    fn schema(&mut self, schema: &'s Value) -> Value {
        let map = match schema {
            Value::Object(map) => map,
            Value::Bool(false) => return Value::Bool(false),
            _ => return Value::Bool(true),
        };
        let taken = map.iter().filter(|(key, _)| TAKEN.contains(&key.as_str()));
        let mut rules: Map<String, Value> = taken
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        self.below(map, &mut rules);
        self.beside(map, &mut rules);
        let mut loosened = Map::new();
        for key in NOTES {
            match map.get(key) {
                Some(Value::String(text)) if key != "default" => {
                    loosened.insert(key.to_owned(), json!(cut(text)));
                }
                Some(value) => {
                    loosened.insert(key.to_owned(), value.clone());
                }
                None => {}
            }
        }
        if !rules.is_empty() {
            let either = json!([Value::Object(rules), expression()]);
            loosened.insert("anyOf".to_owned(), either);
        }
        Value::Object(loosened)
    }

    /// The schemas of parts of the value.
    fn below(&mut self, map: &'s Map<String, Value>, rules: &mut Map<String, Value>) {
        for key in ["additionalProperties", "items"] {
            if let Some(schema) = map.get(key) {
                rules.insert(key.to_owned(), self.schema(schema));
            }
        }
        for key in ["properties", "patternProperties"] {
            let Some(Value::Object(schemas)) = map.get(key) else {
                continue;
            };
            let members = schemas.iter();
            let mut members: Map<String, Value> = members
                .map(|(name, schema)| (name.clone(), self.schema(schema)))
                .collect();
            if key == "properties" && members.contains_key("secret") {
                // A secret in a file may have a prefix, which the host puts before its value.
                let prefix = json!({ "type": "string" });
                members.entry("prefix").or_insert(prefix);
            }
            rules.insert(key.to_owned(), Value::Object(members));
        }
        if let Some(Value::Array(schemas)) = map.get("prefixItems") {
            let items = schemas.iter().map(|schema| self.schema(schema)).collect();
            rules.insert("prefixItems".to_owned(), Value::Array(items));
        }
    }

    /// The schemas of the same value. An expression may make true what only one of several says, so
    /// any number of them may hold.
    fn beside(&mut self, map: &'s Map<String, Value>, rules: &mut Map<String, Value>) {
        let mut all = Vec::new();
        for key in ["anyOf", "oneOf"] {
            if let Some(Value::Array(schemas)) = map.get(key) {
                let any: Vec<Value> = schemas.iter().map(|schema| self.schema(schema)).collect();
                all.push(json!({ "anyOf": any }));
            }
        }
        if let Some(Value::Array(schemas)) = map.get("allOf") {
            all.extend(schemas.iter().map(|schema| self.schema(schema)));
        }
        if let Some(Value::String(to)) = map.get("$ref")
            && let Some(target) = self.referred(to)
        {
            all.push(reference(&self.name(target)));
        }
        if !all.is_empty() {
            rules.insert("allOf".to_owned(), Value::Array(all));
        }
    }

    /// The definition that a reference means. None: it leaves the schema, or leads nowhere.
    fn referred(&mut self, to: &str) -> Option<usize> {
        let pointer = to.strip_prefix('#')?;
        if let Some(known) = self.places.get(pointer) {
            return Some(*known);
        }
        let schema = self.root.pointer(pointer)?;
        let place = self.found.len();
        self.found.push(schema);
        self.places.insert(pointer.to_owned(), place);
        Some(place)
    }
}

#[cfg(test)]
mod tests;
