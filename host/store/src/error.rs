//! What a backend could not do.

use std::path::Path;

use windlass_model::Code;

use crate::codes;
use crate::health::concerns_all;

/// What a backend could not do. A refused fence is not among these: it is an answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The page that explains it: `WL-S…`.
    pub code: Code,
    /// What happened and where, in one sentence.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// Whether it may work later without anybody doing anything (busy, disk full).
    pub transient: bool,
}

/// The result of a store's verb.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error that stays until somebody does something about it.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            help: None,
            transient: false,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Marks an error that may pass by itself.
    #[must_use]
    pub fn transient(mut self) -> Self {
        self.transient = true;
        self
    }

    /// Whether the store works, and refuses this one write or value for good: doing the same again
    /// comes to the same.
    pub fn is_refusal(&self) -> bool {
        let of_the_store = [codes::CLOSED, codes::LEFT_BEHIND, codes::REPLACED];
        !self.transient && !concerns_all(self) && !of_the_store.contains(&self.code)
    }

    /// Names the file that a value was found in.
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
