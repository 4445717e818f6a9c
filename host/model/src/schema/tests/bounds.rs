//! Schemas and values that would cause too much work.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::super::{Refused, Schema};
use crate::{Code, codes};

fn refused(schema: &Value) -> Refused {
    match Schema::compile(schema) {
        Ok(_) => panic!("{schema} is accepted"),
        Err(refused) => refused,
    }
}

#[track_caller]
fn is_refused(schema: &Value, code: Code) {
    let refused = refused(schema);
    assert_eq!(refused.code, code, "{refused}");
}

/// `levels` definitions, each of which uses the next one.
fn levels(levels: usize, each: impl Fn(Value) -> Value) -> Value {
    let mut defs = Map::new();
    for level in 0..levels {
        let next = json!({ "$ref": format!("#/$defs/l{}", level + 1) });
        defs.insert(format!("l{level}"), each(next));
    }
    defs.insert(format!("l{levels}"), json!({ "type": "string" }));
    json!({ "$ref": "#/$defs/l0", "$defs": defs })
}

#[test]
fn subschemas_that_double_for_one_value_are_refused() {
    let doublings: [fn(Value) -> Value; 7] = [
        |next| json!({ "allOf": [next, next] }),
        |next| json!({ "anyOf": [next, next] }),
        |next| json!({ "oneOf": [next, next] }),
        |next| json!({ "not": next, "allOf": [next] }),
        |next| json!({ "if": next, "then": next }),
        |next| json!({ "if": true, "else": next, "not": { "not": next } }),
        |next| json!({ "dependentSchemas": { "a": next, "b": next } }),
    ];
    for each in doublings {
        is_refused(&levels(40, each), codes::SCHEMA_BOUNDS);
        let few = Schema::compile(&levels(5, each)).unwrap();
        few.check(&json!({ "a": 1, "b": 2 }), "");
    }
}

#[test]
fn every_draft_is_read_by_the_rules_of_the_newest() {
    for draft in [
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ] {
        let mut schema = levels(40, |next| json!({ "allOf": [next, next] }));
        schema["$schema"] = json!(draft);
        is_refused(&schema, codes::SCHEMA_BOUNDS);
        let schema = json!({
            "$schema": draft,
            "$ref": "#/definitions/a",
            "required": ["b"],
            "definitions": { "a": { "prefixItems": [{ "type": "string" }] } },
        });
        let schema = Schema::compile(&schema).unwrap();
        assert_eq!(schema.check(&json!(["a"]), ""), []);
        assert_eq!(schema.check(&json!([1]), "").len(), 1);
        assert_eq!(schema.check(&json!({}), "").len(), 1);
    }
}

#[test]
fn keywords_with_another_meaning_in_other_drafts_are_refused() {
    for (schema, pointer) in [
        (
            json!({ "$schema": "http://json-schema.org/draft-04/schema#" }),
            "/$schema",
        ),
        (json!({ "$schema": "https://example.com/own" }), "/$schema"),
        (json!({ "$schema": 7 }), "/$schema"),
        (json!({ "items": [{ "type": "string" }] }), "/items"),
        (
            json!({ "not": { "additionalItems": false } }),
            "/not/additionalItems",
        ),
        (
            json!({ "properties": { "a/b": { "dependencies": {} } } }),
            "/properties/a~1b/dependencies",
        ),
        (
            json!({ "unevaluatedProperties": false }),
            "/unevaluatedProperties",
        ),
        (
            json!({ "anyOf": [true, { "unevaluatedItems": false }] }),
            "/anyOf/1/unevaluatedItems",
        ),
        (
            json!({ "$defs": { "a": { "$anchor": "a" } } }),
            "/$defs/a/$anchor",
        ),
        (
            json!({ "$defs": { "a": { "$id": "https://example.com/a" } } }),
            "/$defs/a/$id",
        ),
        (
            json!({ "$defs": { "a": { "$schema": "http://json-schema.org/draft-07/schema#" } } }),
            "/$defs/a/$schema",
        ),
        (json!({ "$dynamicAnchor": "me" }), "/$dynamicAnchor"),
        (
            json!({ "items": { "$dynamicRef": "#me" } }),
            "/items/$dynamicRef",
        ),
        (
            json!({ "items": { "$recursiveRef": "#" } }),
            "/items/$recursiveRef",
        ),
    ] {
        let refused = refused(&schema);
        let found = (refused.code, refused.pointer.as_str());
        assert_eq!(found, (codes::SCHEMA_KEYWORD, pointer), "{schema}");
        assert!(refused.help.is_some(), "{schema}");
    }
    // Names and data are no keywords, and remarks are not looked at.
    let schema = json!({
        "properties": { "dependencies": {}, "$anchor": {} },
        "const": { "$id": "a", "items": [] },
        "x-steps": { "fixed": 1_000_000_000 },
        "x-raw": { "$anchor": "a" },
        "title": "t",
    });
    let schema = Schema::compile(&schema).unwrap();
    assert_eq!(schema.check(&json!({ "$id": "a", "items": [] }), ""), []);
}

#[test]
fn a_mistake_in_a_schema_has_its_place() {
    for (schema, pointer) in [
        (
            json!({ "properties": { "a/b": { "type": "strin" } } }),
            "/properties/a~1b/type",
        ),
        (json!({ "properties": { "a": 5 } }), "/properties/a"),
        (json!({ "properties": 5 }), "/properties"),
        (json!({ "$defs": 5 }), "/$defs"),
        (
            json!({ "$defs": { "a": { "minimum": "x" } } }),
            "/$defs/a/minimum",
        ),
        (json!({ "allOf": [{ "allOf": {} }] }), "/allOf/0/allOf"),
        (
            json!({ "items": { "items": { "maxItems": -1, "pattern": "a" } } }),
            "/items/items/maxItems",
        ),
        (json!({ "$ref": 5 }), "/$ref"),
        (json!([]), ""),
    ] {
        let refused = refused(&schema);
        let found = (refused.code, refused.pointer.as_str());
        assert_eq!(found, (codes::BAD_SCHEMA, pointer), "{schema}");
    }
}

#[test]
fn a_schema_that_applies_itself_to_the_same_value_is_refused() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#" }] }),
        json!({ "$ref": "#/$defs/a", "$defs": {
            "a": { "anyOf": [true, { "$ref": "#/$defs/b" }] },
            "b": { "not": { "$ref": "#/$defs/a" } },
        } }),
        json!({ "items": { "oneOf": [{ "$ref": "#/items" }] } }),
        json!({ "$id": "https://example.com/s", "not": { "$ref": "https://example.com/s" } }),
    ] {
        is_refused(&schema, codes::SCHEMA_REFERENCE);
    }
}

#[test]
fn references_stay_in_one_schema() {
    for schema in [
        json!({ "$ref": "https://example.com/s.json" }),
        json!({ "$ref": "file:///etc/passwd" }),
        json!({ "$ref": "other.json" }),
        json!({ "$ref": "https://json-schema.org/draft/2020-12/schema" }),
        json!({ "$ref": "#/$defs/none" }),
        json!({ "$ref": "#none" }),
        json!({ "$ref": "#/$defs/a%2", "$defs": { "a": true } }),
        json!({ "$ref": "#/$defs/a%FF", "$defs": { "a": true } }),
        json!({ "$id": "https://example.com/s", "$ref": "https://example.com/t#/$defs/a",
                "$defs": { "a": true } }),
        // Data and remarks are not schemas.
        json!({ "default": { "type": "string" }, "$ref": "#/default" }),
        json!({ "x-own": { "type": "string" }, "$ref": "#/x-own" }),
    ] {
        is_refused(&schema, codes::SCHEMA_REFERENCE);
    }
    for schema in [
        json!({ "default": { "$id": "x" }, "properties": { "$id": true, "$ref": true } }),
        json!({ "$ref": "#/$defs/a%20b~1c", "$defs": { "a b/c": { "type": "object" } } }),
        json!({ "$id": "https://example.com/s", "items": { "$ref": "https://example.com/s#/$defs/a" },
                "properties": { "a": { "$ref": "https://example.com/s" } },
                "$defs": { "a": true } }),
        json!({ "$id": "https://example.com/s#", "$ref": "https://example.com/s#/properties/a",
                "properties": { "a": { "minProperties": 0 } } }),
    ] {
        let schema = Schema::compile(&schema).unwrap();
        assert_eq!(schema.check(&json!({}), ""), []);
    }
}

/// A list of lists, this deep.
fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!([inner]))
}

#[test]
fn a_schema_may_refer_to_itself_for_the_parts_of_a_value() {
    let tree = json!({
        "type": ["array", "integer"],
        "items": { "$ref": "#" },
    });
    let tree = Schema::compile(&tree).unwrap();
    assert_eq!(tree.check(&nested(100), ""), []);
    let wrong = tree.check(&json!([[1, "x"]]), "/at");
    assert_eq!(wrong.len(), 1);
    assert_eq!(wrong[0].place.pointer, "/at/0/1");
}

#[test]
fn work_that_multiplies_ends_at_the_budget() {
    let twice = json!({
        "properties": { "a": { "allOf": [{ "$ref": "#" }, { "$ref": "#" }] } },
    });
    let schema = Schema::compile(&twice).unwrap();
    let deep = |depth: usize, last: Value| (0..depth).fold(last, |inner, _| json!({ "a": inner }));
    assert_eq!(schema.check(&deep(10, json!(1)), ""), []);
    // The validator remembers which parts fit, but not the mistakes of those that do not.
    assert_eq!(schema.check(&deep(100, json!(1)), ""), []);
    let twice = json!({
        "properties": { "a": { "allOf": [{ "$ref": "#" }, { "$ref": "#" }] } },
        "type": "object",
    });
    let schema = Schema::compile(&twice).unwrap();
    let wrong = schema.check(&deep(100, json!(1)), "/input");
    assert_eq!(wrong.len(), 1);
    assert_eq!(wrong[0].code, codes::SCHEMA_VALUE);
    assert_eq!(
        wrong[0].place.pointer,
        format!("/input{}", "/a".repeat(100))
    );
    let nested = json!({
        "properties": { "a": { "not": { "allOf": [{ "$ref": "#" }, { "not": { "$ref": "#" } }] } } },
    });
    let schema = Schema::compile(&nested).unwrap();
    let wrong = schema.check(&deep(127, json!(1)), "/input");
    assert_eq!((wrong.len(), &wrong[0].code), (1, &codes::SCHEMA_STEPS));
    assert_eq!(wrong[0].place.pointer, "/input");
}

#[test]
fn work_is_bounded_by_the_size_of_the_value_too() {
    let schema = levels(9, |next| json!({ "allOf": [next, next] }));
    let schema = json!({ "items": { "$ref": "#/$defs/l0" }, "$defs": schema["$defs"] });
    let schema = Schema::compile(&schema).unwrap();
    let texts = |count: usize| Value::from(vec!["x"; count]);
    assert_eq!(schema.check(&texts(10), ""), []);
    assert_eq!(
        schema.check(&texts(1_000_000), "")[0].code,
        codes::SCHEMA_STEPS
    );
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "it measures the time that passes"
)]
fn no_check_takes_long() {
    const LONGEST: Duration = Duration::from_secs(20);
    let small: Value =
        serde_json::from_str(&format!("[1e-9998{}]", ",1e-9998".repeat(130_000))).unwrap();
    let digits: Value = serde_json::from_str(&"7".repeat(10_000_000)).unwrap();
    let list = Value::from(vec![1; 200_000]);
    let many = |each: fn(usize) -> Value| Value::from_iter((0..400).map(each));
    let names: Map<String, Value> = (0..50_000).map(|n| (format!("n{n}"), json!(n))).collect();
    let named = |each: fn(usize) -> (String, Value)| Value::from_iter((0..200).map(each));
    let deep = (0..60).fold(json!(1), |inner, _| json!({ "a": inner, "b": 1 }));
    for (schema, value) in [
        (json!({ "multipleOf": 3 }), &digits),
        (
            json!({ "anyOf": many(|n| json!({ "minimum": n, "enum": [n] })) }),
            &digits,
        ),
        (json!({ "items": { "minimum": 0 } }), &small),
        (json!({ "items": { "type": "integer" } }), &small),
        (json!({ "items": { "multipleOf": 0.01 } }), &small),
        (
            json!({ "allOf": many(|n| json!({ "contains": { "const": -1 - n as i64 } })) }),
            &list,
        ),
        (
            json!({ "items": { "oneOf": many(|n| json!({ "const": n })) } }),
            &list,
        ),
        (
            json!({ "items": { "not": { "allOf": many(|n| json!({ "not": { "const": -1 - n as i64 } })) } } }),
            &list,
        ),
        (
            json!({ "allOf": many(|n| json!({ "uniqueItems": true, "minItems": n })) }),
            &list,
        ),
        (
            json!({ "patternProperties": named(|n| (n.to_string(), json!({ "not": { "not": {} } }))) }),
            &Value::Object(names.clone()),
        ),
        (
            json!({ "patternProperties": named(|n| (format!("^.*{n}"), json!({ "type": "string" }))) }),
            &Value::Object(names.clone()),
        ),
        (
            json!({ "propertyNames": { "anyOf": many(|n| json!({ "pattern": format!("x{n}$") })) } }),
            &Value::Object(names),
        ),
        (
            json!({ "allOf": many(|n| json!({ "maxLength": n })) }),
            &json!("x".repeat(10_000_000)),
        ),
        (
            json!({ "properties": { "a": { "oneOf": [{ "$ref": "#" }, { "$ref": "#" }, { "$ref": "#" }] } } }),
            &deep,
        ),
        (
            json!({ "additionalProperties": { "anyOf": [{ "$ref": "#" }, { "$ref": "#" }] }, "type": "object" }),
            &deep,
        ),
    ] {
        let compiled = Schema::compile(&schema).unwrap();
        let begin = Instant::now();
        compiled.check(value, "");
        let took = begin.elapsed();
        assert!(took < LONGEST, "{took:?}: {}", &schema.to_string()[..60]);
    }
}

#[test]
fn large_plain_values_are_checked() {
    let schema = json!({ "items": { "type": "object", "properties": { "n": { "minimum": 0 } },
                                    "required": ["n"], "additionalProperties": false } });
    let schema = Schema::compile(&schema).unwrap();
    let list = |last: i64| {
        let items = (0..200_000).map(|n| json!({ "n": if n == 199_999 { last } else { n } }));
        Value::from_iter(items)
    };
    assert_eq!(schema.check(&list(1), ""), []);
    let wrong = schema.check(&list(-1), "");
    assert_eq!(wrong.len(), 1);
    assert_eq!(wrong[0].place.pointer, "/199999/n");
}

#[test]
fn mistakes_of_large_values_are_not_gathered() {
    let choice = json!({ "items": { "anyOf": [{ "type": "string" }, { "minimum": 9 }] } });
    let choice = Schema::compile(&choice).unwrap();
    let wrong = choice.check(&Value::from(vec![1; 1_000_000]), "/input");
    assert_eq!(wrong.len(), 1);
    assert_eq!(
        (&wrong[0].code, &*wrong[0].place.pointer),
        (&codes::SCHEMA_VALUE, "/input")
    );

    let names: Map<String, Value> = (0..500_000).map(|n| (format!("n{n}"), json!(n))).collect();
    let closed = Schema::compile(&json!({ "additionalProperties": false })).unwrap();
    let wrong = closed.check(&Value::Object(names), "");
    assert!((1..=super::MISTAKES).contains(&wrong.len()));
}

#[test]
fn messages_do_not_repeat_long_texts() {
    let long = "x".repeat(1_000_000);
    let digits: Value = serde_json::from_str(&"7".repeat(100_000)).unwrap();
    let constant: Value = serde_json::from_str(&"7".repeat(400)).unwrap();
    for (schema, value) in [
        (
            json!({ "additionalProperties": false, "properties": { "a": true } }),
            json!({ &*long: 1 }),
        ),
        (json!({ "const": &long[..500_000] }), json!(1)),
        (json!({ "enum": ["a"] }), json!(&long)),
        (json!({ "const": &constant }), json!(1)),
        (json!({ "enum": ["a"] }), digits.clone()),
        (json!({ "const": 1 }), digits.clone()),
        (json!({ "maximum": 1 }), digits.clone()),
        (json!({ "type": "string" }), digits),
        (json!({ "required": [&long[..500_000]] }), json!({})),
        (
            json!({ "propertyNames": { "maxLength": 3 } }),
            json!({ &*long: 1 }),
        ),
    ] {
        let wrong = Schema::compile(&schema).unwrap().check(&value, "");
        assert_eq!(
            wrong.len(),
            1,
            "{}",
            schema.to_string().get(..80).unwrap_or_default()
        );
        assert!(wrong[0].message.len() < 1_000, "{}", wrong[0].code);
    }
}

#[test]
fn patterns_are_looked_for_in_linear_time() {
    let schema = json!({ "pattern": "^(a+)+$", "patternProperties": { "^(b*)*c$": false } });
    let schema = Schema::compile(&schema).unwrap();
    let long = "a".repeat(100_000);
    assert_eq!(schema.check(&json!(&long), ""), []);
    assert_eq!(schema.check(&json!(format!("{long}b")), "").len(), 1);
    assert_eq!(schema.check(&json!({ "b".repeat(50_000): 1 }), ""), []);
}

#[test]
fn patterns_without_a_linear_form_are_refused() {
    let large = "(((a{50}){50}){50})";
    for pattern in [
        "^(?=a)b",
        "(?!x)y",
        "(?<=a)b",
        r"(a)\1",
        "(",
        large,
        &"x".repeat(2_000),
    ] {
        for schema in [
            json!({ "pattern": pattern }),
            json!({ "patternProperties": { pattern: true } }),
            json!({ "items": { "anyOf": [{ "pattern": pattern }] } }),
        ] {
            is_refused(&schema, codes::SCHEMA_PATTERN);
        }
    }
    let refused = refused(&json!({ "properties": { "a": { "pattern": "(?=a)" } } }));
    assert_eq!(refused.pointer, "/properties/a/pattern");
    assert!(refused.help.unwrap().contains("(?="));
}

#[test]
fn usual_patterns_are_taken() {
    let semver = r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$";
    for (pattern, text) in [
        (semver, "1.2.3-a.1+b"),
        (
            r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
            "00000000-0000-0000-0000-000000000000",
        ),
        (
            r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$",
            "a.example",
        ),
        (r"^\p{L}[\p{L}\p{N} ]*$", "Ünïcode 1"),
        (
            r"^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$",
            "2026-01-01T00:00Z",
        ),
        (r"^[^@\s]+@[^@\s]+\.[^@\s]+$", "a@b.example"),
        (r"^\w{1,200}$", "x"),
    ] {
        let schema = Schema::compile(&json!({ "pattern": pattern })).unwrap();
        assert_eq!(schema.check(&json!(text), ""), [], "{pattern}");
        // The same for long texts.
        schema.check(&json!("x".repeat(100_000)), "");
    }
}

#[test]
fn unique_items_take_linear_time() {
    // Lists that differ only in their brackets.
    fn brackets(pairs: usize, count: usize) -> Vec<Value> {
        let mut all = vec![json!([[], []])];
        for _ in 1..pairs {
            all = all
                .iter()
                .flat_map(|list| {
                    let mut longer = list.clone();
                    longer.as_array_mut().unwrap().push(json!([]));
                    [json!([list]), longer]
                })
                .take(count)
                .collect();
        }
        all
    }
    let schema = Schema::compile(&json!({ "uniqueItems": true })).unwrap();
    let mut list = brackets(20, 100_000);
    assert_eq!(list.len(), 100_000);
    assert_eq!(schema.check(&Value::from(list.clone()), ""), []);
    list.push(list[7].clone());
    let wrong = schema.check(&Value::from(list), "");
    assert_eq!(wrong.len(), 1);
}

#[test]
fn items_are_the_same_as_json_schema_says() {
    let schema = Schema::compile(&json!({ "uniqueItems": true })).unwrap();
    for (list, unique) in [
        (json!([1, 1.0]), false),
        (json!([0, -0.0]), false),
        (json!([1, true]), true),
        (json!([0, false, null, "", [], {}]), true),
        (json!([{ "a": 1, "b": 2 }, { "b": 2, "a": 1.0 }]), false),
        (json!([[1, 2], [2, 1]]), true),
        (json!([["ab"], ["a", "b"]]), true),
        (json!([u64::MAX, u64::MAX as f64]), true),
        // A float is the decimal that it is printed as.
        (json!([i64::MIN, i64::MIN as f64]), true),
        (json!([1e300, 1e300]), false),
        (json!([0.1, 0.2]), true),
    ] {
        assert_eq!(schema.check(&list, "").is_empty(), unique, "{list}");
    }
    let off = Schema::compile(&json!({ "uniqueItems": false })).unwrap();
    assert_eq!(off.check(&json!([1, 1]), ""), []);
}

#[test]
fn long_chains_of_references_are_refused() {
    for count in [64, 900] {
        is_refused(&levels(count, |next| next), codes::SCHEMA_REFERENCE);
        let each = |next| json!({ "allOf": [next] });
        is_refused(&levels(count, each), codes::SCHEMA_REFERENCE);
    }
    Schema::compile(&levels(62, |next| next)).unwrap();
    // Only chains for the same value are refused, not those through items.
    Schema::compile(&levels(990, |next| json!({ "items": next }))).unwrap();
}

#[test]
fn schemas_that_are_very_large_are_refused() {
    let many: Map<String, Value> = (0..20_000).map(|n| (n.to_string(), json!({}))).collect();
    is_refused(&json!({ "properties": many }), codes::SCHEMA_BOUNDS);
    let values: Vec<u32> = (0..200_000).collect();
    is_refused(&json!({ "enum": values }), codes::SCHEMA_BOUNDS);
    let deep = (0..100).fold(json!(true), |inner, _| json!({ "items": inner }));
    is_refused(&deep, codes::SCHEMA_BOUNDS);
    let named = (0..25).fold(
        json!(true),
        |inner, _| json!({ "properties": { "n".repeat(100_000): inner } }),
    );
    is_refused(&named, codes::SCHEMA_BOUNDS);
    let patterns = (0..1_000).map(|n| json!({ "pattern": format!("a{n}.{{99}}") }));
    is_refused(
        &json!({ "allOf": Value::from_iter(patterns) }),
        codes::SCHEMA_BOUNDS,
    );
}

#[test]
fn numbers_may_be_extreme() {
    for step in [
        json!(1e-300),
        json!(5e-324),
        json!(1e308),
        json!(0.1),
        json!(3),
    ] {
        let schema = Schema::compile(&json!({ "multipleOf": step })).unwrap();
        for value in [
            json!(1e308),
            json!(-1e308),
            json!(5e-324),
            json!(u64::MAX),
            json!(0),
        ] {
            schema.check(&value, "");
        }
    }
}

#[test]
fn formats_are_remarks() {
    for draft in [
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2020-12/schema",
    ] {
        let schema = json!({ "$schema": draft, "format": "email" });
        assert_eq!(
            Schema::compile(&schema).unwrap().check(&json!("no"), ""),
            []
        );
    }
}

/// The stack of a thread that checks values, reduced by a reserve for its callers.
const STACK_BYTES: usize = 1536 * 1024;

#[test]
fn the_deepest_value_fits_the_stack() {
    let checks = || {
        // Each level of a value takes four levels of the schema.
        let schema = json!({ "$ref": "#/$defs/a", "$defs": {
            "a": { "anyOf": [{ "$ref": "#/$defs/b" }] },
            "b": { "allOf": [{ "$ref": "#/$defs/c" }] },
            "c": { "additionalProperties": { "$ref": "#/$defs/a" } },
        } });
        let schema = Schema::compile(&schema).unwrap();
        let deep =
            |depth: usize, last: Value| (0..depth).fold(last, |inner, _| json!({ "a": inner }));
        for depth in 0..127 {
            schema.check(&deep(depth, json!(1)), "");
            schema.check(&deep(depth, json!([])), "");
        }
        // The deepest schema can be compiled and dropped as well.
        let deep = (0..30).fold(json!({ "type": "string" }), |inner, level| {
            match level % 3 {
                0 => json!({ "items": inner }),
                1 => json!({ "allOf": [inner] }),
                _ => json!({ "additionalProperties": inner }),
            }
        });
        drop(Schema::compile(&deep).unwrap());
        let mut chain = levels(990, |next| json!({ "items": next }));
        chain["$defs"]["l0"] = json!({ "contains": { "$ref": "#/$defs/l1" } });
        drop(Schema::compile(&chain).unwrap());
    };
    let thread = std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(checks);
    thread.unwrap().join().unwrap();
}

#[test]
fn schemas_with_very_long_numbers_are_refused() {
    for number in [
        "1e401",
        "1e-9998",
        "1e9000000000000000000000",
        &"7".repeat(401),
    ] {
        let number: Value = serde_json::from_str(number).unwrap();
        is_refused(&json!({ "multipleOf": number }), codes::SCHEMA_BOUNDS);
        is_refused(&json!({ "enum": [1, [number]] }), codes::SCHEMA_BOUNDS);
    }
    Schema::compile(&json!({ "maximum": 1e300 })).unwrap();
}

#[test]
fn patterns_with_flags_are_refused() {
    for pattern in ["(?i)a", "(?-i:a)", "x(?s:.)", "[]](?i)", "\\\\(?x) a"] {
        is_refused(&json!({ "pattern": pattern }), codes::SCHEMA_PATTERN);
    }
    for pattern in ["(?:a)", "(?<year>a)", "\\(?i", "[(?i)]"] {
        Schema::compile(&json!({ "pattern": pattern })).unwrap();
    }
}

#[test]
fn mistakes_with_long_names_take_little_memory() {
    let schema = json!({ "additionalProperties": { "items": { "type": "string" } } });
    let schema = Schema::compile(&schema).unwrap();
    let long = "~".repeat(500_000);
    let wrong = schema.check(&json!({ &*long: vec![1; 4_000] }), "");
    assert!((1..=super::MISTAKES).contains(&wrong.len()));
}

#[test]
fn a_default_that_nests_deep_in_a_long_chain_is_refused() {
    let mut schema = levels(60, |next| next);
    schema["$defs"]["l60"] = json!({ "additionalProperties": { "$ref": "#/$defs/l0" } });
    let deep = (0..50).fold(json!(1), |inner, _| json!({ "a": inner }));
    schema["default"] = deep;
    let schema = Schema::compile(&schema).unwrap();
    let refused = schema.defaults_fit().unwrap_err();
    assert_eq!(refused.code, codes::SCHEMA_DEFAULT);
}
