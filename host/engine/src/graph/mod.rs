//! The graph of a workflow, compiled: a step finds everything that it needs by a look-up.
//!
//! The numbers of nodes and edges derive from the definition alone, because stored triggers and
//! states name nodes by them.

mod analysis;
mod checks;
mod compile;
mod expressions;
mod flat;
mod loops;
mod nesting;
mod race_losers;
mod table;
mod warnings;
mod weight;

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use windlass_model::definition::{ErrorEffect, Join, OnItemError, Options, Retry, UseRef};
use windlass_model::{Definition, Diagnostic, limits};

use crate::expr::{Condition, Needs, Template};

pub use analysis::{Analysis, Facts, Start, analyse};
pub use checks::ports;
pub(crate) use race_losers::NodeSet;
pub use warnings::warnings;

/// How deep loops may nest in one another.
pub const LOOP_DEPTH: u32 = 1_000;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The number as an index of a list.
            pub fn at(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index! {
    /// A node, by its position in [`windlass_model::Definition::node_names`].
    NodeIx
}
index! {
    /// An edge, by its position in the file; edges inside a for-each come after those around it.
    EdgeIx
}
index! {
    /// A body: the nodes outside of every for-each (the root), or the nodes inside one for-each.
    BodyIx
}
index! {
    /// A critical section, by the position of its key among all of them.
    MutexIx
}

impl BodyIx {
    /// The nodes outside of every for-each.
    pub const ROOT: Self = Self(0);
}
index! {
    /// A loop; outer ones before inner ones.
    LoopIx
}

/// A compiled workflow.
#[derive(Debug)]
pub struct Graph {
    /// By number; none for a former node.
    pub(crate) nodes: Vec<Option<Plan>>,
    /// Every node, in the order of their names.
    pub(crate) by_name: Vec<NodeIx>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) loops: Vec<Loop>,
    pub(crate) bodies: Vec<Body>,
    pub(crate) tags: Option<Template>,
    pub(crate) options: Options,
    /// Every node, after the nodes that lead to it. Computed at the first call.
    pub(crate) forward: OnceLock<Vec<NodeIx>>,
}

/// The nodes that run together in a scope, and the edges between them.
#[derive(Debug)]
pub struct Body {
    /// The for-each that contains the body; none for the root.
    pub container: Option<NodeIx>,
    /// The body that contains the for-each.
    pub parent: Option<BodyIx>,
    /// The nodes at which the body begins.
    pub entries: Vec<NodeIx>,
    /// The output of the body. `None`: `null`.
    pub output: Option<Template>,
    /// Nodes without inbound edges that are not entries.
    pub(crate) passed_over: Vec<NodeIx>,
}

/// The compiled form of one node.
#[derive(Debug)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// The action of the node.
    pub kind: PlanKind,
    /// The body that contains the node.
    pub body: BodyIx,
    /// Whether the body begins with this node.
    pub entry: bool,
    /// The template of its input. `None`: the output of the nodes before it.
    pub input: Option<Template>,
    /// When the node runs, if it has several inbound edges.
    pub join: Join,
    /// Whether only the first edge whose condition is true is taken.
    pub first: bool,
    /// How failures are tried again.
    pub retry: Option<Retry>,
    /// The condition under which a failure is tried again. `None`: always.
    pub retry_when: Option<Condition>,
    /// The time limit of one execution, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The time limit over all attempts, in milliseconds.
    pub total_timeout_ms: Option<u64>,
    /// The time limit of one suspension, in milliseconds.
    pub wait_timeout_ms: Option<u64>,
    /// How a failure is treated that is not tried again: the first rule that fits decides, and
    /// without one the node fails.
    pub on_error: Vec<ErrorRule>,
    /// How often the node repeats.
    pub repeat: Option<Repeat>,
    /// The critical section that it runs in.
    pub mutex: Option<MutexIx>,
    /// Triggers with a higher priority are claimed first.
    pub priority: i32,
    /// The consumer that executes the node's triggers. `None`: by the type of the trigger.
    pub route: Option<String>,
    /// The node that undoes this node.
    pub compensate: Option<NodeIx>,
    /// The inbound edges without the backward ones, in the order of the file.
    pub inbound: Vec<EdgeIx>,
    /// The backward inbound edges, in the order of the file.
    pub reentries: Vec<EdgeIx>,
    /// The outbound edges, in the order of the file.
    pub outbound: Vec<EdgeIx>,
    /// The ports with outbound edges, by name.
    pub ports: Vec<Port>,
    /// The innermost loop that contains the node.
    pub innermost: Option<LoopIx>,
    /// Whether the default input is an object of outputs by node name: the node is a join that
    /// waits for several nodes.
    pub gathers: bool,
    /// Whether an expression names the node's output, so that the state keeps its latest execution.
    pub named: bool,
    /// Whether an expression names the link that resumes the node, so that the state counts its
    /// visits.
    pub linked: bool,
    /// The values that its templates need before it is executed. An input or a list that only
    /// passes on a value needs none.
    pub before: Needs,
    /// The values that the conditions of its outbound edges and `repeat` need.
    pub needs: Needs,
    /// The values that `retry_when` and the rules of `on_error` need, besides the failure.
    pub failing: Needs,
    /// For `race`: the nodes from which a path leads to this node in the same round. Computed at
    /// the first call.
    pub(crate) race_losers: OnceLock<NodeSet>,
}

/// The action of a node.
#[derive(Debug)]
pub enum PlanKind {
    /// Runs a node type of a plugin.
    Use {
        /// The node type.
        node_type: UseRef,
        /// Its configuration.
        with: Template,
    },
    /// Runs its body for each item of a list.
    ForEach {
        /// The list, rendered in the scope of the node.
        list: Template,
        /// How many items are processed at the same time.
        concurrency: u32,
        /// How a failed item affects the for-each.
        on_item_error: OnItemError,
        /// The body that runs for each item.
        body: BodyIx,
    },
    /// Runs another workflow as a child.
    Workflow {
        /// Its name.
        name: String,
    },
    /// Waits for a duration or until an instant.
    Wait(Template),
    /// Waits for a stimulus.
    Event {
        /// Its name.
        name: Template,
        /// The value that the stimulus's match has to equal.
        matches: Template,
        /// The correlation id, if the stimulus needs one.
        correlation: Option<Template>,
    },
    /// Assigns variables. Each template sees the values from before the node.
    Set(Vec<(String, Template)>),
    /// Ends its branch or the whole run.
    End {
        /// Whether the node cancels all other executions and completes the run.
        terminate: bool,
        /// The output of the run, in place of the workflow's own.
        output: Option<Template>,
    },
    /// Fails.
    Fail {
        /// The message.
        message: Template,
        /// The details of the failure.
        data: Option<Template>,
    },
}

impl PlanKind {
    /// Its templates, all rendered before the node ends.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &Template> {
        let (one, two, three, assigned): (_, _, _, &[(String, Template)]) = match self {
            Self::Use { with, .. } => (Some(with), None, None, &[]),
            Self::ForEach { list, .. } => (Some(list), None, None, &[]),
            Self::Wait(template) => (Some(template), None, None, &[]),
            Self::Event {
                name,
                matches,
                correlation,
            } => (Some(name), Some(matches), correlation.as_ref(), &[]),
            Self::Set(assigned) => (None, None, None, assigned),
            Self::End { output, .. } => (output.as_ref(), None, None, &[]),
            Self::Fail { message, data } => (Some(message), data.as_ref(), None, &[]),
            Self::Workflow { .. } => (None, None, None, &[]),
        };
        let few = [one, two, three].into_iter().flatten();
        few.chain(assigned.iter().map(|(_, template)| template))
    }
}

/// The effect of the failures that fit a condition.
#[derive(Debug)]
pub struct ErrorRule {
    /// The condition. `None`: every failure fits.
    pub when: Option<Condition>,
    /// The effect.
    pub effect: ErrorEffect,
}

/// How often a node repeats.
#[derive(Debug)]
pub struct Repeat {
    /// The number of executions in total.
    pub max: Option<u32>,
    /// The interval between the planned starts of two executions, in milliseconds.
    pub every_ms: Option<u64>,
    /// The repetition ends once this is true. The condition sees the node's own output.
    pub until: Option<Condition>,
}

/// The edges that leave a node by one port.
#[derive(Debug)]
pub struct Port {
    /// The port's name.
    pub name: String,
    /// The edges, in the order of the file.
    pub edges: Vec<EdgeIx>,
}

/// One edge.
#[derive(Debug)]
pub struct Edge {
    /// The edge's name.
    pub id: String,
    /// Its source node.
    pub from: NodeIx,
    /// Its target node.
    pub to: NodeIx,
    /// Its position among the ports of `from`.
    pub port: u32,
    /// The condition under which it is taken once its port is taken.
    pub when: When,
    /// Whether it returns to an earlier node of a loop.
    pub backward: bool,
    /// Its position in `inbound` or, if it is a backward edge, in `reentries` of `to`.
    pub slot: u32,
    /// The outermost loop that it leaves.
    pub leaves: Option<LoopIx>,
    /// The loop with several entries that the edge enters.
    pub enters: Option<LoopIx>,
}

/// When an edge is taken once its port is taken.
#[derive(Debug)]
pub enum When {
    /// Always.
    Always,
    /// If the condition is true.
    If(Condition),
    /// If no other edge of the same port is taken.
    Else,
}

/// A loop: a part of the graph in which every node leads to every other.
#[derive(Debug)]
pub struct Loop {
    /// The loop around it.
    pub parent: Option<LoopIx>,
    /// The number of loops around it.
    pub depth: u32,
    /// Edges that leave this loop and stay inside the loop around it.
    pub exits: Vec<EdgeIx>,
    /// For a loop with several entries: how many decisions arrive from outside in one activation.
    /// Such a loop has no nested loops.
    pub arrivals: Option<u32>,
    /// For a loop with several entries: its nodes that have a join.
    pub joins: Vec<NodeIx>,
}

impl Loop {
    /// Whether this number of arrivals is within the limit of decisions that may wait.
    pub(crate) fn bears(&self, arrived: u32) -> bool {
        let rounds = u32::try_from(limits::WAITING_DECISIONS).unwrap_or(u32::MAX);
        arrived <= self.arrivals.unwrap_or_default().saturating_mul(rounds)
    }
}

impl Graph {
    /// Compiles a definition. `raw` names the top-level properties of a node type's configuration
    /// that are passed as written, without expressions.
    ///
    /// # Errors
    ///
    /// All mistakes in the graph and its expressions, by place.
    pub fn compile(
        definition: &Definition,
        raw: &dyn Fn(&UseRef) -> Vec<String>,
    ) -> Result<Self, Vec<Diagnostic>> {
        compile::compile(definition, raw)
    }

    /// A node. `None` for the number of a former node.
    pub fn node(&self, node: NodeIx) -> Option<&Plan> {
        self.nodes.get(node.at())?.as_ref()
    }

    /// How many numbers of nodes there are, those of former nodes included.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The node with this name.
    pub fn find(&self, name: &str) -> Option<NodeIx> {
        let by_name = |at: &NodeIx| self.node(*at).map_or("", |plan| plan.name.as_str());
        let at = self.by_name.binary_search_by_key(&name, by_name).ok()?;
        self.by_name.get(at).copied()
    }

    /// Every node, in the order of their numbers.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeIx, &Plan)> {
        let all = (0..).map(NodeIx).zip(&self.nodes);
        all.filter_map(|(at, plan)| Some((at, plan.as_ref()?)))
    }

    /// An edge.
    pub fn edge(&self, edge: EdgeIx) -> Option<&Edge> {
        self.edges.get(edge.at())
    }

    /// Every edge, in the order of the file.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// Every loop, outer ones before inner ones.
    pub fn loops(&self) -> &[Loop] {
        &self.loops
    }

    /// The loops that a node is in, inner ones first.
    pub fn loops_of(&self, node: NodeIx) -> impl Iterator<Item = LoopIx> {
        let innermost = self.node(node).and_then(|plan| plan.innermost);
        std::iter::successors(innermost, |at| self.loops.get(at.at())?.parent)
    }

    /// A body.
    pub fn body(&self, body: BodyIx) -> Option<&Body> {
        self.bodies.get(body.at())
    }

    /// The body of a for-each; the root for any other node.
    pub fn body_of(&self, node: NodeIx) -> BodyIx {
        match self.node(node).map(|plan| &plan.kind) {
            Some(PlanKind::ForEach { body, .. }) => *body,
            _ => BodyIx::ROOT,
        }
    }

    /// The critical section of a node.
    pub fn mutex_of(&self, node: NodeIx) -> Option<MutexIx> {
        self.node(node)?.mutex
    }

    /// The nodes at which a run begins.
    pub fn entries(&self) -> &[NodeIx] {
        self.body(BodyIx::ROOT)
            .map_or(&[], |body| body.entries.as_slice())
    }

    /// The output of a run. `None`: `null`.
    pub fn output(&self) -> Option<&Template> {
        self.body(BodyIx::ROOT)?.output.as_ref()
    }

    /// The tags of a run: an object. `None`: it has none.
    pub fn tags(&self) -> Option<&Template> {
        self.tags.as_ref()
    }

    /// The options of its runs.
    pub fn options(&self) -> &Options {
        &self.options
    }
}
