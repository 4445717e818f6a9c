//! The targets of references in a schema.
//!
//! A schema is one resource: `$id` and `$schema` occur at its root only, and a reference leads to a
//! place in it. So nothing has to be fetched, and a dynamic reference is a plain one.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::Refused;
use crate::{codes, limits};

/// Keywords whose values are data, which contain no schemas.
const DATA: [&str; 5] = ["enum", "const", "default", "examples", "example"];

/// Keywords whose values are maps from names to schemas.
const MAPS: [&str; 7] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
    "dependentRequired",
];

pub(super) struct References<'a> {
    root: &'a Value,
    /// The schema's own name, without a fragment.
    id: Option<&'a str>,
    /// The value and the pointer of each anchor; none if it is ambiguous.
    anchors: HashMap<&'a str, Option<(&'a Value, String)>>,
}

impl<'a> References<'a> {
    /// Reads the names and anchors of a schema.
    pub(super) fn read(root: &'a Value) -> Result<Self, Refused> {
        let id = ["$id", "id"].iter().find_map(|key| root.get(key)?.as_str());
        let mut references = Self {
            root,
            id: id.map(|id| id.split('#').next().unwrap_or_default()),
            anchors: HashMap::new(),
        };
        references.look_through()?;
        Ok(references)
    }

    fn look_through(&mut self) -> Result<(), Refused> {
        let mut values = 0;
        let mut anchor_bytes = 0;
        let mut waiting = vec![(self.root, String::new(), false)];
        let mut depth = 0;
        while !waiting.is_empty() {
            let mut below = Vec::new();
            for (value, pointer, names) in waiting {
                if let (Value::Object(members), false) = (value, names) {
                    if depth > 0 && self.own(value) {
                        return Err(nested(pointer));
                    }
                    for name in self.names_of(members) {
                        anchor_bytes += pointer.len();
                        self.anchor(name, value, &pointer);
                    }
                }
                for (key, member) in members(value) {
                    let data = !names && DATA.contains(&&*key);
                    values += if data {
                        super::count::values(member)
                    } else {
                        1
                    };
                    if values > limits::SCHEMA_VALUES || anchor_bytes > limits::SCHEMA_PATHS_BYTES {
                        let message = format!("it has over {} values", limits::SCHEMA_VALUES);
                        return Err(Refused::new(codes::SCHEMA_BOUNDS, "", message));
                    }
                    if !data && matches!(member, Value::Object(_) | Value::Array(_)) {
                        let map = !names && value.is_object() && MAPS.contains(&&*key);
                        below.push((member, limited(&pointer, &key), map));
                    }
                }
            }
            waiting = below;
            depth += 1;
            if depth > limits::SCHEMA_NESTING {
                let message = format!("it nests over {} deep", limits::SCHEMA_NESTING);
                return Err(Refused::new(codes::SCHEMA_BOUNDS, "", message));
            }
        }
        Ok(())
    }

    /// Whether an object below the root is a schema resource of its own, with a name or of another
    /// draft.
    fn own(&self, schema: &Value) -> bool {
        let dialect = schema.get("$schema").filter(|dialect| dialect.is_string());
        dialect.is_some() && dialect != self.root.get("$schema")
            || self
                .ids()
                .filter_map(|key| schema.get(key)?.as_str())
                .any(|id| !id.starts_with('#'))
    }

    /// The keywords that name a schema: the oldest supported draft uses another one.
    fn ids(&self) -> impl Iterator<Item = &'static str> + use<> {
        let dialect = self.root.get("$schema").and_then(Value::as_str);
        let old = dialect.is_some_and(|dialect| dialect.contains("draft-04"));
        [Some("$id"), old.then_some("id")].into_iter().flatten()
    }

    /// The anchors of a schema.
    fn names_of(&self, schema: &'a Map<String, Value>) -> Vec<&'a str> {
        let anchors = ["$anchor", "$dynamicAnchor"].into_iter();
        let anchors = anchors.filter_map(|key| schema.get(key)?.as_str());
        let ids = self.ids().filter_map(|key| schema.get(key)?.as_str());
        anchors
            .chain(ids.filter_map(|id| id.strip_prefix('#')))
            .collect()
    }

    fn anchor(&mut self, name: &'a str, schema: &'a Value, pointer: &str) {
        self.anchors
            .entry(name)
            .and_modify(|known| {
                let same = known
                    .as_ref()
                    .is_some_and(|(known, _)| std::ptr::eq(*known, schema));
                if !same {
                    *known = None;
                }
            })
            .or_insert_with(|| Some((schema, pointer.to_owned())));
    }

    /// The target of a reference and its pointer; none if the reference is not a text or is empty.
    pub(super) fn resolve(
        &self,
        reference: &Value,
        pointer: &str,
    ) -> Result<Option<(&'a Value, String)>, Refused> {
        let Some(reference) = reference.as_str().filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let refused = |message: String| {
            let code = codes::SCHEMA_REFERENCE;
            Err(Refused::new(code, pointer, message).help(
                "copy the schema that it names into `$defs`, and refer to it like `#/$defs/name`; \
                 nothing is ever fetched",
            ))
        };
        let shown = super::clipped(reference);
        let fragment = match reference.strip_prefix('#') {
            Some(fragment) => fragment,
            None => {
                let (base, fragment) = reference.rsplit_once('#').unwrap_or((reference, ""));
                if self.id != Some(base) {
                    return refused(format!("the reference `{shown}` leads out of the schema"));
                }
                fragment
            }
        };
        if fragment.is_empty() {
            return Ok(Some((self.root, String::new())));
        }
        let found = if fragment.starts_with('/') {
            decoded(fragment).and_then(|pointer| {
                let value = self.root.pointer(&pointer)?;
                self.plain(&pointer).then(|| (value, pointer.into_owned()))
            })
        } else {
            self.anchors.get(fragment).cloned().flatten()
        };
        match found {
            Some(found) => Ok(Some(found)),
            None => refused(format!(
                "the reference `{shown}` leads to no single subschema of the schema"
            )),
        }
    }

    /// Whether no value on the path is a schema resource of its own: data may contain such.
    fn plain(&self, pointer: &str) -> bool {
        let ends = pointer.match_indices('/').map(|(end, _)| end).skip(1);
        ends.chain([pointer.len()]).all(|end| {
            let on_the_way = pointer.get(..end).and_then(|way| self.root.pointer(way));
            on_the_way.is_some_and(|value| !self.own(value))
        })
    }
}

fn nested(pointer: String) -> Refused {
    let message = "`$id` or another `$schema` stands below the root of the schema";
    Refused::new(codes::SCHEMA_REFERENCE, pointer, message)
        .help("take it out, and refer to the subschema by its place, like `#/$defs/name`")
}

/// Members or items, by name.
fn members(value: &Value) -> impl Iterator<Item = (Cow<'_, str>, &Value)> {
    let members = value.as_object().into_iter().flatten();
    let items = value.as_array().into_iter().flatten().enumerate();
    members
        .map(|(key, member)| (Cow::Borrowed(key.as_str()), member))
        .chain(items.map(|(index, item)| (Cow::Owned(index.to_string()), item)))
}

/// A pointer to a value below, unless it would be very long: then messages name its anchors
/// imprecisely.
fn limited(pointer: &str, key: &str) -> String {
    const LONGEST: usize = 256;
    if pointer.len() + key.len() > LONGEST {
        return pointer.to_owned();
    }
    format!("{pointer}/{}", super::escape(key))
}

/// The decoded fragment of a URI.
fn decoded(fragment: &str) -> Option<Cow<'_, str>> {
    if !fragment.contains('%') {
        return Some(Cow::Borrowed(fragment));
    }
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let code = others.get(..2).and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            plain.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
        });
        match code {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = others.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}
