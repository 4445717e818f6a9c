//! How evaluating fails.

use std::fmt;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExprErrorKind {
    /// Something that the expression names has no value.
    Undefined,
    /// It took more than [`super::FUEL`] instructions.
    Fuel,
    /// A value is not of the kind that was needed.
    Type,
    /// The result is larger than [`super::RESULT_BYTES`], or nests too deeply.
    TooLarge,
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
