//! One step: applies the result of an execution to the run and carries the consequences along the
//! graph.

use std::collections::{BTreeSet, VecDeque};

use windlass_model::{ExecutionNo, ScopeNo, Seq, TriggerType};

use super::joins::Won;
use super::{Command, Stale, failing};
use crate::graph::{BodyIx, EdgeIx, Graph, LoopIx, MutexIx, NodeIx, PlanKind};
use crate::state::{Decision, Open, Round, RunState};

/// A step in progress. Decisions about edges queue up in `work` and are carried to their targets
/// one by one, so that a deep graph cannot overflow the stack.
pub(super) struct Step<'a> {
    pub(super) graph: &'a Graph,
    pub(super) state: &'a mut RunState,
    pub(super) now_ms: i64,
    pub(super) commands: Vec<Command>,
    pub(super) work: VecDeque<(ScopeNo, EdgeIx, Decision)>,
    /// Loops that may be empty now.
    pub(super) idle: BTreeSet<(ScopeNo, LoopIx)>,
    /// Scopes other than the root in which an execution ended.
    pub(super) quiet: BTreeSet<ScopeNo>,
    /// Races that were won but whose node has not run yet.
    pub(super) won: Vec<Won>,
    /// Races that were won and whose node runs, each with the trigger of that execution.
    pub(super) raced: Vec<(ScopeNo, NodeIx, Seq)>,
    /// Critical sections that a node left.
    pub(super) freed: BTreeSet<MutexIx>,
    /// The join that holds more decisions than the limit, if there is one.
    pub(super) overflow: Option<NodeIx>,
    /// Scopes that this step opened: none of their nodes has been executed.
    beginning: BTreeSet<ScopeNo>,
}

impl<'a> Step<'a> {
    pub(super) fn new(graph: &'a Graph, state: &'a mut RunState, now_ms: i64) -> Self {
        Self {
            graph,
            state,
            now_ms,
            commands: Vec::new(),
            work: VecDeque::new(),
            idle: BTreeSet::new(),
            quiet: BTreeSet::new(),
            won: Vec::new(),
            raced: Vec::new(),
            freed: BTreeSet::new(),
            overflow: None,
            beginning: BTreeSet::new(),
        }
    }

    /// Begins a body in a scope.
    pub(super) fn begin(&mut self, scope: ScopeNo, body: BodyIx) {
        let Some(body) = self.graph.body(body) else {
            return;
        };
        self.beginning.insert(scope);
        for &entry in &body.entries {
            self.arrive_at_loop_of(scope, entry);
            let kind = match scope {
                ScopeNo::ROOT => TriggerType::Start,
                _ => TriggerType::Next,
            };
            self.open_as(scope, entry, None, kind, Vec::new());
        }
        for &node in &body.passed_over {
            self.skip(scope, node);
        }
    }

    /// Takes an open execution out of the state and counts it as executed.
    pub(super) fn executed(&mut self, seq: Seq) -> Result<Open, Stale> {
        let mut open = self.take(seq)?;
        self.state.steps = self.state.steps.saturating_add(1);
        if let Some(collect) = open.collect.take() {
            self.commands.push(Command::DropList(collect.list));
        }
        Ok(open)
    }

    /// Takes an open execution out of the state.
    pub(super) fn take(&mut self, seq: Seq) -> Result<Open, Stale> {
        if let Some(open) = self.state.external.remove(&seq) {
            self.free(open.node);
            return Ok(open);
        }
        let open = self.state.open.remove(&seq).ok_or(Stale)?;
        if open.waiting {
            self.state.waiting = self.state.waiting.saturating_sub(1);
        }
        if let Some(local) = self.state.quietly(open.scope) {
            local.open.remove(&seq);
        }
        self.leave(open.scope, open.node);
        self.free(open.node);
        if open.scope != ScopeNo::ROOT {
            self.quiet.insert(open.scope);
        }
        Ok(open)
    }

    /// Finishes a node. `taken` says of each outbound edge whether it is taken.
    pub(super) fn complete(
        &mut self,
        open: &Open,
        run: ExecutionNo,
        taken: &[bool],
        end: Option<bool>,
    ) {
        let Some(plan) = self.graph.node(open.node) else {
            return;
        };
        self.remember(open.scope, open.node, run);
        self.note(open.node, run);
        if end.is_some()
            && matches!(
                plan.kind,
                PlanKind::End {
                    output: Some(_),
                    ..
                }
            )
        {
            self.set_output(open.scope, run, end == Some(true));
        }
        if end == Some(true) && self.state.undoing.is_none() {
            return self.end(windlass_model::Status::Completed, None);
        }
        for (&edge, &taken) in plan.outbound.iter().zip(taken) {
            self.decide(
                open.scope,
                edge,
                if taken {
                    Decision::Taken(run)
                } else {
                    Decision::Dead
                },
            );
        }
    }

    /// Records in the ledger an execution that completed, if its node has a compensating node.
    pub(super) fn note(&mut self, node: NodeIx, run: ExecutionNo) {
        let plan = self.graph.node(node);
        let can_be_undone = plan.is_some_and(|plan| plan.compensate.is_some());
        if can_be_undone && self.state.undoing.is_none() {
            self.state.note(node, run);
        }
    }

    /// Records the latest execution of a node, if an expression names the node.
    pub(super) fn remember(&mut self, scope: ScopeNo, node: NodeIx, run: ExecutionNo) {
        if self.graph.node(node).is_some_and(|plan| plan.named)
            && let Some(local) = self.state.local(scope)
        {
            local.latest.insert(node, run);
        }
    }

    /// Makes the output of an `end` node the output of the run, or of the item if the node ends
    /// only its branch.
    fn set_output(&mut self, scope: ScopeNo, run: ExecutionNo, terminate: bool) {
        if scope == ScopeNo::ROOT || terminate {
            self.state.output = Some(run);
        } else if self.state.local(scope).is_some()
            && let Some(scope) = self.state.scopes.get_mut(&scope)
        {
            scope.output = Some(run);
        }
    }

    /// Opens an execution of a node that follows another node.
    pub(super) fn open(
        &mut self,
        scope: ScopeNo,
        node: NodeIx,
        edge: Option<EdgeIx>,
        from: Vec<(NodeIx, ExecutionNo)>,
    ) {
        self.open_as(scope, node, edge, TriggerType::Next, from);
    }

    fn open_as(
        &mut self,
        scope: ScopeNo,
        node: NodeIx,
        edge: Option<EdgeIx>,
        kind: TriggerType,
        from: Vec<(NodeIx, ExecutionNo)>,
    ) {
        let Some(plan) = self.graph.node(node) else {
            return;
        };
        let first = self.state.next_seq;
        let round = plan.repeat.as_ref().map(|_| Round {
            count: 1,
            planned_ms: self.now_ms,
        });
        let open = Open {
            seq: first,
            first,
            scope,
            node,
            edge,
            kind,
            attempt: 1,
            phase: 0,
            due_ms: None,
            give_up_ms: self.give_up_ms(scope, plan.total_timeout_ms),
            give_up_wait_ms: None,
            expires_ms: None,
            from,
            left: None,
            input: None,
            round,
            collect: None,
            waiting: false,
        };
        self.start(open);
    }

    /// Begins a node run, or puts it into the queue of its critical section.
    pub(super) fn start(&mut self, open: Open) {
        let Some(plan) = self.graph.node(open.node) else {
            return;
        };
        if plan.linked {
            self.state.count_visit(&open);
        }
        match plan.mutex {
            Some(mutex) if !self.is_free(mutex) => self.queue(mutex, open),
            _ => self.reopen(open),
        }
    }

    /// The deadline of a node run that begins now: the earlier of its own and that of the for-each
    /// around it.
    fn give_up_ms(&self, scope: ScopeNo, total_ms: Option<u64>) -> Option<i64> {
        let own = total_ms.map(|ms| super::after(self.now_ms, ms));
        let around = self.state.scope(scope).and_then(|inside| {
            let around = self.state.peek(inside.parent)?;
            around.lists.get(&inside.list)?.give_up_ms
        });
        own.into_iter().chain(around).min()
    }

    /// Puts an open execution into the state under a new sequence number.
    pub(super) fn reopen(&mut self, mut open: Open) {
        open.seq = self.next_seq();
        let Some(local) = self.state.quietly(open.scope) else {
            return;
        };
        local.open.insert(open.seq);
        self.enter(open.scope, open.node);
        self.hold(open.node);
        if open.waiting {
            self.state.waiting = self.state.waiting.saturating_add(1);
        }
        self.state.open.insert(open.seq, open.clone());
        self.commands.push(match open.due_ms {
            None => Command::Run(open),
            Some(_) => Command::Schedule(open),
        });
    }

    pub(super) fn next_seq(&mut self) -> Seq {
        let seq = self.state.next_seq;
        self.state.next_seq = Seq(seq.0.saturating_add(1));
        seq
    }

    /// Cancels an open execution, a for-each or a node run that waits for a critical section. None
    /// of its edges is taken.
    pub(super) fn cancel(&mut self, scope: ScopeNo, seq: Seq) {
        let cancelled = if let Ok(mut open) = self.take(seq) {
            if let Some(collect) = open.collect.take() {
                self.commands.push(Command::DropList(collect.list));
            }
            Some(open)
        } else {
            let list = self.close_list(scope, seq);
            list.or_else(|| self.unqueue(scope, seq))
        };
        let Some(open) = cancelled else { return };
        self.fruitless(open.scope, open.node);
        self.commands.push(Command::Cancel(open));
    }

    /// Skips a node in this round.
    pub(super) fn skip(&mut self, scope: ScopeNo, node: NodeIx) {
        self.commands.push(Command::Skip(node));
        self.fruitless(scope, node);
    }

    /// Ends a node without a result: it has no output, and none of its edges is taken.
    pub(super) fn fruitless(&mut self, scope: ScopeNo, node: NodeIx) {
        let Some(plan) = self.graph.node(node) else {
            return;
        };
        if plan.named
            && self
                .state
                .peek(scope)
                .is_some_and(|local| local.latest.contains_key(&node))
            && let Some(local) = self.state.local(scope)
        {
            local.latest.remove(&node);
        }
        if let Some(at) = plan.innermost {
            self.touch(scope, at);
            self.idle.insert((scope, at));
        }
        for &edge in &plan.outbound {
            self.decide(scope, edge, Decision::Dead);
        }
    }

    /// Records the decision about an edge after its source node has run or was skipped.
    fn decide(&mut self, scope: ScopeNo, at: EdgeIx, decision: Decision) {
        let Some(edge) = self.graph.edge(at) else {
            return;
        };
        match (decision, edge.leaves) {
            (Decision::Dead, _) if edge.backward => {}
            // The loop may still take the edge in a later round, so the end of the loop decides.
            (Decision::Dead, Some(_)) => {}
            (Decision::Dead, None) => self.work.push_back((scope, at, decision)),
            (Decision::Taken(_), leaves) => {
                if let Some(around) = leaves {
                    self.exit(scope, around, at);
                }
                self.work.push_back((scope, at, decision));
            }
        }
    }

    /// Works until nothing changes any more: carries decisions to their targets, then cancels the
    /// losers of races (so that the order of decisions does not matter), lets waiting node runs
    /// enter critical sections, and ends loops and scopes that are empty, inner ones first.
    pub(super) fn settle(&mut self) {
        loop {
            if let Some((scope, edge, decision)) = self.work.pop_front() {
                self.arrive(scope, edge, decision);
            } else if !self.won.is_empty() {
                self.run_winner();
            } else if self.cancel_race_losers_again() {
                // The cancellation may have opened other executions: look at all queues again.
            } else if let Some(mutex) = self.freed.pop_first() {
                self.admit_next(mutex);
            } else if let Some((scope, at)) = self.idle.pop_last() {
                self.empty(scope, at, false);
            } else if let (true, Some((&at, _))) = (
                self.state.root.is_idle(),
                self.state.root.loops.last_key_value(),
            ) {
                // Nothing can enter a loop once no execution is open.
                self.empty(ScopeNo::ROOT, at, true);
            } else if let Some(scope) = self.quiet.pop_last() {
                self.rest(scope);
            } else {
                return;
            }
        }
    }

    fn arrive(&mut self, scope: ScopeNo, at: EdgeIx, decision: Decision) {
        let Some(edge) = self.graph.edge(at) else {
            return;
        };
        let Some(plan) = self.graph.node(edge.to) else {
            return;
        };
        if self.state.peek(scope).is_none() {
            return;
        }
        if edge.enters.is_some() {
            self.arrive_at_loop_of(scope, edge.to);
        }
        // An entry runs in place of its first round. Only nodes that are skipped at the beginning
        // belong to that round.
        if plan.entry && self.beginning.contains(&scope) {
            return;
        }
        match decision {
            Decision::Taken(run) if edge.backward || plan.inbound.len() <= 1 => {
                self.open(scope, edge.to, Some(at), vec![(edge.from, run)]);
            }
            Decision::Dead if plan.inbound.len() <= 1 => self.skip(scope, edge.to),
            _ => self.join(scope, edge.to, edge.slot, decision),
        }
    }

    /// The executions so far, and those that are open.
    fn ahead(&self) -> u64 {
        self.state
            .steps
            .saturating_add(self.state.open.len() as u64)
    }

    /// Settles the step and sets the status of the run.
    pub(super) fn conclude(mut self, max_steps: u64) -> Vec<Command> {
        while !self.state.status.is_final() {
            self.settle();
            if let Some(node) = self.overflow.take() {
                let failure = failing::too_many_decisions(self.graph, node);
                self.fault(failure);
            } else if self.state.root.is_idle() {
                self.come_to_an_end();
            } else if self.state.steps >= self.most(max_steps) {
                self.fault(failing::too_many_steps(max_steps));
            } else if self.ahead() > self.most(max_steps) {
                let open = self.state.open.len();
                self.fault(failing::too_many_open(self.state.steps, open, max_steps));
            } else {
                self.go_on();
                break;
            }
        }
        self.commands
    }
}
