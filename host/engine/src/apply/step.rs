//! One step: what an execution did to the run, spread to where it comes to rest.

use std::collections::{BTreeSet, VecDeque};

use windlass_model::{Failure, Payload, RunNo, Seq, Status, TriggerType};

use super::{Command, Cx, Stale, after, failing};
use crate::graph::{EdgeIx, Graph, LoopIx, NodeIx, PlanKind};
use crate::state::{Decision, Open, State};

/// A step in the making. Decisions about edges queue up in `work` and are carried to their
/// targets one by one, so that no graph is too deep for it.
pub(super) struct Step<'a> {
    pub(super) graph: &'a Graph,
    pub(super) state: &'a mut State,
    pub(super) now_ms: i64,
    pub(super) commands: Vec<Command>,
    pub(super) work: VecDeque<(EdgeIx, Decision)>,
    /// Loops that may have emptied.
    pub(super) idle: BTreeSet<LoopIx>,
    /// Set when a join holds more than it may.
    pub(super) overflow: Option<NodeIx>,
    beginning: bool,
}

impl<'a> Step<'a> {
    pub(super) fn new(graph: &'a Graph, state: &'a mut State, now_ms: i64) -> Self {
        Self {
            graph,
            state,
            now_ms,
            commands: Vec::new(),
            work: VecDeque::new(),
            idle: BTreeSet::new(),
            overflow: None,
            beginning: false,
        }
    }

    pub(super) fn begin(&mut self) {
        self.beginning = true;
        let graph = self.graph;
        for &entry in graph.entries() {
            self.arrive_at_loop_of(entry);
            self.open(entry, None, TriggerType::Start, Vec::new());
        }
        for &node in &graph.passed_over {
            self.skip(node);
        }
        self.settle();
    }

    /// Takes an open run out of the state, as executed.
    pub(super) fn executed(&mut self, seq: Seq) -> Result<Open, Stale> {
        let open = self.take(seq)?;
        self.state.steps = self.state.steps.saturating_add(1);
        Ok(open)
    }

    /// Takes an open run out of the state.
    pub(super) fn take(&mut self, seq: Seq) -> Result<Open, Stale> {
        let open = self.state.open.remove(&seq).ok_or(Stale)?;
        self.closed(&open);
        Ok(open)
    }

    fn closed(&mut self, open: &Open) {
        if open.waiting {
            self.state.waiting = self.state.waiting.saturating_sub(1);
        }
        if let Some(at) = self.graph.node(open.node).and_then(|plan| plan.innermost) {
            self.leave(at);
        }
    }

    pub(super) fn done(
        &mut self,
        open: Open,
        run: RunNo,
        ports: &[String],
        end: Option<bool>,
        cx: &Cx<'_>,
    ) {
        match self.choose(open.node, ports, cx.values) {
            Ok(taken) => self.complete(&open, run, &taken, end),
            Err(failure) => {
                self.commands.push(Command::Refuted {
                    seq: open.seq,
                    failure: failure.clone(),
                });
                self.failed(open, run, failure, cx);
            }
        }
    }

    /// A node is finished; `taken` says of each outbound edge whether it is taken.
    pub(super) fn complete(&mut self, open: &Open, run: RunNo, taken: &[bool], end: Option<bool>) {
        let Some(plan) = self.graph.node(open.node) else {
            return;
        };
        if plan.named {
            self.state.latest.insert(open.node, run);
        }
        if end.is_some()
            && matches!(
                plan.kind,
                PlanKind::End {
                    output: Some(_),
                    ..
                }
            )
        {
            self.state.output = Some(run);
        }
        if end == Some(true) {
            return self.end(Status::Completed, None);
        }
        for (&edge, &taken) in plan.outbound.iter().zip(taken) {
            self.decide(
                edge,
                if taken {
                    Decision::Taken(run)
                } else {
                    Decision::Dead
                },
            );
        }
    }

    pub(super) fn again(
        &mut self,
        open: Open,
        run: RunNo,
        after_ms: u64,
        left: Option<Payload>,
        cx: &Cx<'_>,
    ) {
        let due_ms = (after_ms > 0).then(|| after(self.now_ms, after_ms));
        if due_ms.is_some_and(|due_ms| self.too_late(&open, due_ms)) {
            return self.out_of_time(open, run, cx);
        }
        self.reopen(Open {
            kind: TriggerType::Loop,
            attempt: 1,
            phase: open.phase.saturating_add(1),
            due_ms,
            left,
            waiting: due_ms.is_some(),
            ..open
        });
    }

    pub(super) fn wait(&mut self, open: Open, run: RunNo, until_ms: i64, cx: &Cx<'_>) {
        if self.too_late(&open, until_ms) {
            return self.out_of_time(open, run, cx);
        }
        self.reopen(Open {
            kind: TriggerType::Timer,
            attempt: 1,
            phase: open.phase.saturating_add(1),
            due_ms: Some(until_ms),
            waiting: true,
            ..open
        });
    }

    pub(super) fn later(&mut self, open: Open, until_ms: i64) {
        // Nobody has executed it, so nobody could report that it is too late: that is for
        // whoever takes it up when its time is over.
        let due_ms = open
            .give_up_ms
            .map_or(until_ms, |give_up_ms| until_ms.min(give_up_ms));
        self.reopen(Open {
            due_ms: Some(due_ms),
            waiting: true,
            ..open
        });
    }

    fn too_late(&self, open: &Open, due_ms: i64) -> bool {
        open.give_up_ms
            .is_some_and(|give_up_ms| due_ms >= give_up_ms)
    }

    fn out_of_time(&mut self, open: Open, run: RunNo, cx: &Cx<'_>) {
        let failure = failing::out_of_time(None);
        self.commands.push(Command::Refuted {
            seq: open.seq,
            failure: failure.clone(),
        });
        self.given_up(open, run, failure, cx);
    }

    /// Opens a run of a node.
    pub(super) fn open(
        &mut self,
        node: NodeIx,
        edge: Option<EdgeIx>,
        kind: TriggerType,
        from: Vec<(NodeIx, RunNo)>,
    ) {
        let total_timeout_ms = self.graph.node(node).and_then(|plan| plan.total_timeout_ms);
        let first = self.state.next_seq;
        self.reopen(Open {
            seq: first,
            first,
            node,
            edge,
            kind,
            attempt: 1,
            phase: 0,
            due_ms: None,
            give_up_ms: total_timeout_ms.map(|ms| after(self.now_ms, ms)),
            from,
            left: None,
            waiting: false,
        });
    }

    /// Puts an open run into the state under a new sequence number.
    pub(super) fn reopen(&mut self, mut open: Open) {
        open.seq = self.next_seq();
        if let Some(at) = self.graph.node(open.node).and_then(|plan| plan.innermost) {
            self.enter(at);
        }
        if open.waiting {
            self.state.waiting = self.state.waiting.saturating_add(1);
        }
        self.state.open.insert(open.seq, open.clone());
        self.commands.push(match open.due_ms {
            None => Command::Run(open),
            Some(_) => Command::Schedule(open),
        });
    }

    fn next_seq(&mut self) -> Seq {
        let seq = self.state.next_seq;
        self.state.next_seq = Seq(seq.0.saturating_add(1));
        seq
    }

    /// An execution that is not wanted any more: nothing of it is taken.
    pub(super) fn cancel(&mut self, seq: Seq) {
        let Ok(open) = self.take(seq) else { return };
        self.fruitless(open.node);
        self.commands.push(Command::Cancel(open));
    }

    /// A node that will not run in this round.
    pub(super) fn skip(&mut self, node: NodeIx) {
        self.commands.push(Command::Skip(node));
        self.fruitless(node);
    }

    /// Nothing comes of this node: it has no output, and no edge of it is taken.
    pub(super) fn fruitless(&mut self, node: NodeIx) {
        let Some(plan) = self.graph.node(node) else {
            return;
        };
        if plan.named {
            self.state.latest.remove(&node);
        }
        if let Some(at) = plan.innermost {
            self.touch(at);
            self.idle.insert(at);
        }
        for &edge in &plan.outbound {
            self.decide(edge, Decision::Dead);
        }
    }

    /// An edge is decided, as far as its node is concerned.
    fn decide(&mut self, at: EdgeIx, decision: Decision) {
        let Some(edge) = self.graph.edge(at) else {
            return;
        };
        match (decision, edge.leaves) {
            (Decision::Dead, _) if edge.backward => {}
            // The loop may yet take it in another round, so this is for its end to say.
            (Decision::Dead, Some(_)) => {}
            (Decision::Dead, None) => self.work.push_back((at, decision)),
            (Decision::Taken(_), leaves) => {
                if let Some(around) = leaves {
                    self.exit(around, at);
                }
                self.work.push_back((at, decision));
            }
        }
    }

    /// Carries decisions to their targets and ends loops that have emptied, inner ones first,
    /// until nothing moves.
    pub(super) fn settle(&mut self) {
        loop {
            if let Some((edge, decision)) = self.work.pop_front() {
                self.arrive(edge, decision);
            } else if let Some(at) = self.idle.pop_last() {
                self.empty(at, false);
            } else if let (true, Some((&at, _))) = (
                self.state.open.is_empty(),
                self.state.loops.last_key_value(),
            ) {
                // Nothing can enter a loop any more once nothing is open.
                self.empty(at, true);
            } else {
                return;
            }
        }
    }

    fn arrive(&mut self, at: EdgeIx, decision: Decision) {
        let Some(edge) = self.graph.edge(at) else {
            return;
        };
        let Some(plan) = self.graph.node(edge.to) else {
            return;
        };
        if edge.enters.is_some() {
            self.arrive_at_loop_of(edge.to);
        }
        // An entry runs in the place of its first round, to which only nodes belong that are
        // skipped at the beginning.
        if self.beginning && self.graph.entries.binary_search(&edge.to).is_ok() {
            return;
        }
        match decision {
            Decision::Taken(run) if edge.backward || plan.inbound.len() <= 1 => {
                self.open(edge.to, Some(at), TriggerType::Next, vec![(edge.from, run)]);
            }
            Decision::Dead if plan.inbound.len() <= 1 => self.skip(edge.to),
            _ => self.join(edge.to, edge.slot, decision),
        }
    }

    /// The run is over; whatever is still open is cancelled.
    pub(super) fn end(&mut self, status: Status, failure: Option<Failure>) {
        let open = std::mem::take(&mut self.state.open);
        self.commands
            .extend(open.into_values().map(Command::Cancel));
        self.state.waiting = 0;
        self.state.timeout = None;
        self.state.joins.clear();
        self.state.loops.clear();
        self.work.clear();
        self.idle.clear();
        self.state.status = status;
        let output = self.state.output.filter(|_| status == Status::Completed);
        self.commands.push(Command::Finish {
            status,
            failure,
            output,
        });
    }

    /// Brings the step to rest and says what the run's status is then.
    pub(super) fn conclude(mut self, max_steps: u64) -> Vec<Command> {
        if self.state.status.is_final() {
            return self.commands;
        }
        self.settle();
        if let Some(node) = self.overflow {
            let failure = failing::too_many_decisions(self.graph, node);
            self.end(Status::Faulted, Some(failure));
        } else if self.state.open.is_empty() {
            match self.half_decided() {
                None => self.end(Status::Completed, None),
                Some(node) => {
                    let failure = failing::half_decided(self.graph, node);
                    self.end(Status::Faulted, Some(failure));
                }
            }
        } else if self.state.steps >= max_steps {
            let failure = failing::too_many_steps(max_steps);
            self.end(Status::Faulted, Some(failure));
        } else {
            self.go_on();
        }
        self.commands
    }

    fn go_on(&mut self) {
        if self.state.status != Status::Paused {
            let all_wait = self.state.waiting as usize >= self.state.open.len();
            self.state.status = if all_wait {
                Status::Suspended
            } else {
                Status::Running
            };
        }
        // Not at creation: a run that is over after one step needs no such trigger.
        if let (None, Some(due_ms)) = (self.state.timeout, self.state.deadline_ms) {
            let seq = self.next_seq();
            self.state.timeout = Some(seq);
            self.commands.push(Command::Timeout { seq, due_ms });
        }
    }
}
