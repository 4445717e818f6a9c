//! How an execution ends well.

use serde::{Deserialize, Serialize};

use crate::{JsonText, Payload};

/// What a node returned.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is finished.
    Done(Done),
    /// It waits for one of its bookmarks.
    Suspend(Suspension),
    /// It wants to be called again.
    Again(Again),
}

/// A finished node.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// What later nodes see.
    pub output: Payload,
    /// The ports taken; empty means `done`.
    pub ports: Vec<String>,
}

/// A node that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspension {
    /// At least one; they form one wait group.
    pub bookmarks: Vec<Bookmark>,
    /// Given back when the node is called again.
    pub state: Option<Payload>,
}

/// Something to wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bookmark {
    /// Matched exactly.
    pub name: String,
    /// Matched as canonical JSON.
    pub matches: serde_json::Value,
    /// Narrows the match.
    pub correlation: Option<String>,
    /// Only its token can resume it.
    pub private: bool,
    /// Resuming uses it up.
    pub auto_burn: bool,
    /// Given back unread.
    pub metadata: Option<JsonText>,
    /// Epoch milliseconds.
    pub expires_ms: Option<i64>,
}

/// A node that wants to be called again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    /// How long from now, in milliseconds.
    pub after_ms: u64,
    /// Given back when the node is called again.
    pub state: Option<Payload>,
}
