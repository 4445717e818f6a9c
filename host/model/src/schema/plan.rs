//! A schema as a graph of its parts, by which work can be counted before it begins.
//!
//! A part is a subschema. It applies others to the same value (`$ref`, `allOf`, `if`, …) and to the
//! members or items below it. Both kinds of edges multiply: ten definitions that each refer twice
//! to the next cause a thousand visits of one value.
//!
//! Building the graph is linear in the schema, and the bounds in [`crate::limits`] are checked
//! before memory is allocated. It is built before the validator is compiled, whose own compilation
//! may be exponential in the schema.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::references::References;
use super::{Refused, patterns};
use crate::{codes, limits};

/// How a part applies another one to the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Here {
    /// `allOf`.
    Each,
    /// `anyOf` and `oneOf`: tried, and evaluated again to explain why none fits.
    Choice,
    /// `if`.
    If,
    /// `not`.
    Not,
    /// `then`, `else`, `dependentSchemas`.
    Along,
    /// `$ref` and the other references.
    Ref,
}

/// A subschema. Parts are named by their index in [`Plan::parts`].
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Steps of every visit: one for each keyword and for each value listed in one.
    pub(super) weight: u64,
    /// Steps for each byte of a text: the cost of its patterns.
    pub(super) text: u64,
    /// Steps for each byte of a member's name.
    pub(super) names_text: u64,
    /// Names that `required` lists.
    pub(super) required: u64,
    /// `uniqueItems`.
    pub(super) unique: bool,
    /// The parts that it applies to the same value.
    pub(super) here: Vec<(u32, Here)>,
    /// `properties`.
    pub(super) properties: HashMap<Box<str>, u32>,
    /// `patternProperties`. Every one counts as if it matched.
    pub(super) patterned: Vec<u32>,
    /// `additionalProperties`.
    pub(super) rest: Option<u32>,
    /// `propertyNames`.
    pub(super) names: Option<u32>,
    /// `unevaluatedProperties`.
    pub(super) other_members: Option<u32>,
    /// `prefixItems`, or a list of `items`.
    pub(super) prefix: Vec<u32>,
    /// `items`, or `additionalItems`.
    pub(super) items: Option<u32>,
    /// `contains`.
    pub(super) contains: Option<u32>,
    /// `unevaluatedItems`.
    pub(super) other_items: Option<u32>,
    /// `default`.
    pub(super) default: Option<Value>,
}

impl Part {
    /// Whether it needs to know which members or items others have evaluated.
    pub(super) fn unevaluated(&self) -> bool {
        self.other_members.is_some() || self.other_items.is_some()
    }

    /// Whether it applies to members of an object.
    pub(super) fn has_members(&self) -> bool {
        !self.properties.is_empty()
            || !self.patterned.is_empty()
            || self.rest.is_some()
            || self.names.is_some()
            || self.other_members.is_some()
    }

    /// Whether it applies to items of a list.
    pub(super) fn has_items(&self) -> bool {
        !self.prefix.is_empty()
            || self.items.is_some()
            || self.contains.is_some()
            || self.other_items.is_some()
    }

    /// All parts that it applies to members, names or items.
    pub(super) fn below(&self) -> impl Iterator<Item = u32> {
        let lone = [
            self.rest,
            self.names,
            self.other_members,
            self.items,
            self.contains,
            self.other_items,
        ];
        let named = self.properties.values().copied();
        let listed = self.patterned.iter().chain(&self.prefix).copied();
        named.chain(listed).chain(lone.into_iter().flatten())
    }

    fn renumber(&mut self, rank: &[u32]) {
        let renumber = |part: &mut u32| *part = at(rank, *part);
        self.here.iter_mut().for_each(|(part, _)| renumber(part));
        self.properties.values_mut().for_each(renumber);
        self.patterned.iter_mut().for_each(renumber);
        self.prefix.iter_mut().for_each(renumber);
        for one in [
            &mut self.rest,
            &mut self.names,
            &mut self.other_members,
            &mut self.items,
            &mut self.contains,
            &mut self.other_items,
        ] {
            one.iter_mut().for_each(renumber);
        }
    }
}

fn at(numbers: &[u32], part: u32) -> u32 {
    numbers.get(part as usize).copied().unwrap_or_default()
}

/// The parts of a schema, each before those that it applies to the same value.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) parts: Vec<Part>,
    /// The part of the whole schema.
    pub(super) root: u32,
    /// The pointer of each part, for messages.
    pub(super) pointers: Vec<String>,
    /// Bytes of all compiled patterns.
    pub(super) programs: usize,
}

impl Plan {
    /// Reads a schema.
    ///
    /// # Errors
    ///
    /// A bound is exceeded, a reference leads outside or back to the same value, or a pattern
    /// cannot be matched in linear time.
    pub(super) fn read(schema: &Value) -> Result<Self, Refused> {
        let mut reader = Reader {
            references: References::read(schema)?,
            known: HashMap::new(),
            parts: Vec::new(),
            pointers: Vec::new(),
            path_bytes: 0,
            waiting: Vec::new(),
            patterns: patterns::Patterns::default(),
        };
        let root = reader.part(schema, String::new())?;
        while let Some((part, schema)) = reader.waiting.pop() {
            reader.fill(part, schema)?;
        }
        let plan = Self {
            parts: reader.parts,
            root,
            pointers: reader.pointers,
            programs: reader.patterns.programs(),
        };
        plan.ordered()
    }

    /// Sorts every part before those that it applies to the same value.
    fn ordered(mut self) -> Result<Self, Refused> {
        let mut waits: Vec<u32> = vec![0; self.parts.len()];
        for part in &self.parts {
            for (to, _) in &part.here {
                if let Some(waits) = waits.get_mut(*to as usize) {
                    *waits += 1;
                }
            }
        }
        let mut order: Vec<u32> = (0_u32..)
            .zip(&waits)
            .filter_map(|(part, waits)| (*waits == 0).then_some(part))
            .collect();
        let mut next = 0;
        while let Some(part) = order.get(next).copied() {
            next += 1;
            for (to, _) in &self.part(part).here {
                if let Some(waits) = waits.get_mut(*to as usize) {
                    *waits -= 1;
                    if *waits == 0 {
                        order.push(*to);
                    }
                }
            }
        }
        if order.len() < self.parts.len() {
            return Err(self.circle(&waits));
        }
        let mut rank = vec![0; order.len()];
        for (place, part) in (0_u32..).zip(&order) {
            if let Some(rank) = rank.get_mut(*part as usize) {
                *rank = place;
            }
        }
        let mut parts: Vec<(u32, Part, String)> = (0_u32..)
            .zip(self.parts)
            .zip(self.pointers)
            .map(|((part, content), pointer)| (at(&rank, part), content, pointer))
            .collect();
        parts.sort_by_key(|(place, ..)| *place);
        let (parts, pointers): (Vec<Part>, Vec<String>) = parts
            .into_iter()
            .map(|(_, mut part, pointer)| {
                part.renumber(&rank);
                (part, pointer)
            })
            .unzip();
        self.parts = parts;
        self.pointers = pointers;
        self.root = at(&rank, self.root);
        Ok(self)
    }

    /// The error for a schema that applies itself to the same value. Parts that still wait are on
    /// such a circle or behind one; a walk backwards through them ends on it.
    fn circle(&self, waits: &[u32]) -> Refused {
        let waiting = |part: &u32| waits.get(*part as usize).is_some_and(|waits| *waits > 0);
        let mut before: HashMap<u32, u32> = HashMap::new();
        for (part, content) in (0_u32..).zip(&self.parts) {
            if waiting(&part) {
                before.extend(content.here.iter().map(|(to, _)| (*to, part)));
            }
        }
        let mut part = (0_u32..).take(waits.len()).find(waiting);
        for _ in 0..waits.len() {
            part = part.and_then(|part| before.get(&part).copied());
        }
        let pointer = part.and_then(|part| self.pointers.get(part as usize));
        Refused::new(
            codes::SCHEMA_REFERENCE,
            pointer.cloned().unwrap_or_default(),
            "it applies itself to the same value, without end",
        )
        .help("a schema may refer to itself for members or items, as in `properties` or `items`")
    }

    pub(super) fn part(&self, part: u32) -> &Part {
        static NONE: std::sync::LazyLock<Part> = std::sync::LazyLock::new(Part::default);
        self.parts.get(part as usize).unwrap_or(&NONE)
    }
}

struct Reader<'a> {
    references: References<'a>,
    /// Parts by their address in memory: several references may lead to one.
    known: HashMap<*const Value, u32>,
    parts: Vec<Part>,
    pointers: Vec<String>,
    path_bytes: usize,
    waiting: Vec<(u32, &'a Value)>,
    patterns: patterns::Patterns<'a>,
}

impl<'a> Reader<'a> {
    /// The number of a subschema; it is read later.
    fn part(&mut self, schema: &'a Value, pointer: String) -> Result<u32, Refused> {
        if let Some(part) = self.known.get(&std::ptr::from_ref(schema)) {
            return Ok(*part);
        }
        let part = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
        let keywords = schema.as_object().map_or(0, Map::len);
        self.path_bytes += (pointer.len() + 16) * (keywords + 1);
        if self.parts.len() >= limits::SCHEMA_PARTS || self.path_bytes > limits::SCHEMA_PATHS_BYTES
        {
            let message = format!(
                "it has over {} subschemas, or they stand under very long names",
                limits::SCHEMA_PARTS
            );
            return Err(Refused::new(codes::SCHEMA_BOUNDS, pointer, message));
        }
        self.known.insert(std::ptr::from_ref(schema), part);
        self.parts.push(Part::default());
        self.pointers.push(pointer);
        self.waiting.push((part, schema));
        Ok(part)
    }

    /// A subschema below a pointer, if the value is one. The compiler reports a value that is not.
    fn sub(&mut self, schema: &'a Value, above: &str, key: &str) -> Result<Option<u32>, Refused> {
        if !matches!(schema, Value::Object(_) | Value::Bool(_)) {
            return Ok(None);
        }
        let pointer = format!("{above}/{}", super::escape(key));
        self.part(schema, pointer).map(Some)
    }

    fn listed(&mut self, schemas: &'a Value, above: &str) -> Result<Vec<u32>, Refused> {
        let mut parts = Vec::new();
        for (index, schema) in schemas.as_array().into_iter().flatten().enumerate() {
            parts.extend(self.sub(schema, above, &index.to_string())?);
        }
        Ok(parts)
    }

    fn fill(&mut self, number: u32, schema: &'a Value) -> Result<(), Refused> {
        let pointer = self.pointers.get(number as usize).cloned();
        let pointer = pointer.unwrap_or_default();
        let mut part = Part {
            weight: 1,
            ..Part::default()
        };
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            part.weight += 1;
            let below = format!("{pointer}/{}", super::escape(keyword));
            match keyword.as_str() {
                "$ref" | "$dynamicRef" | "$recursiveRef" => {
                    let target = self.references.resolve(value, &below)?;
                    if let Some((target, place)) = target {
                        let to = self.part(target, place)?;
                        part.here.push((to, Here::Ref));
                    }
                }
                "allOf" => self.here(&mut part, Here::Each, value, &below)?,
                "anyOf" | "oneOf" => self.here(&mut part, Here::Choice, value, &below)?,
                "not" | "if" | "then" | "else" => {
                    let kind = match keyword.as_str() {
                        "not" => Here::Not,
                        "if" => Here::If,
                        _ => Here::Along,
                    };
                    let to = self.sub(value, &pointer, keyword)?;
                    part.here.extend(to.map(|to| (to, kind)));
                }
                "dependentSchemas" | "dependencies" => {
                    for (name, schema) in value.as_object().into_iter().flatten() {
                        part.weight += 1 + schema.as_array().map_or(0, |list| list.len() as u64);
                        let to = self.sub(schema, &below, name)?;
                        part.here.extend(to.map(|to| (to, Here::Along)));
                    }
                }
                "properties" => {
                    for (name, schema) in value.as_object().into_iter().flatten() {
                        if let Some(to) = self.sub(schema, &below, name)? {
                            part.properties.insert(name.as_str().into(), to);
                        }
                    }
                }
                "patternProperties" => {
                    for (pattern, schema) in value.as_object().into_iter().flatten() {
                        part.names_text += self.patterns.weight(pattern, &below)?;
                        part.patterned.extend(self.sub(schema, &below, pattern)?);
                    }
                }
                "pattern" => {
                    if let Some(pattern) = value.as_str() {
                        part.text += self.patterns.weight(pattern, &below)?;
                    }
                }
                "additionalProperties" => part.rest = self.sub(value, &pointer, keyword)?,
                "propertyNames" => part.names = self.sub(value, &pointer, keyword)?,
                "unevaluatedProperties" => {
                    part.other_members = self.sub(value, &pointer, keyword)?;
                }
                "unevaluatedItems" => part.other_items = self.sub(value, &pointer, keyword)?,
                "contains" => part.contains = self.sub(value, &pointer, keyword)?,
                "items" if value.is_array() => part.prefix.extend(self.listed(value, &below)?),
                "prefixItems" => part.prefix.extend(self.listed(value, &below)?),
                "items" => part.items = self.sub(value, &pointer, keyword)?,
                "additionalItems" => {
                    let items = self.sub(value, &pointer, keyword)?;
                    part.items = part.items.or(items);
                }
                "default" => part.default = Some(value.clone()),
                "uniqueItems" => part.unique = value == &Value::Bool(true),
                "required" => {
                    part.required = value.as_array().map_or(0, |list| list.len() as u64);
                    part.weight += part.required;
                }
                "enum" | "const" | "type" | "dependentRequired" => {
                    let bytes = super::count::size(value, u64::MAX);
                    part.weight += super::count::values(value) + bytes / 16;
                }
                _ => {}
            }
        }
        if let Some(place) = self.parts.get_mut(number as usize) {
            *place = part;
        }
        Ok(())
    }

    fn here(
        &mut self,
        part: &mut Part,
        kind: Here,
        schemas: &'a Value,
        below: &str,
    ) -> Result<(), Refused> {
        let parts = self.listed(schemas, below)?;
        part.here.extend(parts.into_iter().map(|to| (to, kind)));
        Ok(())
    }
}
