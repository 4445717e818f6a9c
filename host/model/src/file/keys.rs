//! Every key of the format. The reader knows a key only if it is here, and a test compares these
//! lists with the JSON Schema.

/// Data of an editor, like positions and colours.
pub(super) const LAYOUT: &str = "layout";

/// Merges one map into another in YAML 1.1. The tree reports it as a mistake.
pub(super) const MERGE: &str = "<<";

pub(super) const WORKFLOW: &[&str] = &[
    "workflow",
    "description",
    "input",
    "triggers",
    "vars",
    "nodes",
    "edges",
    "output",
    "options",
    LAYOUT,
];

/// The kinds of nodes: a node has exactly one of these.
pub(super) const KINDS: &[&str] = &[
    "use", "for-each", "workflow", "wait", "event", "set", "end", "fail",
];

/// Keys that belong to one kind of node, by that kind.
pub(super) const OF_KIND: &[(&str, &[&str])] = &[
    ("use", &["with"]),
    ("for-each", FOR_EACH),
    ("event", &["match", "correlation"]),
];

/// The keys that belong to `for-each`.
pub(super) const FOR_EACH: &[&str] = &["nodes", "edges", "output", "concurrency", "on-item-error"];

/// Keys that every node may have, of any kind.
pub(super) const NODE: &[&str] = &[
    "input",
    "join",
    "first",
    "start",
    "retry",
    "timeout",
    "total-timeout",
    "wait-timeout",
    "on-error",
    "repeat",
    "mutex",
    "priority",
    "route",
    "compensate",
    "title",
    "description",
];

pub(super) const EVENT: &[&str] = &["event", "match", "correlation"];

pub(super) const EDGE: &[&str] = &["from", "port", "to", "when", "id"];

pub(super) const RETRY: &[&str] = &[
    "max-attempts",
    "delay",
    "backoff",
    "max-delay",
    "jitter",
    "classes",
    "when",
];

/// The keys of a rule of `on-error`.
pub(super) const ERROR_RULE: &[&str] = &["when", "do"];

pub(super) const REPEAT: &[&str] = &["max", "every", "until"];

pub(super) const END: &[&str] = &["terminate", "output"];

pub(super) const FAIL: &[&str] = &["message", "data"];

/// The kinds of triggers: a trigger has exactly one of these.
pub(super) const TRIGGER_KINDS: &[&str] = &["event", "cron", "every", "http"];

/// Keys of a trigger, by its kind, the kind included.
pub(super) const TRIGGERS: &[(&str, &[&str])] = &[
    ("event", &["event", "match", "input"]),
    (
        "cron",
        &["cron", "timezone", "misfire", "overlap", "jitter", "input"],
    ),
    ("every", &["every", "misfire", "overlap", "jitter", "input"]),
    ("http", &["http", "input"]),
];

/// The keys of a trigger by `http`.
pub(super) const HTTP: &[&str] = &[
    "method", "path", "query", "params", "raw", "verify", "respond",
];

/// The schemes for verification: `verify` has exactly one of these.
pub(super) const SCHEMES: &[&str] = &[
    "github",
    "stripe",
    "standard-webhooks",
    "hmac",
    "bearer",
    "basic",
];

/// Schemes that sign no time and have no keys except their secrets.
pub(super) const PLAIN_SCHEME: &[&str] = &["secret", "secrets"];

/// Schemes that sign a time.
pub(super) const TIMED_SCHEME: &[&str] = &["secret", "secrets", "tolerance"];

pub(super) const HMAC_SCHEME: &[&str] = &[
    "secret", "secrets", "header", "encoding", "prefix", "delivery",
];

pub(super) const BASIC_SCHEME: &[&str] = &["secret", "secrets", "user"];

/// The keys of an answering node.
pub(super) const RESPOND: &[&str] = &["node", "within"];

pub(super) const OPTIONS: &[&str] = &[
    "activation",
    "commit",
    "descendants",
    "incidents",
    "timeout",
    "retention",
];
