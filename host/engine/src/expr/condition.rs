//! The conditions of edges: bare expressions that are true or false.

use minijinja::value::ValueKind;
use windlass_model::{Diagnostic, Place};

use super::codes;
use super::error::{ExprError, ExprErrorKind};
use super::needs::Needs;
use super::source::Source;
use super::values::Values;

/// A compiled condition.
#[derive(Debug)]
pub struct Condition {
    source: Source,
    needs: Needs,
}

impl Condition {
    /// Compiles a condition that is written at `pointer`.
    ///
    /// # Errors
    ///
    /// All mistakes in the condition.
    pub fn compile(text: &str, pointer: &str) -> Result<Self, Vec<Diagnostic>> {
        let text = text.trim();
        if text.starts_with("{{") || text.starts_with("{%") {
            let message = "a condition is an expression already";
            let inner = text.trim_matches(['{', '}', '%', ' ']);
            let diagnostic =
                Diagnostic::new(codes::CONDITION_TEMPLATE, message, Place::at(pointer))
                    .help(format!("write it without the braces: `{inner}`"));
            return Err(vec![diagnostic]);
        }
        let (source, needs) = Source::expression(text, text, pointer)?;
        Ok(Self { source, needs })
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
            ValueKind::Undefined => Err(self.source.undefined(values)),
            ValueKind::Invalid | ValueKind::Plain => {
                let message = "the result is neither true nor false";
                Err(self.source.error(ExprErrorKind::Type, message))
            }
            _ => Ok(value.is_true()),
        }
    }
}
