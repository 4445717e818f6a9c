//! Errors of loading a plugin.

use std::path::Path;

use windlass_model::Code;

use crate::codes;

/// Loading failed, or the host did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{subject}: {message}")]
pub struct Error {
    /// The page that explains it.
    pub code: Code,
    /// The file, folder or digest that the error concerns.
    pub subject: String,
    /// The fault. Several faults are separated by newlines.
    pub message: String,
}

impl Error {
    pub(crate) fn new(code: Code, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code,
            subject: subject.into(),
            message: message.into(),
        }
    }

    pub(crate) fn file(path: &Path, doing: &str, error: &std::io::Error) -> Self {
        Self::new(
            codes::FILE,
            path.display().to_string(),
            format!("cannot {doing}: {error}"),
        )
    }
}

/// The whole chain of causes on one line: the outermost error of wasmtime says little.
pub(crate) fn chain(error: &wasmtime::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause.to_string());
    }
    text
}
