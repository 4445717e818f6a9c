//! A workflow as it is kept: validated in form, with every default filled in.
//!
//! What a person writes is read by [`crate::file`], which turns it into this and reports what
//! is wrong. Whether the graph makes sense is for the engine's compiler to say.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Class;
pub use crate::start_trigger::{Misfire, Overlap, StartTrigger, Timing};

/// A workflow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definition {
    /// Its name: `[a-z_][a-z0-9_-]*`.
    pub name: String,
    /// For people.
    pub description: Option<String>,
    /// JSON Schema of what a run takes.
    pub input: Option<Value>,
    /// What starts it, besides people, by key: `[a-z_][a-z0-9_]*`.
    pub triggers: BTreeMap<String, StartTrigger>,
    /// The values that `vars` begin with; no templates.
    pub vars: BTreeMap<String, Value>,
    /// The outermost nodes, by name: `[a-z_][a-z0-9_]*`. Names are unique in the whole
    /// workflow, bodies included, of which there are at most [`crate::limits::NODES`].
    pub nodes: BTreeMap<String, Node>,
    /// Between the outermost nodes, in the order written. With those of the bodies at most
    /// [`crate::limits::EDGES`].
    pub edges: Vec<Edge>,
    /// What a run results in: a template. None: `null`.
    pub output: Option<Value>,
    /// How runs of it behave.
    pub options: Options,
}

impl Definition {
    /// Every node, those of bodies included, outer ones before the inner ones, with its name
    /// and where it is: `/nodes/lines/nodes/quote`.
    pub fn all_nodes(&self) -> Vec<(String, &str, &Node)> {
        let mut all = Vec::with_capacity(self.nodes.len());
        let mut bodies = vec![(String::new(), &self.nodes)];
        // Taken from the front, so that a body comes after everything around it.
        let mut at = 0;
        while let Some((around, nodes)) = bodies.get(at).cloned() {
            at += 1;
            for (name, node) in nodes {
                let pointer = format!("{around}/nodes/{name}");
                if let NodeKind::ForEach(each) = &node.kind {
                    bodies.push((pointer.clone(), &each.body.nodes));
                }
                all.push((pointer, name.as_str(), node));
            }
        }
        all
    }

    /// The names of all nodes, those of bodies included, in order. A node's place in this list
    /// is its number.
    pub fn node_names(&self) -> Vec<&str> {
        let all = self.all_nodes();
        let mut names: Vec<&str> = all.into_iter().map(|(_, name, _)| name).collect();
        names.sort_unstable();
        names
    }
}

/// One node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it does.
    pub kind: NodeKind,
    /// What it gets: a template. None: the output of what came before.
    pub input: Option<Value>,
    /// When it runs, if several edges lead to it.
    pub join: Join,
    /// Take only the first edge whose condition is true.
    pub first: bool,
    /// The workflow begins here.
    pub start: bool,
    /// Whether and how it is tried again.
    pub retry: Option<Retry>,
    /// How long one execution may take.
    pub timeout_ms: Option<u64>,
    /// How long it may take over all attempts, waits between them included.
    pub total_timeout_ms: Option<u64>,
    /// How long it may stay suspended. Then it fails with class `deadline`.
    pub wait_timeout_ms: Option<u64>,
    /// What a failure that is not tried again does.
    pub on_error: OnError,
    /// Whether it runs several times.
    pub repeat: Option<Repeat>,
    /// Nodes with the same text never run at the same time in one instance.
    pub mutex: Option<String>,
    /// Its triggers are claimed before those with less. 0 unless said otherwise.
    pub priority: i32,
    /// Which consumer executes its triggers. None: by their type.
    pub route: Option<String>,
    /// The node that undoes it, when the run is faulted or cancelled after it completed.
    pub compensate: Option<String>,
    /// For people.
    pub title: Option<String>,
    /// For people.
    pub description: Option<String>,
}

impl Node {
    /// A node that does this, and has nothing else said of it.
    pub fn new(kind: NodeKind) -> Self {
        Self {
            kind,
            input: None,
            join: Join::default(),
            first: false,
            start: false,
            retry: None,
            timeout_ms: None,
            total_timeout_ms: None,
            wait_timeout_ms: None,
            on_error: OnError::default(),
            repeat: None,
            mutex: None,
            priority: 0,
            route: None,
            compensate: None,
            title: None,
            description: None,
        }
    }
}

/// What a node does.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeKind {
    /// Runs a node type of a plugin.
    Use {
        /// Which.
        node_type: UseRef,
        /// Its configuration: a template.
        with: Value,
    },
    /// Runs a body of nodes for each item of a list.
    ForEach(Box<ForEach>),
    /// Runs another workflow as a child, with the node's input as its input.
    Workflow {
        /// Its name. Whatever version of it is published when the node runs.
        name: String,
    },
    /// Waits: a duration, an instant, or a template that gives one.
    Wait(Value),
    /// Waits for a stimulus, whose input is then the node's output.
    Event {
        /// The name of the stimulus: a template that gives text.
        name: Value,
        /// What its `match` has to equal: a template. `null` unless said otherwise.
        matches: Value,
        /// Narrows it to stimuli with this correlation, too: a template that gives text.
        correlation: Option<Value>,
    },
    /// Assigns variables: templates by name, each seeing the values from before the node.
    Set(BTreeMap<String, Value>),
    /// Ends this branch, or the whole run.
    End {
        /// Cancel whatever else is going on, and complete.
        terminate: bool,
        /// The output of the run, in place of the workflow's own: a template.
        output: Option<Value>,
    },
    /// Fails, with this message: a template.
    Fail(Value),
}

/// Nodes that run once for each item of a list, each time in a scope of their own.
#[derive(Clone, Debug, PartialEq)]
pub struct ForEach {
    /// The list: a template.
    pub list: Value,
    /// How many items are worked on at the same time. At least 1.
    pub concurrency: u32,
    /// What an item that fails does.
    pub on_item_error: OnItemError,
    /// What is done for each item.
    pub body: Body,
}

/// The nodes inside of another one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    /// By name; unique in the whole workflow.
    pub nodes: BTreeMap<String, Node>,
    /// Between the nodes of this body, in the order written. Ids are unique in the body.
    pub edges: Vec<Edge>,
    /// What one item results in: a template. None: `null`.
    pub output: Option<Value>,
}

/// What an item that fails does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnItemError {
    /// The items that are being worked on are cancelled, and the node fails.
    #[default]
    Fail,
    /// The result of the item is `null`, and the others go on.
    Continue,
}

/// How often one node runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeat {
    /// Executions in total, the first included. At least 1. None: until `until` says so.
    pub max: Option<u32>,
    /// From the start of one execution to that of the next.
    pub every_ms: Option<u64>,
    /// It ends once this expression is true after an execution. There is this, or `max`.
    pub until: Option<String>,
}

/// A node type of a plugin: `package/name@requirement`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UseRef {
    /// The plugin's name for itself.
    pub package: String,
    /// The node type inside it.
    pub name: String,
    /// A requirement on the package's version as semver writes it, like `1` or `1.2`. None: any.
    pub requirement: Option<String>,
}

impl std::fmt::Display for UseRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.package, self.name)?;
        match &self.requirement {
            Some(requirement) => write!(f, "@{requirement}"),
            None => Ok(()),
        }
    }
}

/// When a node runs, if several forward edges lead to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Join {
    /// Once every edge is decided, if any was taken.
    #[default]
    AllActive,
    /// Once every edge is decided, if all were taken.
    All,
    /// At the first edge taken; the rest of the round is ignored.
    Any,
    /// As `Any`, and the branches that lost are cancelled.
    Race,
    /// At the n-th edge taken; skipped once that cannot happen any more.
    Count(u32),
    /// Once for each edge taken.
    Each,
}

impl Join {
    /// Whether it waits for several decisions, so that it can be left waiting.
    pub fn counts(self) -> bool {
        matches!(self, Self::AllActive | Self::All | Self::Count(_))
    }
}

/// One edge.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// Unique in the workflow; derived from the ends where none is given.
    pub id: String,
    /// The node it leaves.
    pub from: String,
    /// The port of that node; `done` unless said otherwise.
    pub port: String,
    /// The node it leads to.
    pub to: String,
    /// When it is taken, given that its port was.
    pub when: When,
}

/// When an edge whose port was taken is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// Always.
    #[default]
    Always,
    /// If this expression is true.
    If(String),
    /// If no other edge of the same node and port was.
    Else,
}

/// How a failed execution is tried again.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// Executions in total, the first included. At least 1.
    pub max_attempts: u32,
    /// Before the second execution.
    pub delay_ms: u64,
    /// How the delay grows.
    pub backoff: Backoff,
    /// What it never grows beyond.
    pub max_delay_ms: u64,
    /// Whether to wait a random part of the delay, at least half of it.
    pub jitter: bool,
    /// Which failures are tried again.
    pub classes: Vec<Class>,
}

/// How the delay between attempts grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backoff {
    /// It stays.
    Fixed,
    /// It doubles.
    #[default]
    Exponential,
}

/// What a failure that is not tried again does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// It is the workflow's to decide.
    #[default]
    Fail,
    /// The node counts as done, with the output `null`.
    Continue,
    /// The port `error` is taken, with the failure as the output.
    Route,
}

/// How runs of a workflow behave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Whether runs exclude each other.
    pub activation: Activation,
    /// When what nodes did is written down.
    pub commit: CommitStrategy,
    /// What a failed node does to the run.
    pub incidents: Incidents,
    /// How long a run may take.
    pub timeout_ms: Option<u64>,
    /// How long a finished run is kept; none: as the configuration says.
    pub retention_ms: Option<u64>,
}

/// What a failed node does to the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Incidents {
    /// The run is faulted, and what else is going on is cancelled.
    #[default]
    Fault,
    /// The branch ends there, the others go on, and the run completes with incidents.
    Continue,
}

/// Whether runs of one workflow exclude each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// They do not.
    #[default]
    Always,
    /// There is one run at a time.
    Singleton,
    /// There is one run at a time with the same correlation id.
    CorrelatedSingleton,
    /// There is one run at a time with the same correlation id, whatever its workflow is.
    Correlation,
}

/// When what nodes did is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitStrategy {
    /// After every node.
    #[default]
    EveryNode,
    /// Nodes without effects share a commit; what precedes any other node is durable before it.
    Burst,
}
