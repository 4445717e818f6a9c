//! How a run that did not complete is reopened.
//!
//! A run that ends as faulted or cancelled keeps the node runs of the root scope that were cut off:
//! the one that failed, and those that were open beside it. Joins and loops keep their state, so
//! that they continue as if the run had not ended. A for-each begins again with its first item. A
//! run whose nodes were undone cannot be reopened.

use std::collections::BTreeSet;

use windlass_model::{ExecutionNo, Payload, ScopeNo, Status, TriggerType};

use super::step::Step;
use super::{Command, Cx, after};
use crate::graph::{BodyIx, Graph, NodeIx};
use crate::state::{Decision, Open, Remains, Round, RunState};

/// How to reopen a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reopening {
    /// The node to run. If its node run was cut off, all node runs that were cut off run again.
    /// With any other node, the run starts over from that node and does not resume the node runs
    /// that were cut off. `None`: all node runs that were cut off.
    pub node: Option<NodeIx>,
    /// The input of that node, in place of its default input.
    pub input: Option<Payload>,
    /// The executions whose outputs make the default input of that node, if the run starts over
    /// there.
    pub from: Vec<(NodeIx, ExecutionNo)>,
}

/// Why a run cannot be reopened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// The run has not ended, or it completed.
    #[error("it is neither faulted nor cancelled")]
    Status,
    /// Completed nodes of the run were undone.
    #[error("its effects were undone by its compensating nodes")]
    Undone,
    /// No node run was cut off, and no node is named.
    #[error("no node of it failed or was cut off")]
    Nothing,
    /// There is no such node outside of every for-each.
    #[error("there is no such node outside of every for-each")]
    NoNode,
    /// The run has reached its limit of executions.
    #[error("it has executed as many nodes as it may")]
    Steps,
}

/// Reopens a run that is faulted or cancelled. The same state always gives the same new state and
/// the same commands.
///
/// # Errors
///
/// The run cannot be reopened in this way: the state is unchanged.
pub fn reopen(
    graph: &Graph,
    state: &mut RunState,
    how: Reopening,
    cx: &Cx<'_>,
) -> Result<Vec<Command>, Closed> {
    if !matches!(state.status, Status::Faulted | Status::Cancelled) {
        return Err(Closed::Status);
    }
    if state.remains.undone {
        return Err(Closed::Undone);
    }
    if state.steps >= cx.max_steps {
        return Err(Closed::Steps);
    }
    let cut_off = |node| state.remains.open.iter().any(|open| open.node == node);
    match how.node {
        None if state.remains.open.is_empty() => return Err(Closed::Nothing),
        Some(node)
            if graph
                .node(node)
                .is_none_or(|plan| plan.body != BodyIx::ROOT) =>
        {
            return Err(Closed::NoNode);
        }
        _ => {}
    }
    let over = how.node.filter(|node| !cut_off(*node));
    let remains = std::mem::take(&mut state.remains);
    let mut step = Step::new(graph, state, cx.now_ms);
    step.state.status = Status::Running;
    step.state.output = None;
    let timeout_ms = graph.options().timeout_ms;
    step.state.deadline_ms = timeout_ms.map(|ms| after(cx.now_ms, ms));
    match over {
        Some(node) => step.start_over(node, how),
        None => step.revive(remains, &how),
    }
    Ok(step.conclude(cx.max_steps))
}

impl Step<'_> {
    /// Keeps the node runs that the end of the run cuts off.
    pub(super) fn keep_remains(&mut self) {
        let root = &self.state.root;
        let open = self.state.open.values().chain(root.queued.values());
        let open = open.filter(|open| open.scope == ScopeNo::ROOT);
        let mut kept: Vec<Open> = open.cloned().collect();
        for open in &kept {
            self.leave(ScopeNo::ROOT, open.node);
        }
        // For-each nodes leave their loops when they are closed.
        let lists = self.state.root.lists.iter();
        kept.extend(lists.map(|(seq, listing)| Open {
            round: listing.round,
            edge: listing.edge,
            ..Open::of(*seq, listing.node)
        }));
        kept.sort_by_key(|open| open.seq);
        let failed = std::mem::take(&mut self.state.remains.open);
        let all = failed.into_iter().chain(kept);
        self.state.remains.open = all.map(afresh).collect();
    }

    /// Runs the node runs that were cut off.
    fn revive(&mut self, remains: Remains, how: &Reopening) {
        for mut open in remains.open {
            if how.node == Some(open.node) && how.input.is_some() {
                open.input.clone_from(&how.input);
            }
            self.again_as_new(open);
        }
    }

    /// Begins at one node as if nothing had been decided: joins behind it do not wait for edges
    /// that the node cannot reach.
    fn start_over(&mut self, node: NodeIx, how: Reopening) {
        self.state.drop_joins(ScopeNo::ROOT);
        self.state.root.loops.clear();
        let reached = self.reached_from(node);
        self.again_as_new(Open {
            from: how.from,
            input: how.input,
            ..Open::of(self.state.next_seq, node)
        });
        for &target in reached.iter().filter(|target| **target != node) {
            let Some(plan) = self.graph.node(target) else {
                continue;
            };
            for &at in &plan.inbound {
                let from = self.graph.edge(at).map(|edge| edge.from);
                if from.is_some_and(|from| from != node && !reached.contains(&from)) {
                    self.work.push_back((ScopeNo::ROOT, at, Decision::Dead));
                }
            }
        }
    }

    fn reached_from(&self, node: NodeIx) -> BTreeSet<NodeIx> {
        let mut reached = BTreeSet::new();
        let mut next = vec![node];
        while let Some(plan) = next.pop().and_then(|node| self.graph.node(node)) {
            let targets = plan.outbound.iter().filter_map(|at| self.graph.edge(*at));
            next.extend(
                targets
                    .map(|edge| edge.to)
                    .filter(|target| reached.insert(*target)),
            );
        }
        reached
    }

    /// Opens a new node run in place of one that was cut off.
    fn again_as_new(&mut self, open: Open) {
        let Some(plan) = self.graph.node(open.node) else {
            return;
        };
        let give_up_ms = plan.total_timeout_ms.map(|ms| after(self.now_ms, ms));
        let first = plan.repeat.as_ref().map(|_| Round {
            count: 1,
            planned_ms: self.now_ms,
        });
        self.start(Open {
            first: self.state.next_seq,
            give_up_ms,
            round: open.round.or(first),
            ..open
        });
    }
}

/// The same node run, without the results of its attempts and phases so far.
fn afresh(open: Open) -> Open {
    Open {
        round: open.round,
        edge: open.edge,
        from: open.from,
        input: open.input,
        ..Open::of(open.seq, open.node)
    }
}

impl Open {
    /// A first attempt in the root scope.
    fn of(seq: windlass_model::Seq, node: NodeIx) -> Self {
        Self::external(seq, node, TriggerType::Retry)
    }
}
