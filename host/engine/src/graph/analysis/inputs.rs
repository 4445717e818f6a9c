//! The inputs that triggers give, as far as they are known before a run.

use std::rc::Rc;

use serde_json::{Map, Value, json};
use windlass_model::Definition;
use windlass_model::definition::StartTrigger;
use windlass_model::http::{Intake, request_schema};
use windlass_model::schema::members::Kind;
use windlass_model::template::is_template;

use crate::expr::{Known, Operand, Step, result};

/// How deep a template is looked into.
const DEPTH: usize = 64;

/// The input of the runs that one trigger starts.
pub(super) struct Input<'a> {
    /// The name of the trigger.
    pub(super) trigger: &'a str,
    pub(super) schema: Rc<Value>,
}

/// The inputs of all triggers, without those of schedules that give none.
pub(super) fn all(definition: &Definition) -> Vec<Input<'_>> {
    let schema = |trigger: &StartTrigger| match trigger {
        StartTrigger::Http {
            method,
            path,
            intake,
            ..
        } => Some(input_schema(method, path, intake)),
        StartTrigger::Event { .. } => Some(Value::Bool(true)),
        StartTrigger::Cron { timing, .. } | StartTrigger::Every { timing, .. } => {
            (!timing.input.is_null()).then(|| json!({ "const": timing.input }))
        }
    };
    let triggers = definition.triggers.iter();
    let inputs = triggers.filter_map(|(name, trigger)| {
        let schema = Rc::new(schema(trigger)?);
        let trigger = name.as_str();
        Some(Input { trigger, schema })
    });
    inputs.collect()
}

/// JSON Schema of the inputs that a trigger by `http` gives: the request, or what its template makes
/// of it. A part of which nothing is known is `true`.
pub fn input_schema(method: &str, path: &str, intake: &Intake) -> Value {
    let request = request_schema(method, path, intake);
    match &intake.input {
        Some(template) => made(template, &request, 0),
        None => request,
    }
}

/// The schema of what a template makes of a request.
fn made(template: &Value, request: &Value, depth: usize) -> Value {
    match template {
        Value::Object(members) if depth < DEPTH => {
            let of =
                |(name, value): (&String, &Value)| (name.clone(), made(value, request, depth + 1));
            let properties: Map<String, Value> = members.iter().map(of).collect();
            let names: Vec<&String> = members.keys().collect();
            json!({ "type": "object", "properties": properties, "required": names,
                "additionalProperties": false })
        }
        Value::Array(_) => json!({ "type": "array" }),
        Value::String(text) if is_template(text) => of_text(text, request),
        constant => json!({ "const": constant, "type": type_of(Kind::of(constant)) }),
    }
}

/// The schema of what a text with expressions makes of a request.
fn of_text(text: &str, request: &Value) -> Value {
    let Some(operand) = result(text) else {
        return Value::Bool(true);
    };
    if let Operand::Path(root, steps) = &operand {
        let found = (&**root == "request").then(|| reached(steps, request));
        return found.flatten().unwrap_or(Value::Bool(true));
    }
    let known = operand.knowns(&mut |_, _| vec![Known::Anything]);
    let kinds: Option<Vec<Kind>> = known.into_iter().map(Known::kind).collect();
    match kinds {
        Some(kinds) => {
            let types: Vec<&str> = kinds.into_iter().map(type_of).collect();
            json!({ "type": types })
        }
        None => Value::Bool(true),
    }
}

fn type_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "null",
        Kind::Boolean => "boolean",
        Kind::Number => "number",
        Kind::Text => "string",
        Kind::List => "array",
        Kind::Object => "object",
    }
}

/// The schema of a member of a request, as far as one is declared.
fn reached(path: &[Step], request: &Value) -> Option<Value> {
    let mut schema = request;
    for step in path {
        let Step::Member(name) = step else {
            return None;
        };
        let declared = schema.get("properties").and_then(|all| all.get(&**name));
        schema = declared.or_else(|| {
            let rest = schema.get("additionalProperties");
            rest.filter(|rest| rest.is_object())
        })?;
    }
    // A reference leads into another schema.
    (!schema.to_string().contains("\"$ref\"")).then(|| schema.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_tells_the_types_of_what_it_makes() {
        let intake = Intake {
            query: Some(json!({ "properties": { "limit": { "type": "integer" } } })),
            params: None,
            input: Some(json!({
                "limit": "{{ request.query.limit }}",
                "page": "{{ request.query.page | default('1') }}",
                "count": "{{ request.query.page | int }}",
                "name": "order {{ request.body.name }}",
                "body": "{{ request.body }}",
                "id": "{{ request.params.id }}",
                "lines": ["{{ request.body }}"],
                "kind": "x",
                "either": "{{ 1 if request.body else 'a' }}",
            })),
        };
        let schema = input_schema("POST", "/orders/{id}", &intake);
        let of = |name: &str| schema.pointer(&format!("/properties/{name}/type"));
        assert_eq!(of("limit"), Some(&json!("integer")));
        assert_eq!(of("page"), None);
        assert_eq!(of("count"), Some(&json!(["number"])));
        assert_eq!(of("name"), Some(&json!(["string"])));
        assert_eq!(of("body"), None);
        assert_eq!(of("id"), Some(&json!("string")));
        assert_eq!(of("lines"), Some(&json!("array")));
        assert_eq!(of("kind"), Some(&json!("string")));
        assert_eq!(of("either"), Some(&json!(["number", "string"])));
    }
}
