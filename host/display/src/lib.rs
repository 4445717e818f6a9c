//! Diagnostics and text from outside, as people see them.
//!
//! Nothing that is printed steers a terminal, whatever it came from, and a diagnostic is drawn
//! with the part of its file that it is about, however long the lines of the file are.

use std::sync::Arc;

use windlass_model::Diagnostic;

mod drawing;
mod places;
mod snippet;
#[cfg(test)]
mod tests;
pub mod visible;

pub use drawing::{drawn, warnings};
pub use places::diagnostics;

/// What is wrong with a file.
#[derive(Clone, Debug)]
pub struct Problems {
    /// As the user named it.
    pub name: String,
    /// Its text, for pointing into it.
    pub text: Arc<str>,
    /// At least one, unless they are warnings.
    pub diagnostics: Vec<Diagnostic>,
}
