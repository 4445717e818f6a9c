//! A failure in answers of the API.
//!
//! A client of a host reads the same form, so it is public and can be deserialised.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use windlass_model::{Class, Code, Failure as Failed};

use crate::count::Count;
use crate::named::FailureClass;

/// A failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Failure {
    /// The class of the failure.
    #[schema(value_type = FailureClass)]
    pub class: Class,
    /// Its code, like `WL-R073`.
    #[schema(value_type = String)]
    pub code: Code,
    /// Its message.
    pub message: String,
    /// The delay after which the node asks to be retried, in milliseconds.
    #[schema(required = true)]
    pub retry_after_ms: Option<Count>,
    /// Its details: a JSON value of at most 16 KiB, for programs.
    #[schema(required = true)]
    pub details: Option<Value>,
    /// The position in a source text of the node at which it occurred.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub position: Option<SourcePosition>,
    /// The stack of the node as text, innermost frame first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub stack: Option<String>,
}

/// A position in a source text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SourcePosition {
    /// The file or the name of the text. Absent: the text is part of the node's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub source: Option<String>,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
}

impl From<&Failed> for Failure {
    fn from(failed: &Failed) -> Self {
        let origin = failed.origin.as_deref();
        let position = origin.and_then(|origin| origin.position.as_ref());
        Self {
            class: failed.class,
            code: failed.code.clone(),
            message: failed.message.clone(),
            retry_after_ms: failed.retry_after_ms.map(Count),
            details: failed.details.as_ref().and_then(|details| details.value()),
            position: position.map(|position| SourcePosition {
                source: position.source.clone(),
                line: position.line,
                column: position.column,
            }),
            stack: origin.and_then(|origin| origin.stack.clone()),
        }
    }
}
