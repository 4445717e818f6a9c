//! The conditions of edges, repetitions and failures: bare expressions that are true or false.

use minijinja::value::ValueKind;
use windlass_model::{Diagnostic, Place};

use super::codes;
use super::error::{ExprError, ExprErrorKind};
use super::machine;
use super::needs::{About, Needs};
use super::source::{Source, Written, shorten};
use super::values::Values;

/// A compiled condition.
#[derive(Debug)]
pub struct Condition {
    source: Source,
    needs: Needs,
    /// Whether it is about a failure.
    failure: bool,
}

impl Condition {
    /// Compiles a condition that is written at `pointer`.
    ///
    /// # Errors
    ///
    /// All mistakes in the condition.
    pub fn compile(text: &str, pointer: &str) -> Result<Self, Vec<Diagnostic>> {
        let (text, offset) = bare(text, pointer)?;
        let (source, needs) =
            Source::expression(text, Written { text, pointer }, offset, About::Run)?;
        Ok(Self {
            source,
            needs,
            failure: false,
        })
    }

    /// Compiles a condition about a failure, which it sees as `error`. A missing member of
    /// `error.details` is undefined but no mistake: it equals nothing and counts as false.
    ///
    /// # Errors
    ///
    /// All mistakes in the condition.
    pub fn about_failure(text: &str, pointer: &str) -> Result<Self, Vec<Diagnostic>> {
        let (text, offset) = bare(text, pointer)?;
        let (source, needs) =
            Source::expression(text, Written { text, pointer }, offset, About::Failure)?;
        Ok(Self {
            source,
            needs,
            failure: true,
        })
    }

    /// An estimate of the memory that it takes on the heap, in bytes.
    pub fn weight(&self) -> usize {
        self.source.weight() + self.needs.weight()
    }

    /// The values that it needs.
    pub fn needs(&self) -> &Needs {
        &self.needs
    }

    /// Whether it is true. `none`, `false`, zero and empty values are false.
    ///
    /// # Errors
    ///
    /// A name in it is undefined, or the evaluation fails otherwise.
    pub fn test(&self, values: &Values) -> Result<bool, ExprError> {
        let value = self.source.value(values)?;
        match value.kind() {
            ValueKind::Undefined if self.failure && machine::is_silent(&value) => Ok(false),
            ValueKind::Undefined => Err(self.source.undefined(values)),
            ValueKind::Invalid | ValueKind::Plain if machine::number::exact(&value).is_none() => {
                let message = "the result is neither true nor false";
                Err(self.source.error(ExprErrorKind::Type, message))
            }
            _ => Ok(value.is_true()),
        }
    }
}

/// The text of an expression that is not written as a template, and its offset.
fn bare<'t>(text: &'t str, pointer: &str) -> Result<(&'t str, usize), Vec<Diagnostic>> {
    let offset = text.len() - text.trim_start().len();
    let text = text.trim();
    let template = text.strip_prefix('$').unwrap_or(text);
    if !template.starts_with("{{") && !template.starts_with("{%") {
        return Ok((text, offset));
    }
    let message = "a condition is an expression already";
    let inner = template.trim_matches(['{', '}', '%', ' ']);
    let place = Place::inside(pointer, offset..offset + text.len());
    let diagnostic = Diagnostic::new(codes::CONDITION_TEMPLATE, message, place);
    Err(vec![diagnostic.help(format!(
        "write it without the braces: `{}`",
        shorten(inner)
    ))])
}
