//! The schema of workflow files against the reader: both accept the same keys and choices. Every
//! good case of `cases` is read with the schema beside it, and changed at each of its values.

#![expect(clippy::unwrap_used, reason = "a test that fails says so by a panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use windlass_model::file::{JSON_SCHEMA, Read, read};
use windlass_model::schema::Schema;
use windlass_model::{codes, limits};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn schema() -> Value {
    serde_json::from_str(JSON_SCHEMA).unwrap()
}

/// The good cases, in the canonical form.
fn cases() -> Vec<Value> {
    let files = fs::read_dir(root().join("tests/cases")).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let good = |path: &&PathBuf| name(path).starts_with("good") && !name(path).ends_with(".txt");
    let read = |path| read(&fs::read_to_string(path).unwrap(), &name(path));
    let canonical = files.iter().filter(good).map(|path| read(path).canonical());
    let mut cases: Vec<Value> = canonical
        .map(|json| serde_json::from_slice(&json.unwrap()).unwrap())
        .collect();
    // The canonical form has no `layout`.
    let case = cases.first_mut().unwrap().as_object_mut().unwrap();
    case.insert("layout".to_owned(), json!({}));
    cases
}

fn read_value(value: &Value) -> Read {
    read(&value.to_string(), "case.json")
}

/// A value of a case, with the schemas that apply to it.
struct Place<'s> {
    case: usize,
    pointer: String,
    schemas: Vec<&'s Value>,
    /// The definition of the map, if the value is a member of a map with known keys, and the key.
    member: Option<(String, String)>,
}

struct Walk<'s> {
    root: &'s Value,
    case: usize,
    places: Vec<Place<'s>>,
}

impl<'s> Walk<'s> {
    /// The schemas that apply to a value, with the names of their definitions.
    fn schemas(&self, schema: &'s Value, name: &str, value: &Value) -> Vec<(&'s Value, String)> {
        let mut all = vec![(schema, name.to_owned())];
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.strip_prefix("#/$defs/").unwrap();
            let definition = self.root["$defs"].get(name).unwrap();
            all.extend(self.schemas(definition, name, value));
        }
        for alternatives in ["oneOf", "anyOf"] {
            for alternative in schema[alternatives].as_array().into_iter().flatten() {
                let applying = self.schemas(alternative, name, value);
                if applying.iter().all(|(schema, _)| fits(schema, value)) {
                    all.extend(applying);
                }
            }
        }
        all
    }

    fn walk(&mut self, (schema, name): (&'s Value, &str), value: &Value, place: Place<'s>) {
        let schemas = self.schemas(schema, name, value);
        let pointer = place.pointer.clone();
        let below = |key: &str, member| Place {
            case: self.case,
            pointer: format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")),
            schemas: Vec::new(),
            member,
        };
        let mut next = Vec::new();
        for (schema, name) in &schemas {
            for (key, value) in value.as_object().into_iter().flatten() {
                if let Some(schema) = schema["properties"].get(key) {
                    let member = Some((name.clone(), key.clone()));
                    next.push((schema, value, below(key, member)));
                } else if let Some(schema) = schema.get("additionalProperties") {
                    next.push((schema, value, below(key, None)));
                }
            }
            for (at, item) in value.as_array().into_iter().flatten().enumerate() {
                if let Some(schema) = schema.get("items") {
                    next.push((schema, item, below(&at.to_string(), None)));
                }
            }
        }
        let schemas = schemas.into_iter().map(|(schema, _)| schema).collect();
        self.places.push(Place { schemas, ..place });
        for (schema, value, place) in next {
            self.walk((schema, ""), value, place);
        }
    }
}

/// Whether a value can be meant by an alternative: its type, and the keys of a map.
fn fits(schema: &Value, value: &Value) -> bool {
    let of_type = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        _ => true,
    };
    let required = schema["required"].as_array().into_iter().flatten();
    let closed = schema["additionalProperties"] == json!(false);
    let keys = value.as_object().into_iter().flat_map(|map| map.keys());
    of_type
        && required
            .map(|key| key.as_str().unwrap())
            .all(|key| value.get(key).is_some())
        && (!closed
            || keys
                .into_iter()
                .all(|key| schema["properties"].get(key).is_some()))
}

fn places<'s>(schema: &'s Value, cases: &[Value]) -> Vec<Place<'s>> {
    let mut places = Vec::new();
    for (case, value) in cases.iter().enumerate() {
        let mut walk = Walk {
            root: schema,
            case,
            places: Vec::new(),
        };
        let place = Place {
            case,
            pointer: String::new(),
            schemas: Vec::new(),
            member: None,
        };
        walk.walk((schema, ""), value, place);
        places.append(&mut walk.places);
    }
    places
}

/// The members of all maps of the schema with known keys.
fn members(schema: &Value) -> BTreeSet<(String, String)> {
    let definitions = schema["$defs"].as_object().unwrap().iter();
    let maps = definitions.map(|(name, map)| (name.as_str(), map));
    let mut members = BTreeSet::new();
    for (name, map) in maps.chain([("", schema)]) {
        let Some(properties) = map["properties"].as_object() else {
            continue;
        };
        assert_eq!(map["additionalProperties"], false, "{name} is closed");
        members.extend(properties.keys().map(|key| (name.to_owned(), key.clone())));
    }
    members
}

#[test]
fn the_schema_accepts_every_good_case() {
    let schema = Schema::compile(&schema()).unwrap();
    for case in cases() {
        assert_eq!(schema.check(&case, ""), [], "{case}");
    }
}

#[test]
fn a_good_case_has_each_key_of_the_schema() {
    let schema = schema();
    let places = places(&schema, &cases());
    let found: BTreeSet<_> = places
        .into_iter()
        .filter_map(|place| place.member)
        .collect();
    let missing: Vec<_> = members(&schema).difference(&found).cloned().collect();
    assert_eq!(missing, []);
}

#[test]
fn reader_and_schema_refuse_a_key_that_the_schema_lacks() {
    let (schema, cases) = (schema(), cases());
    let compiled = Schema::compile(&schema).unwrap();
    let mut closed = 0;
    for place in places(&schema, &cases) {
        let Place { case, pointer, .. } = &place;
        if !place
            .schemas
            .iter()
            .any(|it| it.get("properties").is_some())
        {
            continue;
        }
        let mut value = cases[*case].clone();
        let Some(map) = value.pointer_mut(pointer).unwrap().as_object_mut() else {
            continue;
        };
        closed += 1;
        map.insert("qqqq".to_owned(), json!(1));
        assert!(!compiled.check(&value, "").is_empty(), "schema: {pointer}");
        let found = read_value(&value).diagnostics;
        let unknown = found.iter().find(|it| it.code == codes::UNKNOWN_KEY);
        assert!(unknown.is_some(), "{pointer}: {found:?}");
    }
    assert!(closed > 100, "{closed}");
}

#[test]
fn the_reader_reads_each_key_and_is_as_strict_as_the_schema() {
    let (schema, cases) = (schema(), cases());
    let compiled = Schema::compile(&schema).unwrap();
    let others = json!([null, true, false, 7, 0, 100_000, "qqqq", "", [], {}, { "qqqq": 1 }]);
    let (mut tried, mut read_keys) = (BTreeSet::new(), BTreeSet::new());
    for place in places(&schema, &cases) {
        let Some(member) = place.member.filter(|it| tried.insert(it.clone())) else {
            continue;
        };
        let before = read_value(&cases[place.case]).definition;
        for other in others.as_array().unwrap() {
            let mut value = cases[place.case].clone();
            *value.pointer_mut(&place.pointer).unwrap() = other.clone();
            let after = read_value(&value).definition;
            if after != before {
                read_keys.insert(member.clone());
            }
            let refused = !compiled.check(&value, "").is_empty();
            assert!(!refused || after.is_none(), "{}: {other}", place.pointer);
        }
    }
    let unread: Vec<_> = members(&schema).difference(&read_keys).cloned().collect();
    assert_eq!(unread, [(String::new(), "layout".to_owned())]);
}

#[test]
fn reader_and_schema_have_the_same_choices() {
    let (schema, cases) = (schema(), cases());
    let mut seen = BTreeSet::new();
    for place in places(&schema, &cases) {
        let choices = all_choices(&schema, place.schemas[0]);
        let value = cases[place.case].pointer(&place.pointer).unwrap();
        if choices.is_empty() || !value.is_string() {
            continue;
        }
        let set = |choice: &str| {
            let mut value = cases[place.case].clone();
            *value.pointer_mut(&place.pointer).unwrap() = json!(choice);
            read_value(&value)
        };
        for choice in &choices {
            let found = set(choice).diagnostics;
            assert_eq!(found, [], "{}: {choice}", place.pointer);
        }
        let help = set("qqqq").diagnostics.remove(0).help.unwrap();
        let named: Vec<_> = help.split('`').skip(1).step_by(2).collect();
        assert_eq!(named, choices, "{}: {help}", place.pointer);
        seen.insert(choices);
    }
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        let choices = all_choices(&schema, definition);
        assert!(choices.is_empty() || seen.contains(&choices), "{name}");
    }
}

/// The words of a schema, those of its alternatives included.
fn all_choices(root: &Value, schema: &Value) -> Vec<String> {
    let words = schema["enum"].as_array().into_iter().flatten();
    let mut words: Vec<Value> = words.chain(schema.get("const")).cloned().collect();
    if let Some(name) = schema["$ref"].as_str() {
        let pointer = name.trim_start_matches('#');
        return all_choices(root, root.pointer(pointer).unwrap());
    }
    for alternatives in ["oneOf", "anyOf"] {
        for alternative in schema[alternatives].as_array().into_iter().flatten() {
            words.extend(all_choices(root, alternative).into_iter().map(Value::from));
        }
    }
    words
        .iter()
        .map(|word| word.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_bounds_of_the_schema_are_those_of_the_reader() {
    let schema = schema();
    for (pointer, bound) in [
        ("/properties/triggers/maxProperties", limits::TRIGGERS),
        ("/$defs/Nodes/maxProperties", limits::NODES),
        ("/$defs/Edges/maxItems", limits::EDGES),
        ("/$defs/OnError/anyOf/1/maxItems", limits::ERROR_RULES),
        (
            "/$defs/Node/properties/concurrency/maximum",
            limits::CONCURRENCY as usize,
        ),
        (
            "/$defs/Node/properties/priority/maximum",
            limits::PRIORITY.unsigned_abs() as usize,
        ),
    ] {
        assert_eq!(schema.pointer(pointer).unwrap(), bound, "{pointer}");
    }
}
