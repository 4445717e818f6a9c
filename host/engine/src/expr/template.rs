//! Values with expressions in them.
//!
//! A template is JSON whose strings may contain expressions. It is compiled to the JSON text around
//! the expressions, serialised once, and the expressions. Rendering copies the text and evaluates
//! the expressions.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value as Json;
use windlass_model::template::is_template;
use windlass_model::weight::{block, list};
use windlass_model::{Diagnostic, Place};

use super::codes;
use super::constants::Constants;
use super::environment::RESULT_BYTES;
use super::error::{ExprError, ExprErrorKind};
use super::needs::{About, Cause, Needs};
use super::source::Source;
use super::values::Values;

/// A compiled template. Clones share their parts.
#[derive(Clone, Debug, Default)]
pub struct Template {
    parts: Arc<[Part]>,
    constant: Option<Bytes>,
    needs: Needs,
}

#[derive(Debug)]
enum Part {
    Json(Vec<u8>),
    Source(Box<Source>),
}

/// A value that a whole template passes on unchanged, so that the host need not parse it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alias {
    /// `{{ input }}`
    Input,
    /// `{{ item }}`
    Item,
    /// `{{ vars.<name> }}`
    Var(String),
    /// `{{ nodes.<name>.output }}`
    Output(String),
}

impl Template {
    /// Compiles a value at `pointer`. Its properties named in `raw` are kept as written.
    ///
    /// # Errors
    ///
    /// All mistakes in its expressions.
    pub fn compile(value: &Json, raw: &[String], pointer: &str) -> Result<Self, Vec<Diagnostic>> {
        Self::about(About::Run, value, raw, pointer)
    }

    /// Compiles a value at `pointer` over the cause of a run: its expressions see nothing else.
    ///
    /// # Errors
    ///
    /// All mistakes in its expressions.
    pub fn of_cause(cause: Cause, value: &Json, pointer: &str) -> Result<Self, Vec<Diagnostic>> {
        Self::about(About::Cause(cause), value, &[], pointer)
    }

    /// Compiles the tags of a run at `pointer`: their expressions see its input, its identity and the
    /// name of its workflow.
    ///
    /// # Errors
    ///
    /// All mistakes in its expressions.
    pub fn of_tags(value: &Json, pointer: &str) -> Result<Self, Vec<Diagnostic>> {
        Self::about(About::Start, value, &[], pointer)
    }

    fn about(
        about: About,
        value: &Json,
        raw: &[String],
        pointer: &str,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut compiler = Compiler {
            about,
            ..Compiler::default()
        };
        match value {
            Json::Object(map) => compiler.object(map, raw, &mut pointer.to_owned()),
            other => compiler.value(other, &mut pointer.to_owned()),
        }
        if !compiler.diagnostics.is_empty() {
            return Err(compiler.diagnostics);
        }
        let (mut parts, mut constant) = (compiler.parts, None);
        if let [Part::Json(text)] = parts.as_mut_slice() {
            constant = Some(Bytes::copy_from_slice(text));
            parts = Vec::new();
        }
        for part in &mut parts {
            if let Part::Json(text) = part {
                text.shrink_to_fit();
            }
        }
        Ok(Self {
            parts: parts.into(),
            constant,
            needs: compiler.needs,
        })
    }

    /// An estimate of the memory that it takes on the heap, in bytes.
    pub fn weight(&self) -> usize {
        let parts = self.parts.iter().map(|part| match part {
            Part::Json(text) => block(text.capacity()),
            Part::Source(source) => block(size_of::<Source>()) + source.weight(),
        });
        let constant = self.constant.as_ref().map_or(0, |text| block(text.len()));
        list::<Part>(self.parts.len()) + parts.sum::<usize>() + constant + self.needs.weight()
    }

    /// The result of a template without expressions.
    pub fn constant(&self) -> Option<&Bytes> {
        self.constant.as_ref()
    }

    /// The value that the template passes on unchanged, if it is nothing else. A caller that has
    /// the bytes of that value can use them instead of rendering.
    pub fn alias(&self) -> Option<Alias> {
        let [Part::Source(source)] = &*self.parts else {
            return None;
        };
        let path = source.as_path()?;
        match (&*path.root, &*path.rest) {
            ("input", []) => Some(Alias::Input),
            ("item", []) => Some(Alias::Item),
            ("vars", [name]) => Some(Alias::Var(name.to_string())),
            ("nodes", [name, property]) if **property == *super::names::OUTPUT => {
                Some(Alias::Output(name.to_string()))
            }
            _ => None,
        }
    }

    /// The values that it needs.
    pub fn needs(&self) -> &Needs {
        &self.needs
    }

    /// Renders it to JSON text of at most [`RESULT_BYTES`], which is charged to the budget of the
    /// values.
    ///
    /// # Errors
    ///
    /// A name in it is undefined, the result is too large, or the evaluation fails otherwise. An
    /// interrupted evaluation charges nothing.
    pub fn render(&self, values: &Values) -> Result<Bytes, ExprError> {
        if let Some(constant) = &self.constant {
            return Ok(constant.clone());
        }
        let budget = values.budget();
        let work = budget.work_left();
        let rendered = self.rendered(values, budget.made_left().min(RESULT_BYTES));
        match &rendered {
            // `rendered` stays below the rest of the budget.
            Ok(json) => budget.make(json.len()).unwrap_or_default(),
            Err(error) if error.kind == ExprErrorKind::Interrupted => budget.set_work_left(work),
            Err(_) => {}
        }
        rendered
    }

    fn rendered(&self, values: &Values, limit: usize) -> Result<Bytes, ExprError> {
        let over = |error: ExprError| match error.kind {
            ExprErrorKind::TooLarge if limit < RESULT_BYTES => ExprError {
                kind: ExprErrorKind::Step,
                message: format!(
                    "the values that the node makes take more than {} bytes together",
                    values.budget().bounds().made
                ),
                ..error
            },
            _ => error,
        };
        let mut out = Vec::with_capacity(256);
        for part in &*self.parts {
            match part {
                Part::Json(text) => out.extend_from_slice(text),
                Part::Source(source) => {
                    let value = source.value(values)?;
                    source
                        .write(&value, &mut out, limit, values)
                        .map_err(over)?;
                }
            }
        }
        if out.len() > limit {
            return Err(over(self.too_large()));
        }
        // A buffer that grew may be twice as long as its text.
        if out.len() > SHRUNK {
            out.shrink_to_fit();
        }
        Ok(Bytes::from(out))
    }

    fn too_large(&self) -> ExprError {
        let message = format!("the result is larger than {RESULT_BYTES} bytes");
        let source = self.parts.iter().find_map(|part| match part {
            Part::Source(source) => Some(source),
            Part::Json(_) => None,
        });
        match source {
            Some(source) => source.error(ExprErrorKind::TooLarge, message),
            None => ExprError {
                kind: ExprErrorKind::TooLarge,
                message,
                expression: String::new(),
                pointer: String::new(),
            },
        }
    }
}

/// Results over this size are shrunk to their length.
const SHRUNK: usize = 64 * 1024;

/// The most mistakes of one template, and bytes of their pointers: then its other expressions are
/// not looked at.
const MISTAKES: usize = 100;
const POINTERS_BYTES: usize = 1024 * 1024;

#[derive(Default)]
struct Compiler {
    about: About,
    parts: Vec<Part>,
    needs: Needs,
    diagnostics: Vec<Diagnostic>,
    /// Bytes of the pointers of the mistakes.
    pointers: usize,
}

impl Compiler {
    fn is_full(&self) -> bool {
        self.diagnostics.len() >= MISTAKES || self.pointers > POINTERS_BYTES
    }

    fn value(&mut self, value: &Json, pointer: &mut String) {
        if self.is_full() {
            return;
        }
        match value {
            Json::String(text) if is_template(text) => self.text(text, pointer),
            Json::Array(items) => {
                self.literal(b"[");
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        self.literal(b",");
                    }
                    let length = pointer.len();
                    pointer.push_str(&format!("/{index}"));
                    self.value(item, pointer);
                    pointer.truncate(length);
                }
                self.literal(b"]");
            }
            Json::Object(map) => self.object(map, &[], pointer),
            other => self.json(other),
        }
    }

    fn object(
        &mut self,
        map: &serde_json::Map<String, Json>,
        raw: &[String],
        pointer: &mut String,
    ) {
        self.literal(b"{");
        for (index, (key, value)) in map.iter().enumerate() {
            if index > 0 {
                self.literal(b",");
            }
            let length = pointer.len();
            pointer.push('/');
            pointer.push_str(&escaped(key));
            if is_template(key) && !self.is_full() {
                self.pointers += pointer.len();
                let message = "the name of a property cannot be an expression";
                let place = Place::at(pointer.as_str());
                self.diagnostics.push(
                    Diagnostic::new(codes::TEMPLATED_KEY, message, place)
                        .help("make the whole value one expression: `{{ { name: value } }}`"),
                );
            }
            self.json(&Json::from(key.as_str()));
            self.literal(b":");
            if raw.contains(key) {
                self.json(value);
            } else {
                self.value(value, pointer);
            }
            pointer.truncate(length);
        }
        self.literal(b"}");
    }

    fn text(&mut self, text: &str, pointer: &str) {
        match Source::text(text, pointer, self.about) {
            Ok((source, needs)) => {
                self.needs.merge(&needs);
                self.parts.push(Part::Source(Box::new(source)));
            }
            Err(diagnostics) => {
                self.pointers += pointer.len().saturating_mul(diagnostics.len());
                self.diagnostics.extend(diagnostics);
            }
        }
    }

    fn json(&mut self, value: &Json) {
        // Serialising a JSON value cannot fail.
        let text = serde_json::to_vec(value).unwrap_or_default();
        self.literal(&text);
    }

    fn literal(&mut self, text: &[u8]) {
        match self.parts.last_mut() {
            Some(Part::Json(before)) => before.extend_from_slice(text),
            _ => self.parts.push(Part::Json(text.to_vec())),
        }
    }
}

/// The parts of a value that are known before a run: members with expressions are absent, items with
/// expressions are `null`, and the list has the JSON pointers to both. The properties named in `raw`
/// contain no expressions. An expression that needs no value is known, unless its result has an
/// object.
pub fn known_parts(value: &Json, raw: &[String], constants: &Constants) -> (Json, Vec<String>) {
    let mut parts = Parts {
        constants,
        unknown: Vec::new(),
    };
    let known = match value {
        Json::Object(map) => parts.members(map, raw, ""),
        other => parts.value(other, "").unwrap_or_default(),
    };
    (known, parts.unknown)
}

struct Parts<'a> {
    constants: &'a Constants,
    unknown: Vec<String>,
}

impl Parts<'_> {
    fn value(&mut self, value: &Json, pointer: &str) -> Option<Json> {
        match value {
            Json::String(text) if is_template(text) => {
                let known = self.constants.plain(text);
                if known.is_none() {
                    self.unknown.push(pointer.to_owned());
                }
                known
            }
            Json::Array(items) => {
                let item = |(index, item)| {
                    let known = self.value(item, &format!("{pointer}/{index}"));
                    known.unwrap_or_default()
                };
                Some(items.iter().enumerate().map(item).collect())
            }
            Json::Object(map) => Some(self.members(map, &[], pointer)),
            other => Some(other.clone()),
        }
    }

    fn members(
        &mut self,
        map: &serde_json::Map<String, Json>,
        raw: &[String],
        pointer: &str,
    ) -> Json {
        let mut members = serde_json::Map::new();
        for (key, value) in map {
            let known = match raw.contains(key) {
                true => Some(value.clone()),
                false => self.value(value, &format!("{pointer}/{}", escaped(key))),
            };
            if let Some(known) = known {
                members.insert(key.clone(), known);
            }
        }
        Json::Object(members)
    }
}

/// A key as a step of a JSON pointer.
pub(super) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_with_expressions_are_unknown() {
        let with = json!({
            "filter": "{{ .a }}", "url": "{{ vars.url }}", "n": 3,
            "headers": { "a/b": "{{ x }}", "c": "d" }, "sum": "{{ 1 + 2 }}", "list": ["a", "{% if x %}", { "k": "{{ y }}" }],
        });
        let (known, unknown) = known_parts(&with, &["filter".to_owned()], &Constants::default());
        let expected = json!({
            "filter": "{{ .a }}", "n": 3, "headers": { "c": "d" }, "list": ["a", null, {}],
            "sum": 3,
        });
        assert_eq!(known, expected);
        assert_eq!(unknown, ["/headers/a~1b", "/list/1", "/list/2/k", "/url"]);
        let whole = known_parts(&json!("{{ vars.config }}"), &[], &Constants::default());
        assert_eq!(whole, (Json::Null, vec![String::new()]));
    }
}
