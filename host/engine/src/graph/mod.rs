//! A workflow's graph, compiled: everything a step needs is a look-up away.
//!
//! Numbers of nodes and edges derive from the definition alone, because stored triggers and
//! states name nodes by them.

mod checks;
mod compile;
mod expressions;
mod flat;
mod loops;
mod nesting;
mod race_losers;
mod table;
mod warnings;

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use windlass_model::definition::{Join, OnError, OnItemError, Options, Retry, UseRef};
use windlass_model::{Definition, Diagnostic, limits};

use crate::expr::{Condition, Needs, Template};

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
            /// As a position in a list.
            pub fn at(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index! {
    /// A node, by its position among all nodes of the definition in the order of their names.
    NodeIx
}
index! {
    /// An edge, by its position in the file; those inside of a for-each after those around it.
    EdgeIx
}
index! {
    /// A body: the nodes outside of every for-each, which is the root, or those inside of one.
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
    pub(crate) nodes: Vec<Plan>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) loops: Vec<Loop>,
    pub(crate) bodies: Vec<Body>,
    pub(crate) options: Options,
    /// Every node, behind those that lead to it. Found when first asked for.
    pub(crate) forward: OnceLock<Vec<NodeIx>>,
}

/// Nodes that run together in a scope, and the edges between them.
#[derive(Debug)]
pub struct Body {
    /// The for-each that they are inside of; none for the root.
    pub container: Option<NodeIx>,
    /// The body that the for-each is in.
    pub parent: Option<BodyIx>,
    /// Where it begins.
    pub entries: Vec<NodeIx>,
    /// What it results in. None: `null`.
    pub output: Option<Template>,
    /// Nodes without inbound edges that are no entries either.
    pub(crate) passed_over: Vec<NodeIx>,
}

/// What is to be known about one node.
#[derive(Debug)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: PlanKind,
    /// The body that it is in.
    pub body: BodyIx,
    /// Whether its body begins with it.
    pub entry: bool,
    /// What it gets, if that is not the output of what came before.
    pub input: Option<Template>,
    /// When it runs, if several edges lead to it.
    pub join: Join,
    /// Take only the first edge whose condition is true.
    pub first: bool,
    /// Whether and how it is tried again.
    pub retry: Option<Retry>,
    /// How long one execution may take.
    pub timeout_ms: Option<u64>,
    /// How long it may take over all attempts.
    pub total_timeout_ms: Option<u64>,
    /// How long it may be suspended at a time.
    pub wait_timeout_ms: Option<u64>,
    /// What a failure that is not tried again does.
    pub on_error: OnError,
    /// Whether it runs several times.
    pub repeat: Option<Repeat>,
    /// The critical section that it runs in.
    pub mutex: Option<MutexIx>,
    /// Its triggers are claimed before those with less.
    pub priority: i32,
    /// Which consumer executes its triggers. None: by their type.
    pub route: Option<String>,
    /// The node that undoes it.
    pub compensate: Option<NodeIx>,
    /// The edges that lead to it, backward ones excepted, in the order of the file.
    pub inbound: Vec<EdgeIx>,
    /// The backward edges that lead to it, in the order of the file.
    pub reentries: Vec<EdgeIx>,
    /// The edges that leave it, in the order of the file.
    pub outbound: Vec<EdgeIx>,
    /// The ports that edges leave it by, by name.
    pub ports: Vec<Port>,
    /// The innermost loop that it is in.
    pub innermost: Option<LoopIx>,
    /// Whether its default input is an object of outputs by node name: it is a join that
    /// waits for several nodes.
    pub gathers: bool,
    /// Whether an expression names its output, so that the state keeps its latest run.
    pub named: bool,
    /// Whether an expression names the link that resumes it, so that the state counts its visits.
    pub linked: bool,
    /// What the conditions of its outbound edges need, and `repeat`.
    pub needs: Needs,
    /// For `race`: the nodes from which a way leads to it in the same round. Found when first
    /// asked for.
    pub(crate) race_losers: OnceLock<NodeSet>,
}

/// What a node does.
#[derive(Debug)]
pub enum PlanKind {
    /// Runs a node type of a plugin.
    Use {
        /// Which.
        node_type: UseRef,
        /// Its configuration.
        with: Template,
    },
    /// Runs its body for each item of a list.
    ForEach {
        /// The list, made in the scope that the node is in.
        list: Template,
        /// How many items are worked on at the same time.
        concurrency: u32,
        /// What an item that fails does.
        on_item_error: OnItemError,
        /// What is done for each item.
        body: BodyIx,
    },
    /// Runs another workflow as a child.
    Workflow {
        /// Its name.
        name: String,
    },
    /// Waits: for a duration, or until an instant.
    Wait(Template),
    /// Waits for a stimulus.
    Event {
        /// Its name.
        name: Template,
        /// What its `match` has to equal.
        matches: Template,
        /// Its correlation id, if it has to have one.
        correlation: Option<Template>,
    },
    /// Assigns variables, each seeing the values from before the node.
    Set(Vec<(String, Template)>),
    /// Ends this branch, or the whole run.
    End {
        /// Cancel whatever else is going on, and complete.
        terminate: bool,
        /// The output of the run, in place of the workflow's own.
        output: Option<Template>,
    },
    /// Fails, with this message.
    Fail(Template),
}

/// How often one node runs.
#[derive(Debug)]
pub struct Repeat {
    /// Executions in total.
    pub max: Option<u32>,
    /// From when one execution is to start to when the next is.
    pub every_ms: Option<u64>,
    /// It ends once this is true; its own output is there.
    pub until: Option<Condition>,
}

/// The edges that leave a node by one port.
#[derive(Debug)]
pub struct Port {
    /// The port's name.
    pub name: String,
    /// In the order of the file.
    pub edges: Vec<EdgeIx>,
}

/// One edge.
#[derive(Debug)]
pub struct Edge {
    /// Its name.
    pub id: String,
    /// The node it leaves.
    pub from: NodeIx,
    /// The node it leads to.
    pub to: NodeIx,
    /// Its position among the ports of `from`.
    pub port: u32,
    /// When it is taken, given that its port was.
    pub when: When,
    /// Whether it goes back to an earlier node of a loop.
    pub backward: bool,
    /// Its position in `inbound` or, if it is a backward edge, in `reentries` of `to`.
    pub slot: u32,
    /// The outermost loop that it leaves.
    pub leaves: Option<LoopIx>,
    /// The loop with several entries that it enters.
    pub enters: Option<LoopIx>,
}

/// When an edge is taken, given that its port was.
#[derive(Debug)]
pub enum When {
    /// Always.
    Always,
    /// If this is true.
    If(Condition),
    /// If no other edge of the same port was.
    Else,
}

/// A loop: a part of the graph in which every node leads to every other.
#[derive(Debug)]
pub struct Loop {
    /// The loop around it.
    pub parent: Option<LoopIx>,
    /// How many loops are around it.
    pub depth: u32,
    /// Edges that leave this loop, and stay inside the loop around it.
    pub exits: Vec<EdgeIx>,
    /// If it has several entries: how many decisions arrive from outside in one activation.
    /// Such a loop has no loops inside.
    pub arrivals: Option<u32>,
    /// If it has several entries: its nodes that have a join.
    pub joins: Vec<NodeIx>,
}

impl Loop {
    /// Whether so many arrivals may wait for others of their round.
    pub(crate) fn bears(&self, arrived: u32) -> bool {
        let rounds = u32::try_from(limits::WAITING_DECISIONS).unwrap_or(u32::MAX);
        arrived <= self.arrivals.unwrap_or_default().saturating_mul(rounds)
    }
}

impl Graph {
    /// Compiles a definition. `raw` says which top-level properties of a node type's
    /// configuration are passed as written, with no expressions in them.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the graph and its expressions, by place.
    pub fn compile(
        definition: &Definition,
        raw: &dyn Fn(&UseRef) -> Vec<String>,
    ) -> Result<Self, Vec<Diagnostic>> {
        compile::compile(definition, raw)
    }

    /// A node.
    pub fn node(&self, node: NodeIx) -> Option<&Plan> {
        self.nodes.get(node.at())
    }

    /// The node of this name.
    pub fn find(&self, name: &str) -> Option<NodeIx> {
        let at = self
            .nodes
            .binary_search_by(|plan| plan.name.as_str().cmp(name))
            .ok()?;
        u32::try_from(at).ok().map(NodeIx)
    }

    /// Every node, in the order of their names.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeIx, &Plan)> {
        (0..).map(NodeIx).zip(&self.nodes)
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

    /// The body of a for-each; the root if the node is none.
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

    /// Where a run begins.
    pub fn entries(&self) -> &[NodeIx] {
        self.body(BodyIx::ROOT)
            .map_or(&[], |body| body.entries.as_slice())
    }

    /// What a run results in. None: `null`.
    pub fn output(&self) -> Option<&Template> {
        self.body(BodyIx::ROOT)?.output.as_ref()
    }

    /// How runs of it behave.
    pub fn options(&self) -> &Options {
        &self.options
    }
}
