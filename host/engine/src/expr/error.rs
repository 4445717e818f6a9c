//! How evaluating fails.

use std::fmt;

use windlass_model::Class;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExprErrorKind {
    /// Something that the expression names has no value.
    Undefined,
    /// It took more than [`super::FUEL`] steps.
    Fuel,
    /// It took more than [`super::WORK`], together with what was evaluated before from the same
    /// values.
    Work,
    /// It took more than [`super::MEMORY`].
    Memory,
    /// It, or a value that it made, nests too deeply.
    TooDeep,
    /// A value is not of the kind that was needed.
    Type,
    /// The result is larger than [`super::RESULT_BYTES`], or nests too deeply.
    TooLarge,
    /// Its [`super::Interrupt`] was raised. This is no failure: it has to be done again.
    Interrupted,
    /// Anything else.
    Other,
}

/// Evaluating an expression failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExprError {
    /// What kind of mistake it is.
    pub kind: ExprErrorKind,
    /// What is wrong, for people.
    pub message: String,
    /// The expression as it was written.
    pub expression: String,
    /// JSON pointer of the place where it is written.
    pub pointer: String,
}

impl ExprError {
    /// Whether the budget was used up, which says nothing about whether the expression is right.
    pub fn is_over_budget(&self) -> bool {
        use ExprErrorKind::{Fuel, Memory, TooDeep, TooLarge, Work};
        matches!(self.kind, Fuel | Memory | TooDeep | TooLarge | Work)
    }

    /// How an execution fails that needed the result.
    pub fn class(&self) -> Class {
        if self.is_over_budget() {
            return Class::Limit;
        }
        Class::Invalid
    }
}

impl fmt::Display for ExprError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} in `{}` at {}",
            self.message, self.expression, self.pointer
        )
    }
}

impl std::error::Error for ExprError {}
