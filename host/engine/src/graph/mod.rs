//! A workflow's graph, compiled: everything a step needs is a look-up away.
//!
//! Numbers of nodes and edges derive from the definition alone, because stored triggers and
//! states name nodes by them.

mod checks;
mod compile;
mod later;
mod loops;
mod rivals;
mod table;

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use windlass_model::definition::{Join, OnError, Options, Retry, UseRef};
use windlass_model::{Definition, Diagnostic, limits};

use crate::expr::{Condition, Needs, Template};

use rivals::NodeSet;

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
    /// A node, by its position among the definition's nodes in the order of their names.
    NodeIx
}
index! {
    /// An edge, by its position in the file.
    EdgeIx
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
    pub(crate) entries: Vec<NodeIx>,
    /// Nodes without inbound edges that are no entries either.
    pub(crate) passed_over: Vec<NodeIx>,
    pub(crate) output: Option<Template>,
    pub(crate) options: Options,
}

/// What is to be known about one node.
#[derive(Debug)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: PlanKind,
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
    /// What a failure that is not tried again does.
    pub on_error: OnError,
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
    /// What the conditions of its outbound edges need.
    pub needs: Needs,
    /// For `race`: the nodes that are cancelled when it begins. Found when first asked for.
    pub(crate) rivals: OnceLock<NodeSet>,
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
    /// Waits: for a duration, or until an instant.
    Wait(Template),
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

    /// Where a run begins.
    pub fn entries(&self) -> &[NodeIx] {
        &self.entries
    }

    /// What a run results in. None: `null`.
    pub fn output(&self) -> Option<&Template> {
        self.output.as_ref()
    }

    /// How runs of it behave.
    pub fn options(&self) -> &Options {
        &self.options
    }
}
