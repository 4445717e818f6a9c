//! The format as types, from which its JSON Schema is generated. Editors complete and check files
//! with it. The reader does not use these types, because its reports are more precise; a test
//! compares both.

// The fields are never read.
#![expect(dead_code, reason = "schemars reads the types; no code builds them")]

mod hook;

use std::collections::BTreeMap;

use schemars::{JsonSchema, schema_for};
use serde_json::Value;

use hook::Http;

/// The JSON Schema of the format, which is checked in at `docs/workflow.schema.json`.
pub fn json_schema() -> Value {
    let mut schema = schema_for!(Workflow).to_value();
    forbid_null(&mut schema);
    // `end:` with no value suffices for most ends.
    if let Some(kind) = schema.pointer_mut("/$defs/End/type") {
        *kind = Value::from(vec!["object", "null"]);
    }
    if let Some(map) = schema.as_object_mut() {
        map.insert("title".to_owned(), Value::from("Windlass workflow"));
    }
    schema
}

/// An optional key may not be `null`: most likely its value was forgotten.
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
    /// A description, for people.
    description: Option<String>,
    /// JSON Schema of a run's input.
    input: Option<Value>,
    /// The triggers that start it, by key.
    #[schemars(extend("propertyNames" = {"pattern": "^[a-z_][a-z0-9_]*$", "maxLength": 128}, "maxProperties" = 1000))]
    triggers: Option<BTreeMap<String, Trigger>>,
    /// The initial values of `vars`: constants, by name.
    #[schemars(extend("propertyNames" = {"pattern": "^[a-z_][a-z0-9_]*$"}))]
    vars: Option<BTreeMap<String, Value>>,
    /// The nodes, by name.
    #[schemars(extend("propertyNames" = {"pattern": "^[a-z_][a-z0-9_]*$", "maxLength": 128}, "minProperties" = 1, "maxProperties" = 10000))]
    nodes: BTreeMap<String, Node>,
    /// The edges between the nodes.
    #[schemars(length(max = 50000))]
    edges: Option<Vec<EdgeForm>>,
    /// The output of a run; may hold expressions.
    output: Option<Value>,
    /// Options of its runs.
    options: Option<Options>,
    /// Data of an editor. The host ignores it.
    layout: Option<Value>,
}

/// A trigger that starts the workflow: exactly one of `event`, `cron`, `every` and `http`.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("oneOf" = [{"required": ["event"]}, {"required": ["cron"]}, {"required": ["every"]}, {"required": ["http"]}]))]
#[schemars(extend("dependentRequired" = {"match": ["event"], "timezone": ["cron"]}))]
struct Trigger {
    /// A stimulus of this name: its input becomes the run's input, unless `input` makes one of it.
    event: Option<EventName>,
    /// The value that the `match` of the stimulus has to equal: a constant.
    r#match: Option<Value>,
    /// A schedule of the calendar: five fields, or six with seconds first.
    cron: Option<String>,
    /// An IANA time zone. Default: `UTC`.
    timezone: Option<String>,
    /// From one occurrence to the next; at least a second.
    every: Option<Duration>,
    /// A request to the host's web server, below `/hooks`: the run's input, unless `input` makes
    /// one of it.
    http: Option<Http>,
    /// What to do about occurrences that became due while no host was running. Default:
    /// `fire-once`.
    misfire: Option<Misfire>,
    /// What to do about an occurrence while the previous one still runs. Default: `skip`.
    overlap: Option<Overlap>,
    /// Delay each occurrence by a part of this, which is always the same for one occurrence.
    jitter: Option<Duration>,
    /// The input of the runs: of a schedule a constant, of a trigger by `http` or `event` a value
    /// that may hold expressions over `request` or `event`.
    input: Option<Value>,
}

/// The name of a stimulus.
#[derive(JsonSchema)]
#[schemars(transparent)]
struct EventName(#[schemars(length(min = 1, max = 256))] String);

/// What to do about occurrences that became due while no host was running.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum Misfire {
    /// One of the named policies.
    Named(MisfireName),
    /// Run the latest ones, one after another.
    CatchUp(CatchUp),
}

/// What to do about occurrences that became due while no host was running.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum MisfireName {
    /// Drop them.
    Skip,
    /// Run the latest one, late, for all of them.
    FireOnce,
}

/// Run the latest occurrences, one after another.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct CatchUp {
    /// How many occurrences at most.
    #[schemars(range(min = 1, max = 1000))]
    catch_up: u32,
}

/// What to do about an occurrence while the previous one still runs.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum Overlap {
    /// Run both at the same time.
    Allow,
    /// Drop the occurrence.
    Skip,
    /// Run the occurrence after the previous one has ended. At most one waits.
    Queue,
    /// Cancel the previous one.
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
    /// Runs `nodes` for each item: a list, or an expression that results in one.
    for_each: Option<List>,
    /// Runs the published workflow of this name as a child.
    #[schemars(regex(pattern = "^[a-z_][a-z0-9_-]*$"), length(max = 128))]
    workflow: Option<String>,
    /// Waits: a duration, an instant, or an expression that results in one.
    wait: Option<String>,
    /// Waits for a stimulus of this name; may hold expressions.
    event: Option<Event>,
    /// Assigns variables; may hold expressions.
    #[schemars(extend("propertyNames" = {"pattern": "^[a-z_][a-z0-9_]*$"}))]
    set: Option<BTreeMap<String, Value>>,
    /// Ends this branch, or the whole run.
    end: Option<End>,
    /// Fails with this message; may hold expressions.
    fail: Option<Fail>,
    /// The nodes that run for each item, by name; names are unique in the whole workflow.
    #[schemars(extend("propertyNames" = {"pattern": "^[a-z_][a-z0-9_]*$", "maxLength": 128}, "minProperties" = 1, "maxProperties" = 10000))]
    nodes: Option<BTreeMap<String, Node>>,
    /// The edges between `nodes`.
    #[schemars(length(max = 50000))]
    edges: Option<Vec<EdgeForm>>,
    /// The result of one item; may hold expressions.
    output: Option<Value>,
    /// How many items are processed at the same time. Default: 16.
    #[schemars(range(min = 1, max = 1000))]
    concurrency: Option<u32>,
    /// The effect of an item that fails. Default: `fail`.
    on_item_error: Option<OnItemError>,
    /// The value that the `match` of the stimulus has to equal; may hold expressions.
    r#match: Option<Value>,
    /// Only stimuli with this correlation; may hold expressions.
    correlation: Option<String>,
    /// The configuration of the node type: a map, or an expression that results in one.
    with: Option<Config>,
    /// The input of the node; may hold expressions. Default: the output of the preceding node.
    input: Option<Value>,
    /// When it runs, if several edges lead to it.
    join: Option<Join>,
    /// Take only the first edge whose condition is true.
    first: Option<bool>,
    /// The run begins with this node.
    start: Option<bool>,
    /// How it is retried.
    retry: Option<Retry>,
    /// How long one execution may take.
    timeout: Option<Duration>,
    /// How long it may take over all attempts.
    total_timeout: Option<Duration>,
    /// How long it may stay suspended.
    wait_timeout: Option<Duration>,
    /// The effect of a failure that is not retried. Default: `fail`.
    on_error: Option<OnError>,
    /// Runs it several times in a row.
    repeat: Option<Repeat>,
    /// Nodes with the same text never run at the same time in one run.
    #[schemars(length(min = 1, max = 128))]
    mutex: Option<String>,
    /// The priority of its triggers: among due triggers, higher ones go first. Default: 0.
    #[schemars(range(min = -100, max = 100))]
    priority: Option<i32>,
    /// The consumer of its triggers.
    #[schemars(regex(pattern = "^[a-z_][a-z0-9_-]*$"), length(max = 128))]
    route: Option<String>,
    /// The node that compensates this one.
    #[schemars(regex(pattern = "^[a-z_][a-z0-9_]*$"), length(max = 128))]
    compensate: Option<String>,
    /// A title, for people.
    title: Option<String>,
    /// A description, for people.
    description: Option<String>,
}

/// A list, or an expression that results in one.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum List {
    /// An expression that results in a list.
    Template(#[schemars(regex(pattern = r"\{\{"))] String),
    /// Items; may hold expressions.
    Items(Vec<Value>),
}

/// Waits for a stimulus.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum Event {
    /// The name of the stimulus.
    Name(EventName),
    /// A map with the name, the match and the correlation.
    Map(EventMap),
}

/// A stimulus.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct EventMap {
    /// Its name; may hold expressions.
    event: EventName,
    /// The value that its `match` has to equal; may hold expressions.
    r#match: Option<Value>,
    /// Only stimuli with this correlation; may hold expressions.
    correlation: Option<String>,
}

/// The effect of an item that fails.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum OnItemError {
    /// The items in progress are cancelled, and the node fails.
    Fail,
    /// The result of the item is `null`, and the others continue.
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
    /// The repetition ends when this is true after an execution.
    until: Option<Condition>,
}

/// Configuration of a node type.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum Config {
    /// By name; values may hold expressions.
    Map(BTreeMap<String, Value>),
    /// An expression that results in a map.
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
    /// Cancel all other executions, and complete.
    terminate: Option<bool>,
    /// The output of the run, instead of the workflow's `output`; may hold expressions.
    output: Option<Value>,
}

/// Fails.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum Fail {
    /// The message; may hold expressions.
    Message(String),
    /// A message and data.
    Map(FailMap),
}

/// A failure.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct FailMap {
    /// The message; may hold expressions.
    message: String,
    /// The `details` of the failure; may hold expressions.
    data: Option<Value>,
}

/// When a node runs, if several edges lead to it.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum Join {
    /// One of the named joins.
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
    /// The number of edges.
    #[schemars(range(min = 1))]
    count: u32,
}

/// How a failed execution is retried.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Retry {
    /// Executions in total, the first included. Default: 3.
    #[schemars(range(min = 1))]
    max_attempts: Option<u32>,
    /// Before the second execution. Default: `1s`.
    delay: Option<Duration>,
    /// How the delay grows. Default: `exponential`.
    backoff: Option<Backoff>,
    /// The bound of the delay. Default: `5m`.
    max_delay: Option<Duration>,
    /// Whether to wait a random part of the delay. Default: `true`.
    jitter: Option<bool>,
    /// The failure classes that are retried. Default: `[retryable, deadline]`.
    classes: Option<Vec<ClassName>>,
    /// A failure of these classes is retried only if this is true. Sees `error`.
    when: Option<Condition>,
}

/// How the delay between attempts grows.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum Backoff {
    /// It is constant.
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

/// The effect of a failure that is not retried.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum OnError {
    /// The same for every failure.
    Effect(ErrorEffect),
    /// The first rule that fits decides; if none fits, the node fails.
    Rules(#[schemars(length(min = 1, max = 16))] Vec<ErrorRuleForm>),
}

/// A rule of `on-error`.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum ErrorRuleForm {
    /// The last rule: it fits every failure.
    Effect(ErrorEffect),
    /// A rule with a condition.
    Rule(ErrorRule),
}

/// The effect of the failures that fit a condition.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ErrorRule {
    /// The rule fits if this is true. Sees `error`. Only the last rule may have no condition.
    when: Option<Condition>,
    /// The effect.
    r#do: ErrorEffect,
}

/// The effect of a failure that is not retried.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum ErrorEffect {
    /// The workflow's `incidents` option decides.
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
    /// `a -> b`, `a.port -> b`, or `a.* -> b` for every port but `error`.
    Short(#[schemars(regex(pattern = "->"))] String),
    /// The long form.
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
    /// The port of that node, or `*` for every port but `error`. Default: `done`.
    port: Option<String>,
    /// The node it leads to.
    to: String,
    /// A condition, or `else`.
    when: Option<Condition>,
    /// Unique in the workflow; needed if two edges lead from one port to one node.
    id: Option<String>,
}

/// Options of the runs of a workflow.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Options {
    /// Whether runs exclude each other. Default: `always`.
    activation: Option<Activation>,
    /// When the results of nodes are committed. Default: `every-node`.
    commit: Option<Commit>,
    /// How many descendants a run may have in its life if no other run has started it: children, and
    /// runs that start by events of its tree. Default: as configured, which is also the most.
    #[schemars(range(min = 1))]
    descendants: Option<u32>,
    /// The effect of a failed node on the run.
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
    /// There is one run at a time with the same correlation id, over all workflows.
    Correlation,
}

/// When the results of nodes are committed.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum Commit {
    /// After every node.
    EveryNode,
    /// Nodes without effects share a commit.
    Burst,
}

/// The effect of a failed node on the run.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum Incidents {
    /// The run faults.
    Fault,
    /// The branch ends there, and the others continue.
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
            ("/$defs/ErrorRule", keys::ERROR_RULE),
            ("/$defs/Repeat", keys::REPEAT),
            ("/$defs/End", keys::END),
            ("/$defs/FailMap", keys::FAIL),
            ("/$defs/Options", keys::OPTIONS),
            ("/$defs/Http", keys::HTTP),
            ("/$defs/Verify", keys::SCHEMES),
            ("/$defs/PlainScheme", keys::PLAIN_SCHEME),
            ("/$defs/TimestampedSignature", keys::TIMED_SCHEME),
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
