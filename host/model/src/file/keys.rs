//! Every key of the format. The reader knows a key if it is here, and a test holds these lists
//! against the JSON Schema.

use crate::{Code, codes};

/// What an editor keeps for itself: positions and colours.
pub(super) const LAYOUT: &str = "layout";

/// Merges one map into another in YAML 1.1. The tree reports it.
pub(super) const MERGE: &str = "<<";

pub(super) const WORKFLOW: &[&str] = &[
    "workflow",
    "description",
    "input",
    "vars",
    "nodes",
    "edges",
    "output",
    "options",
    LAYOUT,
];

/// What a node does: it has exactly one of these.
pub(super) const KINDS: &[&str] = &["use", "wait", "set", "end", "fail"];

pub(super) const NODE: &[&str] = &[
    "use",
    "wait",
    "set",
    "end",
    "fail",
    "with",
    "input",
    "join",
    "first",
    "start",
    "retry",
    "timeout",
    "total-timeout",
    "on-error",
    "title",
    "description",
];

pub(super) const EDGE: &[&str] = &["from", "port", "to", "when", "id"];

pub(super) const RETRY: &[&str] = &[
    "max-attempts",
    "delay",
    "backoff",
    "max-delay",
    "jitter",
    "classes",
];

pub(super) const END: &[&str] = &["terminate", "output"];

pub(super) const OPTIONS: &[&str] = &["activation", "commit", "incidents", "timeout", "retention"];

/// Keys of a workflow that are designed but not built.
pub(super) const WORKFLOW_LATER: &[(&str, Code)] = &[("triggers", codes::NO_TRIGGERS)];

/// Keys of a node that are designed but not built.
pub(super) const NODE_LATER: &[(&str, Code)] = &[
    ("for-each", codes::NO_FOR_EACH),
    ("workflow", codes::NO_SUB_WORKFLOW),
    ("event", codes::NO_EVENT),
    ("compensate", codes::NO_COMPENSATE),
    ("repeat", codes::NO_REPEAT),
    ("mutex", codes::NO_MUTEX),
    ("wait-timeout", codes::NO_WAIT_TIMEOUT),
    ("route", codes::NO_ROUTE),
    ("priority", codes::NO_PRIORITY),
];

/// Keys that only mean something beside `for-each`: its error says it all.
pub(super) const FOR_EACH: &[&str] = &["nodes", "edges", "output", "concurrency", "on-item-error"];
