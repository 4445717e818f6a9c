//! A workflow as it is kept: validated in form, with every default filled in.
//!
//! What a person writes is read by [`crate::file`], which turns it into this and reports what
//! is wrong. Whether the graph makes sense is for the engine's compiler to say.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Class;

/// A workflow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definition {
    /// Its name: `[a-z_][a-z0-9_-]*`.
    pub name: String,
    /// For people.
    pub description: Option<String>,
    /// JSON Schema of what a run takes.
    pub input: Option<Value>,
    /// The values that `vars` begin with; no templates.
    pub vars: BTreeMap<String, Value>,
    /// By name: `[a-z_][a-z0-9_]*`. At most [`crate::limits::NODES`].
    pub nodes: BTreeMap<String, Node>,
    /// In the order written. At most [`crate::limits::EDGES`].
    pub edges: Vec<Edge>,
    /// What a run results in: a template. None: `null`.
    pub output: Option<Value>,
    /// How runs of it behave.
    pub options: Options,
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
    /// What a failure that is not tried again does.
    pub on_error: OnError,
    /// For people.
    pub title: Option<String>,
    /// For people.
    pub description: Option<String>,
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
    /// Waits: a duration, an instant, or a template that gives one.
    Wait(Value),
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
