//! Shows diagnostics and foreign text to people.
//!
//! No printed text controls the terminal, from any source. A diagnostic is drawn with its part
//! of the file, even if the lines of the file are very long.

use std::sync::Arc;

use windlass_model::Diagnostic;

mod drawing;
mod login;
mod places;
mod snippet;
#[cfg(test)]
mod tests;

pub use drawing::{drawn, warnings};
pub use places::diagnostics;
pub use windlass_model::visible;

/// The mistakes in a file.
#[derive(Clone, Debug)]
pub struct Problems {
    /// The name of the file, as the user gave it.
    pub name: String,
    /// Its text, in which diagnostics point.
    pub text: Arc<str>,
    /// At least one, unless they are warnings.
    pub diagnostics: Vec<Diagnostic>,
}
