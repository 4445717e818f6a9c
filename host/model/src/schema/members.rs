//! What a schema says about a member of its values, without a value.
//!
//! An author reads `input.order.id` before any input exists. If the schema rules the member out, the
//! reading cannot work. Only certain knowledge counts: keywords that are not looked at here allow
//! everything. Schemas come from strangers, so each step takes from a budget of subschemas.

use std::collections::BTreeSet;

use serde_json::Value;

/// The most references that are followed from one subschema to the next.
const REFERENCES: u32 = 16;

/// A step into a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Into<'a> {
    /// To the member of this name.
    Member(&'a str),
    /// To an item of a list.
    Item,
}

/// What a schema says about a path into its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The path may exist.
    Possible,
    /// The object at `depth` steps declares other members, and is open for undeclared ones.
    Undeclared {
        /// How many steps of the path lead to the object.
        depth: usize,
        /// The declared members.
        known: Vec<String>,
    },
    /// The object at `depth` steps has no such member.
    Closed {
        /// How many steps of the path lead to the object.
        depth: usize,
        /// The members that it may have.
        known: Vec<String>,
    },
    /// The value at `depth` steps is of a kind that has no members, like a text.
    NoMembers {
        /// How many steps of the path lead to the value.
        depth: usize,
        /// The kind of the value, for people.
        kind: &'static str,
    },
}

/// A kind of JSON values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` and `false`
    Boolean,
    /// Numbers, whole ones included.
    Number,
    /// Texts.
    Text,
    /// Lists.
    List,
    /// Objects.
    Object,
}

impl Kind {
    /// The kind of a value.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::Text,
            Value::Array(_) => Self::List,
            Value::Object(_) => Self::Object,
        }
    }

    /// The kind of a `type` of JSON Schema.
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "null" => Self::Null,
            "boolean" => Self::Boolean,
            "integer" | "number" => Self::Number,
            "string" => Self::Text,
            "array" => Self::List,
            "object" => Self::Object,
            _ => return None,
        })
    }
}

/// The kinds that the value at a path may have, in order; at least one. None: nothing is known.
/// `budget` is as for [`follow`].
pub fn kinds(schema: &Value, path: &[Into<'_>], budget: &mut usize) -> Option<Vec<Kind>> {
    let mut walk = Walk {
        root: schema,
        budget,
    };
    let mut here = vec![schema];
    for step in path {
        let mut seen = Seen::default();
        for schema in here {
            walk.conjunct(schema, *step, &mut seen, REFERENCES);
        }
        if *walk.budget == 0 || seen.kind.is_some() {
            return None;
        }
        here = seen.next;
    }
    let mut found = None;
    for schema in here {
        found = both(found, walk.kinds(schema, REFERENCES));
    }
    let found = found.filter(|found| !found.is_empty() && *walk.budget > 0)?;
    Some(found.into_iter().collect())
}

/// The kinds that two schemas allow together.
fn both(a: Option<BTreeSet<Kind>>, b: Option<BTreeSet<Kind>>) -> Option<BTreeSet<Kind>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.intersection(&b).copied().collect()),
        (a, b) => a.or(b),
    }
}

/// Follows a path through a schema. `budget` is the number of subschemas that may still be looked
/// at; once it is used up, every path is possible.
pub fn follow(schema: &Value, path: &[Into<'_>], budget: &mut usize) -> Found {
    let mut walk = Walk {
        root: schema,
        budget,
    };
    let mut here = vec![schema];
    for (depth, step) in path.iter().enumerate() {
        let mut seen = Seen::default();
        for schema in here {
            walk.conjunct(schema, *step, &mut seen, REFERENCES);
        }
        if *walk.budget == 0 {
            return Found::Possible;
        }
        if let Some(kind) = seen.kind {
            return Found::NoMembers { depth, kind };
        }
        if let Into::Member(_) = step
            && !seen.declared
        {
            seen.known.sort_unstable();
            seen.known.dedup();
            let known = seen.known;
            if seen.closed {
                return Found::Closed { depth, known };
            }
            return match known.is_empty() || seen.open {
                true => Found::Possible,
                false => Found::Undeclared { depth, known },
            };
        }
        here = seen.next;
    }
    Found::Possible
}

/// What the schemas of one value say about a step.
#[derive(Default)]
struct Seen<'a> {
    /// The schemas of the value after the step.
    next: Vec<&'a Value>,
    /// The names of declared members.
    known: Vec<String>,
    /// Whether the member of the step is declared, or allowed by a pattern or a schema.
    declared: bool,
    /// Whether a schema rules out every member that it does not declare, and the member is such.
    closed: bool,
    /// Whether a schema may declare members that are not seen here.
    open: bool,
    /// The kind, if the value has no members.
    kind: Option<&'static str>,
}

struct Walk<'a, 'b> {
    root: &'a Value,
    budget: &'b mut usize,
}

impl<'a> Walk<'a, '_> {
    /// Adds what a schema says, all of which holds.
    fn conjunct(&mut self, schema: &'a Value, step: Into<'_>, seen: &mut Seen<'a>, left: u32) {
        let Some(budget) = self.budget.checked_sub(1) else {
            return;
        };
        *self.budget = budget;
        let Value::Object(keywords) = schema else {
            seen.open |= schema == &Value::Bool(true);
            return;
        };
        seen.kind = seen.kind.or(kind_without(keywords.get("type"), step));
        if let Some(reference) = keywords.get("$ref").and_then(Value::as_str) {
            match self.target(reference).filter(|_| left > 0) {
                Some(target) => self.conjunct(target, step, seen, left - 1),
                None => seen.open = true,
            }
        }
        match step {
            Into::Member(name) => member(keywords, name, seen),
            Into::Item => {
                let items = keywords.get("items").filter(|items| items.is_object());
                seen.next
                    .extend(items.filter(|_| !keywords.contains_key("prefixItems")));
            }
        }
        for part in keywords
            .get("allOf")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            self.conjunct(part, step, seen, left);
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(choices) = keywords.get(key).and_then(Value::as_array) {
                self.choice(choices, step, seen, left);
            }
        }
        let others = ["if", "then", "else", "dependentSchemas"];
        seen.open |= others.iter().any(|key| keywords.contains_key(*key));
    }

    /// The kinds that a schema allows. None: all.
    fn kinds(&mut self, schema: &Value, left: u32) -> Option<BTreeSet<Kind>> {
        *self.budget = self.budget.checked_sub(1)?;
        let keywords = schema.as_object()?;
        let mut found = match keywords.get("type") {
            Some(Value::String(name)) => Kind::named(name).map(|kind| BTreeSet::from([kind])),
            Some(Value::Array(names)) => {
                let names = names.iter().map(|name| Kind::named(name.as_str()?));
                names.collect()
            }
            _ => None,
        };
        if let Some(value) = keywords.get("const") {
            found = both(found, Some(BTreeSet::from([Kind::of(value)])));
        }
        if let Some(Value::Array(values)) = keywords.get("enum") {
            found = both(found, Some(values.iter().map(Kind::of).collect()));
        }
        let reference = keywords.get("$ref").and_then(Value::as_str);
        let target = reference.and_then(|reference| self.target(reference));
        if let Some(target) = target.filter(|_| left > 0) {
            found = both(found, self.kinds(target, left - 1));
        }
        let list = |key: &str| keywords.get(key).and_then(Value::as_array);
        for part in list("allOf").into_iter().flatten() {
            found = both(found, self.kinds(part, left));
        }
        for choices in ["anyOf", "oneOf"].into_iter().filter_map(list) {
            let mut any = Some(BTreeSet::new());
            for choice in choices {
                let one = self.kinds(choice, left);
                any = any.zip(one).map(|(any, one)| &any | &one);
            }
            found = both(found, any);
        }
        found
    }

    /// The part of the schema to which a reference leads.
    fn target(&self, reference: &str) -> Option<&'a Value> {
        let target = reference
            .strip_prefix('#')
            .filter(|at| at.is_empty() || at.starts_with('/'));
        target.and_then(|pointer| self.root.pointer(pointer))
    }

    /// Adds what holds for every one of several schemas.
    fn choice(&mut self, choices: &'a [Value], step: Into<'_>, seen: &mut Seen<'a>, left: u32) {
        let mut all = Vec::with_capacity(choices.len().min(16));
        for choice in choices {
            if *self.budget == 0 {
                return;
            }
            let mut one = Seen::default();
            self.conjunct(choice, step, &mut one, left);
            all.push(one);
        }
        // A choice without members, like `null` beside an object, cannot be told from the value's
        // absence, so the others decide.
        let with_members = all.iter().filter(|one| one.kind.is_none()).count();
        if with_members == 0 {
            seen.kind = seen.kind.or(all.first().and_then(|one| one.kind));
            return;
        }
        let all: Vec<_> = all.into_iter().filter(|one| one.kind.is_none()).collect();
        seen.declared |= all.iter().any(|one| one.declared);
        seen.closed |= all.iter().all(|one| one.closed);
        seen.open |= all
            .iter()
            .any(|one| one.open || (one.known.is_empty() && !one.closed));
        let single = all.len() == 1;
        for one in all {
            seen.known.extend(one.known);
            // Of several schemas any may hold, so only a single one is certain.
            seen.next.extend(one.next.into_iter().filter(|_| single));
        }
    }
}

fn member<'a>(keywords: &'a serde_json::Map<String, Value>, name: &str, seen: &mut Seen<'a>) {
    let properties = keywords.get("properties").and_then(Value::as_object);
    let declared = properties.and_then(|properties| properties.get(name));
    match declared {
        Some(schema) => {
            seen.declared = true;
            seen.next.push(schema);
        }
        None => {
            let patterns = keywords.get("patternProperties").and_then(Value::as_object);
            let patterns = patterns.is_some_and(|patterns| !patterns.is_empty());
            match keywords.get("additionalProperties") {
                _ if patterns => seen.open = true,
                Some(Value::Bool(false)) => seen.closed = true,
                Some(Value::Bool(true)) => seen.open = true,
                Some(schema) => {
                    seen.declared = true;
                    seen.next.push(schema);
                }
                None => {}
            }
        }
    }
    seen.known
        .extend(properties.into_iter().flat_map(|all| all.keys().cloned()));
}

/// The kind of the values of a type that the step cannot enter.
fn kind_without(types: Option<&Value>, step: Into<'_>) -> Option<&'static str> {
    let one = |name: &str| match (name, step) {
        ("object", Into::Member(_)) | ("array", Into::Item) => None,
        ("string", Into::Member(_)) => Some("text"),
        ("integer" | "number", _) => Some("a number"),
        ("boolean", _) => Some("a boolean"),
        ("array", Into::Member(_)) => Some("a list"),
        ("null", _) => Some("null"),
        // A text and an object may have items.
        _ => None,
    };
    match types? {
        Value::String(name) => one(name),
        Value::Array(names) => {
            let kinds: Option<Vec<_>> = names.iter().map(|name| one(name.as_str()?)).collect();
            kinds?.into_iter().find(|kind| *kind != "null")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(schema: &Value, path: &str, expected: &str) {
        let path: Vec<Into<'_>> = path
            .split('.')
            .map(|step| match step {
                "[]" => Into::Item,
                name => Into::Member(name),
            })
            .collect();
        let found = match follow(schema, &path, &mut 1_000) {
            Found::Possible => "possible".to_owned(),
            Found::Undeclared { depth, known } => format!("undeclared {depth} {}", known.join(",")),
            Found::Closed { depth, known } => format!("closed {depth} {}", known.join(",")),
            Found::NoMembers { depth, kind } => format!("{kind} {depth}"),
        };
        assert_eq!(found, expected, "{path:?} of {schema}");
    }

    #[test]
    fn closed_objects_rule_out_undeclared_members() {
        let line = json!({ "type": "object", "properties": { "sku": { "type": "string" } } });
        let schema = json!({
            "type": "object",
            "properties": { "id": { "type": ["string", "null"] }, "lines": { "type": "array", "items": line } },
            "additionalProperties": false,
        });
        check(&schema, "id", "possible");
        check(&schema, "ident", "closed 0 id,lines");
        check(&schema, "id.x", "text 1");
        check(&schema, "lines.x", "a list 1");
        check(&schema, "lines.[].sku", "possible");
        check(&schema, "lines.[].skus", "undeclared 2 sku");
        check(&json!({ "type": "object" }), "x", "possible");
        check(&json!({ "additionalProperties": false }), "x", "closed 0 ");
        check(&json!(true), "x.y", "possible");
        check(&json!({ "type": "integer" }), "x", "a number 0");
    }

    #[test]
    fn kinds_are_those_that_every_schema_allows() {
        let schema = json!({
            "$defs": { "text": { "type": "string" } },
            "properties": {
                "a": { "type": "integer" },
                "b": { "type": ["string", "null"] },
                "c": { "$ref": "#/$defs/text" },
                "d": { "anyOf": [{ "type": "string" }, { "const": 5 }] },
                "e": { "anyOf": [{ "type": "string" }, {}] },
                "f": { "allOf": [{ "type": ["string", "number"] }, { "enum": [1, true] }] },
                "g": { "type": "array", "items": { "type": "boolean" } },
                "h": {},
                "i": { "type": ["string", "thing"] },
            },
        });
        let of = |path: &[Into<'_>]| kinds(&schema, path, &mut 1_000);
        let member = |name| of(&[Into::Member(name)]);
        assert_eq!(member("a"), Some(vec![Kind::Number]));
        assert_eq!(member("b"), Some(vec![Kind::Null, Kind::Text]));
        assert_eq!(member("c"), Some(vec![Kind::Text]));
        assert_eq!(member("d"), Some(vec![Kind::Number, Kind::Text]));
        assert_eq!(member("e"), None);
        assert_eq!(member("f"), Some(vec![Kind::Number]));
        assert_eq!(member("g"), Some(vec![Kind::List]));
        assert_eq!(
            of(&[Into::Member("g"), Into::Item]),
            Some(vec![Kind::Boolean])
        );
        for unknown in ["h", "i", "z"] {
            assert_eq!(member(unknown), None, "{unknown}");
        }
        let endless = json!({ "anyOf": [{ "$ref": "#" }, { "$ref": "#" }], "type": "string" });
        let mut budget = 100;
        assert_eq!(kinds(&endless, &[], &mut budget), None);
    }

    #[test]
    fn only_rules_that_hold_in_every_case_are_certain() {
        let closed = |name: &str| json!({ "properties": { name: { "type": "object" } }, "additionalProperties": false });
        check(
            &json!({ "anyOf": [closed("a"), closed("b")] }),
            "c",
            "closed 0 a,b",
        );
        check(
            &json!({ "anyOf": [closed("a"), closed("b")] }),
            "a.x",
            "possible",
        );
        check(&json!({ "anyOf": [closed("a"), {}] }), "c", "possible");
        check(
            &json!({ "anyOf": [closed("a"), { "type": "null" }] }),
            "c",
            "closed 0 a",
        );
        check(&json!({ "allOf": [closed("a"), {}] }), "c", "closed 0 a");
        check(
            &json!({ "if": {}, "properties": { "a": {} } }),
            "c",
            "possible",
        );
        check(
            &json!({ "patternProperties": { "^x": {} }, "additionalProperties": false }),
            "c",
            "possible",
        );
        let referring = json!({ "$ref": "#/$defs/a", "$defs": { "a": closed("a") } });
        check(&referring, "c", "closed 0 a");
        check(&json!({ "$ref": "#" }), "c", "possible");
        check(
            &json!({ "properties": { "a": {} }, "additionalProperties": true }),
            "b",
            "possible",
        );
    }

    #[test]
    fn a_schema_that_branches_without_end_uses_up_the_budget() {
        let branches: Vec<Value> = (0..8).map(|_| json!({ "$ref": "#" })).collect();
        let hostile = json!({ "anyOf": branches, "additionalProperties": false });
        let mut budget = 10_000;
        assert_eq!(
            follow(&hostile, &[Into::Member("x")], &mut budget),
            Found::Possible
        );
        assert_eq!(budget, 0);
    }
}
