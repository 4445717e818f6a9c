//! JSON Schema: the values that plugins and workflows accept.
//!
//! The only module that names the library behind it. References lead only into the schema itself:
//! nothing is ever fetched or read for one. Schemas are read by the rules of draft 2020-12, whichever
//! draft they name; keywords of other drafts that would mean something else are refused. `format` is
//! an annotation, not an assertion.
//!
//! Schemas and values come from strangers, and small ones can cause any amount of work. So a schema
//! is read as a graph first (`plan.rs`) and refused if too much of it applies to one value; while a
//! value is checked, each step is charged (`meter.rs`), and the check ends at the bound. Patterns are
//! matched in linear time (`patterns.rs`), and so are duplicate items found (`unique.rs`). The
//! defaults of a schema are added to a value before it is checked (`defaults.rs`).

mod defaults;
pub mod members;
mod meter;
mod patterns;
mod plan;
mod unique;

use std::fmt;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{Draft, ValidationError, ValidationOptions, Validator};
use serde::Deserialize;
use serde_json::{Value, json};

use self::defaults::{Beyond, Defaults};
use self::meter::Cost;
use self::plan::Plan;
use self::unique::UniqueItems;
use crate::nearest::did_you_mean;
use crate::{Code, Diagnostic, Place, codes, limits, weight};

/// The most mistakes reported for one value.
const MISTAKES: usize = 50;

/// Steps up to which all mistakes of a value are collected: the validator collects them before it
/// returns the first one, and each takes some hundred bytes.
const GATHERED: u64 = 50_000;

/// The bytes of the pointers to gathered mistakes, roughly.
const GATHERED_BYTES: u64 = 16 * 1024 * 1024;

/// The names of properties among which a misspelt one is looked for.
const SIBLINGS: usize = 500;

/// What a compiled subschema takes, besides its pointer and its keywords' values.
const PART_BYTES: usize = 1_024;

/// How often the values of a schema are in memory.
const COPIES: usize = 3;

/// The most characters of a foreign name or text in a message.
const SHOWN: usize = 120;

/// The reason why a schema is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// [`codes::BAD_SCHEMA`] if it is not a schema, and otherwise the code of the bound that it
    /// exceeds.
    pub code: Code,
    /// The place in the schema.
    pub pointer: String,
    /// The mistake there.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
}

impl Refused {
    fn new(code: Code, pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code,
            pointer: pointer.into(),
            message: message.into(),
            help: None,
        }
    }

    fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.as_str() {
            "" => write!(f, "the schema: {}", self.message),
            pointer => write!(f, "`{}`: {}", clipped(pointer), self.message),
        }
    }
}

impl std::error::Error for Refused {}

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    plan: Plan,
    defaults: Option<Defaults>,
}

impl Schema {
    /// Compiles a schema, after checking that the work of compiling it is bounded.
    ///
    /// # Errors
    ///
    /// It is not a schema, has a keyword that is not supported, refers to something outside of it,
    /// has a pattern that cannot be matched in linear time, or exceeds one of the bounds named
    /// `SCHEMA_…` in [`crate::limits`].
    pub fn compile(schema: &Value) -> Result<Self, Refused> {
        Self::of_plan(Plan::read(schema)?)
    }

    /// As [`Schema::compile`], for a schema of a plugin: a `default` of `null` adds nothing. Libraries
    /// write it for a member that may be absent, and to a plugin `null` may mean something else.
    ///
    /// # Errors
    ///
    /// As for [`Schema::compile`].
    pub fn of_plugin(schema: &Value) -> Result<Self, Refused> {
        let mut plan = Plan::read(schema)?;
        for part in &mut plan.parts {
            part.default.take_if(|default| default.is_null());
        }
        Self::of_plan(plan)
    }

    fn of_plan(plan: Plan) -> Result<Self, Refused> {
        let validator = options().build(&plan.document).map_err(|error| {
            let (_, pointer) = plan.origin(error.instance_path().as_str());
            let message = clipped(&error.masked_with("the value").to_string());
            Refused::new(codes::BAD_SCHEMA, pointer, message)
        })?;
        let defaults = Defaults::of(&plan)?;
        Ok(Self {
            validator,
            plan,
            defaults,
        })
    }

    /// An estimate of the memory that it takes on the heap, in bytes.
    pub fn weight(&self) -> usize {
        let pointers = self.plan.pointers.iter();
        let pointers: usize = pointers.map(|pointer| PART_BYTES + pointer.len()).sum();
        // The validator and the defaults keep parts of the document again.
        pointers + self.plan.programs + COPIES * weight::json(&self.plan.document)
    }

    /// Checks that the defaults fit the subschemas that they are for.
    ///
    /// # Errors
    ///
    /// One of them does not.
    pub fn defaults_fit(&self) -> Result<(), Refused> {
        let Some(defaults) = &self.defaults else {
            return Ok(());
        };
        let (mut parts, mut values, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for (number, part) in (0_u32..).zip(&self.plan.parts) {
            let text = defaults.text(number).filter(|_| part.default.is_some());
            let value: Option<Value> = text.and_then(|text| serde_json::from_str(text).ok());
            if let Some(value) = value {
                parts.push(number);
                values.push(value);
                all.push(json!({ "$ref": plan::refer(number) }));
            }
        }
        let too_deep = |value: &Value| meter::deeper(value, limits::SCHEMA_DEPTH / self.plan.chain);
        if let Some((part, _)) = parts.iter().zip(&values).find(|(_, value)| too_deep(value)) {
            let reason = "it nests too deep for this schema".to_owned();
            return Err(self.default_refused(*part, "", reason));
        }
        // One schema with a reference to each, so that all are compiled once.
        let mut list = self.plan.document.clone();
        if let Some(list) = list.as_object_mut() {
            list.remove("$ref");
            list.insert("prefixItems".to_owned(), all.into());
        }
        let validator = options().build(&list).map_err(|error| {
            let reason = error.masked_with("the schema").to_string();
            Refused::new(codes::BAD_SCHEMA, "", clipped(&reason))
        })?;
        let values = Value::Array(values);
        let checked = meter::within(limits::SCHEMA_STEPS, || {
            let Err(error) = validator.validate(&values) else {
                return Ok(());
            };
            let path = error.instance_path().as_str();
            let path = path.get(1..).unwrap_or_default();
            let end = path.find('/').unwrap_or(path.len());
            let (index, inside) = path.split_at_checked(end).unwrap_or_default();
            let part = index.parse().ok().and_then(|at: usize| parts.get(at));
            let part = part.copied().unwrap_or_default();
            Err(self.default_refused(part, inside, describe(&error).0))
        });
        checked.unwrap_or_else(|| {
            let message = "checking the defaults takes too many steps";
            Err(self.default_refused(0, "", message.to_owned()))
        })
    }

    fn default_refused(&self, part: u32, inside: &str, reason: String) -> Refused {
        let above = self.plan.pointers.get(part as usize);
        let above = above.map_or("", String::as_str);
        let at = match inside {
            "" => String::new(),
            inside => format!(" at `{}`", clipped(inside)),
        };
        let message = format!("the default does not fit its own schema{at}: {reason}");
        Refused::new(codes::SCHEMA_DEFAULT, format!("{above}/default"), message)
    }

    /// As [`Schema::complete`], for a value that is parsed.
    ///
    /// # Errors
    ///
    /// As for [`Schema::complete`].
    pub fn completed(&self, value: Value, pointer: &str) -> Result<Value, Box<Diagnostic>> {
        if self.defaults.is_none() {
            return Ok(value);
        }
        let text = value.to_string();
        let completed = self.complete(text.as_bytes(), pointer)?;
        let completed = completed.and_then(|json| serde_json::from_slice(&json).ok());
        Ok(completed.unwrap_or(value))
    }

    /// Adds the defaults of missing members to a value, which is JSON. None: it lacks nothing. The
    /// rest of the text stays as it is, so that numbers keep their digits. `null` becomes the
    /// default of the whole schema, if there is one.
    ///
    /// # Errors
    ///
    /// The defaults take more than [`crate::limits::SCHEMA_DEFAULTS_BYTES`], or adding them takes
    /// more than [`crate::limits::SCHEMA_STEPS`] steps.
    pub fn complete(&self, json: &[u8], pointer: &str) -> Result<Option<Vec<u8>>, Box<Diagnostic>> {
        let Some(defaults) = &self.defaults else {
            return Ok(None);
        };
        let Ok(text) = std::str::from_utf8(json) else {
            return Ok(None);
        };
        defaults
            .complete(&self.plan, text)
            .map_err(|beyond| match beyond {
                Beyond::Steps => Box::new(beyond_steps(pointer)),
                Beyond::Bytes => {
                    let message = format!(
                        "the defaults of the schema add more than {} bytes to the value",
                        limits::SCHEMA_DEFAULTS_BYTES
                    );
                    let help = "give the members in the value, or fewer items";
                    let found = Diagnostic::new(codes::SCHEMA_DEFAULT, message, Place::at(pointer));
                    Box::new(found.help(help))
                }
            })
    }

    /// The size of its compiled patterns, in bytes.
    pub fn patterns_bytes(&self) -> usize {
        self.plan.programs
    }

    /// The mistakes of a value at `pointer`: at most fifty.
    ///
    /// A value that takes more than [`crate::limits::SCHEMA_STEPS`] steps to check has one mistake,
    /// [`codes::SCHEMA_STEPS`]. So the time, the memory and the stack of the check are bounded.
    pub fn check(&self, value: &Value, pointer: &str) -> Vec<Diagnostic> {
        if meter::deeper(value, limits::SCHEMA_DEPTH / self.plan.chain) {
            return vec![beyond_steps(pointer)];
        }
        let fits = || self.validator.is_valid(value);
        match meter::within(limits::SCHEMA_STEPS, fits) {
            None => return vec![beyond_steps(pointer)],
            Some(true) => return Vec::new(),
            Some(false) => {}
        }
        let all = || {
            let mut found = Vec::new();
            for error in self.validator.iter_errors(value) {
                self.report(&error, pointer, &mut found);
                if found.len() >= MISTAKES {
                    break;
                }
            }
            found
        };
        let first = || {
            let mut found = Vec::new();
            if let Err(error) = self.validator.validate(value) {
                self.report(&error, pointer, &mut found);
            }
            found
        };
        let steps = GATHERED_BYTES / (meter::longest_pointer(value) + 300);
        let mut diagnostics = meter::within(steps.clamp(1, GATHERED), all);
        // The first mistake of a choice contains all mistakes of its branches.
        if diagnostics.is_none() && !self.plan.choices {
            diagnostics = meter::within(limits::SCHEMA_STEPS, first);
        }
        let mut diagnostics = diagnostics.unwrap_or_default();
        if diagnostics.is_empty() {
            let message = "the value does not fit its schema";
            let place = Place::at(pointer);
            let help = "it is too large for its mistakes to be listed; check a part of it";
            diagnostics.push(Diagnostic::new(codes::SCHEMA_VALUE, message, place).help(help));
        }
        without_echoes(diagnostics)
    }

    fn report(&self, error: &ValidationError<'_>, base: &str, out: &mut Vec<Diagnostic>) {
        let pointer = format!("{base}{}", error.instance_path().as_str());
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                let mut known = self.siblings(error);
                known.truncate(SIBLINGS);
                let left = MISTAKES.saturating_sub(out.len());
                for name in unexpected.iter().take(left) {
                    let place = Place::at(format!("{pointer}/{}", escape(name)));
                    out.push(unknown(name, &known, place));
                }
            }
            ValidationErrorKind::Required { property } => {
                let name = clipped(property.as_str().unwrap_or_default());
                let message = missing(&name);
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

    /// The known properties in the place of an unknown one.
    fn siblings(&self, error: &ValidationError<'_>) -> Vec<&str> {
        let (part, _) = self.plan.origin(error.schema_path().as_str());
        let properties = self.plan.part(part).properties.keys();
        properties.map(AsRef::as_ref).collect()
    }
}

/// The mistake of a member that its object does not have; `known` are those that it has.
pub fn unknown(name: &str, known: &[&str], place: Place) -> Diagnostic {
    let message = format!("there is no property `{}`", clipped(name));
    let mut diagnostic = Diagnostic::new(codes::SCHEMA_UNKNOWN, message, place);
    diagnostic.help = did_you_mean(name, known.iter().copied()).or_else(|| match known.len() {
        0 => None,
        1 => Some(format!("there is only {}", list(known))),
        _ => Some(format!("there are {}", list(known))),
    });
    diagnostic
}

/// The name that JSON Schema gives to the type of a value; a whole number is a `number`, too.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn options<'i>() -> ValidationOptions<'i> {
    patterns::options()
        .with_draft(Draft::Draft202012)
        .with_keyword(meter::KEYWORD, |_, cost: &Value, _| {
            Ok(Box::new(Cost::deserialize(cost).unwrap_or_default()))
        })
        .with_keyword("uniqueItems", |_, wanted: &Value, _| {
            Ok(Box::new(UniqueItems(wanted == &Value::Bool(true))))
        })
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
        ValidationErrorKind::PropertyNames { error } => {
            let (message, help) = describe(error);
            let name = short(error.instance());
            (format!("the name `{name}` does not fit: {message}"), help)
        }
        ValidationErrorKind::Not { .. } => {
            let message = "the value fits the schema under `not`, which it must not fit";
            (message.to_owned(), None)
        }
        _ => (clipped(&error.masked_with("the value").to_string()), None),
    }
}

/// The one mistake of a value that would take too long to check.
fn beyond_steps(pointer: &str) -> Diagnostic {
    let message = format!(
        "checking the value against its schema takes over {} steps, or nests over {} deep",
        limits::SCHEMA_STEPS,
        limits::SCHEMA_DEPTH
    );
    let help = "make the value smaller, or let less of the schema apply to each part of it";
    Diagnostic::new(codes::SCHEMA_STEPS, message, Place::at(pointer)).help(help)
}

/// The beginning of a text, with an ellipsis if it was cut.
fn clipped(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn list(names: &[&str]) -> String {
    const LISTED: usize = 12;
    let mut text = names
        .iter()
        .take(LISTED)
        .map(|name| format!("`{}`", clipped(name)))
        .collect::<Vec<_>>();
    if names.len() > LISTED {
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
        Value::Null | Value::Bool(_) => value.to_string(),
        Value::Number(number) => clipped(number.as_str()),
        other => kind(other).to_owned(),
    }
}

/// A name, escaped for a JSON pointer.
pub(crate) fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Without the properties that are missing only because they are misspelt: that is one mistake.
fn without_echoes(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let meant = |found: &Diagnostic| {
        let help = found
            .help
            .as_deref()
            .filter(|_| found.code == codes::SCHEMA_UNKNOWN)?;
        let name = help.strip_prefix("did you mean `")?.strip_suffix("`?")?;
        let (parent, _) = found.place.pointer.rsplit_once('/')?;
        Some((parent.to_owned(), missing(name)))
    };
    let meant: Vec<_> = diagnostics.iter().filter_map(meant).collect();
    diagnostics.retain(|found| {
        let is_echo = |(parent, message): &(String, String)| {
            found.place.pointer == *parent && found.message == *message
        };
        found.code != codes::SCHEMA_MISSING || !meant.iter().any(is_echo)
    });
    diagnostics
}

/// The message about a required property that is missing.
fn missing(name: &str) -> String {
    format!("the property `{name}` is missing")
}

#[cfg(test)]
mod tests;
