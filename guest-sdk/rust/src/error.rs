//! Failures of a node, in the terms of the contract.

use crate::bindings::node::windlass::types::types as wit;
use crate::data::json_payload;
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// The result of a node's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The failure of a node, whose class decides how the host reacts.
///
/// It does not implement `std::error::Error`, so it can be made from every
/// error that does: `?` turns those into [`Error::Other`].
#[derive(Debug, Clone, PartialEq)]
pub enum Error {
    /// The configuration or the input is wrong: a retry is useless.
    Invalid(Failure),
    /// A retry may succeed.
    Retryable {
        /// The explanation.
        failure: Failure,
        /// The delay after which a retry makes sense.
        after: Option<Duration>,
    },
    /// A retry cannot succeed.
    Permanent(Failure),
    /// The node noticed that it was cancelled.
    Cancelled,
    /// Any other failure; the host treats it as permanent.
    Other(Failure),
}

/// An explanation of a failure, for people and for programs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Failure {
    /// The message, for people. The host keeps 4 KiB.
    pub message: String,
    /// Data that conditions of `retry` and `on-error` and the output of the
    /// port `error` see as `error.details`: at most 16 KiB of JSON.
    pub details: Option<Value>,
    /// The stack as text. The host keeps 8 KiB.
    pub stack: Option<String>,
    /// The position in a source text.
    pub position: Option<Position>,
}

/// A position in a source text.
#[derive(Debug, Clone, PartialEq)]
pub struct Position {
    /// The file; none means a text in the configuration of the node.
    pub source: Option<String>,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
}

impl Error {
    /// The configuration or the input is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(Failure::new(message))
    }

    /// A retry may succeed.
    pub fn retryable(message: impl Into<String>) -> Self {
        Self::Retryable {
            failure: Failure::new(message),
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
        Self::Permanent(Failure::new(message))
    }

    /// Any other failure.
    pub fn other(message: impl Into<String>) -> Self {
        Self::Other(Failure::new(message))
    }

    /// Adds data for conditions and programs; no effect on [`Error::Cancelled`].
    #[must_use]
    pub fn details(mut self, details: impl Serialize) -> Self {
        if let Some(failure) = self.failure_mut() {
            failure.details = serde_json::to_value(details).ok();
        }
        self
    }

    /// Adds a position in a text of the configuration; no effect on
    /// [`Error::Cancelled`].
    #[must_use]
    pub fn at(mut self, line: u32, column: u32) -> Self {
        if let Some(failure) = self.failure_mut() {
            let source = None;
            failure.position = Some(Position {
                source,
                line,
                column,
            });
        }
        self
    }

    /// The message, for people.
    pub fn message(&self) -> &str {
        self.failure()
            .map_or("cancelled", |failure| &failure.message)
    }

    /// The explanation; none if the node was cancelled.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Invalid(failure)
            | Self::Retryable { failure, .. }
            | Self::Permanent(failure)
            | Self::Other(failure) => Some(failure),
            Self::Cancelled => None,
        }
    }

    fn failure_mut(&mut self) -> Option<&mut Failure> {
        match self {
            Self::Invalid(failure)
            | Self::Retryable { failure, .. }
            | Self::Permanent(failure)
            | Self::Other(failure) => Some(failure),
            Self::Cancelled => None,
        }
    }

    /// The explanation, as the contract has it.
    pub(crate) fn into_failure(self) -> Failure {
        match self {
            Self::Invalid(failure)
            | Self::Retryable { failure, .. }
            | Self::Permanent(failure)
            | Self::Other(failure) => failure,
            Self::Cancelled => Failure::new("cancelled"),
        }
    }
}

impl Failure {
    /// A failure with a message alone.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..Self::default()
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

impl From<Failure> for wit::Failure {
    fn from(failure: Failure) -> Self {
        // A `Value` is always written.
        let details = |details: Value| json_payload(&details).ok();
        Self {
            message: failure.message,
            details: failure.details.and_then(details),
            stack: failure.stack,
            position: failure.position.map(Into::into),
        }
    }
}

impl From<Position> for wit::Position {
    fn from(position: Position) -> Self {
        Self {
            source: position.source,
            line: position.line,
            column: position.column,
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl From<wit::Failure> for Failure {
    fn from(failure: wit::Failure) -> Self {
        let details = |details: wit::Payload| crate::data::from_json(&details).ok();
        Self {
            message: failure.message,
            details: failure.details.and_then(details),
            stack: failure.stack,
            position: failure.position.map(|position| Position {
                source: position.source,
                line: position.line,
                column: position.column,
            }),
        }
    }
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        Self::other(error.to_string())
    }
}
