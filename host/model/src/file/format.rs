//! The format as types, from which its JSON Schema is made. Editors complete and check files
//! with it. The reader does not use these types, because it reports more than they could say;
//! a test holds both against each other.

// The fields are only ever described.
#![expect(dead_code, reason = "schemars reads the types; no code builds them")]

mod hook;

use std::collections::BTreeMap;

use schemars::{JsonSchema, schema_for};
use serde_json::Value;

use hook::Http;

/// The JSON Schema of the format, as it is checked in at `docs/workflow.schema.json`.
pub fn json_schema() -> Value {
    let mut schema = schema_for!(Workflow).to_value();
    forbid_null(&mut schema);
    // `end:` with nothing behind it says all that most ends have to say.
    if let Some(kind) = schema.pointer_mut("/$defs/End/type") {
        *kind = Value::from(vec!["object", "null"]);
    }
    if let Some(map) = schema.as_object_mut() {
        map.insert("title".to_owned(), Value::from("Windlass workflow"));
    }
    schema
}

/// A key that may be left out may not be `null` instead: most likely its value was forgotten.
fn forbid_null(schema: &mut Value) {
    let null = Value::from("null");
    match schema {
        Value::Array(items) => items.iter_mut().for_each(forbid_null),
        Value::Object(map) => {
            if let Some(Value::Array(types)) = map.get_mut("type") {
                types.retain(|name| *name != null);
                if let [only] = types.as_mut_slice() {
                    let only = only.take();
                    map.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(forms)) = map.get_mut("anyOf") {
                forms.retain(|form| form.get("type") != Some(&null));
                if let [Value::Object(only)] = forms.as_mut_slice() {
                    let only = std::mem::take(only);
                    map.remove("anyOf");
                    map.extend(only);
                }
            }
            map.values_mut().for_each(forbid_null);
        }
        _ => {}
    }
}

/// A workflow of Windlass.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Workflow {
    /// Its name. Consists of a-z, 0-9, `_` and `-`.
    #[schemars(regex(pattern = "^[a-z_][a-z0-9_-]*$"), length(max = 128))]
    workflow: String,
    /// For people.
    description: Option<String>,
    /// JSON Schema of what a run takes.
    input: Option<Value>,
    /// What starts it, besides people, by key.
    #[schemars(extend("propertyNames" = {"pattern": "^[a-z_][a-z0-9_]*$", "maxLength": 128}, "maxProperties" = 1000))]
    triggers: Option<BTreeMap<String, Trigger>>,
    /// The values that `vars` begin with: constants, by name.
    #[schemars(extend("propertyNames" = {"pattern": "^[a-z_][a-z0-9_]*$"}))]
    vars: Option<BTreeMap<String, Value>>,
    /// The nodes, by name.
    #[schemars(extend("propertyNames" = {"pattern": "^[a-z_][a-z0-9_]*$", "maxLength": 128}, "minProperties" = 1, "maxProperties" = 10000))]
    nodes: BTreeMap<String, Node>,
    /// What follows what.
    #[schemars(length(max = 50000))]
    edges: Option<Vec<EdgeForm>>,
    /// What a run results in; may hold expressions.
    output: Option<Value>,
    /// How runs behave.
    options: Option<Options>,
    /// What an editor keeps for itself. No rule reads it.
    layout: Option<Value>,
}

/// What starts a workflow: exactly one of `event`, `cron`, `every` and `http`.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("oneOf" = [{"required": ["event"]}, {"required": ["cron"]}, {"required": ["every"]}, {"required": ["http"]}]))]
#[schemars(extend("dependentRequired" = {"match": ["event"], "timezone": ["cron"]}))]
struct Trigger {
    /// A stimulus of this name. Its input is the run's.
    event: Option<EventName>,
    /// What the `match` of the stimulus has to equal: a constant.
    r#match: Option<Value>,
    /// A schedule of the calendar: five fields, or six with seconds first.
    cron: Option<String>,
    /// An IANA time zone. `UTC` unless said otherwise.
    timezone: Option<String>,
    /// From one occurrence to the next; at least a second.
    every: Option<Duration>,
    /// A request to the host's web server, below `/hooks`. What it brings is the run's input.
    http: Option<Http>,
    /// What becomes of occurrences that nobody was there for. `fire-once` unless said otherwise.
    misfire: Option<Misfire>,
    /// What becomes of an occurrence whose predecessor is still running. `skip` unless said
    /// otherwise.
    overlap: Option<Overlap>,
    /// Each occurrence is late by a part of this that is its own.
    jitter: Option<Duration>,
    /// The input of the runs of a schedule: a constant.
    input: Option<Value>,
}

/// The name of a stimulus.
#[derive(JsonSchema)]
#[schemars(transparent)]
struct EventName(#[schemars(length(min = 1, max = 256))] String);

/// What becomes of occurrences that nobody was there for.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum Misfire {
    /// By name.
    Named(MisfireName),
    /// The latest ones happen one after another.
    CatchUp(CatchUp),
}

/// What becomes of occurrences that nobody was there for.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum MisfireName {
    /// Nothing.
    Skip,
    /// They happen as one, late.
    FireOnce,
}

/// The latest occurrences happen one after another.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct CatchUp {
    /// At most so many.
    #[schemars(range(min = 1, max = 1000))]
    catch_up: u32,
}

/// What becomes of an occurrence whose predecessor is still running.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum Overlap {
    /// Both run.
    Allow,
    /// Nothing.
    Skip,
    /// It happens once the other has ended. At most one waits.
    Queue,
    /// The other is cancelled.
    CancelPrevious,
}

/// A node: exactly one of `use`, `for-each`, `workflow`, `wait`, `event`, `set`, `end` and `fail`.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("oneOf" = [{"required": ["use"]}, {"required": ["for-each"]}, {"required": ["workflow"]}, {"required": ["wait"]}, {"required": ["event"]}, {"required": ["set"]}, {"required": ["end"]}, {"required": ["fail"]}]))]
#[schemars(extend("dependentRequired" = {"with": ["use"], "for-each": ["nodes"], "nodes": ["for-each"], "edges": ["for-each"], "output": ["for-each"], "concurrency": ["for-each"], "on-item-error": ["for-each"], "match": ["event"], "correlation": ["event"]}))]
struct Node {
    /// A node type of a plugin: `package/node` or `package/node@requirement`.
    #[schemars(regex(pattern = "^[a-z_][a-z0-9_-]*/[a-z_][a-z0-9_-]*(@.+)?$"))]
    r#use: Option<String>,
    /// Runs `nodes` for each item: a list, or an expression that gives one.
    for_each: Option<List>,
    /// Runs the published workflow of this name as a child.
    #[schemars(regex(pattern = "^[a-z_][a-z0-9_-]*$"), length(max = 128))]
    workflow: Option<String>,
    /// Waits: a duration, an instant, or an expression that gives one.
    wait: Option<String>,
    /// Waits for a stimulus of this name; may hold expressions.
    event: Option<Event>,
    /// Assigns variables; may hold expressions.
    #[schemars(extend("propertyNames" = {"pattern": "^[a-z_][a-z0-9_]*$"}))]
    set: Option<BTreeMap<String, Value>>,
    /// Ends this branch, or the whole run.
    end: Option<End>,
    /// Fails with this message; may hold expressions.
    fail: Option<String>,
    /// What is done for each item, by name; names are unique in the whole workflow.
    #[schemars(extend("propertyNames" = {"pattern": "^[a-z_][a-z0-9_]*$", "maxLength": 128}, "minProperties" = 1, "maxProperties" = 10000))]
    nodes: Option<BTreeMap<String, Node>>,
    /// What follows what among `nodes`.
    #[schemars(length(max = 50000))]
    edges: Option<Vec<EdgeForm>>,
    /// What one item results in; may hold expressions.
    output: Option<Value>,
    /// How many items are worked on at the same time. 16 unless said otherwise.
    #[schemars(range(min = 1, max = 1000))]
    concurrency: Option<u32>,
    /// What an item that fails does. `fail` unless said otherwise.
    on_item_error: Option<OnItemError>,
    /// What the `match` of the stimulus has to equal; may hold expressions.
    r#match: Option<Value>,
    /// Narrows the event to stimuli with this correlation; may hold expressions.
    correlation: Option<String>,
    /// The configuration of the node type: a map, or an expression that gives one.
    with: Option<Config>,
    /// What the node gets; may hold expressions. Without it: the output of what came before.
    input: Option<Value>,
    /// When it runs, if several edges lead to it.
    join: Option<Join>,
    /// Take only the first edge whose condition is true.
    first: Option<bool>,
    /// The workflow begins here.
    start: Option<bool>,
    /// How it is tried again.
    retry: Option<Retry>,
    /// How long one execution may take.
    timeout: Option<Duration>,
    /// How long it may take over all attempts.
    total_timeout: Option<Duration>,
    /// How long it may stay suspended.
    wait_timeout: Option<Duration>,
    /// What a failure that is not tried again does.
    on_error: Option<OnError>,
    /// Runs it several times.
    repeat: Option<Repeat>,
    /// Nodes with the same text never run at the same time in one instance.
    #[schemars(length(min = 1, max = 128))]
    mutex: Option<String>,
    /// Among what is due, higher goes first. 0 unless said otherwise.
    #[schemars(range(min = -100, max = 100))]
    priority: Option<i32>,
    /// Which consumer executes its triggers.
    #[schemars(regex(pattern = "^[a-z_][a-z0-9_-]*$"), length(max = 128))]
    route: Option<String>,
    /// The node that undoes this one.
    #[schemars(regex(pattern = "^[a-z_][a-z0-9_]*$"), length(max = 128))]
    compensate: Option<String>,
    /// For people.
    title: Option<String>,
    /// For people.
    description: Option<String>,
}

/// A list, or an expression that gives one.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum List {
    /// An expression that gives a list.
    Template(#[schemars(regex(pattern = r"\{\{"))] String),
    /// Items; may hold expressions.
    Items(Vec<Value>),
}

/// Waits for a stimulus.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum Event {
    /// Of this name.
    Name(EventName),
    /// With all that is asked of it in one map.
    Map(EventMap),
}

/// A stimulus.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct EventMap {
    /// Its name; may hold expressions.
    event: EventName,
    /// What its `match` has to equal; may hold expressions.
    r#match: Option<Value>,
    /// Narrows it to this correlation; may hold expressions.
    correlation: Option<String>,
}

/// What an item that fails does.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum OnItemError {
    /// The items that are being worked on are cancelled, and the node fails.
    Fail,
    /// The result of the item is `null`, and the others go on.
    Continue,
}

/// How often one node runs: has `max`, `until`, or both.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("anyOf" = [{"required": ["max"]}, {"required": ["until"]}]))]
struct Repeat {
    /// Executions in total, the first included.
    #[schemars(range(min = 1))]
    max: Option<u32>,
    /// From the start of one execution to that of the next.
    every: Option<Duration>,
    /// It ends once this is true after an execution.
    until: Option<Condition>,
}

/// Configuration of a node type.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum Config {
    /// By name; values may hold expressions.
    Map(BTreeMap<String, Value>),
    /// An expression that gives a map.
    Template(String),
}

/// A duration: `200ms`, `5s`, `1h30m`, `3d`, or ISO 8601 like `PT1H30M`.
#[derive(JsonSchema)]
#[schemars(transparent)]
struct Duration(
    #[schemars(regex(
        pattern = "^([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$|^P"
    ))]
    String,
);

/// Ends this branch, or the whole run.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct End {
    /// Cancel whatever else is going on, and complete.
    terminate: Option<bool>,
    /// The output of the run, in place of the workflow's own; may hold expressions.
    output: Option<Value>,
}

/// When a node runs, if several edges lead to it.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum Join {
    /// By name.
    Named(JoinName),
    /// At the n-th edge taken.
    Count(JoinCount),
}

/// When a node runs, if several edges lead to it.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum JoinName {
    /// Once every edge is decided, if any was taken.
    AllActive,
    /// Once every edge is decided, if all were taken.
    All,
    /// At the first edge taken.
    Any,
    /// As `any`, and the branches that lost are cancelled.
    Race,
    /// Once for each edge taken.
    Each,
}

/// At the n-th edge taken.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct JoinCount {
    /// How many.
    #[schemars(range(min = 1))]
    count: u32,
}

/// How a failed execution is tried again.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Retry {
    /// Executions in total, the first included. 3 unless said otherwise.
    #[schemars(range(min = 1))]
    max_attempts: Option<u32>,
    /// Before the second execution. `1s` unless said otherwise.
    delay: Option<Duration>,
    /// How the delay grows. `exponential` unless said otherwise.
    backoff: Option<Backoff>,
    /// What it never grows beyond. `5m` unless said otherwise.
    max_delay: Option<Duration>,
    /// Whether to wait a random part of the delay. `true` unless said otherwise.
    jitter: Option<bool>,
    /// Which failures are tried again. `[retryable, deadline]` unless said otherwise.
    classes: Option<Vec<ClassName>>,
}

/// How the delay between attempts grows.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum Backoff {
    /// It stays.
    Fixed,
    /// It doubles.
    Exponential,
}

/// A failure class.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum ClassName {
    Retryable,
    Permanent,
    Invalid,
    Trap,
    Deadline,
    Limit,
    Cancelled,
    Rejected,
    Lost,
}

/// What a failure that is not tried again does.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum OnError {
    /// It is the workflow's to decide.
    Fail,
    /// The node counts as done, with the output `null`.
    Continue,
    /// The port `error` is taken, with the failure as the output.
    Route,
}

/// An edge.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum EdgeForm {
    /// `a -> b` or `a.port -> b`.
    Short(#[schemars(regex(pattern = "->"))] String),
    /// With more to it.
    Long(Edge),
    /// `a -> b: condition`, or `a -> b: else`.
    Conditional(
        #[schemars(extend("propertyNames" = {"pattern": "->"}, "minProperties" = 1, "maxProperties" = 1))]
         BTreeMap<String, Condition>,
    ),
}

/// A condition: an expression, or `else`.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum Condition {
    /// An expression.
    Expression(String),
    /// Always or never.
    Constant(bool),
}

/// An edge.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Edge {
    /// The node it leaves.
    from: String,
    /// The port of that node; `done` unless said otherwise.
    port: Option<String>,
    /// The node it leads to.
    to: String,
    /// A condition, or `else`.
    when: Option<Condition>,
    /// Unique in the workflow; needed where two edges lead from one port to one node.
    id: Option<String>,
}

/// How runs behave.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Options {
    /// Whether runs exclude each other. `always` unless said otherwise.
    activation: Option<Activation>,
    /// When what nodes did is written down. `every-node` unless said otherwise.
    commit: Option<Commit>,
    /// What a failed node does to the run.
    incidents: Option<Incidents>,
    /// How long a run may take.
    timeout: Option<Duration>,
    /// How long a finished run is kept.
    retention: Option<Duration>,
}

/// Whether runs exclude each other.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum Activation {
    /// They do not.
    Always,
    /// There is one run at a time.
    Singleton,
    /// There is one run at a time with the same correlation id.
    CorrelatedSingleton,
    /// There is one run at a time with the same correlation id, whatever its workflow is.
    Correlation,
}

/// When what nodes did is written down.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum Commit {
    /// After every node.
    EveryNode,
    /// Nodes without effects share a commit.
    Burst,
}

/// What a failed node does to the run.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum Incidents {
    /// The run is faulted.
    Fault,
    /// The branch ends there, and the others go on.
    Continue,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Class;
    use crate::file::keys;

    fn properties(schema: &Value, path: &str) -> BTreeSet<String> {
        let schema = schema.pointer(path).unwrap();
        schema["properties"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect()
    }

    #[test]
    fn the_schema_has_the_keys_that_the_reader_knows() {
        let schema = json_schema();
        let of_kinds = keys::OF_KIND.iter().flat_map(|(_, keys)| keys.iter());
        let node = keys::KINDS.iter().chain(of_kinds).chain(keys::NODE);
        let trigger = keys::TRIGGERS.iter().flat_map(|(_, keys)| keys.iter());
        for (path, known) in [
            ("", keys::WORKFLOW),
            ("/$defs/Trigger", &trigger.copied().collect::<Vec<_>>()),
            ("/$defs/Node", &node.copied().collect::<Vec<_>>()),
            ("/$defs/EventMap", keys::EVENT),
            ("/$defs/Edge", keys::EDGE),
            ("/$defs/Retry", keys::RETRY),
            ("/$defs/Repeat", keys::REPEAT),
            ("/$defs/End", keys::END),
            ("/$defs/Options", keys::OPTIONS),
            ("/$defs/Http", keys::HTTP),
            ("/$defs/Verify", keys::SCHEMES),
            ("/$defs/PlainScheme", keys::PLAIN_SCHEME),
            ("/$defs/TimedScheme", keys::TIMED_SCHEME),
            ("/$defs/HmacScheme", keys::HMAC_SCHEME),
            ("/$defs/BasicScheme", keys::BASIC_SCHEME),
            ("/$defs/RespondNode", keys::RESPOND),
        ] {
            let known: BTreeSet<String> = known.iter().map(|key| (*key).to_owned()).collect();
            assert_eq!(properties(&schema, path), known, "{path}");
        }
    }

    #[test]
    fn the_schema_has_the_kinds_and_classes_that_the_reader_knows() {
        let schema = json_schema();
        for (of, known) in [("Node", keys::KINDS), ("Trigger", keys::TRIGGER_KINDS)] {
            let kinds: Vec<&str> = schema["$defs"][of]["oneOf"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["required"][0].as_str().unwrap())
                .collect();
            assert_eq!(kinds, known);
        }
        let classes = Class::ALL.map(|class| Value::from(class.name()));
        assert_eq!(
            schema["$defs"]["ClassName"]["enum"],
            Value::from(classes.to_vec())
        );
    }
}
