//! Errors of loading a plugin.

use std::path::Path;

use windlass_model::{Code, visible};

use crate::codes;

/// Loading failed, or the host did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{subject}: {message}")]
pub struct Error {
    /// The page that explains it.
    pub code: Code,
    /// The file, folder or digest that the error concerns.
    pub subject: String,
    /// The fault. Several faults are separated by newlines; nothing else in it is a newline.
    pub message: String,
}

/// The most faults that an error lists.
const FAULTS: usize = 50;

impl Error {
    pub(crate) fn new(code: Code, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code,
            subject: visible::line(&subject.into(), false).into_owned(),
            message: visible::sentence(message),
        }
    }

    /// An error with several faults, each of which may quote a plugin.
    pub(crate) fn faults(code: Code, subject: impl Into<String>, faults: &[String]) -> Self {
        let mut lines: Vec<String> = faults.iter().take(FAULTS).map(visible::sentence).collect();
        let more = faults.len().saturating_sub(FAULTS);
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        Self {
            message: lines.join("\n"),
            ..Self::new(code, subject, "")
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
