//! The page of a resume link: a form from the JSON Schema of an answer, and the answer from the
//! fields of a form.
//!
//! A form has the properties of an object as fields, or one field for any other value. If a form
//! cannot show a schema, it has a field for JSON. The schema itself checks the answer.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The most fields of a form; a program can answer further properties.
const FIELDS: usize = 50;

/// The most choices of a field; with more, it is a text field.
const CHOICES: usize = 100;

/// How many references are followed from one place.
const HOPS: usize = 8;

/// The name of the only field if the answer is no object.
const WHOLE: &str = "answer";

/// The form of an answer.
pub(crate) struct Form {
    message: Option<String>,
    fields: Vec<Field>,
    /// The answer is the value of its one field.
    whole: bool,
}

struct Field {
    name: String,
    title: String,
    description: Option<String>,
    required: bool,
    kind: Kind,
}

enum Kind {
    /// One of these values.
    Choice(Vec<Value>),
    Text {
        long: bool,
    },
    Integer,
    Number,
    Boolean,
    Json,
}

impl Form {
    /// The form for a message and a schema.
    pub(crate) fn of(message: Option<String>, schema: Option<&Value>) -> Self {
        let mut form = Self {
            message,
            fields: Vec::new(),
            whole: false,
        };
        let Some(root) = schema.filter(|schema| schema.is_object()) else {
            return form;
        };
        let schema = followed(root, root);
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            form.whole = true;
            form.fields.push(field(WHOLE, schema, root, true));
            return form;
        };
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| {
            let mut names = required.into_iter().flatten();
            names.any(|required| required.as_str() == Some(name))
        };
        let fields = properties.iter().take(FIELDS);
        form.fields
            .extend(fields.map(|(name, schema)| field(name, schema, root, is_required(name))));
        // Required fields come first.
        form.fields.sort_by_key(|field| !field.required);
        form
    }

    /// The answer from the fields of a form; a form without fields passes all members on.
    pub(crate) fn answer(&self, mut given: Map<String, Value>) -> Value {
        if self.fields.is_empty() {
            return Value::Object(given);
        }
        let mut answer = Map::new();
        for field in &self.fields {
            let text = match given.remove(&field.name) {
                Some(Value::String(text)) => Some(text),
                Some(other) => {
                    answer.insert(field.name.clone(), other);
                    continue;
                }
                None => None,
            };
            if let Some(value) = field.value(text) {
                answer.insert(field.name.clone(), value);
            }
        }
        if self.whole {
            return answer.remove(WHOLE).unwrap_or_default();
        }
        // Members without a field are part of the answer, too: the schema decides whether they are
        // allowed.
        answer.extend(given);
        Value::Object(answer)
    }

    /// The page, with the previous answer and its mistakes, if there are any.
    pub(crate) fn page(&self, wrong: Option<&str>, before: &Map<String, Value>) -> String {
        let mut body = String::new();
        let message = self
            .message
            .as_deref()
            .unwrap_or("A workflow waits for you. Let it go on?");
        // Writing to a text does not fail.
        let _ = write!(body, "<p class=\"q\">{}</p>", escaped(message));
        if let Some(wrong) = wrong {
            let _ = write!(body, "<p class=\"w\" role=\"alert\">{}</p>", escaped(wrong));
        }
        body.push_str("<form method=\"post\">");
        for field in &self.fields {
            let before = before.get(&field.name).and_then(Value::as_str);
            field.show(before, &mut body);
        }
        let button = if self.fields.is_empty() {
            "Yes, go on"
        } else {
            "Answer"
        };
        let _ = write!(body, "<button>{button}</button></form>");
        document("Let it go on?", &body)
    }
}

/// A page of the host.
pub(crate) fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta name=\"robots\" content=\"noindex\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n{body}\n</html>\n"
    )
}

const STYLE: &str = "body{font:1.1rem/1.5 system-ui,sans-serif;max-width:34rem;margin:12vh auto;\
    padding:0 1rem}.q{white-space:pre-wrap;overflow-wrap:anywhere}.w{color:#b00020}\
    label,legend{display:block;margin:1rem 0 .25rem;font-weight:600}fieldset{border:0;padding:0;\
    margin:0}fieldset label{font-weight:400;margin:.25rem 0}small{display:block;color:#555}\
    input[type=text],input[type=number],select,textarea{width:100%;box-sizing:border-box;\
    font:inherit;padding:.35rem}button{font:inherit;margin-top:1.5rem;padding:.5rem 1.5rem}";

/// The schema that a schema refers to within its document.
fn followed<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let mut at = schema;
    for _ in 0..HOPS {
        let reference = at.get("$ref").and_then(Value::as_str);
        let Some(pointer) = reference.and_then(|text| text.strip_prefix('#')) else {
            break;
        };
        let Some(next) = root.pointer(pointer) else {
            break;
        };
        at = next;
    }
    // An optional schema that also allows `null` is shown like the schema alone.
    let options = at.get("anyOf").and_then(Value::as_array);
    let mut some = options.into_iter().flatten().filter(|option| {
        let kind = option.get("type").and_then(Value::as_str);
        kind != Some("null")
    });
    match (some.next(), some.next()) {
        (Some(one), None) if one.get("$ref").is_some() && at.get("$ref").is_none() => {
            let pointer = one.get("$ref").and_then(Value::as_str);
            let pointer = pointer.and_then(|text| text.strip_prefix('#'));
            pointer
                .and_then(|pointer| root.pointer(pointer))
                .unwrap_or(one)
        }
        (Some(one), None) => one,
        _ => at,
    }
}

fn field(name: &str, schema: &Value, root: &Value, required: bool) -> Field {
    let text = |key: &str, of: &Value| of.get(key).and_then(Value::as_str).map(str::to_owned);
    let target = followed(schema, root);
    let title = text("title", schema).unwrap_or_else(|| name.to_owned());
    let description = text("description", schema).or_else(|| text("description", target));
    Field {
        name: name.to_owned(),
        title,
        description,
        required,
        kind: kind(target),
    }
}

fn kind(schema: &Value) -> Kind {
    if let Some(choices) = choices(schema) {
        return Kind::Choice(choices);
    }
    let kinds = match schema.get("type") {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let mut kinds = kinds.into_iter().filter(|kind| *kind != "null");
    match (kinds.next(), kinds.next()) {
        (Some("string"), None) => {
            let most = schema.get("maxLength").and_then(Value::as_u64);
            Kind::Text {
                long: most.is_some_and(|most| most > 200),
            }
        }
        (Some("integer"), None) => Kind::Integer,
        (Some("number"), None) => Kind::Number,
        (Some("boolean"), None) => Kind::Boolean,
        _ => Kind::Json,
    }
}

/// The values from which the answer is chosen.
fn choices(schema: &Value) -> Option<Vec<Value>> {
    let listed = schema.get("enum").and_then(Value::as_array).cloned();
    let single = || Some(vec![schema.get("const")?.clone()]);
    let described = || {
        let options = schema.get("oneOf")?.as_array()?;
        let values: Vec<_> = options.iter().filter_map(choices).flatten().collect();
        (values.len() >= options.len()).then_some(values)
    };
    let choices = listed.or_else(single).or_else(described)?;
    let simple = |value: &Value| !value.is_array() && !value.is_object();
    let fits = !choices.is_empty() && choices.len() <= CHOICES && choices.iter().all(simple);
    fits.then_some(choices)
}

impl Field {
    /// The value of a field's text; none if the field is empty.
    fn value(&self, text: Option<String>) -> Option<Value> {
        let Some(text) = text else {
            // A browser does not send an unchecked box.
            return matches!(self.kind, Kind::Boolean).then_some(Value::Bool(false));
        };
        let left_out = text.is_empty() && !self.required;
        match &self.kind {
            Kind::Boolean => Some(Value::Bool(matches!(&*text, "on" | "true" | "yes" | "1"))),
            _ if left_out => None,
            Kind::Choice(values) => {
                let found = values.iter().find(|value| shown(value) == text);
                Some(found.cloned().unwrap_or(Value::String(text)))
            }
            Kind::Text { .. } => Some(Value::String(text)),
            Kind::Integer | Kind::Number | Kind::Json => {
                let read = serde_json::from_str(text.trim());
                Some(read.unwrap_or(Value::String(text)))
            }
        }
    }

    fn show(&self, before: Option<&str>, body: &mut String) {
        let (name, title) = (escaped(&self.name), escaped(&self.title));
        let needed = if self.required { " required" } else { "" };
        let value = before.map_or_else(String::new, |text| format!(" value=\"{}\"", escaped(text)));
        let note = self
            .description
            .as_deref()
            .map_or_else(String::new, |text| {
                format!("<small>{}</small>", escaped(text))
            });
        // Writing to a text does not fail.
        let _ = match &self.kind {
            Kind::Choice(values) => {
                let options: String = values
                    .iter()
                    .map(|value| {
                        let value = shown(value);
                        let on = if before == Some(&value) {
                            " checked"
                        } else {
                            ""
                        };
                        let value = escaped(&value);
                        format!(
                            "<label><input type=\"radio\" name=\"{name}\" \
                             value=\"{value}\"{needed}{on}> {value}</label>"
                        )
                    })
                    .collect();
                write!(
                    body,
                    "<fieldset><legend>{title}</legend>{note}{options}</fieldset>"
                )
            }
            Kind::Boolean => {
                let on = if before.is_some() { " checked" } else { "" };
                write!(
                    body,
                    "<label><input type=\"checkbox\" name=\"{name}\"{on}> {title}{note}</label>"
                )
            }
            Kind::Text { long: false } => write!(
                body,
                "<label>{title}{note}<input type=\"text\" name=\"{name}\"{value}{needed}></label>"
            ),
            Kind::Integer | Kind::Number => {
                let step = match self.kind {
                    Kind::Integer => "1",
                    _ => "any",
                };
                write!(
                    body,
                    "<label>{title}{note}<input type=\"number\" step=\"{step}\" \
                     name=\"{name}\"{value}{needed}></label>"
                )
            }
            Kind::Text { long: true } | Kind::Json => {
                let before = escaped(before.unwrap_or_default());
                write!(
                    body,
                    "<label>{title}{note}<textarea name=\"{name}\" rows=\"4\"{needed}>{before}\
                     </textarea></label>"
                )
            }
        };
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Text with its markup characters escaped.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn given(pairs: &[(&str, &str)]) -> Map<String, Value> {
        pairs
            .iter()
            .map(|(name, text)| ((*name).to_owned(), json!(text)))
            .collect()
    }

    #[test]
    fn a_form_answers_with_the_types_of_its_schema() {
        let schema = json!({
            "type": "object",
            "required": ["decision", "count"],
            "properties": {
                "by": { "type": ["string", "null"] },
                "comment": { "anyOf": [{ "$ref": "#/$defs/Text" }, { "type": "null" }] },
                "count": { "type": "integer" },
                "decision": { "$ref": "#/$defs/Decision" },
                "price": { "type": "number" },
                "rest": { "type": "array" },
                "sure": { "type": "boolean" }
            },
            "$defs": {
                "Decision": { "enum": ["approve", "reject", 3] },
                "Text": { "type": "string" }
            }
        });
        let form = Form::of(None, Some(&schema));
        let answer = form.answer(given(&[
            ("decision", "3"),
            ("count", "7"),
            ("price", " 1.5"),
            ("by", ""),
            ("comment", "<b>"),
            ("rest", "[1]"),
            ("sure", "on"),
            ("more", "x"),
        ]));
        let wanted = json!({
            "decision": 3, "count": 7, "price": 1.5, "comment": "<b>", "rest": [1],
            "sure": true, "more": "x"
        });
        assert_eq!(answer, wanted);
        let empty = form.answer(Map::new());
        assert_eq!(empty, json!({ "sure": false }));
        let page = form.page(Some("a \"<b>\""), &given(&[("by", "\"><script>")]));
        assert!(page.contains("a &quot;&lt;b&gt;&quot;"), "{page}");
        assert!(!page.contains("<script>"), "{page}");
        let choices = page.matches("type=\"radio\"").count();
        assert_eq!(choices, 3, "{page}");
    }

    #[test]
    fn an_answer_that_is_no_object_has_one_field() {
        let form = Form::of(
            Some("How many?".to_owned()),
            Some(&json!({ "type": "integer" })),
        );
        assert_eq!(form.answer(given(&[("answer", "7")])), json!(7));
        assert_eq!(form.answer(given(&[("answer", "x")])), json!("x"));
        assert!(form.page(None, &Map::new()).contains("How many?"));
        let none = Form::of(None, None);
        assert_eq!(none.answer(given(&[("a", "b")])), json!({ "a": "b" }));
    }

    #[test]
    fn no_schema_is_too_odd_for_a_form() {
        for schema in [
            json!(true),
            json!({}),
            json!({ "$ref": "#" }),
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/a" } } }),
            json!({ "properties": { "a": 1, "b": { "enum": [] }, "c": { "oneOf": [] } } }),
            json!({ "properties": 1, "enum": [[1]], "anyOf": [{ "$ref": "x" }] }),
        ] {
            let form = Form::of(None, Some(&schema));
            let page = form.page(None, &Map::new());
            assert!(page.contains("<button>"), "{schema}");
            form.answer(given(&[("answer", "1")]));
        }
    }
}
