//! A failure in the state of a run.

use serde::{Deserialize, Serialize};
use windlass_model::{Class, Code, Failure, JsonText, Origin, Position};

#[derive(PartialEq, Serialize, Deserialize)]
pub(crate) struct WireFailure {
    class: Class,
    code: Code,
    message: String,
    retry_after_ms: Option<u64>,
    /// JSON.
    details: Option<String>,
    origin: Option<WireOrigin>,
}

#[derive(PartialEq, Serialize, Deserialize)]
struct WireOrigin {
    stack: Option<String>,
    position: Option<WirePosition>,
}

#[derive(PartialEq, Serialize, Deserialize)]
struct WirePosition {
    source: Option<String>,
    line: u32,
    column: u32,
}

impl WireFailure {
    pub(crate) fn of(failure: &Failure) -> Self {
        let details = failure.details.as_ref();
        Self {
            class: failure.class,
            code: failure.code.clone(),
            message: failure.message.clone(),
            retry_after_ms: failure.retry_after_ms,
            details: details.map(|details| details.as_str().to_owned()),
            origin: failure.origin.as_deref().map(|origin| WireOrigin {
                stack: origin.stack.clone(),
                position: origin.position.as_ref().map(|position| WirePosition {
                    source: position.source.clone(),
                    line: position.line,
                    column: position.column,
                }),
            }),
        }
    }

    /// # Errors
    ///
    /// The details are not JSON.
    pub(crate) fn into_failure(self) -> Result<Failure, serde_json::Error> {
        let mut failure = Failure::new(self.class, self.code, self.message);
        failure.retry_after_ms = self.retry_after_ms;
        let details = self.details.as_ref();
        failure.details = details
            .map(|details| JsonText::stored(details.as_bytes()))
            .transpose()?;
        failure.origin = self.origin.map(|origin| {
            Box::new(Origin {
                stack: origin.stack,
                position: origin.position.map(|position| Position {
                    source: position.source,
                    line: position.line,
                    column: position.column,
                }),
            })
        });
        Ok(failure)
    }
}
