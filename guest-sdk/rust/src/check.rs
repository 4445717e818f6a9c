//! The check of a node's configuration before anything runs.

use crate::bindings::check::exports::windlass::check::check as wit;
use crate::error::Position;
use crate::host::log_panics;
use crate::node::{Node, is_named};
use serde_json::Value;

/// Checks the configuration of a node when a workflow is validated, published
/// or started. Export it by `checks: [..]` in [`crate::plugin!`].
pub trait Check: Node {
    /// The mistakes in a configuration that satisfies the schema. The host
    /// calls it without capabilities.
    fn check(configuration: &Configuration) -> Vec<Finding>;
}

/// The `with` of a node, as the workflow file contains it.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// A JSON object without the members that contain expressions.
    pub config: Value,
    /// JSON pointers to these members.
    pub unknown: Vec<String>,
}

impl Configuration {
    /// The text at a JSON pointer; none if there is no text, or if it is only
    /// known during a run.
    pub fn text(&self, pointer: &str) -> Option<&str> {
        self.config.pointer(pointer).and_then(Value::as_str)
    }
}

/// A mistake in a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The workflow is refused; otherwise the finding is a warning.
    pub is_error: bool,
    /// The message, for people.
    pub message: String,
    /// A JSON pointer to the member that is wrong.
    pub pointer: Option<String>,
    /// The position inside that member, if it is a text.
    pub position: Option<Position>,
}

impl Finding {
    /// A mistake for which the workflow is refused.
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            is_error: true,
            message: message.into(),
            pointer: None,
            position: None,
        }
    }

    /// A warning.
    pub fn warning(message: impl Into<String>) -> Self {
        Self {
            is_error: false,
            ..Self::error(message)
        }
    }

    /// Names the member that is wrong, by a JSON pointer.
    #[must_use]
    pub fn member(mut self, pointer: impl Into<String>) -> Self {
        self.pointer = Some(pointer.into());
        self
    }

    /// Adds the position inside the member.
    #[must_use]
    pub fn at(mut self, line: u32, column: u32) -> Self {
        let source = None;
        self.position = Some(Position {
            source,
            line,
            column,
        });
        self
    }
}

/// The check of a node type without its Rust types, as the macro lists it.
pub struct CheckEntry {
    name: &'static str,
    check: fn(&Configuration) -> Vec<Finding>,
}

impl CheckEntry {
    /// The entry of a node type.
    pub const fn of<C: Check>() -> Self {
        Self {
            name: C::NAME,
            check: C::check,
        }
    }
}

/// Checks a configuration with the check of its node type, if there is one.
pub fn check(entries: &[CheckEntry], request: wit::CheckRequest) -> Vec<wit::FindingLevel> {
    log_panics();
    let wanted = request.node_type.rsplit('/').next().unwrap_or_default();
    let Some(entry) = entries.iter().find(|entry| is_named(entry.name, wanted)) else {
        return Vec::new();
    };
    let configuration = match crate::data::from_json(&request.config) {
        Ok(config) => Configuration {
            config,
            unknown: request.unknown,
        },
        Err(error) => return vec![level(Finding::error(error.message()))],
    };
    let found = (entry.check)(&configuration);
    found.into_iter().map(level).collect()
}

fn level(finding: Finding) -> wit::FindingLevel {
    let is_error = finding.is_error;
    let finding = wit::Finding {
        message: finding.message,
        pointer: finding.pointer,
        position: finding.position.map(Into::into),
    };
    match is_error {
        true => wit::FindingLevel::Error(finding),
        false => wit::FindingLevel::Warning(finding),
    }
}
