//! Outcomes of executions that do not fail.

use serde::{Deserialize, Serialize};

use crate::{JsonText, Payload};

/// The outcome that a node returned.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is finished.
    Done(Done),
    /// It waits at its bookmarks, for one of them.
    Suspend(Suspension),
    /// It asks to be called again.
    Again(Again),
}

/// A finished node.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// The output for later nodes.
    pub output: Payload,
    /// The ports taken; empty means `done`.
    pub ports: Vec<String>,
}

/// A node that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspension {
    /// At least one; they form one wait group.
    pub bookmarks: Vec<Bookmark>,
    /// The state for the next call of the node.
    pub state: Option<Payload>,
}

/// One of the events that a node waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bookmark {
    /// The name, which is matched exactly.
    pub name: String,
    /// The match, which is compared as canonical JSON.
    pub matches: serde_json::Value,
    /// Only stimuli with this correlation.
    pub correlation: Option<String>,
    /// Only its token can resume it.
    pub private: bool,
    /// Resuming deletes it.
    pub auto_burn: bool,
    /// Data for the node, which the host does not read.
    pub metadata: Option<JsonText>,
    /// Epoch milliseconds.
    pub expires_ms: Option<i64>,
}

/// A node that asks to be called again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    /// The delay from now, in milliseconds.
    pub after_ms: u64,
    /// The state for the next call of the node.
    pub state: Option<Payload>,
}
