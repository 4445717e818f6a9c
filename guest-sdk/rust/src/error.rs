//! How a node fails, in the words of the contract.

use std::time::Duration;

/// The result of anything that a node does.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a node failed, which decides what the host does about it.
///
/// It implements no `std::error::Error`, and thereby can be made from every
/// error that does: `?` turns those into [`Error::Other`].
#[derive(Debug, Clone, PartialEq)]
pub enum Error {
    /// The configuration or the input is wrong: trying again is useless.
    Invalid(String),
    /// It may work later.
    Retryable {
        /// What went wrong, for people.
        message: String,
        /// The soonest moment at which trying again makes sense.
        after: Option<Duration>,
    },
    /// It will not work.
    Permanent(String),
    /// The node noticed that it was cancelled.
    Cancelled,
    /// Anything else; the host treats it as permanent.
    Other(String),
}

impl Error {
    /// The configuration or the input is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// It may work later.
    pub fn retryable(message: impl Into<String>) -> Self {
        Self::Retryable {
            message: message.into(),
            after: None,
        }
    }

    /// It may work after this long; no effect on the other kinds.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        if let Self::Retryable { after, .. } = &mut self {
            *after = Some(delay);
        }
        self
    }

    /// It will not work.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::Permanent(message.into())
    }

    /// What went wrong, for people.
    pub fn message(&self) -> &str {
        match self {
            Self::Invalid(message) | Self::Permanent(message) | Self::Other(message) => message,
            Self::Retryable { message, .. } => message,
            Self::Cancelled => "cancelled",
        }
    }
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        Self::Other(error.to_string())
    }
}
