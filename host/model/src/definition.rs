//! A workflow as it is stored: valid in form, with every default filled in.
//!
//! [`crate::file`] reads the text of an author into this type and reports mistakes. The engine's
//! compiler checks the graph.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::Class;
pub use crate::start_trigger::{Misfire, Overlap, StartTrigger, Timing};

/// A workflow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definition {
    /// Its name: `[a-z_][a-z0-9_-]*`.
    pub name: String,
    /// A description, for people.
    pub description: Option<String>,
    /// JSON Schema of a run's input.
    pub input: Option<Value>,
    /// The triggers that start it, by key: `[a-z_][a-z0-9_]*`.
    pub triggers: BTreeMap<String, StartTrigger>,
    /// The tags of its runs, by name: `[a-z_][a-z0-9_-]*`. Templates over the input of the run. At
    /// most [`crate::limits::TAGS`].
    pub tags: BTreeMap<String, Value>,
    /// The initial values of `vars`; no templates.
    pub vars: BTreeMap<String, Value>,
    /// The outermost nodes, by name: `[a-z_][a-z0-9_]*`. Names are unique in the whole workflow,
    /// bodies included. All nodes together are at most [`crate::limits::NODES`].
    pub nodes: BTreeMap<String, Node>,
    /// The edges between the outermost nodes, in the order of the file. With those of the bodies at
    /// most [`crate::limits::EDGES`].
    pub edges: Vec<Edge>,
    /// The output of a run: a template. None: `null`.
    pub output: Option<Value>,
    /// Options of its runs.
    pub options: Options,
    /// The names of nodes in the order of their numbers. Empty: in the order of the names. Only the
    /// definition of a run that continued with a newer version has it: the nodes keep the numbers
    /// that they had. It also has the names of former nodes, which the newer version lacks, so that
    /// the records of their executions keep their names. At most [`crate::limits::NODES`] names.
    /// No file has it.
    pub node_order: Vec<String>,
}

impl Definition {
    /// Every node, those of bodies included, outer ones before inner ones, with its name and its
    /// pointer: `/nodes/lines/nodes/quote`.
    pub fn all_nodes(&self) -> Vec<(String, &str, &Node)> {
        let mut all = Vec::with_capacity(self.nodes.len());
        let mut bodies = vec![(String::new(), &self.nodes)];
        // Walk from the front, so that a body comes after everything around it.
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

    /// The names of all nodes, those of bodies and former ones included. A node's index in this list
    /// is its number: those of `node_order` come first, and then all others in the order of their
    /// names.
    pub fn node_names(&self) -> Vec<&str> {
        let all = self.all_nodes();
        let mut names: BTreeSet<&str> = all.into_iter().map(|(_, name, _)| name).collect();
        let mut ordered = Vec::with_capacity(names.len());
        for name in &self.node_order {
            names.remove(name.as_str());
            ordered.push(name.as_str());
        }
        ordered.extend(names);
        ordered
    }

    /// The names in `node_order` that no node has any more.
    pub fn former_nodes(&self) -> BTreeSet<&str> {
        let mut former: BTreeSet<&str> = self.node_order.iter().map(String::as_str).collect();
        for (_, name, _) in self.all_nodes() {
            former.remove(name);
        }
        former
    }

    /// The number of a node. `None`: there is no such node, or only a former one.
    pub fn number_of(&self, name: &str) -> Option<u32> {
        let at = self.node_names().iter().position(|node| *node == name)?;
        let is_former = self.former_nodes().contains(name);
        u32::try_from(at).ok().filter(|_| !is_former)
    }
}

/// One node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The kind of node.
    pub kind: NodeKind,
    /// Its input: a template. None: the output of the preceding node.
    pub input: Option<Value>,
    /// When it runs, if several edges lead to it.
    pub join: Join,
    /// Take only the first edge whose condition is true.
    pub first: bool,
    /// Whether a run begins with this node.
    pub start: bool,
    /// Whether and how it is retried.
    pub retry: Option<Retry>,
    /// How long one execution may take.
    pub timeout_ms: Option<u64>,
    /// How long it may take over all attempts, waits between them included.
    pub total_timeout_ms: Option<u64>,
    /// How long it may stay suspended. After that it fails with class `deadline`.
    pub wait_timeout_ms: Option<u64>,
    /// The effect of a failure that is not retried.
    pub on_error: OnError,
    /// Whether it runs several times in a row.
    pub repeat: Option<Repeat>,
    /// Nodes with the same text never run at the same time in one run.
    pub mutex: Option<String>,
    /// The priority of its triggers: higher ones are claimed first. Default: 0.
    pub priority: i32,
    /// The consumer of its triggers. None: chosen by the type of trigger.
    pub route: Option<String>,
    /// The node that compensates it, if the run faults or is cancelled after it completed.
    pub compensate: Option<String>,
    /// A title, for people.
    pub title: Option<String>,
    /// A description, for people.
    pub description: Option<String>,
}

impl Node {
    /// A node of this kind with defaults for all else.
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

/// The kind of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeKind {
    /// Runs a node type of a plugin.
    Use {
        /// The node type.
        node_type: UseRef,
        /// Its configuration: a template.
        with: Value,
    },
    /// Runs a body of nodes for each item of a list.
    ForEach(Box<ForEach>),
    /// Runs another workflow as a child, with the node's input as its input.
    Workflow {
        /// Its name. The version is the one that is published when the node runs.
        name: String,
    },
    /// Waits: a duration, an instant, or a template that results in one.
    Wait(Value),
    /// Waits for a stimulus, whose input becomes the node's output.
    Event {
        /// The name of the stimulus: a template that results in text.
        name: Value,
        /// The value that its `match` has to equal: a template. Default: `null`.
        matches: Value,
        /// Only stimuli with this correlation: a template that results in text.
        correlation: Option<Value>,
    },
    /// Assigns variables: templates by name, each evaluated with the values from before the node.
    Set(BTreeMap<String, Value>),
    /// Ends this branch, or the whole run.
    End {
        /// Cancel all other executions, and complete.
        terminate: bool,
        /// The output of the run, instead of the workflow's `output`: a template.
        output: Option<Value>,
    },
    /// Fails.
    Fail {
        /// The message: a template.
        message: Value,
        /// The details of the failure: a template. None: the failure has no details.
        data: Option<Value>,
    },
}

impl NodeKind {
    /// Its name: the key by which a file writes it, like `for-each`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Use { .. } => "use",
            Self::ForEach(_) => "for-each",
            Self::Workflow { .. } => "workflow",
            Self::Wait(_) => "wait",
            Self::Event { .. } => "event",
            Self::Set(_) => "set",
            Self::End { .. } => "end",
            Self::Fail { .. } => "fail",
        }
    }

    /// The names of all kinds.
    pub const NAMES: [&'static str; 8] = [
        "use", "for-each", "workflow", "wait", "event", "set", "end", "fail",
    ];
}

/// The nodes with which a body begins, given its nodes and edges: those that are marked by `start`,
/// or else those that no edge leads to, without those that compensate others.
pub fn entries<'a>(
    nodes: &'a BTreeMap<String, Node>,
    edges: &'a [Edge],
) -> impl Iterator<Item = &'a str> {
    let marked = nodes.values().any(|node| node.start);
    let entered = edges.iter().map(|edge| edge.to.as_str());
    let compensating = nodes.values().filter_map(|node| node.compensate.as_deref());
    let later: BTreeSet<&str> = entered.chain(compensating).collect();
    let begins = move |(name, node): &(&String, &Node)| match marked {
        true => node.start,
        false => !later.contains(name.as_str()),
    };
    nodes.iter().filter(begins).map(|(name, _)| name.as_str())
}

/// Nodes that run once for each item of a list, each time in a scope of their own.
#[derive(Clone, Debug, PartialEq)]
pub struct ForEach {
    /// The list: a template.
    pub list: Value,
    /// How many items are processed at the same time. At least 1.
    pub concurrency: u32,
    /// The effect of an item that fails.
    pub on_item_error: OnItemError,
    /// The nodes that run for each item.
    pub body: Body,
}

/// The nodes inside of another one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    /// By name; unique in the whole workflow.
    pub nodes: BTreeMap<String, Node>,
    /// The edges between the nodes of this body, in the order of the file. Ids are unique in the
    /// body.
    pub edges: Vec<Edge>,
    /// The result of one item: a template. None: `null`.
    pub output: Option<Value>,
}

/// The effect of an item that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnItemError {
    /// The items in progress are cancelled, and the node fails.
    #[default]
    Fail,
    /// The result of the item is `null`, and the others continue.
    Continue,
}

/// How often one node runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeat {
    /// Executions in total, the first included. At least 1. None: only `until` ends the repetition.
    pub max: Option<u32>,
    /// From the start of one execution to that of the next.
    pub every_ms: Option<u64>,
    /// The repetition ends when this expression is true after an execution. Either this or `max` is
    /// set.
    pub until: Option<String>,
}

/// A node type of a plugin: `package/name@requirement`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UseRef {
    /// The name of the plugin's package.
    pub package: String,
    /// The node type inside it.
    pub name: String,
    /// A requirement on the package's version in semver syntax, like `1` or `1.2`. None: any.
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
    /// At the n-th edge taken; skipped once n edges can no longer be taken.
    Count(u32),
    /// Once for each edge taken.
    Each,
}

impl Join {
    /// Whether it waits for several decisions, so that it may remain waiting.
    pub fn counts(self) -> bool {
        matches!(self, Self::AllActive | Self::All | Self::Count(_))
    }
}

/// The port of an edge that names none, and of an outcome that takes none.
pub const DONE: &str = "done";

/// The port of a failure that is routed.
pub const ERROR: &str = "error";

/// The port of an edge that leaves by every port but [`ERROR`].
pub const ANY_PORT: &str = "*";

/// One edge.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// Unique in the workflow; derived from the ends if none is given.
    pub id: String,
    /// The node it leaves.
    pub from: String,
    /// The port of that node, or [`ANY_PORT`]. Default: [`DONE`].
    pub port: String,
    /// The node it leads to.
    pub to: String,
    /// The condition under which it is taken, once its port was taken.
    pub when: When,
}

/// The condition of an edge whose port was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// Always.
    #[default]
    Always,
    /// If this expression is true.
    If(String),
    /// If no other edge of the same node and port is taken.
    Else,
}

/// How a failed execution is retried.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// Executions in total, the first included. At least 1.
    pub max_attempts: u32,
    /// Before the second execution.
    pub delay_ms: u64,
    /// How the delay grows.
    pub backoff: Backoff,
    /// The bound of the delay.
    pub max_delay_ms: u64,
    /// Whether to wait a random part of the delay, at least half of it.
    pub jitter: bool,
    /// The failure classes that are retried.
    pub classes: Vec<Class>,
    /// A failure of one of these classes is retried only if this expression is true. None: always.
    pub when: Option<String>,
}

/// How the delay between attempts grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backoff {
    /// It is constant.
    Fixed,
    /// It doubles.
    #[default]
    Exponential,
}

/// The effects of failures that are not retried: the first rule that fits decides. If no rule fits,
/// the node fails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnError {
    /// At most [`crate::limits::ERROR_RULES`]. Only the last may have no condition.
    pub rules: Vec<ErrorRule>,
}

impl OnError {
    /// Every failure has this effect.
    pub fn always(effect: ErrorEffect) -> Self {
        let rules = match effect {
            ErrorEffect::Fail => Vec::new(),
            effect => vec![ErrorRule { when: None, effect }],
        };
        Self { rules }
    }

    /// Whether a rule has this effect.
    pub fn has(&self, effect: ErrorEffect) -> bool {
        self.rules.iter().any(|rule| rule.effect == effect)
    }
}

/// The effect of the failures that fit a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorRule {
    /// The rule fits a failure if this expression is true. None: it fits every failure.
    pub when: Option<String>,
    /// The effect.
    pub effect: ErrorEffect,
}

/// The effect of a failure that is not retried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorEffect {
    /// The workflow's `incidents` option decides.
    #[default]
    Fail,
    /// The node counts as done, with the output `null`.
    Continue,
    /// The port `error` is taken, with the failure as the output.
    Route,
}

/// Options of the runs of a workflow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Whether runs exclude each other.
    pub activation: Activation,
    /// When the results of nodes are committed.
    pub commit: CommitStrategy,
    /// The effect of a failed node on the run.
    pub incidents: Incidents,
    /// The data stored with each execution.
    pub record: Record,
    /// How long a run may take.
    pub timeout_ms: Option<u64>,
    /// How long a finished run is kept; none: as the configuration says.
    pub retention_ms: Option<u64>,
    /// How many descendants a run may have if no other run has started it; none: as the
    /// configuration says. The lower number counts.
    pub descendants: Option<u32>,
}

/// The effect of a failed node on the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Incidents {
    /// The run faults, and all other executions are cancelled.
    #[default]
    Fault,
    /// The branch ends there, the others continue, and the run completes with incidents.
    Continue,
}

/// The data stored with each execution of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Record {
    /// Its output, and what its input was made of.
    #[default]
    Outputs,
    /// The input and the configuration that the node got, too.
    Inputs,
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
    /// There is one run at a time with the same correlation id, over all workflows.
    Correlation,
}

/// When the results of nodes are committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitStrategy {
    /// After every node; the next node begins when the commit is durable.
    EveryNode,
    /// A node without effects begins before the commits in front of it are durable, so a chain of
    /// such nodes shares a flush. All results before a node with effects are durable before it runs.
    #[default]
    Burst,
}
