//! Expressions that need no value: their results, and their failures, are known before a run.

use std::ops::Range;

use serde_json::Value as Json;
use windlass_model::template::is_template;

use super::condition::Condition;
use super::error::{ExprError, ExprErrorKind};
use super::template::Template;
use super::values::Values;

/// The work of all constants of one definition together, in bytes read or written.
const WORK: u64 = 16 * 1024 * 1024;

/// A text that needs no value.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    pub(super) text: String,
    /// Whether it is a bare expression.
    pub(super) bare: bool,
    /// Its bytes in the whole text.
    pub(crate) at: Range<usize>,
}

/// Evaluates constants within one budget.
#[derive(Debug)]
pub struct Constants(Values);

impl Default for Constants {
    fn default() -> Self {
        Self(Values::with_work(WORK))
    }
}

impl Constants {
    /// The result of a text with expressions. None: it needs values, has mistakes, or the budget is
    /// used up.
    pub fn value(&self, text: &str) -> Option<Result<Json, ExprError>> {
        let template = Template::compile(&Json::from(text), &[], "").ok()?;
        if !template.needs().is_empty() {
            return None;
        }
        let result = template.render(&self.0);
        let result = result.map(|json| serde_json::from_slice(&json).unwrap_or_default());
        told(result)
    }

    /// The result of a text with expressions, unless it needs values, or is or has an object, which
    /// could be taken for a reference to a secret.
    pub(super) fn plain(&self, text: &str) -> Option<Json> {
        fn is_plain(value: &Json) -> bool {
            match value {
                Json::Object(_) => false,
                Json::Array(items) => items.iter().all(is_plain),
                _ => true,
            }
        }
        let value = self.value(text).filter(|_| is_template(text))?;
        value.ok().filter(is_plain)
    }

    /// Why every evaluation of a constant fails.
    pub(crate) fn failure(&self, constant: &Constant) -> Option<ExprError> {
        if !constant.bare {
            return self.value(&constant.text)?.err();
        }
        let condition = Condition::about_failure(&constant.text, "").ok()?;
        told(condition.test(&self.0))?.err()
    }
}

/// A result, unless the budget of all constants is used up.
fn told<T>(result: Result<T, ExprError>) -> Option<Result<T, ExprError>> {
    match result {
        Err(error) if error.kind == ExprErrorKind::Work => None,
        other => Some(other),
    }
}
