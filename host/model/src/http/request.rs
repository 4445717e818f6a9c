//! The knowledge about a request before it comes, and its texts as values of their types.
//!
//! The query and the parameters of a path are texts. A schema names the types that they stand for,
//! and a text that is a number of JSON becomes that number with all its digits.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{Intake, parameter_names};
use crate::Diagnostic;
use crate::schema::{Refused, Schema, type_name};
use crate::weight;

/// How many references are followed from one subschema to the next.
const REFERENCES: usize = 16;

/// A schema of the query or of the parameters, by which texts become values.
#[derive(Debug)]
pub struct Typed {
    schema: Schema,
    source: Value,
}

impl Typed {
    /// Compiles a schema.
    ///
    /// # Errors
    ///
    /// As for [`Schema::compile`].
    pub fn compile(schema: &Value) -> Result<Self, Refused> {
        Ok(Self {
            schema: Schema::compile(schema)?,
            source: schema.clone(),
        })
    }

    /// An estimate of the memory that it takes on the heap, in bytes.
    pub fn weight(&self) -> usize {
        self.schema.weight() + weight::json(&self.source)
    }

    /// The values that texts by name stand for, as JSON. `pointer` is their place.
    ///
    /// # Errors
    ///
    /// The values do not fit the schema.
    pub fn read(
        &self,
        texts: &Map<String, Value>,
        pointer: &str,
    ) -> Result<Vec<u8>, Vec<Diagnostic>> {
        let mut json = String::from("{");
        for (name, value) in texts {
            if json.len() > 1 {
                json.push(',');
            }
            json.push_str(&Value::from(name.as_str()).to_string());
            json.push(':');
            let of = self.member(name);
            self.value(value, &of, &mut json);
        }
        json.push('}');
        let completed = self.schema.complete(json.as_bytes(), pointer);
        let completed = completed.map_err(|found| vec![*found])?;
        let json = completed.unwrap_or_else(|| json.into_bytes());
        let value = serde_json::from_slice(&json).unwrap_or_default();
        let mut wrong = self.schema.check(&value, pointer);
        if wrong.is_empty() {
            return Ok(json);
        }
        for found in &mut wrong {
            let name = found
                .place
                .pointer
                .strip_prefix(pointer)
                .unwrap_or_default();
            let text = value.pointer(name).and_then(Value::as_str);
            if let Some(text) = text.filter(|_| found.help.is_none()) {
                let shown: String = text.chars().take(40).collect();
                found.help = Some(format!("it was `{}`", shown.escape_debug()));
            }
        }
        Err(wrong)
    }

    /// The subschemas of the member of a name.
    fn member(&self, name: &str) -> Types<'_> {
        let mut types = Types::default();
        for schema in self.all_of(&self.source) {
            let declared = schema.get("properties").and_then(|all| all.get(name));
            let schema = declared.or_else(|| schema.get("additionalProperties"));
            types.add(self, schema);
        }
        types
    }

    /// A subschema, and those that apply to the same value.
    fn all_of<'s>(&'s self, schema: &'s Value) -> Vec<&'s Value> {
        let (mut found, mut waiting) = (Vec::new(), vec![schema]);
        while let Some(schema) = waiting.pop() {
            if found.len() >= REFERENCES {
                break;
            }
            found.push(schema);
            let target = schema.get("$ref").and_then(Value::as_str);
            let target = target.and_then(|target| target.strip_prefix('#'));
            waiting.extend(target.and_then(|pointer| self.source.pointer(pointer)));
            let all = schema.get("allOf").and_then(Value::as_array);
            waiting.extend(all.into_iter().flatten());
        }
        found
    }

    fn value(&self, value: &Value, types: &Types<'_>, json: &mut String) {
        let list = match value {
            Value::Array(list) => list.as_slice(),
            one if types.array && !types.string => std::slice::from_ref(one),
            Value::String(text) => return types.text(text, json),
            other => return json.push_str(&other.to_string()),
        };
        let mut of = Types::default();
        for items in types.items.iter().copied() {
            of.add(self, Some(items));
        }
        json.push('[');
        for (index, item) in list.iter().enumerate() {
            if index > 0 {
                json.push(',');
            }
            match item {
                Value::String(text) => of.text(text, json),
                other => json.push_str(&other.to_string()),
            }
        }
        json.push(']');
    }
}

/// The types that a text may stand for. None of them: it stands for itself.
#[derive(Default)]
struct Types<'s> {
    string: bool,
    number: bool,
    boolean: bool,
    null: bool,
    array: bool,
    items: Vec<&'s Value>,
}

impl<'s> Types<'s> {
    fn add(&mut self, typed: &'s Typed, schema: Option<&'s Value>) {
        for schema in schema
            .map(|schema| typed.all_of(schema))
            .unwrap_or_default()
        {
            match schema.get("type") {
                Some(Value::String(name)) => self.named(name),
                Some(Value::Array(names)) => {
                    for name in names.iter().filter_map(Value::as_str) {
                        self.named(name);
                    }
                }
                _ => {
                    let listed = schema.get("enum").and_then(Value::as_array);
                    let values = listed.into_iter().flatten().chain(schema.get("const"));
                    values.for_each(|value| self.named(type_name(value)));
                }
            }
            self.items.extend(schema.get("items"));
        }
    }

    fn named(&mut self, name: &str) {
        match name {
            "string" => self.string = true,
            "integer" | "number" => self.number = true,
            "boolean" => self.boolean = true,
            "null" => self.null = true,
            "array" => self.array = true,
            _ => {}
        }
    }

    /// The value of a text. A text that stands for none stays a text, which the schema refuses.
    fn text(&self, text: &str, json: &mut String) {
        let stands = !self.string
            && (self.number && is_number(text) || self.boolean && matches!(text, "true" | "false"));
        match (stands, text) {
            (true, text) => json.push_str(text),
            (false, "") if self.null && !self.string => json.push_str("null"),
            (false, text) => json.push_str(&Value::from(text).to_string()),
        }
    }
}

/// Whether a text is a number of JSON. A whole number beyond 64 bits is none: readers would round it.
fn is_number(text: &str) -> bool {
    let begins = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    if !begins || !text.ends_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let whole = text.bytes().skip(1).all(|byte| byte.is_ascii_digit());
    match serde_json::from_str::<&RawValue>(text) {
        Ok(_) if whole => text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok(),
        Ok(_) => text.parse::<f64>().is_ok_and(f64::is_finite),
        Err(_) => false,
    }
}

/// JSON Schema of the requests that start a trigger, as far as it is known.
pub fn request_schema(method: &str, path: &str, intake: &Intake) -> Value {
    let text = json!({ "type": ["string", "array"], "items": { "type": "string" } });
    let texts = json!({ "type": "object", "additionalProperties": text });
    let mut properties = json!({
        "method": { "type": "string", "const": method },
        "path": { "type": "string" },
        "query": object(intake.query.as_ref(), &text).unwrap_or_else(|| texts.clone()),
        "headers": texts,
        "body": true,
        "raw": { "type": ["string", "object"] },
    });
    let mut required = vec!["method", "path", "query", "headers", "body"];
    let names: Vec<&str> = parameter_names(path).collect();
    if !names.is_empty() {
        let of = |name: &&str| ((*name).to_owned(), json!({ "type": "string" }));
        let untyped = || {
            let members: Map<String, Value> = names.iter().map(of).collect();
            json!({ "type": "object", "properties": members, "required": names,
                "additionalProperties": false })
        };
        let params = object(intake.params.as_ref(), &json!({ "type": "string" }));
        let params = params.unwrap_or_else(untyped);
        if let Some(properties) = properties.as_object_mut() {
            properties.insert("params".to_owned(), params);
        }
        required.push("params");
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Keywords that may tell the type of a value.
const TYPING: [&str; 8] = [
    "type", "enum", "const", "default", "$ref", "allOf", "anyOf", "oneOf",
];

/// A schema of an object of texts, some of which stand for values of other types. The others remain
/// texts.
fn object(schema: Option<&Value>, text: &Value) -> Option<Value> {
    let mut schema = schema?.clone();
    let Some(keywords) = schema.as_object_mut() else {
        return Some(schema);
    };
    keywords.insert("type".to_owned(), Value::from("object"));
    let declared = keywords
        .get_mut("properties")
        .and_then(Value::as_object_mut);
    for member in declared.into_iter().flat_map(|all| all.values_mut()) {
        let typed = |member: &Value| TYPING.iter().any(|key| member.get(key).is_some());
        match member {
            Value::Bool(true) => *member = text.clone(),
            Value::Object(_) if !typed(member) => {
                for (key, value) in text.as_object().into_iter().flatten() {
                    if let Some(member) = member.as_object_mut() {
                        member.entry(key.clone()).or_insert_with(|| value.clone());
                    }
                }
            }
            _ => {}
        }
    }
    let others = ["additionalProperties", "patternProperties"];
    if !others.iter().any(|key| keywords.contains_key(*key)) {
        keywords.insert("additionalProperties".to_owned(), text.clone());
    }
    Some(schema)
}
