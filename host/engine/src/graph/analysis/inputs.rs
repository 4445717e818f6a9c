//! The inputs that triggers give, as far as they are known before a run.

use std::rc::Rc;

use serde_json::{Map, Value, json};
use windlass_model::Definition;
use windlass_model::definition::StartTrigger;
use windlass_model::http::request_schema;
use windlass_model::schema::members::Kind;
use windlass_model::template::is_template;

use crate::expr::{Cause, Known, Operand, Step, result};

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
        StartTrigger::Http { .. } | StartTrigger::Event { .. } => Some(Start::of(trigger)?.input()),
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

/// The request or the event that starts the runs of a trigger, as far as it is known before a run.
pub struct Start<'a> {
    /// Which of both it is.
    pub cause: Cause,
    /// Its JSON Schema.
    pub schema: Value,
    /// The template of the input. Without one, a request is the input itself, and an event brings
    /// it.
    pub template: Option<&'a Value>,
}

impl<'a> Start<'a> {
    /// None for triggers by time.
    pub fn of(trigger: &'a StartTrigger) -> Option<Self> {
        match trigger {
            StartTrigger::Http {
                method,
                path,
                intake,
                ..
            } => Some(Self {
                cause: Cause::Request,
                schema: request_schema(method, path, intake),
                template: intake.input.as_ref(),
            }),
            StartTrigger::Event {
                name,
                matches,
                input,
                ..
            } => Some(Self {
                cause: Cause::Event,
                schema: event_schema(name, matches),
                template: input.as_ref(),
            }),
            StartTrigger::Cron { .. } | StartTrigger::Every { .. } => None,
        }
    }

    /// JSON Schema of the inputs. A part of which nothing is known is `true`.
    pub fn input(&self) -> Value {
        match (self.template, self.cause) {
            (Some(template), _) => self.made(template, 0),
            (None, Cause::Request) => self.schema.clone(),
            (None, Cause::Event) => Value::Bool(true),
        }
    }

    /// The schema of what a template makes.
    fn made(&self, template: &Value, depth: usize) -> Value {
        match template {
            Value::Object(members) if depth < DEPTH => {
                let of =
                    |(name, value): (&String, &Value)| (name.clone(), self.made(value, depth + 1));
                let properties: Map<String, Value> = members.iter().map(of).collect();
                let names: Vec<&String> = members.keys().collect();
                json!({ "type": "object", "properties": properties, "required": names,
                    "additionalProperties": false })
            }
            Value::Array(_) => json!({ "type": "array" }),
            Value::String(text) if is_template(text) => self.of_text(text),
            constant => json!({ "const": constant, "type": type_of(Kind::of(constant)) }),
        }
    }

    /// The schema of what a text with expressions makes.
    fn of_text(&self, text: &str) -> Value {
        let Some(operand) = result(text) else {
            return Value::Bool(true);
        };
        if let Operand::Path(root, steps) = &operand {
            let found = (**root == *self.cause.name()).then(|| reached(steps, &self.schema));
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
}

/// JSON Schema of the events that start a trigger, as far as they are known.
fn event_schema(name: &str, matches: &Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "const": name },
            "match": { "type": type_of(Kind::of(matches)), "const": matches },
            "correlation": { "type": ["string", "null"] },
            "input": true,
        },
        "required": ["name", "match", "correlation", "input"],
        "additionalProperties": false,
    })
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

/// The schema of a member, as far as one is declared.
fn reached(path: &[Step], whole: &Value) -> Option<Value> {
    let mut schema = whole;
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
    use windlass_model::http::Intake;

    use super::*;

    #[test]
    fn a_template_tells_the_types_of_its_results() {
        let intake = Intake {
            query: Some(json!({ "properties": { "limit": { "type": "integer" } } })),
            params: None,
            raw: false,
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
        let start = Start {
            cause: Cause::Request,
            schema: request_schema("POST", "/orders/{id}", &intake),
            template: intake.input.as_ref(),
        };
        let schema = start.input();
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

    #[test]
    fn an_event_brings_any_input_unless_a_template_makes_it() {
        let template = json!({ "id": "{{ event.match.id }}", "x": "{{ event.input.x }}",
            "y": "{{ request.body }}" });
        let mut start = Start {
            cause: Cause::Event,
            schema: event_schema("paid", &json!({ "id": 7 })),
            template: None,
        };
        assert_eq!(start.input(), json!(true));
        start.template = Some(&template);
        let schema = start.input();
        let of = |name: &str| schema.pointer(&format!("/properties/{name}"));
        assert_eq!(of("x"), Some(&json!(true)));
        assert_eq!(of("y"), Some(&json!(true)));
        assert_eq!(of("id"), Some(&json!(true)), "its schema names no members");
    }
}
