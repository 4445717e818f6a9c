//! Defaults: what they add, where they hold, and their bounds.

use serde_json::{Value, json};

use crate::codes;
use crate::schema::{Refused, Schema};

fn checked(schema: &Value) -> Result<Schema, Refused> {
    let schema = Schema::compile(schema)?;
    schema.defaults_fit()?;
    Ok(schema)
}

#[track_caller]
fn check(schema: &Value, text: &str, expected: &str) {
    let compiled = checked(schema).unwrap();
    let completed = compiled.complete(text.as_bytes(), "").unwrap();
    let completed = completed.map_or_else(|| text.to_owned(), |it| String::from_utf8(it).unwrap());
    assert_eq!(completed, expected, "{schema} {text}");
}

#[track_caller]
fn check_refused(schema: &Value, pointer: &str, message: &str) {
    let Refused {
        code,
        pointer: at,
        message: told,
        ..
    } = checked(schema).unwrap_err();
    assert_eq!(
        (code, at.as_str(), told.as_str()),
        (codes::SCHEMA_DEFAULT, pointer, message)
    );
}

#[test]
fn missing_members_get_their_defaults_and_others_stay_as_they_are() {
    let schema = json!({ "properties": {
        "limit": { "type": "integer", "default": 10 },
        "name": { "type": ["string", "null"], "default": "x" },
        "open": {},
    } });
    check(&schema, "{}", r#"{"limit":10,"name":"x"}"#);
    check(&schema, r#"{"name":null}"#, r#"{"name":null,"limit":10}"#);
    let whole = r#" {"limit" : 1.0000000000000000000001, "name":"a"} "#;
    check(&schema, whole, whole);
    let digits = r#"{"open":{"n":123456789012345678901234567890}}"#;
    check(
        &schema,
        digits,
        r#"{"open":{"n":123456789012345678901234567890},"limit":10,"name":"x"}"#,
    );
    for other in ["null", "[]", "5", "\"limit\""] {
        check(&schema, other, other);
    }
    check(&json!({ "type": "object" }), r#"{"a": 1}"#, r#"{"a": 1}"#);
    check(&json!(true), "{}", "{}");
}

#[test]
fn a_value_that_is_whole_keeps_its_bytes() {
    let schema = checked(&json!({ "properties": { "a": { "default": 1 } } })).unwrap();
    assert_eq!(schema.complete(br#"{ "a" : 2 }"#, "").unwrap(), None);
    assert_eq!(schema.complete(b"\xff", "").unwrap(), None);
    assert_eq!(schema.complete(b"{\"a", "").unwrap(), None);
}

#[test]
fn defaults_hold_at_any_depth_and_through_references() {
    let line = json!({ "type": "object", "properties": { "count": { "default": 1 } } });
    let schema = json!({
        "allOf": [{ "properties": { "all": { "default": true } } }],
        "$ref": "#/$defs/base",
        "properties": {
            "lines": { "type": "array", "items": line },
            "pair": { "prefixItems": [{ "$ref": "#/$defs/base" }, {}] },
            "map": { "additionalProperties": line },
            "address": { "default": {}, "properties": { "country": { "default": "DE" } } },
        },
        "$defs": { "base": { "properties": { "kind": { "default": "k" } } } },
    });
    check(
        &schema,
        r#"{"lines":[{},{"count":2},3],"pair":[{},{}],"map":{"a":{}},"address":{"city":"B"}}"#,
        r#"{"lines":[{"count":1},{"count":2},3],"pair":[{"kind":"k"},{}],"map":{"a":{"count":1}},"address":{"city":"B","country":"DE"},"kind":"k","all":true}"#,
    );
    check(
        &schema,
        "{}",
        r#"{"address":{"country":"DE"},"kind":"k","all":true}"#,
    );
}

#[test]
fn a_branch_that_may_not_be_meant_adds_nothing() {
    let part = json!({ "properties": { "a": { "default": 1 } } });
    for key in ["anyOf", "oneOf"] {
        check(&json!({ key: [part] }), "{}", "{}");
    }
    for key in ["not", "if", "then", "else"] {
        check(&json!({ key: part, "properties": { "b": {} } }), "{}", "{}");
    }
    let patterned = json!({ "patternProperties": { "^x": part }, "additionalProperties": part });
    check(&patterned, r#"{"x":{},"y":{}}"#, r#"{"x":{},"y":{}}"#);
}

#[test]
fn the_default_nearest_to_the_member_counts() {
    let schema = json!({
        "properties": { "a": { "$ref": "#/$defs/a", "default": 1 }, "b": { "$ref": "#/$defs/a" } },
        "$defs": { "a": { "default": 2 } },
    });
    check(&schema, "{}", r#"{"a":1,"b":2}"#);
    // The order in which definitions are written says nothing.
    let default = |default: u32| json!({ "properties": { "a": { "default": default } } });
    let schema = json!({
        "$ref": "#/$defs/near",
        "$defs": { "far": default(2), "near": { "$ref": "#/$defs/far", "properties": default(1)["properties"] } },
    });
    check(&schema, "{}", r#"{"a":1}"#);
}

#[test]
fn a_default_of_the_whole_takes_the_place_of_null() {
    let schema =
        json!({ "type": "object", "default": {}, "properties": { "a": { "default": 1 } } });
    check(&schema, "null", r#"{"a":1}"#);
    check(&schema, "{}", r#"{"a":1}"#);
}

#[test]
fn a_recursive_schema_completes_present_members() {
    let schema = json!({ "properties": { "n": { "default": 0 }, "next": { "$ref": "#" } } });
    check(
        &schema,
        r#"{"next":{"next":{}}}"#,
        r#"{"next":{"next":{"n":0},"n":0},"n":0}"#,
    );
    let null = json!({ "type": ["object", "null"], "properties": { "next": { "$ref": "#", "default": null } } });
    check(&null, "{}", r#"{"next":null}"#);
}

#[test]
fn defaults_have_to_fit_and_to_end() {
    check_refused(
        &json!({ "properties": { "limit": { "type": "integer", "default": "ten" } } }),
        "/properties/limit/default",
        "the default does not fit its own schema: expected integer, found text",
    );
    check_refused(
        &json!({ "$id": "https://example.com/a", "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": { "a b/c": { "properties": { "x": { "minimum": 5, "default": 1 } } } },
            "properties": { "a": { "$ref": "#/definitions/a%20b~1c" } } }),
        "/definitions/a b~1c/properties/x/default",
        "the default does not fit its own schema: the value is less than the minimum of 5",
    );
    // A default is completed before it is checked.
    let incomplete = |inner: Value| {
        json!({ "properties": { "a": {
            "required": ["b"], "properties": { "b": inner }, "default": {},
        } } })
    };
    checked(&incomplete(json!({ "default": 1 }))).unwrap();
    check_refused(
        &incomplete(json!({})),
        "/properties/a/default",
        "the default does not fit its own schema: \"b\" is a required property",
    );
    check_refused(
        &json!({ "properties": { "next": { "$ref": "#", "default": {} } } }),
        "/properties/next/default",
        "the default contains itself, without end",
    );
}

#[test]
fn defaults_that_multiply_are_charged_before_they_grow() {
    let text = "x".repeat(1_000);
    let schema = json!({ "items": { "properties": { "a": { "default": text } } } });
    let schema = checked(&schema).unwrap();
    let list = |items: usize| format!("[{}]", vec!["{}"; items].join(","));
    assert!(
        schema
            .complete(list(4_000).as_bytes(), "")
            .unwrap()
            .is_some()
    );
    let found = schema
        .complete(list(100_000).as_bytes(), "/input")
        .unwrap_err();
    assert_eq!(found.code, codes::SCHEMA_DEFAULT);
    assert_eq!(found.place.pointer, "/input");
    // Each default contains the next one twice.
    let mut defs = serde_json::Map::new();
    for at in 0..40 {
        let next = json!({ "$ref": format!("#/$defs/d{}", at + 1) });
        let part = json!({ "default": {}, "properties": { "a": next, "b": next } });
        defs.insert(format!("d{at}"), part);
    }
    defs.insert("d40".to_owned(), json!({ "default": "end" }));
    let schema = json!({ "properties": { "a": { "$ref": "#/$defs/d0" } }, "$defs": defs });
    let refused = Schema::compile(&schema).unwrap_err();
    assert_eq!(refused.code, codes::SCHEMA_DEFAULT, "{refused}");
}

#[test]
fn values_that_are_deep_or_wide_end_soon() {
    let schema =
        json!({ "properties": { "n": { "default": 0 }, "l": { "items": { "$ref": "#" } } } });
    let schema = checked(&schema).unwrap();
    let deep = format!("{}{{}}{}", "{\"l\":[".repeat(5_000), "]}".repeat(5_000));
    assert!(schema.complete(deep.as_bytes(), "").unwrap().is_some());
    let wide = format!("{{\"l\":[{}]}}", vec!["{}"; 2_000_000].join(","));
    assert!(schema.complete(wide.as_bytes(), "").is_err());
}

#[test]
fn a_default_of_null_adds_nothing_to_a_configuration() {
    let schema = json!({ "properties": { "a": { "default": null }, "b": { "default": 1 } } });
    let completed = |schema: Schema| schema.completed(json!({}), "").unwrap();
    assert_eq!(
        completed(Schema::of_plugin(&schema).unwrap()),
        json!({ "b": 1 })
    );
    assert_eq!(
        completed(Schema::compile(&schema).unwrap()),
        json!({ "a": null, "b": 1 })
    );
}
