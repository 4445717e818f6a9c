//! How a run that did not complete is taken up again.
//!
//! A run that ends as faulted or cancelled keeps what was cut off: of the root scope the node
//! run that failed, and those that were open beside it. Joins and loops stay as they were, so
//! that they go on as if it had not ended. A for-each begins again with its first item. What
//! was undone has nothing to go on from.

use std::collections::BTreeSet;

use windlass_model::{ExecutionNo, Payload, ScopeNo, Status, TriggerType};

use super::step::Step;
use super::{Command, Cx, after};
use crate::graph::{BodyIx, Graph, NodeIx};
use crate::state::{Decision, Open, Remains, Round, RunState};

/// How a run is to be taken up again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reopening {
    /// The node to run. One that was cut off runs beside the others that were; with any other
    /// the run starts over from there, and what was cut off is given up. None: what was cut off.
    pub node: Option<NodeIx>,
    /// What that node works on, in place of what came before it.
    pub input: Option<Payload>,
    /// Whose outputs the default input of that node comes from, if the run starts over there.
    pub from: Vec<(NodeIx, ExecutionNo)>,
}

/// Why a run cannot be taken up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// It has not ended, or it completed.
    #[error("it is neither faulted nor cancelled")]
    Status,
    /// What it did was undone.
    #[error("what it did was undone by its compensating nodes")]
    Undone,
    /// Nothing was cut off, and no node is named.
    #[error("no node of it failed or was cut off")]
    Nothing,
    /// There is no such node outside of every for-each.
    #[error("there is no such node outside of every for-each")]
    NoNode,
    /// It has executed as many nodes as it may.
    #[error("it has executed as many nodes as it may")]
    Steps,
}

/// Takes a run up again that is faulted or cancelled. Doing it again from the same state gives
/// the same state and the same commands.
///
/// # Errors
///
/// It cannot be taken up like this: the state is as before.
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
    /// Keeps what the end of the run cuts off.
    pub(super) fn keep_remains(&mut self) {
        let root = &self.state.root;
        let open = self.state.open.values().chain(root.queued.values());
        let open = open.filter(|open| open.scope == ScopeNo::ROOT);
        let mut kept: Vec<Open> = open.cloned().collect();
        for open in &kept {
            self.leave(ScopeNo::ROOT, open.node);
        }
        // Those leave their loops when they are closed.
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

    /// Goes on with what was cut off.
    fn revive(&mut self, remains: Remains, how: &Reopening) {
        for mut open in remains.open {
            if how.node == Some(open.node) && how.input.is_some() {
                open.input.clone_from(&how.input);
            }
            self.again_as_new(open);
        }
    }

    /// Begins with one node, as if nothing else had been decided: joins behind it wait for
    /// nothing that it does not lead to.
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

    /// A node run of its own, in the place of one that was cut off.
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

/// The same, without what its attempts and phases so far have left.
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
        Self {
            seq,
            first: seq,
            scope: ScopeNo::ROOT,
            node,
            edge: None,
            kind: TriggerType::Retry,
            attempt: 1,
            phase: 0,
            due_ms: None,
            give_up_ms: None,
            give_up_wait_ms: None,
            expires_ms: None,
            from: Vec::new(),
            left: None,
            input: None,
            round: None,
            collect: None,
            waiting: false,
        }
    }
}
