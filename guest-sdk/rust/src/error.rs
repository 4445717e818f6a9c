//! Failures of a node, in the terms of the contract.

use std::time::Duration;

/// The result of a node's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The failure of a node, which decides how the host reacts.
///
/// It does not implement `std::error::Error`, so it can be made from every
/// error that does: `?` turns those into [`Error::Other`].
#[derive(Debug, Clone, PartialEq)]
pub enum Error {
    /// The configuration or the input is wrong: a retry is useless.
    Invalid(String),
    /// A retry may succeed.
    Retryable {
        /// The message, for people.
        message: String,
        /// The delay after which a retry makes sense.
        after: Option<Duration>,
    },
    /// A retry cannot succeed.
    Permanent(String),
    /// The node noticed that it was cancelled.
    Cancelled,
    /// Any other failure; the host treats it as permanent.
    Other(String),
}

impl Error {
    /// The configuration or the input is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// A retry may succeed.
    pub fn retryable(message: impl Into<String>) -> Self {
        Self::Retryable {
            message: message.into(),
            after: None,
        }
    }

    /// A retry may succeed after this delay; no effect on other classes.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        if let Self::Retryable { after, .. } = &mut self {
            *after = Some(delay);
        }
        self
    }

    /// A retry cannot succeed.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::Permanent(message.into())
    }

    /// The message, for people.
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
