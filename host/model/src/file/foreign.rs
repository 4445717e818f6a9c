//! Keys and values that authors bring from other systems, with their counterparts in this format.
//! The tables are only for messages: the reader accepts none of these words.

/// A word of another system.
#[derive(Clone, Copy, Debug)]
pub(super) struct Foreign {
    /// The words, in small letters and without hyphens and underscores.
    words: &'static [&'static str],
    /// The key of this format that the author probably meant; empty if there is none.
    pub(super) instead: &'static str,
    /// The remedy.
    pub(super) help: &'static str,
}

const fn of(words: &'static [&'static str], instead: &'static str, help: &'static str) -> Foreign {
    Foreign {
        words,
        instead,
        help,
    }
}

/// The foreign keys of each map, by the name of the map in messages.
const KEYS: &[(&str, &[Foreign])] = &[
    ("a workflow", WORKFLOW),
    ("a node", NODE),
    ("`retry`", RETRY),
    ("`repeat`", REPEAT),
    ("an edge", EDGE),
    ("`options`", OPTIONS),
    ("`event`", EVENT),
    ("a trigger", TRIGGER),
    ("a trigger by `cron`", TRIGGER),
    ("a trigger by `every`", TRIGGER),
];

const WORKFLOW: &[Foreign] = &[
    of(
        &["name", "id", "workflowname", "title"],
        "workflow",
        "the name of the workflow is the value of `workflow`",
    ),
    of(
        &[
            "on",
            "trigger",
            "events",
            "event",
            "schedule",
            "schedules",
            "cron",
            "webhook",
            "http",
        ],
        "triggers",
        "the triggers that start the workflow stand below `triggers`, like `triggers: { nightly: { cron: \"0 2 * * *\" } }`",
    ),
    of(
        &[
            "jobs",
            "job",
            "steps",
            "step",
            "states",
            "tasks",
            "task",
            "activities",
            "stages",
            "actions",
            "do",
        ],
        "nodes",
        "the nodes stand below `nodes`, by name, and their order below `edges`, like `- a -> b`",
    ),
    of(
        &[
            "connections",
            "links",
            "transitions",
            "flow",
            "flows",
            "dependencies",
            "sequence",
        ],
        "edges",
        "the order of the nodes stands below `edges`, like `- a -> b`",
    ),
    of(
        &[
            "inputs",
            "parameters",
            "params",
            "arguments",
            "args",
            "inputschema",
        ],
        "input",
        "the JSON Schema of the input stands below `input`, like `input: { type: object }`",
    ),
    of(
        &["outputs", "result", "results", "return", "returns"],
        "output",
        "the output of a run is the value of `output`",
    ),
    of(
        &[
            "variables",
            "variable",
            "env",
            "environment",
            "globals",
            "constants",
        ],
        "vars",
        "initial values of variables stand below `vars`, like `vars: { shop: berlin }`",
    ),
    of(
        &[
            "timeout",
            "totaltimeout",
            "retention",
            "activation",
            "commit",
            "incidents",
        ],
        "options",
        "this is an option: `options: { timeout: 1h }`",
    ),
    of(
        &[
            "startat",
            "start",
            "entry",
            "entrypoint",
            "initial",
            "initialstate",
        ],
        "",
        "a workflow begins at the nodes that no edge leads to, or at those with `start: true`",
    ),
    of(
        &["version", "apiversion", "schemaversion"],
        "",
        "leave it out: the host counts the published versions of a workflow",
    ),
    of(
        &["kind", "metadata", "spec"],
        "",
        "the name is `workflow`, and the nodes are below `nodes`, without more levels",
    ),
    of(
        &["secrets", "secret", "credentials"],
        "",
        "a workflow lists no secrets: write `{ secret: NAME }` as a value in the `with` of a node",
    ),
    of(
        &["concurrency"],
        "options",
        "`options: { activation: singleton }` allows one run at a time",
    ),
    of(
        &["defaults", "retry", "retries", "onerror", "onfailure"],
        "",
        "it stands at each node, below `nodes`",
    ),
];

const USE: &str = "the node type is the value of `use`, like `use: http/request@1`";
const EDGES: &str = "the order is given by edges, beside `nodes`: `edges: [a -> b]`";
const CONDITION: &str = "conditions stand at edges: `- a -> b: CONDITION` and `- a -> c: else`";
const FAILURES: &str = "write `on-error: route` at the node, and an edge `NODE.error -> OTHER`";
const TRIGGERS: &str =
    "triggers stand beside `nodes`: `triggers: { nightly: { cron: \"0 2 * * *\" } }`";

const NODE: &[Foreign] = &[
    of(
        &[
            "uses",
            "type",
            "action",
            "node",
            "plugin",
            "task",
            "activity",
            "component",
            "call",
            "function",
            "resource",
            "module",
            "operator",
        ],
        "use",
        USE,
    ),
    of(
        &[
            "run", "script", "command", "cmd", "shell", "exec", "code", "bash", "python", "image",
        ],
        "use",
        "a node runs no shell and no code: `use: package/node` names a node type; `windlass plugin list` shows all",
    ),
    of(
        &[
            "needs",
            "dependson",
            "depends",
            "after",
            "requires",
            "dependencies",
            "upstream",
            "runafter",
        ],
        "edges",
        EDGES,
    ),
    of(
        &[
            "next",
            "then",
            "goto",
            "transition",
            "onsuccess",
            "to",
            "before",
            "downstream",
            "edges",
        ],
        "edges",
        EDGES,
    ),
    of(
        &[
            "if",
            "when",
            "condition",
            "onlyif",
            "unless",
            "switch",
            "choices",
            "choice",
            "case",
            "cases",
            "branch",
            "else",
            "skipif",
        ],
        "edges",
        CONDITION,
    ),
    of(
        &["parallel", "branches", "fork", "concurrent"],
        "edges",
        "nodes run in parallel when several edges leave one node: `- a -> b` and `- a -> c`",
    ),
    of(
        &[
            "catch",
            "onfailure",
            "except",
            "rescue",
            "error",
            "errorhandler",
            "fallback",
        ],
        "on-error",
        FAILURES,
    ),
    of(
        &[
            "retries",
            "attempts",
            "maxattempts",
            "maxretries",
            "retrycount",
            "retryonfail",
        ],
        "retry",
        "write `retry: { max-attempts: 3 }`",
    ),
    of(
        &[
            "continueonerror",
            "continueonfail",
            "ignoreerrors",
            "allowfailure",
            "ignorefailure",
        ],
        "on-error",
        "write `on-error: continue`",
    ),
    of(
        &[
            "timeoutminutes",
            "timeoutseconds",
            "timeoutms",
            "timelimit",
            "deadline",
        ],
        "timeout",
        "write `timeout: 5m`: the unit stands in the value",
    ),
    of(
        &["name", "label", "displayname"],
        "title",
        "the key of the node is its name; a text for people is `title`",
    ),
    of(
        &["id", "key"],
        "",
        "the key of the node is its id: leave this out",
    ),
    of(
        &[
            "parameters",
            "params",
            "args",
            "arguments",
            "config",
            "configuration",
            "options",
            "settings",
            "properties",
        ],
        "with",
        "the configuration of a node type is the value of `with`",
    ),
    of(
        &["inputs"],
        "input",
        "the input of a node is `input`, the configuration of its type `with`",
    ),
    of(
        &["outputs", "output", "result", "save", "register", "returns"],
        "",
        "the type of a node decides its output: other nodes read it as `nodes.NAME.output`, and `set` keeps a part of it in a variable",
    ),
    of(
        &[
            "loop",
            "foreach",
            "map",
            "items",
            "withitems",
            "iterate",
            "each",
            "matrix",
        ],
        "for-each",
        "write `for-each: \"{{ input.lines }}\"` with the `nodes` for one item",
    ),
    of(
        &["while", "until", "dowhile"],
        "repeat",
        "write `repeat: { until: CONDITION, max: 10 }`",
    ),
    of(
        &["sleep", "delay", "pause", "duration", "timer", "seconds"],
        "wait",
        "write `wait: 5s`",
    ),
    of(
        &["return", "stop", "exit", "terminate", "finish", "succeed"],
        "end",
        "write `end:`, or `end: { output: … }`",
    ),
    of(
        &["throw", "raise", "abort"],
        "fail",
        "write `fail: \"the message\"`",
    ),
    of(
        &["waitfor", "signal", "receive", "await", "message", "on"],
        "event",
        "write `event: NAME`",
    ),
    of(
        &[
            "subflow",
            "subworkflow",
            "child",
            "callworkflow",
            "workflowid",
            "flow",
        ],
        "workflow",
        "write `workflow: NAME`",
    ),
    of(
        &["variables", "vars", "assign", "let", "setvariable"],
        "set",
        "write `set: { name: value }`",
    ),
    of(
        &["env", "environment"],
        "",
        "a node has no environment: its configuration stands in `with`",
    ),
    of(
        &[
            "cron", "schedule", "every", "http", "trigger", "triggers", "webhook",
        ],
        "",
        TRIGGERS,
    ),
    of(
        &["compensation", "undo", "rollback"],
        "compensate",
        "write `compensate: NODE`",
    ),
    of(&["lock", "semaphore"], "mutex", "write `mutex: NAME`"),
    of(
        &["comment", "note", "notes", "doc", "desc"],
        "description",
        "write `description: …`",
    ),
];

const RETRY: &[Foreign] = &[
    of(
        &[
            "max",
            "count",
            "attempts",
            "maxretries",
            "times",
            "limit",
            "retries",
            "maximumattempts",
        ],
        "max-attempts",
        "write `max-attempts: 3`, which counts the first execution too",
    ),
    of(
        &[
            "interval",
            "initialinterval",
            "wait",
            "period",
            "every",
            "initialdelay",
            "intervalseconds",
            "backoffseconds",
        ],
        "delay",
        "write `delay: 1s`",
    ),
    of(
        &["on", "errors", "retryon", "errorequals", "conditions"],
        "classes",
        "write `classes: [retryable, deadline]`",
    ),
    of(
        &[
            "multiplier",
            "backoffrate",
            "factor",
            "strategy",
            "backoffcoefficient",
            "policy",
        ],
        "backoff",
        "write `backoff: exponential` or `backoff: fixed`",
    ),
    of(
        &["maxinterval", "maxwait", "maximuminterval", "maxbackoff"],
        "max-delay",
        "write `max-delay: 5m`",
    ),
    of(
        &["if", "condition", "unless"],
        "when",
        "write `when: CONDITION`, which sees the failure as `error`",
    ),
];

const REPEAT: &[Foreign] = &[
    of(&["times", "count", "limit"], "max", "write `max: 10`"),
    of(
        &["interval", "delay", "wait", "period"],
        "every",
        "write `every: 5s`",
    ),
    of(&["while"], "until", "write `until: not CONDITION`"),
    of(
        &["if", "when", "condition"],
        "until",
        "write `until: CONDITION`",
    ),
];

const EDGE: &[Foreign] = &[
    of(
        &["source", "src", "start", "fromnode", "sourcenode"],
        "from",
        "write `from: NODE`, or the edge as `a -> b`",
    ),
    of(
        &[
            "target",
            "dest",
            "destination",
            "end",
            "tonode",
            "targetnode",
            "next",
        ],
        "to",
        "write `to: NODE`, or the edge as `a -> b`",
    ),
    of(
        &["condition", "if", "expression", "cond", "guard"],
        "when",
        "write `when: CONDITION`, or the edge as `a -> b: CONDITION`",
    ),
    of(
        &["output", "outcome", "handle", "sourceport", "event"],
        "port",
        "write `port: NAME`, or the edge as `a.NAME -> b`",
    ),
    of(&["label", "name", "key"], "id", "write `id: NAME`"),
];

const OPTIONS: &[Foreign] = &[
    of(
        &[
            "concurrency",
            "maxconcurrency",
            "parallelism",
            "singleton",
            "overlap",
        ],
        "activation",
        "write `activation: singleton` for one run at a time; how many items run at the same time is `concurrency` of a `for-each`",
    ),
    of(
        &["onerror", "onfailure", "errorhandling", "failfast"],
        "incidents",
        "write `incidents: continue` or `incidents: fault`; `on-error` belongs to a node",
    ),
    of(
        &["start", "startat", "entry"],
        "",
        "write `start: true` at a node; without it the workflow begins at the nodes that no edge leads to",
    ),
    of(&["retry", "retries"], "", "`retry` belongs to a node"),
    of(
        &["ttl", "keep", "expires"],
        "retention",
        "write `retention: 30d`",
    ),
];

const EVENT: &[Foreign] = &[
    of(
        &["name", "type", "topic", "signal"],
        "event",
        "write `event: NAME`",
    ),
    of(&["key", "filter", "where"], "match", "write `match: { … }`"),
    of(
        &["id", "correlationid"],
        "correlation",
        "write `correlation: …`",
    ),
];

const TRIGGER: &[Foreign] = &[
    of(
        &["schedule", "crontab", "at", "calendar", "type"],
        "cron",
        "a trigger is like `{ cron: \"0 2 * * *\" }`, `{ every: 1h }`, `{ event: order.placed }` or `{ http: { path: /orders } }`",
    ),
    of(
        &["webhook", "path", "url", "request", "rest", "route", "api"],
        "http",
        "write `http: { path: /orders }`",
    ),
    of(
        &["interval", "rate", "period", "seconds", "minutes"],
        "every",
        "write `every: 1h`",
    ),
    of(
        &["on", "signal", "message", "topic", "queue", "name"],
        "event",
        "write `event: order.placed`",
    ),
    of(
        &["tz", "zone"],
        "timezone",
        "write `timezone: Europe/Berlin`",
    ),
];

/// Values of keys that take one of several names.
const VALUES: &[(&str, &[Foreign])] = &[
    (
        "on-error",
        &[
            of(
                &["ignore", "skip", "pass", "none", "resume"],
                "continue",
                "write `continue`",
            ),
            of(
                &["retry"],
                "",
                "`retry` is a key of its own: `retry: { max-attempts: 3 }`",
            ),
            of(
                &["stop", "abort", "throw", "raise", "error"],
                "fail",
                "write `fail`",
            ),
            of(&["catch", "goto", "branch"], "route", FAILURES),
        ],
    ),
    (
        "join",
        &[
            of(
                &["first", "one", "or", "xor", "single"],
                "any",
                "write `any`: the node runs at the first edge that is taken",
            ),
            of(
                &["and", "waitall", "every"],
                "all",
                "write `all`, or `all-active` to ignore edges that are not taken",
            ),
            of(
                &["none", "merge"],
                "each",
                "write `each`: the node runs once for each edge that is taken",
            ),
        ],
    ),
    (
        "backoff",
        &[of(
            &["constant", "none", "linear", "static"],
            "fixed",
            "it is `fixed` or `exponential`",
        )],
    ),
    (
        "overlap",
        &[
            of(
                &["forbid", "ignore", "none", "drop"],
                "skip",
                "write `skip`",
            ),
            of(
                &["replace", "cancel", "restart"],
                "cancel-previous",
                "write `cancel-previous`",
            ),
            of(&["wait", "buffer"], "queue", "write `queue`"),
            of(&["parallel", "concurrent"], "allow", "write `allow`"),
        ],
    ),
    (
        "misfire",
        &[
            of(
                &["run", "now", "once", "fire"],
                "fire-once",
                "write `fire-once`",
            ),
            of(&["ignore", "drop", "none"], "skip", "write `skip`"),
            of(
                &["all", "catchup", "backfill"],
                "",
                "write `misfire: { catch-up: 5 }`",
            ),
        ],
    ),
    (
        "classes",
        &[
            of(&["timeout"], "deadline", "write `deadline`"),
            of(
                &["transient", "error", "all", "any", "temporary"],
                "retryable",
                "write `retryable`",
            ),
        ],
    ),
    (
        "incidents",
        &[
            of(&["fail", "stop", "abort"], "fault", "write `fault`"),
            of(&["ignore", "skip"], "continue", "write `continue`"),
        ],
    ),
];

/// The meaning of a foreign key in the map that messages call `what`.
pub(super) fn key(what: &str, key: &str) -> Option<Foreign> {
    find(KEYS, what, key)
}

/// The meaning of a foreign value of a key.
pub(super) fn value(key: &str, value: &str) -> Option<Foreign> {
    find(VALUES, key, value)
}

fn find(tables: &[(&str, &[Foreign])], name: &str, word: &str) -> Option<Foreign> {
    let (_, table) = tables.iter().find(|(known, _)| *known == name)?;
    // No word in the tables is longer.
    let plain: String = word
        .chars()
        .filter(|c| !matches!(c, '-' | '_' | ' '))
        .take(32)
        .flat_map(char::to_lowercase)
        .collect();
    let is = |foreign: &&Foreign| foreign.words.contains(&plain.as_str());
    table.iter().find(is).copied()
}

#[cfg(test)]
mod tests {
    use super::super::format;
    use super::{KEYS, VALUES, key};

    #[test]
    fn every_word_is_there_once_and_plain() {
        for (what, table) in KEYS.iter().chain(VALUES) {
            let words: Vec<_> = table.iter().flat_map(|foreign| foreign.words).collect();
            for (at, word) in words.iter().enumerate() {
                assert!(word.bytes().all(|byte| byte.is_ascii_lowercase()), "{word}");
                assert!(
                    !words.iter().take(at).any(|other| other == word),
                    "{what}: {word} twice"
                );
            }
        }
    }

    #[test]
    fn foreign_keys_lead_to_keys_of_the_format() {
        for (what, known) in [
            ("a workflow", format::workflow()),
            ("`retry`", format::keys("Retry")),
            ("an edge", format::keys("Edge")),
            ("`options`", format::keys("Options")),
        ] {
            let (_, table) = KEYS.iter().find(|(name, _)| *name == what).unwrap();
            for foreign in *table {
                let leads = foreign.instead.is_empty() || known.contains(&foreign.instead);
                assert!(leads, "{what}: {foreign:?}");
                let own = foreign.words.iter().any(|word| known.contains(word));
                assert!(!own, "{what}: {foreign:?} is a key itself");
            }
        }
    }

    #[test]
    fn hyphens_and_capitals_do_not_matter() {
        for written in ["depends_on", "dependsOn", "depends-on"] {
            assert_eq!(key("a node", written).unwrap().instead, "edges");
        }
        assert!(key("a node", "nothing").is_none());
        assert!(key("nothing", "needs").is_none());
    }
}
