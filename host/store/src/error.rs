//! Errors of the backends.

use std::path::Path;

use windlass_model::Code;

use crate::codes;
use crate::health::concerns_all;

/// An error of a backend. A fence that does not hold is not an error but an answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The code of the page that explains the error: `WL-S…`.
    pub code: Code,
    /// What happened and where, in one sentence.
    pub message: String,
    /// The recommended action.
    pub help: Option<String>,
    /// Whether a later attempt may succeed without any action (busy, disk full).
    pub transient: bool,
}

/// The result of a store operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error that lasts until its cause is removed.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            help: None,
            transient: false,
        }
    }

    /// Adds the recommended action.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Marks an error that may disappear without any action.
    #[must_use]
    pub fn transient(mut self) -> Self {
        self.transient = true;
        self
    }

    /// Whether the store works but refuses this write or value permanently: the same write fails
    /// again.
    pub fn is_refusal(&self) -> bool {
        let of_the_store = [codes::CLOSED, codes::LEFT_BEHIND, codes::REPLACED];
        !self.transient && !concerns_all(self) && !of_the_store.contains(&self.code)
    }

    /// Names the file that contained the value.
    pub(crate) fn found_in(mut self, path: &Path) -> Self {
        if [codes::ALTERED, codes::CORRUPT].contains(&self.code) {
            self.message = format!("{} ({})", self.message, path.display());
        }
        self
    }

    pub(crate) fn closed() -> Self {
        Self::new(codes::CLOSED, "the store has been closed")
    }

    pub(crate) fn corrupt(what: &str) -> Self {
        Self::new(codes::CORRUPT, format!("the store holds {what}"))
            .help("Stop every process that uses it and restore a backup.")
    }
}
