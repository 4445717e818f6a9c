//! Loosened schemas against files, and hostile schemas.

use jsonschema::Validator;
use serde_json::{Value, json};

use super::*;

fn whole(config: &Value, input: &Value) -> Value {
    json_schema_with([NodeSchema {
        id: "shop/order",
        title: "Order",
        description: "Orders goods.",
        config,
        input,
    }])
}

fn validator(whole: &Value) -> Validator {
    jsonschema::options()
        .offline()
        .build(whole)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// A workflow with one node.
fn with(node: Value) -> Value {
    json!({ "workflow": "w", "nodes": { "a": node } })
}

fn config() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["goods"],
        "properties": {
            "goods": { "type": "array", "minItems": 1, "uniqueItems": true, "items": { "$ref": "#/$defs/Good" } },
            "express": { "type": "boolean", "default": false },
            "speed": { "enum": ["slow", "fast"] },
            "key": { "oneOf": [
                { "type": "string", "maxLength": 3 },
                { "type": "object", "required": ["secret"], "additionalProperties": false,
                  "properties": { "secret": { "type": "string" } } },
            ] },
        },
        "$defs": { "Good": {
            "type": "object",
            "additionalProperties": false,
            "properties": { "id": { "type": "integer" }, "parts": { "type": "array", "items": { "$ref": "#/definitions/Good" } } },
        } },
        "definitions": { "Good": { "$ref": "#/$defs/Good" } },
    })
}

#[test]
fn with_and_input_follow_the_plugin_and_any_value_may_be_an_expression() {
    let input = json!({ "type": "object", "properties": { "n": { "type": "number" } } });
    let validator = validator(&whole(&config(), &input));
    let check = |node: Value, is_right: bool| {
        let file = with(node);
        let found = validator.validate(&file).err().map(|it| it.to_string());
        assert_eq!(found.is_none(), is_right, "{file}: {found:?}");
    };
    let order = |members: Value| json!({ "use": "shop/order@1", "with": members });
    for right in [
        json!({ "goods": [{ "id": 1 }] }),
        json!({ "goods": "{{ input.goods }}", "express": "{{ input.fast }}" }),
        json!({ "goods": ["{{ item }}", { "id": "{{ item.id }}" }], "speed": "{{ s }}" }),
        json!({ "goods": [{ "id": 1, "parts": [{ "id": "{{ n }}" }] }] }),
        json!({ "goods": [{}], "key": "abc" }),
        json!({ "goods": [{}], "key": "{{ input.key }}" }),
        json!({ "goods": [{}], "key": { "secret": "k", "prefix": "Bearer " } }),
        json!("{{ input }}"),
    ] {
        check(order(right), true);
    }
    for wrong in [
        json!({}),
        json!({ "goods": [] }),
        json!({ "goods": "all" }),
        json!({ "goods": [{ "id": "seven" }] }),
        json!({ "goods": [{ "id": 1, "parts": [{ "price": 1 }] }] }),
        json!({ "goods": [{}], "expres": true }),
        json!({ "goods": [{}], "express": "yes" }),
        json!({ "goods": [{}], "speed": "faster" }),
        json!({ "goods": [{}], "key": "abcd" }),
        json!({ "goods": [{}], "key": { "secret": 1 } }),
        json!("all"),
    ] {
        check(order(wrong), false);
    }
    check(json!({ "use": "shop/order" }), true);
    let good = json!({ "goods": [{}] });
    let input = |input: Value| json!({ "use": "shop/order", "with": good, "input": input });
    check(input(json!({ "n": "{{ 1 }}" })), true);
    check(input(json!({ "n": "one" })), false);
    // A node type that this host does not have.
    check(json!({ "use": "shop/orders", "with": { "x": 1 } }), true);
    check(json!({ "use": "Shop" }), false);
}

#[test]
fn names_are_offered_with_their_descriptions() {
    let whole = whole(&Value::Bool(true), &Value::Bool(true));
    let offered = &whole["$defs"]["Node"]["properties"]["use"]["anyOf"][0];
    let expected = json!({ "const": "shop/order", "description": "Order: Orders goods." });
    assert_eq!(*offered, expected);
    // Without a node type it is the schema of the program.
    let own: Value = serde_json::from_str(JSON_SCHEMA).unwrap();
    assert_eq!(json_schema_with([]), own);
}

/// A hostile schema takes any value, its document has a bound, and a file is checked soon.
#[test]
fn hostile_schemas_are_bounded() {
    let nested =
        |depth: usize, inner: Value| (0..depth).fold(inner, |below, _| json!({ "items": below }));
    let doubling = |count: usize| {
        let definitions = (0..count).map(|at| {
            let next = json!({ "$ref": format!("#/$defs/d{}", at + 1) });
            (format!("d{at}"), json!({ "allOf": [next, next] }))
        });
        let mut definitions: serde_json::Map<String, Value> = definitions.collect();
        definitions.insert(format!("d{count}"), json!({ "type": "integer" }));
        json!({ "$ref": "#/$defs/d0", "$defs": definitions })
    };
    let wide: serde_json::Map<String, Value> =
        (0..5_000).map(|at| (format!("p{at}"), json!({}))).collect();
    let hostile = [
        json!({ "$ref": "#" }),
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "anyOf": [{ "$ref": "#/$defs/a" }] } } }),
        json!({ "$ref": "http://127.0.0.1:9/schema.json" }),
        json!({ "$ref": "file:///etc/passwd" }),
        json!({ "$ref": "#/$defs/none" }),
        json!({ "$ref": "#/properties/~1../x", "$id": "http://other.example/", "$dynamicRef": "#x" }),
        nested(100, json!({ "type": "integer" })),
        doubling(30),
        json!({ "properties": wide }),
        json!({ "description": "x".repeat(BYTES) }),
        json!({ "pattern": format!("^({})*$", "a|".repeat(1 << 20)) }),
        json!([1, 2]),
        json!("integer"),
        Value::Null,
    ];
    for schema in hostile {
        let whole = whole(&schema, &schema);
        let text = schema.to_string();
        let text = cut(&text);
        assert!(
            size_of(&whole) < 100 * 1024 + size_of(&json_schema_with([])),
            "{text}"
        );
        let validator = validator(&whole);
        for value in [json!({ "x": [[1]] }), json!("{{ a }}")] {
            let file = with(json!({ "use": "shop/order", "with": value }));
            assert!(validator.is_valid(&file), "{text}");
        }
        assert!(!whole.to_string().contains("127.0.0.1:9"), "{text}");
        assert!(!whole.to_string().contains("/etc/passwd"), "{text}");
    }
    // A recursion through a part of the value stays.
    let tree = json!({ "properties": { "left": { "$ref": "#" }, "n": { "type": "integer" } } });
    let validator = validator(&whole(&tree, &Value::Bool(true)));
    let of =
        |n: Value| with(json!({ "use": "shop/order", "with": { "left": { "left": { "n": n } } } }));
    assert!(validator.is_valid(&of(json!(1))));
    assert!(!validator.is_valid(&of(json!("one"))));
}

#[test]
fn all_plugins_together_are_bounded() {
    let large = json!({ "properties": { "x": { "enum": [ "x".repeat(BYTES / 2) ] } } });
    let ids: Vec<String> = (0..100).map(|at| format!("shop/n{at}")).collect();
    let nodes = ids.iter().map(|id| NodeSchema {
        id,
        title: "",
        description: "",
        config: &large,
        input: &large,
    });
    let whole = json_schema_with(nodes);
    assert!(size_of(&whole) < WHOLE_BYTES + 1024 * 1024);
    let names = whole["$defs"]["Node"]["properties"]["use"]["anyOf"].as_array();
    assert_eq!(names.map(Vec::len), Some(101));
}
