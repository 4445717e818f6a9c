//! Failures of executions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::limits::MESSAGE_BYTES;
use crate::{Code, JsonText};

/// The class of a failure: retry policies choose by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// The node reports that a retry may succeed.
    Retryable,
    /// The node reports that a retry cannot succeed.
    Permanent,
    /// The configuration or the input is not valid.
    Invalid,
    /// The guest crashed.
    Trap,
    /// The call exceeded its time limit.
    Deadline,
    /// Memory, size or quota exceeded.
    Limit,
    /// It was cancelled.
    Cancelled,
    /// A consumer rejected the trigger.
    Rejected,
    /// Too many hosts died during the execution.
    Lost,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 9] = [
        Self::Retryable,
        Self::Permanent,
        Self::Invalid,
        Self::Trap,
        Self::Deadline,
        Self::Limit,
        Self::Cancelled,
        Self::Rejected,
        Self::Lost,
    ];

    /// Its name in files and in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Retryable => "retryable",
            Self::Permanent => "permanent",
            Self::Invalid => "invalid",
            Self::Trap => "trap",
            Self::Deadline => "deadline",
            Self::Limit => "limit",
            Self::Cancelled => "cancelled",
            Self::Rejected => "rejected",
            Self::Lost => "lost",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no failure class.
#[derive(Debug, thiserror::Error)]
#[error("there is no failure class `{0}`")]
pub struct UnknownClass(pub String);

impl FromStr for Class {
    type Err = UnknownClass;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|class| class.name() == text)
            .ok_or_else(|| UnknownClass(text.to_owned()))
    }
}

/// One failed execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The class.
    pub class: Class,
    /// The code of the failure.
    pub code: Code,
    /// The message, in one sentence, for people, of at most [`limits::MESSAGE_BYTES`].
    ///
    /// [`limits::MESSAGE_BYTES`]: crate::limits::MESSAGE_BYTES
    pub message: String,
    /// The delay from now after which a retry makes sense.
    pub retry_after_ms: Option<u64>,
    /// Data for conditions and for programs, of at most [`limits::DETAILS_BYTES`].
    ///
    /// [`limits::DETAILS_BYTES`]: crate::limits::DETAILS_BYTES
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<JsonText>,
    /// The place in the guest's source where the failure occurred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Box<Origin>>,
}

/// The place of a failure, as the guest reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The stack as text, innermost frame first, of at most [`limits::STACK_BYTES`].
    ///
    /// [`limits::STACK_BYTES`]: crate::limits::STACK_BYTES
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
    /// The position in a source text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
}

/// A position in a source text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The file or the name of the text, of at most 1 KiB. None: the text that the configuration
    /// contains, such as a filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = &self.source {
            write!(f, "{source}:")?;
        }
        write!(f, "{}:{}", self.line, self.column)
    }
}

impl Failure {
    /// A failure without a hint about the time of a retry, without details and without an origin.
    /// A message that is too long ends with `…`.
    pub fn new(class: Class, code: Code, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MESSAGE_BYTES {
            let end = message.floor_char_boundary(MESSAGE_BYTES - '…'.len_utf8());
            message.truncate(end);
            message.push('…');
            message.shrink_to_fit();
        }
        Self {
            class,
            code,
            message,
            retry_after_ms: None,
            details: None,
            origin: None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.message, self.class, self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let of = |message: String| Failure::new(Class::Invalid, Code::new("WL-X001"), message);
        let whole = "x".repeat(MESSAGE_BYTES);
        assert_eq!(of(whole.clone()).message, whole);
        for long in [
            format!("{whole}x"),
            "é".repeat(1_000_000),
            format!("x{}", "🦀".repeat(9_000)),
        ] {
            let cut = of(long).message;
            assert!(
                cut.len() <= MESSAGE_BYTES && cut.len() > MESSAGE_BYTES - 8,
                "{}",
                cut.len()
            );
            assert!(cut.ends_with('…'));
        }
    }
}
