//! A schema as a graph of its parts, and the document that the validator compiles.
//!
//! A part is a subschema. It applies others to the same value (`$ref`, `allOf`, `if`, …) and to the
//! members or items below it. The document has each part once, by its number, behind a keyword that
//! charges for it ([`super::meter`]). Small parts without parts stand where they are used, and their
//! users charge for them. Keywords that are not known here are not in the document.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::meter::{self, Cost};
use super::patterns::Patterns;
use super::{Refused, clipped, escape};
use crate::{codes, limits};

/// The most steps of a part that stands where it is used.
const LEAF: u64 = 20;

/// Steps of a part that stands apart, besides those of its keywords.
const APART: u64 = 8;

/// What a keyword holds.
enum Kind {
    Part,
    List,
    Map,
    Data,
}

/// The kind of a keyword that says something about a value or has parts. None: it is a remark.
fn kind(keyword: &str) -> Option<Kind> {
    Some(match keyword {
        "additionalProperties"
        | "propertyNames"
        | "items"
        | "contains"
        | "not"
        | "if"
        | "then"
        | "else" => Kind::Part,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Kind::List,
        "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions" => {
            Kind::Map
        }
        "$ref" | "type" | "enum" | "const" | "required" | "dependentRequired" | "minimum"
        | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" | "minLength"
        | "maxLength" | "pattern" | "minItems" | "maxItems" | "uniqueItems" | "minContains"
        | "maxContains" | "minProperties" | "maxProperties" => Kind::Data,
        _ => return None,
    })
}

/// The remedy for a keyword that is refused.
fn remedy(keyword: &str, value: &Value, root: bool) -> Option<&'static str> {
    const DRAFTS: [&str; 4] = ["/draft-06/", "/draft-07/", "/2019-09/", "/2020-12/"];
    let text = value.as_str().unwrap_or_default();
    Some(match keyword {
        "$schema" if root && DRAFTS.iter().any(|draft| text.contains(draft)) => return None,
        "$schema" if root => "name `https://json-schema.org/draft/2020-12/schema`, or no draft",
        "$id" | "$schema" if root || !value.is_string() => return None,
        "$id" | "$schema" | "$anchor" | "$dynamicAnchor" | "$dynamicRef" | "$recursiveRef" => {
            "take it out, and refer to the subschema by its place, like `#/$defs/name`"
        }
        "unevaluatedProperties" => "list all in one `properties`, with `additionalProperties`",
        "unevaluatedItems" => "describe all in one `prefixItems`, with `items`",
        "dependencies" => "write `dependentRequired` or `dependentSchemas`",
        "additionalItems" => "write `prefixItems` and `items`",
        "items" if value.is_array() => "write `prefixItems`, and `items` for the other items",
        _ => return None,
    })
}

/// A subschema. Parts are named by their index in [`Plan::parts`]; the first is the whole schema.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// The parts that it applies to the same value.
    here: Vec<u32>,
    /// Those of them that a value has to fit in any case: of `$ref` and `allOf`.
    pub(super) always: Vec<u32>,
    /// `properties`.
    pub(super) properties: BTreeMap<Box<str>, u32>,
    /// Whether it has `patternProperties`.
    pub(super) patterned: bool,
    /// `additionalProperties`.
    pub(super) rest: Option<u32>,
    /// `prefixItems`.
    pub(super) prefix: Vec<u32>,
    /// `items`.
    pub(super) items: Option<u32>,
    /// `default`.
    pub(super) default: Option<Value>,
}

/// The parts of a schema.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) parts: Vec<Part>,
    /// The pointer of each part, for messages.
    pub(super) pointers: Vec<String>,
    /// How many parts apply each other to one value.
    pub(super) chain: usize,
    /// Whether there is an `anyOf` or a `oneOf`.
    pub(super) choices: bool,
    /// Bytes of all compiled patterns.
    pub(super) programs: usize,
    /// The document that the validator compiles.
    pub(super) document: Value,
}

impl Plan {
    /// Reads a schema. Reading is linear in the schema, and its bounds are checked first.
    ///
    /// # Errors
    ///
    /// A bound is exceeded, a keyword is not supported, a reference leads outside or back to the
    /// same value, or a pattern cannot be matched in linear time.
    pub(super) fn read(schema: &Value) -> Result<Self, Refused> {
        let (bytes, levels) = (limits::SCHEMA_BYTES, limits::SCHEMA_NESTING);
        if meter::size(schema, bytes) > bytes || meter::deeper(schema, levels) {
            let message = format!("it has over {bytes} bytes, or nests over {levels} deep");
            return Err(Refused::new(codes::SCHEMA_BOUNDS, "", message));
        }
        let digits = limits::SCHEMA_DIGITS;
        if meter::has_longer_number(schema, digits) {
            let message = format!("it has a number of over {digits} digits, exponent included");
            return Err(Refused::new(codes::SCHEMA_BOUNDS, "", message));
        }
        let mut reader = Reader::default();
        reader.part(schema, String::new(), true)?;
        for (part, reference, pointer) in std::mem::take(&mut reader.references) {
            let to = reader.resolve(schema, reference, &pointer)?;
            let known = reader.parts.get_mut(part as usize);
            if let Some((part, body)) = known.zip(reader.bodies.get_mut(part as usize)) {
                part.here.push(to);
                part.always.insert(0, to);
                if let Some(written) = body.pointer_mut("/then/$ref") {
                    *written = refer(to).into();
                }
            }
            reader.whole.insert(to);
        }
        let bodies = (0_u32..).zip(reader.bodies);
        let bodies = bodies.filter(|(number, _)| reader.whole.contains(number));
        let bodies = bodies.map(|(number, body)| (number.to_string(), body));
        let mut plan = Self {
            document: json!({ "$ref": refer(0), "$defs": Value::Object(bodies.collect()) }),
            parts: reader.parts,
            pointers: reader.pointers,
            chain: 0,
            choices: reader.choices,
            programs: reader.patterns.programs(),
        };
        plan.count()?;
        Ok(plan)
    }

    /// Counts how often parts apply to one value, and how deep they apply each other to it.
    fn count(&mut self) -> Result<(), Refused> {
        let (most, deepest) = (limits::SCHEMA_EXPANSIONS, limits::SCHEMA_CHAIN);
        let mut visits = vec![1_u64; self.parts.len()];
        loop {
            self.chain += 1;
            let visits_of = |to: &u32| visits.get(*to as usize).copied().unwrap_or_default();
            let more = |part: &Part| part.here.iter().map(visits_of).sum::<u64>() + 1;
            let next: Vec<u64> = self.parts.iter().map(more).collect();
            let over = next.iter().position(|visits| *visits > most);
            let mut both = next.iter().zip(&visits);
            let grown = both.rposition(|(next, visits)| next != visits);
            let (part, code, message) = match (over, grown) {
                (Some(part), _) => {
                    let message = format!("over {most} subschemas apply to one value");
                    (part, codes::SCHEMA_BOUNDS, message)
                }
                (None, None) => return Ok(()),
                (None, Some(_)) if self.chain < deepest => {
                    visits = next;
                    continue;
                }
                (None, Some(part)) => {
                    let message = format!(
                        "it applies itself to the same value, or subschemas apply each other to \
                         one value over {deepest} deep"
                    );
                    (part, codes::SCHEMA_REFERENCE, message)
                }
            };
            let pointer = self.pointers.get(part).cloned().unwrap_or_default();
            return Err(Refused::new(code, pointer, message).help(
                "use fewer subschemas for one value: `$ref`, `allOf`, `anyOf`, `oneOf`, `not` and \
                 `if` multiply where they are nested; a schema may refer to itself for members or \
                 items, as in `properties` or `items`",
            ));
        }
    }

    pub(super) fn part(&self, part: u32) -> &Part {
        static NONE: std::sync::LazyLock<Part> = std::sync::LazyLock::new(Part::default);
        self.parts.get(part as usize).unwrap_or(&NONE)
    }

    /// The part that a place in the document belongs to, and the place in the schema.
    pub(super) fn origin(&self, place: &str) -> (u32, String) {
        let inside = place.strip_prefix("/$defs/").unwrap_or_default();
        let (number, inside) = inside.split_once('/').unwrap_or((inside, ""));
        let part = number.parse().unwrap_or(0);
        let above = self.pointers.get(part as usize);
        let inside = inside.strip_prefix("then").unwrap_or_default();
        let place = format!("{}{inside}", above.map_or("", String::as_str));
        (part, place)
    }
}

/// The reference to a part in the document.
pub(super) fn refer(part: u32) -> String {
    format!("#/$defs/{part}")
}

#[derive(Default)]
struct Reader<'a> {
    /// Parts by their address in memory.
    known: HashMap<*const Value, u32>,
    parts: Vec<Part>,
    pointers: Vec<String>,
    path_bytes: usize,
    /// The parts as they stand in the document.
    bodies: Vec<Value>,
    /// The parts that the document has. The others stand where they are used.
    whole: HashSet<u32>,
    /// References, with their part and place.
    references: Vec<(u32, &'a str, String)>,
    patterns: Patterns<'a>,
    choices: bool,
}

/// A subschema in a keyword: as it stands there, its number, and the steps that its user charges.
type Sub = (Value, Option<u32>, u64);

impl<'a> Reader<'a> {
    /// Reads a part with all parts in it. The compiler reports a value that is no schema.
    fn part(&mut self, schema: &'a Value, pointer: String, whole: bool) -> Result<Sub, Refused> {
        if !matches!(schema, Value::Object(_) | Value::Bool(_)) {
            return Ok((schema.clone(), None, 0));
        }
        let at = self.parts.len();
        let number = u32::try_from(at).unwrap_or(u32::MAX);
        self.path_bytes += pointer.len();
        if at >= limits::SCHEMA_PARTS || self.path_bytes > limits::SCHEMA_PATHS_BYTES {
            let most = limits::SCHEMA_PARTS;
            let message = format!("it has over {most} subschemas, or they have very long names");
            return Err(Refused::new(codes::SCHEMA_BOUNDS, pointer, message));
        }
        self.known.insert(std::ptr::from_ref(schema), number);
        self.parts.push(Part::default());
        self.bodies.push(Value::Null);
        self.pointers.push(pointer.clone());
        let (mut part, mut cost) = (Part::default(), Cost::default());
        let mut body = Map::new();
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            let below = format!("{pointer}/{}", escape(keyword));
            if let Some(help) = remedy(keyword, value, number == 0) {
                let message = format!("`{keyword}` is not supported here");
                return Err(Refused::new(codes::SCHEMA_KEYWORD, below, message).help(help));
            }
            if keyword == "default" {
                part.default = Some(value.clone());
            }
            let Some(kind) = kind(keyword) else {
                continue;
            };
            let (mut parts, mut steps) = (Vec::new(), 2);
            let mut sub = |value: &'a Value, below: String| -> Result<Value, Refused> {
                let apart = keyword == "$defs" || keyword == "definitions";
                let (written, number, cost) = self.part(value, below, apart)?;
                parts.extend(number);
                steps = match keyword.as_str() {
                    // At most one of them applies to each value.
                    "properties" | "prefixItems" => steps.max(cost + 2),
                    _ => steps + cost,
                };
                Ok(written)
            };
            let written = match (kind, value) {
                (Kind::Part, _) => sub(value, below.clone())?,
                (Kind::List, Value::Array(items)) => {
                    let items = items.iter().enumerate();
                    let items = items.map(|(at, item)| sub(item, format!("{below}/{at}")));
                    Value::Array(items.collect::<Result<_, _>>()?)
                }
                (Kind::Map, Value::Object(members)) => {
                    let members = members.iter().map(|(name, member)| {
                        let written = sub(member, format!("{below}/{}", escape(name)))?;
                        Ok((name.clone(), written))
                    });
                    Value::Object(members.collect::<Result<_, _>>()?)
                }
                _ => {
                    steps += meter::size(value, u64::MAX) / 8;
                    value.clone()
                }
            };
            match (keyword.as_str(), value) {
                ("$defs" | "definitions", Value::Object(_)) => continue,
                ("$ref", Value::String(reference)) => {
                    self.references.push((number, reference, below));
                }
                ("allOf", _) => part.always.extend(&parts),
                ("anyOf" | "oneOf", _) => self.choices = true,
                ("properties", Value::Object(members)) => {
                    let names = members.keys().map(|name| name.as_str().into());
                    part.properties = names.zip(parts.iter().copied()).collect();
                }
                ("patternProperties", Value::Object(members)) => {
                    for pattern in members.keys() {
                        cost.name += self.patterns.weight(pattern, &below)?;
                    }
                    part.patterned = true;
                }
                ("additionalProperties", _) => part.rest = parts.first().copied(),
                ("prefixItems", _) => part.prefix.clone_from(&parts),
                ("items", _) => part.items = parts.first().copied(),
                ("pattern", Value::String(text)) => {
                    cost.text += self.patterns.weight(text, &below)?;
                }
                ("uniqueItems", Value::Bool(unique)) => cost.unique = *unique,
                _ => {}
            }
            match keyword.as_str() {
                "properties" | "patternProperties" | "additionalProperties" | "propertyNames" => {
                    cost.member += steps;
                }
                "prefixItems" | "items" | "contains" => cost.item += steps,
                _ => {
                    part.here.extend(&parts);
                    cost.fixed += steps;
                }
            }
            body.insert(keyword.clone(), written);
        }
        let body = match schema {
            Value::Object(_) => Value::Object(body),
            other => other.clone(),
        };
        cost.fixed += 2;
        let plain = Cost {
            fixed: cost.fixed,
            ..Cost::default()
        };
        let plain = cost == plain && cost.fixed <= LEAF && part.here.is_empty();
        let plain = plain && schema.get("$ref").is_none();
        if whole || !plain || part.default.is_some() {
            self.whole.insert(number);
        }
        let sub = match plain {
            true => (body.clone(), Some(number), cost.fixed),
            false => (json!({ "$ref": refer(number) }), Some(number), 1),
        };
        cost.fixed += APART;
        if let Some((known, place)) = self.parts.get_mut(at).zip(self.bodies.get_mut(at)) {
            *known = part;
            *place = json!({ "if": { meter::KEYWORD: cost }, "then": body });
        }
        Ok(sub)
    }

    /// The part that a reference leads to.
    fn resolve(&self, root: &Value, reference: &str, pointer: &str) -> Result<u32, Refused> {
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let id = root.get("$id").and_then(Value::as_str);
        let own = base.is_empty() || id.is_some_and(|id| id.trim_end_matches('#') == base);
        let target = decoded(fragment).and_then(|at| root.pointer(&at));
        let target = target.and_then(|target| self.known.get(&std::ptr::from_ref(target)));
        target.copied().filter(|_| own).ok_or_else(|| {
            let leads = match own {
                true => "leads to no subschema of the schema",
                false => "leads out of the schema",
            };
            let message = format!("the reference `{}` {leads}", clipped(reference));
            Refused::new(codes::SCHEMA_REFERENCE, pointer, message).help(
                "copy the schema that it names into `$defs`, and refer to it like `#/$defs/name`; \
                 nothing is ever fetched",
            )
        })
    }
}

/// The decoded fragment of an address.
fn decoded(fragment: &str) -> Option<String> {
    let mut parts = fragment.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, plain) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(plain.as_bytes());
    }
    String::from_utf8(bytes).ok()
}
