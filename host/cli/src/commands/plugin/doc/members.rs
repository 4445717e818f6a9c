//! The members of the values of a schema, as rows of a table.
//!
//! Schemas come from strangers: references may go in circles, and a few subschemas may stand for
//! millions of members. A table has a bound of rows, and each look at a subschema takes from a
//! budget. The page says that rows are left out.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use windlass_display::visible;
use windlass_model::schema::type_name;

use super::markdown::{code, prose};

/// The most rows of one table.
pub(super) const ROWS: usize = 200;

/// The most bytes of the rows of one table.
const BYTES: usize = 128 << 10;

/// The most looks at subschemas for one table.
const LOOKS: usize = 10_000;

/// How deep members are listed.
const DEPTH: usize = 8;

/// How deep the type of one member names those of its items and alternatives.
const KIND_DEPTH: usize = 3;

/// The most schemas that hold for one value together: references and `allOf`.
const TOGETHER: usize = 64;

/// The most values of an `enum` that are listed.
const LISTED: usize = 20;

/// The most bytes of a default, or of a value of an `enum`.
const VALUE_BYTES: usize = 200;

/// The most bytes of the name of a member.
const NAME_BYTES: usize = 64;

/// The most alternatives in the type of one member.
const ALTERNATIVES: usize = 8;

/// A member of a value.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// Its path in the value, as code.
    pub(super) member: String,
    pub(super) kind: String,
    pub(super) required: bool,
    /// As code; empty without a default.
    pub(super) default: String,
    pub(super) bounds: String,
    pub(super) meaning: String,
}

/// The members of the values of a schema.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// The value itself.
    pub(super) whole: Row,
    /// Whether the schema allows any value.
    pub(super) is_open: bool,
    /// Whether a value has no members but those of the rows.
    pub(super) is_closed: bool,
    pub(super) rows: Vec<Row>,
    /// Whether rows are left out.
    pub(super) is_cut: bool,
}

/// The members of the values of a schema. `raw`: members that are passed as they are written are
/// marked.
pub(super) fn members(schema: &Value, raw: bool) -> Members {
    let mut walk = Walk {
        root: schema,
        raw,
        rows: Vec::new(),
        bytes: 0,
        looks: LOOKS,
        open: Vec::new(),
        is_cut: false,
    };
    let parts = walk.together(schema);
    let whole = walk.row(&parts, "", false);
    walk.below(&parts, "", DEPTH);
    let is_false = |it: &Value| it == &Value::Bool(false);
    let closed = ["additionalProperties", "unevaluatedProperties"];
    let is_closed =
        |part: &&Map<String, Value>| closed.iter().any(|it| part.get(*it).is_some_and(is_false));
    Members {
        is_open: schema != &Value::Bool(false) && whole.kind == ANY && whole.bounds.is_empty(),
        is_closed: parts.maps.iter().any(is_closed),
        whole,
        rows: walk.rows,
        is_cut: walk.is_cut,
    }
}

/// The type of a value of which nothing is known.
const ANY: &str = "any";

/// The schemas that hold for one value together.
#[derive(Default)]
struct Parts<'a> {
    maps: Vec<&'a Map<String, Value>>,
    /// The targets of the references among them.
    targets: Vec<&'a str>,
    /// The path of a value around this one that has the same schema.
    circle: Option<String>,
    /// Whether no value fits.
    is_nothing: bool,
}

impl<'a> Parts<'a> {
    /// A keyword of the first schema that has it.
    fn get(&self, keyword: &str) -> Option<&'a Value> {
        self.maps.iter().find_map(|map| map.get(keyword))
    }

    fn text(&self, keyword: &str) -> Option<&'a str> {
        self.get(keyword).and_then(Value::as_str)
    }

    /// The values of a keyword in all schemas.
    fn all(&self, keyword: &str) -> impl Iterator<Item = &'a Value> {
        self.maps.iter().filter_map(move |map| map.get(keyword))
    }

    /// The alternatives, one of which holds as well.
    fn alternatives(&self) -> impl Iterator<Item = &'a Value> {
        let lists = self.all("anyOf").chain(self.all("oneOf"));
        lists.filter_map(Value::as_array).flatten()
    }
}

struct Walk<'a> {
    root: &'a Value,
    raw: bool,
    rows: Vec<Row>,
    bytes: usize,
    looks: usize,
    /// The references on the way to a value, each with the path of its value.
    open: Vec<(&'a str, String)>,
    is_cut: bool,
}

impl<'a> Walk<'a> {
    /// Takes a look from the budget.
    fn look(&mut self) -> bool {
        let left = self.looks.checked_sub(1);
        self.looks = left.unwrap_or(0);
        self.is_cut |= left.is_none();
        left.is_some()
    }

    /// A schema, with those that it refers to or demands as well.
    fn together(&mut self, schema: &'a Value) -> Parts<'a> {
        let mut parts = Parts::default();
        let mut open = vec![schema];
        while let Some(schema) = open.pop() {
            if parts.maps.len() == TOGETHER || !self.look() {
                self.is_cut = true;
                break;
            }
            let Value::Object(map) = schema else {
                parts.is_nothing |= schema == &Value::Bool(false);
                continue;
            };
            parts.maps.push(map);
            let all = map.get("allOf").and_then(Value::as_array);
            open.extend(all.into_iter().flatten().rev());
            let Some(name) = map.get("$ref").and_then(Value::as_str) else {
                continue;
            };
            let circle = self.open.iter().find(|(open, _)| *open == name);
            if let Some((_, path)) = circle {
                parts.circle = Some(path.clone());
            } else if !parts.targets.contains(&name) {
                parts.targets.push(name);
                let target = name.strip_prefix('#');
                open.extend(target.and_then(|it| self.root.pointer(it)));
            }
        }
        parts
    }

    /// Adds the row of a value and those of its members.
    fn value(&mut self, schema: &'a Value, path: &str, required: bool, depth: usize) {
        let parts = self.together(schema);
        let row = self.row(&parts, path, required);
        self.add(row);
        self.below(&parts, path, depth);
    }

    fn add(&mut self, row: Row) {
        let bytes = [
            &row.member,
            &row.kind,
            &row.default,
            &row.bounds,
            &row.meaning,
        ];
        let bytes: usize = bytes.iter().map(|it| it.len()).sum();
        if self.rows.len() == ROWS || self.bytes + bytes > BYTES {
            self.is_cut = true;
            self.looks = 0;
            return;
        }
        self.bytes += bytes;
        self.rows.push(row);
    }

    /// Adds the rows of the members of a value, and of its items.
    fn below(&mut self, parts: &Parts<'a>, path: &str, depth: usize) {
        if parts.circle.is_some() {
            return;
        }
        let Some(depth) = depth.checked_sub(1) else {
            self.is_cut |= has_members(parts);
            return;
        };
        let before = self.open.len();
        let targets = parts.targets.iter().map(|name| (*name, path.to_owned()));
        self.open.extend(targets);
        if path.is_empty() {
            self.open.push(("#", String::new()));
        }
        self.properties(parts, path, depth);
        self.others(parts, path, depth);
        self.items(parts, path, depth);
        for alternative in parts.alternatives() {
            if !self.look() {
                break;
            }
            let parts = self.together(alternative);
            self.below(&parts, path, depth);
        }
        self.open.truncate(before);
    }

    fn properties(&mut self, parts: &Parts<'a>, path: &str, depth: usize) {
        let required = parts.all("required").filter_map(Value::as_array).flatten();
        let required: BTreeSet<&str> = required.filter_map(Value::as_str).collect();
        let properties = || {
            parts
                .all("properties")
                .filter_map(Value::as_object)
                .flatten()
        };
        // The members that a value has to have come first.
        for first in [true, false] {
            for (name, schema) in properties() {
                let must = required.contains(name.as_str());
                if self.looks == 0 {
                    return;
                }
                if must != first {
                    continue;
                }
                let path = joined(path, name);
                self.value(schema, &path, must, depth);
            }
        }
    }

    /// Members whose names the schema does not say.
    fn others(&mut self, parts: &Parts<'a>, path: &str, depth: usize) {
        let patterns = parts.all("patternProperties").filter_map(Value::as_object);
        for (pattern, schema) in patterns.flatten() {
            if self.looks == 0 {
                return;
            }
            let pattern = shortened(pattern, NAME_BYTES);
            self.value(schema, &format!("{path}./{pattern}/"), false, depth);
        }
        for schema in parts.all("additionalProperties") {
            if schema.is_object() && schema != &Value::Object(Map::new()) {
                self.value(schema, &format!("{path}.*"), false, depth);
            }
        }
    }

    /// Items get a row of their own only if their list does not say everything.
    fn items(&mut self, parts: &Parts<'a>, path: &str, depth: usize) {
        let first = parts.all("prefixItems").filter_map(Value::as_array);
        for (at, schema) in first.flatten().enumerate() {
            if self.looks == 0 {
                return;
            }
            self.value(schema, &format!("{path}[{at}]"), false, depth);
        }
        for schema in parts.all("items") {
            let path = format!("{path}[]");
            let parts = self.together(schema);
            let row = self.row(&parts, &path, false);
            if !row.bounds.is_empty() || !row.meaning.is_empty() {
                self.add(row);
            }
            self.below(&parts, &path, depth);
        }
    }

    fn row(&mut self, parts: &Parts<'a>, path: &str, required: bool) -> Row {
        let mut meaning = parts.text("description").map(prose).unwrap_or_default();
        let mut say = |more: &str| {
            let space = if meaning.is_empty() { "" } else { " " };
            meaning.push_str(space);
            meaning.push_str(more);
        };
        if let Some(path) = &parts.circle {
            match path.as_str() {
                "" => say("Like the whole value."),
                path => say(&format!("Like {}.", code(path))),
            }
        }
        let is_top = !path.is_empty() && !path.contains(['.', '[']);
        if self.raw && is_top && parts.get("x-raw") == Some(&Value::Bool(true)) {
            say("Passed as it is written: the host fills in no expressions.");
        }
        let default = parts.get("default").filter(|it| !it.is_null());
        Row {
            member: code(path),
            kind: self.kind(parts, KIND_DEPTH),
            required,
            default: default.map(json).unwrap_or_default(),
            bounds: self.bounds(parts),
            meaning,
        }
    }

    /// The type of a value, in words.
    fn kind(&mut self, parts: &Parts<'a>, depth: usize) -> String {
        let Some(depth) = depth.checked_sub(1).filter(|_| self.look()) else {
            return ANY.to_owned();
        };
        if parts.is_nothing {
            return "no value fits".to_owned();
        }
        let mut kinds: Vec<String> = match parts.get("type") {
            Some(Value::String(name)) => vec![self.named(name, parts, depth)],
            Some(Value::Array(names)) => {
                let names = names.iter().filter_map(Value::as_str).take(ALTERNATIVES);
                names.map(|name| self.named(name, parts, depth)).collect()
            }
            _ => Vec::new(),
        };
        if kinds.is_empty() {
            let fixed = parts.get("enum").and_then(Value::as_array);
            let fixed = fixed.into_iter().flatten().chain(parts.get("const"));
            kinds.extend(fixed.take(LISTED).map(|it| word(type_name(it)).to_owned()));
            let is_object = parts.get("properties").is_some();
            kinds.extend(is_object.then(|| word("object").to_owned()));
        }
        if kinds.is_empty() {
            for alternative in parts.alternatives().take(ALTERNATIVES) {
                let parts = self.together(alternative);
                kinds.push(self.kind(&parts, depth));
            }
        }
        let mut distinct: Vec<String> = Vec::new();
        for kind in kinds {
            if !distinct.contains(&kind) {
                distinct.push(kind);
            }
        }
        match distinct.is_empty() || distinct.iter().any(|it| it == ANY) {
            true => ANY.to_owned(),
            false => distinct.join(" or "),
        }
    }

    /// A type of JSON Schema, in words. A list has the type of its items.
    fn named(&mut self, name: &str, parts: &Parts<'a>, depth: usize) -> String {
        let items = parts.get("items").filter(|_| name == "array");
        let Some(items) = items else {
            return word(name).to_owned();
        };
        let items = self.together(items);
        match self.kind(&items, depth).as_str() {
            ANY => word(name).to_owned(),
            kind if kind.contains(" or ") => format!("list of ({kind})"),
            kind => format!("list of {kind}"),
        }
    }

    /// The rules that a value keeps besides its type.
    fn bounds(&mut self, parts: &Parts<'a>) -> String {
        let mut all: Vec<String> = Vec::new();
        for (keyword, before, noun) in RULES {
            if keyword == "format" && !takes_text(parts) {
                continue;
            }
            match parts.get(keyword).map(text).unwrap_or_default().as_str() {
                "" => {}
                value if noun.is_empty() => all.push(format!("{before}{value}")),
                "1" => all.push(format!("{before}1 {noun}")),
                value => all.push(format!("{before}{value} {noun}s")),
            }
        }
        if parts.get("uniqueItems") == Some(&Value::Bool(true)) {
            all.push("no item twice".to_owned());
        }
        let one_of = self.fixed(parts);
        if !one_of.is_empty() {
            all.push(one_of);
        }
        if FURTHER.iter().any(|it| parts.get(it).is_some()) {
            all.push("further rules of its schema".to_owned());
        }
        all.join(", ")
    }

    /// The values of `enum` and `const`, also of alternatives that are nothing else.
    fn fixed(&mut self, parts: &Parts<'a>) -> String {
        let own = parts.get("enum").and_then(Value::as_array);
        let mut values: Vec<&Value> = own
            .into_iter()
            .flatten()
            .chain(parts.get("const"))
            .collect();
        for alternative in parts.alternatives() {
            if values.len() > LISTED || !self.look() {
                break;
            }
            let parts = self.together(alternative);
            let list = parts.get("enum").and_then(Value::as_array);
            values.extend(list.into_iter().flatten().chain(parts.get("const")));
        }
        let mut listed: Vec<String> = values.iter().take(LISTED).map(|it| json(it)).collect();
        if values.len() > LISTED {
            listed.push("further values".to_owned());
        }
        listed.join(" or ")
    }
}

/// Keywords of bounds, with the words before their value, and the noun that it counts.
const RULES: [(&str, &str, &str); 13] = [
    ("minimum", "at least ", ""),
    ("exclusiveMinimum", "more than ", ""),
    ("maximum", "at most ", ""),
    ("exclusiveMaximum", "less than ", ""),
    ("multipleOf", "a multiple of ", ""),
    ("minLength", "at least ", "character"),
    ("maxLength", "at most ", "character"),
    ("minItems", "at least ", "item"),
    ("maxItems", "at most ", "item"),
    ("minProperties", "at least ", "member"),
    ("maxProperties", "at most ", "member"),
    ("pattern", "matches ", ""),
    ("format", "format ", ""),
];

/// Keywords of rules that the page does not put into words.
const FURTHER: [&str; 9] = [
    "not",
    "if",
    "dependentRequired",
    "dependentSchemas",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "minContains",
    "maxContains",
];

/// A type of JSON Schema, as the other pages call it.
fn word(name: &str) -> &'static str {
    match name {
        "string" => "text",
        "boolean" => "true or false",
        "number" => "number",
        "integer" => "integer",
        "array" => "list",
        "object" => "object",
        "null" => "null",
        _ => ANY,
    }
}

/// Whether a value may be a text. The format of a number is a type of the language of its plugin.
fn takes_text(parts: &Parts<'_>) -> bool {
    match parts.get("type") {
        Some(Value::Array(names)) => names.iter().any(|it| it == "string"),
        one => one.is_none_or(|it| it == "string"),
    }
}

/// Whether a value has members or items of which a schema says more.
fn has_members(parts: &Parts<'_>) -> bool {
    let keywords = [
        "properties",
        "patternProperties",
        "additionalProperties",
        "items",
        "prefixItems",
    ];
    keywords.iter().any(|it| parts.get(it).is_some())
}

/// The path of a member. A name that is no word is quoted.
fn joined(path: &str, name: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$' | '@');
    let name = match !name.is_empty() && name.chars().all(is_word) {
        true => shortened(name, NAME_BYTES),
        false => format!("{:?}", shortened(name, NAME_BYTES)),
    };
    match path {
        "" => name,
        path => format!("{path}.{name}"),
    }
}

/// A value as code.
fn json(value: &Value) -> String {
    code(&shortened(&value.to_string(), VALUE_BYTES))
}

/// A number as it is written, a text as code; empty for any other value.
fn text(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string().chars().take(NAME_BYTES).collect(),
        Value::String(text) => code(&shortened(text, VALUE_BYTES)),
        _ => String::new(),
    }
}

fn shortened(text: &str, most: usize) -> String {
    visible::shortened(text, most, most / 4).unwrap_or_else(|| text.to_owned())
}
