//! Charging changes no result, and each step of the validator is charged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jsonschema::{Keyword, ValidationError, Validator};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use windlass_test_seeds::Seeds;

use super::super::{Schema, describe, meter, options};

/// Subschemas of the document that one step stands for: of each part and the keyword that charges for
/// it, and of small ones, which the validator applies up to three times to find the mistakes.
const EACH: u64 = 5;

/// A keyword that counts how often its schema is applied.
struct Visit(Arc<AtomicU64>);

impl<'i> Keyword<'i> for Visit {
    fn validate(&self, _: &'i Value) -> Result<(), ValidationError<'i>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn is_valid(&self, _: &'i Value) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        true
    }
}

fn reference() -> impl Strategy<Value = Value> {
    (0..4_u8).prop_map(|n| json!({ "$ref": format!("#/$defs/d{n}") }))
}

/// Subschemas that refer to definitions and to each other.
fn subschema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!({ "type": ["object", "array", "integer"] })),
        Just(json!({ "maxLength": 3 })),
        reference(),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            list.clone().prop_map(|list| json!({ "allOf": list })),
            list.clone().prop_map(|list| json!({ "anyOf": list })),
            list.clone().prop_map(|list| json!({ "oneOf": list })),
            inner.clone().prop_map(|one| json!({ "not": one })),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| json!({ "if": a, "then": b, "else": c })),
            inner
                .clone()
                .prop_map(|one| json!({ "properties": { "a": one } })),
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| json!({ "properties": { "a": a }, "additionalProperties": b })),
            inner
                .clone()
                .prop_map(|one| json!({ "patternProperties": { "^a": one } })),
            inner
                .clone()
                .prop_map(|one| json!({ "propertyNames": one })),
            inner.clone().prop_map(|one| json!({ "items": one })),
            (list, inner.clone())
                .prop_map(|(list, one)| json!({ "prefixItems": list, "items": one })),
            inner.clone().prop_map(|one| json!({ "contains": one })),
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| json!({ "anyOf": [a, true], "required": ["b"], "contains": b })),
            inner
                .clone()
                .prop_map(|one| json!({ "uniqueItems": true, "items": one })),
            inner
                .clone()
                .prop_map(|one| json!({ "pattern": "^a", "allOf": [one, false] })),
            inner.prop_map(|one| json!({ "dependentSchemas": { "a": one } })),
        ]
    })
}

fn schema() -> impl Strategy<Value = Value> {
    (subschema(), prop::collection::vec(subschema(), 4)).prop_map(|(root, defs)| {
        let names = (0..).map(|n| format!("d{n}"));
        let defs: Map<String, Value> = names.zip(defs).collect();
        let mut root = root;
        root["$defs"] = Value::Object(defs);
        root
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(1)),
        Just(json!("a")),
        Just(json!("abcd")),
        Just(json!(null)),
    ];
    leaf.prop_recursive(5, 24, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The schema with the counting keyword in every subschema.
fn counted(schema: &Value, names: bool) -> Value {
    match schema {
        Value::Object(members) => {
            let mut copy = Map::new();
            for (key, member) in members {
                let map = [
                    "properties",
                    "patternProperties",
                    "$defs",
                    "dependentSchemas",
                ];
                let map = !names && map.contains(&key.as_str());
                copy.insert(key.clone(), counted(member, map));
            }
            if !names {
                copy.insert("x-visit".to_owned(), json!(true));
            }
            Value::Object(copy)
        }
        Value::Array(items) => items.iter().map(|item| counted(item, false)).collect(),
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(Seeds::USUAL.cases()))]

    #[test]
    fn charging_changes_no_result(schema in schema(), values in prop::collection::vec(value(), 8)) {
        let Ok(compiled) = Schema::compile(&schema) else {
            return Ok(());
        };
        let plain = options().build(&schema).unwrap();
        for value in values {
            let mistakes = |validator: &Validator| {
                let found = validator.iter_errors(&value);
                let found = found.map(|error| (error.instance_path().to_string(), describe(&error)));
                let mut found: Vec<_> = found.collect();
                found.sort();
                found
            };
            let fits = || compiled.validator.is_valid(&value);
            prop_assert_eq!(meter::within(u64::MAX, fits), Some(plain.is_valid(&value)));
            let found = meter::within(u64::MAX, || mistakes(&compiled.validator));
            prop_assert_eq!(found, Some(mistakes(&plain)), "{}", value);
        }
    }

    #[test]
    fn every_visit_is_charged(
        schema in schema(),
        values in prop::collection::vec(value(), 8),
        few in 1_u64..200,
    ) {
        let Ok(compiled) = Schema::compile(&schema) else {
            return Ok(());
        };
        let visits = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&visits);
        let validator = options()
            .with_keyword("x-visit", move |_, _, _| Ok(Box::new(Visit(Arc::clone(&counter)))))
            .build(&counted(&compiled.plan.document, false))
            .unwrap();
        for value in values {
            // With all steps, and with few.
            for steps in [u64::MAX, few] {
                let fits = meter::within(steps, || validator.is_valid(&value));
                let charged = steps - meter::left();
                let visited = visits.swap(0, Ordering::Relaxed);
                prop_assert!(visited <= EACH * (charged + 1), "{visited}, {charged}: {value}");
                let errors = meter::within(steps, || validator.iter_errors(&value).count() as u64);
                let charged = steps - meter::left();
                let visited = visits.swap(0, Ordering::Relaxed);
                prop_assert!(visited <= EACH * (charged + 1), "{visited}, {charged}: {value}");
                if let (Some(fits), Some(errors)) = (fits, errors) {
                    prop_assert_eq!(fits, errors == 0);
                }
            }
        }
    }

    #[test]
    fn no_schema_and_no_value_makes_it_panic(schema in schema(), any in any_json(), value in value()) {
        for schema in [schema, any.clone()] {
            if let Ok(schema) = Schema::compile(&schema) {
                schema.check(&value, "");
                schema.check(&any, "");
            }
        }
    }
}

/// Any JSON whose keys and texts are likely to be keywords of a schema.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "$ref",
        "$id",
        "$schema",
        "$defs",
        "$anchor",
        "allOf",
        "anyOf",
        "not",
        "if",
        "then",
        "properties",
        "patternProperties",
        "items",
        "prefixItems",
        "pattern",
        "enum",
        "const",
        "type",
        "string",
        "object",
        "required",
        "uniqueItems",
        "contains",
        "minContains",
        "#",
        "#/$defs/a",
        "#a",
        "a",
        "^(a+)+$",
        "unevaluatedProperties",
        "dependencies",
        "multipleOf",
        "http://json-schema.org/draft-04/schema#",
    ]);
    let leaf = prop_oneof![
        word.clone().prop_map(|word| json!(word)),
        any::<bool>().prop_map(|flag| json!(flag)),
        any::<i64>().prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        Just(json!(null)),
    ];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..4).prop_map(|members| {
                let members = members.into_iter();
                Value::Object(
                    members
                        .map(|(key, value)| (key.to_owned(), value))
                        .collect(),
                )
            }),
        ]
    })
}
