//! How an evaluation fails.

use std::fmt;

use windlass_model::Class;

/// The kind of a failed evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExprErrorKind {
    /// A name in the expression has no value.
    Undefined,
    /// The evaluation took more than [`super::FUEL`] steps.
    Fuel,
    /// The evaluation took more than [`super::WORK`], together with earlier evaluations of the same
    /// step.
    Work,
    /// The evaluation took more memory than its [`Bounds`](super::Bounds).
    Memory,
    /// The expression, or a value that it made, nests too deeply.
    TooDeep,
    /// A value does not have the needed type.
    Type,
    /// The result is larger than [`super::RESULT_BYTES`], or nests too deeply.
    TooLarge,
    /// The values that the step makes are larger together than its
    /// [`StepBudget`](super::StepBudget).
    Step,
    /// The [`super::Interrupt`] was raised. This is no failure: the caller evaluates again later.
    Interrupted,
    /// Any other mistake.
    Other,
}

/// A failed evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExprError {
    /// The kind of mistake.
    pub kind: ExprErrorKind,
    /// The mistake in words, for people.
    pub message: String,
    /// The expression as it was written.
    pub expression: String,
    /// JSON pointer of the place where the expression is written.
    pub pointer: String,
}

impl ExprError {
    /// Whether the budget was used up. The expression may still be right.
    pub fn is_over_budget(&self) -> bool {
        use ExprErrorKind::{Fuel, Memory, Step, TooDeep, TooLarge, Work};
        matches!(self.kind, Fuel | Memory | Step | TooDeep | TooLarge | Work)
    }

    /// The class of failure of the execution that needed the result.
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
