//! Why an evaluation stops.

use minijinja::{Error, ErrorKind};

pub(super) type Result<T> = std::result::Result<T, Fault>;

/// Why an evaluation stops.
#[derive(Debug)]
pub(in crate::expr) enum Fault {
    /// A mistake in the expression or in its values.
    Error(Error),
    /// The budget is used up.
    Limit(Limit),
    /// The caller has interrupted the evaluation.
    Interrupted,
}

/// The part of the budget that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::expr) enum Limit {
    Steps,
    Work,
    Memory,
    /// Operands, statements or recursive loops nest too deeply.
    Depth,
    /// A value nests too deeply.
    Nesting,
}

impl Fault {
    /// The operation does not support these values.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::Error(Error::new(ErrorKind::InvalidOperation, message.into()))
    }

    pub(super) fn undefined() -> Self {
        Self::Error(Error::from(ErrorKind::UndefinedError))
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}
