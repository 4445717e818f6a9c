//! JSON Schema: what plugins and workflows say about the values that they take.
//!
//! The only module that names the library behind it. References lead nowhere but into the
//! schema itself: nothing is ever fetched or read for one. Drafts 4 to 2020-12 are understood,
//! the last being the default. `format` is a remark, not a rule.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use crate::nearest::did_you_mean;
use crate::{Diagnostic, Place, codes};

/// Mistakes reported of one value.
const MISTAKES: usize = 50;

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    source: Value,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    ///
    /// What is wrong with it, for people.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        let validator = jsonschema::options()
            .offline()
            .build(schema)
            .map_err(|error| {
                let path = error.instance_path().as_str();
                let place = if path.is_empty() {
                    "the schema".to_owned()
                } else {
                    format!("`{path}`")
                };
                format!("{place}: {}", error.masked_with("the value"))
            })?;
        Ok(Self {
            validator,
            source: schema.clone(),
        })
    }

    /// Whether a value is as the schema wants it.
    pub fn accepts(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// What is wrong with a value that stands at `pointer`: at most fifty mistakes.
    pub fn check(&self, value: &Value, pointer: &str) -> Vec<Diagnostic> {
        if self.accepts(value) {
            return Vec::new();
        }
        let mut diagnostics = Vec::new();
        for error in self.validator.iter_errors(value) {
            self.report(&error, pointer, &mut diagnostics);
            if diagnostics.len() >= MISTAKES {
                break;
            }
        }
        diagnostics.truncate(MISTAKES);
        diagnostics
    }

    fn report(&self, error: &ValidationError<'_>, base: &str, out: &mut Vec<Diagnostic>) {
        let pointer = format!("{base}{}", error.instance_path().as_str());
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                let known = self.siblings(error);
                for name in unexpected {
                    let place = Place::at(format!("{pointer}/{}", escape(name)));
                    let message = format!("there is no property `{name}`");
                    let mut diagnostic = Diagnostic::new(codes::SCHEMA_UNKNOWN, message, place);
                    diagnostic.help = did_you_mean(name, known.iter().copied()).or_else(|| {
                        (!known.is_empty()).then(|| format!("there are {}", list(&known)))
                    });
                    out.push(diagnostic);
                }
            }
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                let message = format!("the property `{name}` is missing");
                out.push(Diagnostic::new(
                    codes::SCHEMA_MISSING,
                    message,
                    Place::at(pointer),
                ));
            }
            _ => {
                let (message, help) = describe(error);
                let mut diagnostic =
                    Diagnostic::new(codes::SCHEMA_VALUE, message, Place::at(pointer));
                diagnostic.help = help;
                out.push(diagnostic);
            }
        }
    }

    /// The properties that are known where an unknown one was found.
    fn siblings(&self, error: &ValidationError<'_>) -> Vec<&str> {
        let path = error.schema_path().as_str();
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let properties = self
            .source
            .pointer(parent)
            .and_then(|schema| schema.get("properties"));
        let properties = properties.and_then(Value::as_object);
        properties
            .map(|map| map.keys().map(String::as_str).collect())
            .unwrap_or_default()
    }
}

fn describe(error: &ValidationError<'_>) -> (String, Option<String>) {
    let found = kind(error.instance());
    match error.kind() {
        ValidationErrorKind::Type { kind } => {
            let wanted = match kind {
                TypeKind::Single(one) => one.to_string(),
                TypeKind::Multiple(many) => many
                    .iter()
                    .map(|one| one.to_string())
                    .collect::<Vec<_>>()
                    .join(" or "),
            };
            (format!("expected {wanted}, found {found}"), None)
        }
        ValidationErrorKind::Enum { options } => {
            let options: Vec<String> = options
                .as_array()
                .into_iter()
                .flatten()
                .map(short)
                .collect();
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let message = format!(
                "{} is not one of {}",
                short(error.instance()),
                list(&options)
            );
            let help = error
                .instance()
                .as_str()
                .and_then(|text| did_you_mean(text, options));
            (message, help)
        }
        ValidationErrorKind::Constant { expected_value } => (
            format!(
                "expected {}, found {}",
                short(expected_value),
                short(error.instance())
            ),
            None,
        ),
        _ => (error.masked_with("the value").to_string(), None),
    }
}

fn list(names: &[&str]) -> String {
    const SHOWN: usize = 12;
    let mut text = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>();
    if names.len() > SHOWN {
        text.push("…".to_owned());
    }
    text.join(", ")
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn short(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().count() <= 40 => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        other => kind(other).to_owned(),
    }
}

/// A name as a part of a JSON pointer.
pub(crate) fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
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
        let many: serde_json::Map<_, _> =
            (0..200).map(|n| (format!("zzzz{n}"), json!(n))).collect();
        let schema = Schema::compile(&http()).unwrap();
        assert_eq!(schema.check(&Value::Object(many), "").len(), MISTAKES);
    }

    #[test]
    fn a_schema_that_is_none_is_refused() {
        let error = Schema::compile(&json!({"type": "strin"})).unwrap_err();
        assert!(error.starts_with("`/type`: "), "{error}");
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
}
