//! Checks of values by schemas, and the bounds of schemas.

mod bounds;
mod charging;
mod defaults;

use serde_json::json;

use super::*;

#[track_caller]
fn check(schema: Value, value: Value, expected: &[&str]) {
    let schema = Schema::compile(&schema).unwrap();
    let found: Vec<_> = schema
        .check(&value, "/nodes/a/with")
        .into_iter()
        .map(|d| {
            let help = d.help.map(|help| format!("; {help}")).unwrap_or_default();
            format!("{} {}: {}{help}", d.code, d.place.pointer, d.message)
        })
        .collect();
    assert_eq!(found, expected);
}

fn http() -> Value {
    json!({
        "type": "object",
        "required": ["url"],
        "additionalProperties": false,
        "properties": {
            "url": {"type": "string", "minLength": 1},
            "method": {"enum": ["GET", "POST"]},
            "headers": {"$ref": "#/$defs/headers"},
        },
        "$defs": {"headers": {"type": "object", "additionalProperties": {"type": "string"}}},
    })
}

#[test]
fn a_value_that_fits_has_no_mistakes() {
    check(
        http(),
        json!({"url": "x", "method": "GET", "headers": {"a": "b"}}),
        &[],
    );
}

#[test]
fn every_mistake_is_reported_with_its_place() {
    check(
        http(),
        json!({"metod": "GET", "method": "PUT", "headers": {"a/b": 1}}),
        &[
            "WL-D100 /nodes/a/with/headers/a~1b: expected string, found a number",
            "WL-D100 /nodes/a/with/method: PUT is not one of `GET`, `POST`",
            "WL-D101 /nodes/a/with/metod: there is no property `metod`; did you mean `method`?",
            "WL-D102 /nodes/a/with: the property `url` is missing",
        ],
    );
    check(
        http(),
        json!([]),
        &["WL-D100 /nodes/a/with: expected object, found a list"],
    );
    check(
        http(),
        json!({"url": ""}),
        &["WL-D100 /nodes/a/with/url: the value is shorter than 1 character"],
    );
}

#[test]
fn mistakes_are_bounded() {
    let many: serde_json::Map<_, _> = (0..200).map(|n| (format!("zzzz{n}"), json!(n))).collect();
    let schema = Schema::compile(&http()).unwrap();
    assert_eq!(schema.check(&Value::Object(many), "").len(), MISTAKES);
}

#[test]
fn a_schema_that_is_none_is_refused() {
    let error = Schema::compile(&json!({"type": "strin"})).unwrap_err();
    assert_eq!((error.code, &*error.pointer), (codes::BAD_SCHEMA, "/type"));
}

#[test]
fn references_never_leave_the_schema() {
    for reference in [
        "https://example.com/s.json",
        "file:///etc/passwd",
        "other.json",
    ] {
        assert!(
            Schema::compile(&json!({"$ref": reference})).is_err(),
            "{reference}"
        );
    }
}
