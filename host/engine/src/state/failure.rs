//! A failure in the state of a run.
//!
//! The first four values are those that every version of the state has. The rest came later; it is
//! written apart, behind a flag or a version of its own, so that a failure without it has the same
//! bytes as before and an earlier host can read them.

use serde::{Deserialize, Serialize};
use windlass_model::{Class, Code, Failure, JsonText, Origin, Position};

/// The values of a failure in every version.
#[derive(PartialEq, Serialize, Deserialize)]
pub(super) struct WireFailure {
    class: Class,
    code: Code,
    message: String,
    retry_after_ms: Option<u64>,
}

/// The later values of a failure.
#[derive(Serialize, Deserialize)]
pub(super) struct WireDetails {
    /// JSON.
    details: Option<String>,
    origin: Option<WireOrigin>,
}

#[derive(Serialize, Deserialize)]
struct WireOrigin {
    stack: Option<String>,
    position: Option<WirePosition>,
}

#[derive(Serialize, Deserialize)]
struct WirePosition {
    source: Option<String>,
    line: u32,
    column: u32,
}

impl WireFailure {
    pub(super) fn of(failure: &Failure) -> Self {
        Self {
            class: failure.class,
            code: failure.code.clone(),
            message: failure.message.clone(),
            retry_after_ms: failure.retry_after_ms,
        }
    }

    pub(super) fn into_failure(self) -> Failure {
        let mut failure = Failure::new(self.class, self.code, self.message);
        failure.retry_after_ms = self.retry_after_ms;
        failure
    }
}

impl WireDetails {
    /// The later values, if the failure has any.
    pub(super) fn of(failure: &Failure) -> Option<Self> {
        if failure.details.is_none() && failure.origin.is_none() {
            return None;
        }
        let details = failure.details.as_ref();
        Some(Self {
            details: details.map(|details| details.as_str().to_owned()),
            origin: failure.origin.as_deref().map(|origin| WireOrigin {
                stack: origin.stack.clone(),
                position: origin.position.as_ref().map(|position| WirePosition {
                    source: position.source.clone(),
                    line: position.line,
                    column: position.column,
                }),
            }),
        })
    }

    /// Adds them to a failure.
    ///
    /// # Errors
    ///
    /// The details are not JSON.
    pub(super) fn add_to(self, failure: &mut Failure) -> Result<(), serde_json::Error> {
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
        Ok(())
    }
}
