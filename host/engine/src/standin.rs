//! Stands in for expressions until they are there.

use std::collections::BTreeSet;

use bytes::Bytes;
use windlass_model::Diagnostic;

/// What expressions see.
#[derive(Debug, Default)]
pub struct Values;

impl Values {
    /// Nothing.
    pub fn new() -> Self {
        Self
    }
}

/// Why an expression has no value.
#[derive(Debug, thiserror::Error)]
#[error("no value")]
pub struct ExprError;

/// What an expression names.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// Nodes whose output is named.
    pub nodes: BTreeSet<String>,
}

/// A value with expressions in it.
#[derive(Debug)]
pub struct Template(Bytes, Needs);

impl Template {
    /// Compiles it.
    pub fn compile(
        value: &serde_json::Value,
        _raw: &[String],
        _pointer: &str,
    ) -> Result<Self, Vec<Diagnostic>> {
        Ok(Self(value.to_string().into(), Needs::default()))
    }

    /// What it names.
    pub fn needs(&self) -> &Needs {
        &self.1
    }

    /// Its value.
    pub fn render(&self, _values: &Values) -> Result<Bytes, ExprError> {
        Ok(self.0.clone())
    }
}

/// A condition.
#[derive(Debug)]
pub struct Condition(bool, Needs);

impl Condition {
    /// Compiles it.
    pub fn compile(text: &str, _pointer: &str) -> Result<Self, Vec<Diagnostic>> {
        Ok(Self(text == "true", Needs::default()))
    }

    /// What it names.
    pub fn needs(&self) -> &Needs {
        &self.1
    }

    /// Its value.
    pub fn test(&self, _values: &Values) -> Result<bool, ExprError> {
        Ok(self.0)
    }
}
