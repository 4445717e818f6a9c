//! Values that fit a schema, for nodes without examples.
//!
//! The values are simple: required members, the first of several alternatives. A schema with further
//! rules may refuse them; then the node is called with a value that it may refuse.

use serde_json::{Map, Value, json};

/// How deep a value is at most.
const DEPTH: usize = 8;

/// The value where anything fits.
const ANYTHING: &str = "text";

/// A value for a schema.
pub(super) fn sample(schema: &Value) -> Value {
    value(schema, schema, DEPTH)
}

fn value(schema: &Value, root: &Value, depth: usize) -> Value {
    let Some(depth) = depth.checked_sub(1) else {
        return Value::Null;
    };
    let Value::Object(members) = schema else {
        return json!(ANYTHING);
    };
    if let Some(fixed) = members.get("const").or_else(|| members.get("default")) {
        return fixed.clone();
    }
    for list in ["enum", "examples"] {
        if let Some(first) = members.get(list).and_then(|it| it.get(0)) {
            return first.clone();
        }
    }
    if let Some(name) = members.get("$ref").and_then(Value::as_str) {
        let target = name.strip_prefix('#').and_then(|it| root.pointer(it));
        return target.map_or(Value::Null, |it| value(it, root, depth));
    }
    for list in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = members.get(list).and_then(|it| it.get(0)) {
            return value(first, root, depth);
        }
    }
    let kind = match members.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str).unwrap_or_default(),
        _ if members.contains_key("properties") => "object",
        _ => "",
    };
    match kind {
        "object" => object(members, root, depth),
        "array" => {
            let least = members.get("minItems").and_then(Value::as_u64).unwrap_or(0);
            let item = members.get("items").unwrap_or(&Value::Null);
            let items = (0..least.min(16)).map(|_| value(item, root, depth));
            Value::Array(items.collect())
        }
        "string" | "" => json!(ANYTHING),
        "integer" | "number" => members.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        "boolean" => json!(true),
        _ => Value::Null,
    }
}

fn object(members: &Map<String, Value>, root: &Value, depth: usize) -> Value {
    let required = members.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    let of = |name: &str| members.get("properties").and_then(|it| it.get(name));
    let made = names.map(|name| {
        let schema = of(name).unwrap_or(&Value::Null);
        (name.to_owned(), value(schema, root, depth))
    });
    Value::Object(made.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: Value, expected: Value) {
        assert_eq!(sample(&schema), expected, "{schema}");
    }

    #[test]
    fn a_sample_fits_its_schema() {
        check(json!(true), json!("text"));
        check(json!({ "type": "string" }), json!("text"));
        check(
            json!({ "type": ["number", "null"], "minimum": 3 }),
            json!(3),
        );
        check(json!({ "enum": ["a", "b"] }), json!("a"));
        check(
            json!({
                "type": "object",
                "properties": {
                    "list": { "type": "array", "items": { "$ref": "#/$defs/item" }, "minItems": 1 },
                    "other": { "type": "string" },
                    "either": { "anyOf": [{ "const": 7 }, { "type": "null" }] },
                },
                "required": ["list", "either"],
                "$defs": { "item": { "type": "boolean" } },
            }),
            json!({ "list": [true], "either": 7 }),
        );
        // It refers to itself without an end.
        let endless = json!({ "$ref": "#" });
        check(endless, json!(null));
    }
}
