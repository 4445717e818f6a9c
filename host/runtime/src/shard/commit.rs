//! Prepares the commit of a step: one transaction with all its results.

use std::sync::Arc;

use bytes::Bytes;
use windlass_engine::{Command, Open, Recording};
use windlass_model::definition::CommitStrategy;
use windlass_model::metrics::RunEvent;
use windlass_model::{
    Bookmark, ExecutionStatus, Failure, Payload, RunId, ScopeNo, Seq, ShortBytes, Status, Token,
    TriggerNo, TriggerType,
};
use windlass_plugins::Effects;
use windlass_store::letters::{DeadTrigger, NewDeadLetter};
use windlass_store::rows::{ExecutionRow, JournalRow, NewBlob, NewRun, NewTrigger, Suspicion};
use windlass_store::write::{Commit, Finish, NewItem, Removed};

use super::got::Got;
use super::owned::{External, Extras, HeldTrigger, OwnedRun, Stage, len_of};
use super::ready::HEAVY_BYTES;
use super::settle::Before;
use super::shard_state::{ShardState, Then};
use super::work::Address;
use crate::catalog::is_pure;
use crate::derived;
use crate::evaluators::Place;
use crate::outputs::Awaited;
use crate::shared::RuntimeShared;
use crate::wait::{End, RunResult};

/// The bytes of a write for which its step keeps its place among the evaluations aside.
const LARGE_WRITE: usize = 1024 * 1024;

/// The results of a step, ready to be committed.
#[derive(Default)]
pub(super) struct Step {
    /// The node run of the step, in its earlier state.
    pub(super) before: Option<Before>,
    pub(super) record: Option<ExecutionRow>,
    /// The event of the step; none if it leaves the state as it was.
    pub(super) event: Option<Recording>,
    pub(super) commands: Vec<Command>,
    /// The number of commands whose outputs of items are rendered.
    pub(super) carried: usize,
    pub(super) vars: Vec<(ScopeNo, String, Payload)>,
    pub(super) blobs: Vec<NewBlob>,
    pub(super) effects: Effects,
    /// The bookmarks for which the node run waits now.
    pub(super) bookmarks: Vec<Bookmark>,
    /// The child for which the node run waits now.
    pub(super) child: Option<Box<NewRun>>,
    pub(super) items: Vec<NewItem>,
    pub(super) lists_done: Vec<Seq>,
    pub(super) dead: Vec<NewDeadLetter>,
    /// Further rows to be removed.
    pub(super) removed: Vec<Removed>,
    /// When an external trigger is offered again, in epoch milliseconds.
    pub(super) again_ms: Option<i64>,
    pub(super) now_ms: i64,
    /// How the run ends, if the step ends it.
    pub(super) finish: Option<Ending>,
    /// The item of a failed execution, and of every one whose spans are exported: its positions in the
    /// lists around it, the outermost first. Empty outside of every for-each.
    pub(super) item: Vec<u32>,
}

impl Step {
    /// An empty step, of a node run or of none. It is large and passes through many hands.
    pub(super) fn new(before: Option<Before>, now_ms: i64) -> Box<Self> {
        let mut step = Box::<Self>::default();
        (step.before, step.now_ms) = (before, now_ms);
        step
    }

    /// Puts the consumer's requests before those of the node.
    pub(super) fn ask_first(&mut self, asked: Extras) {
        let Extras { effects, blobs, .. } = asked;
        let by_node = std::mem::replace(&mut self.effects, effects);
        self.effects.sent.extend(by_node.sent);
        self.effects.scheduled.extend(by_node.scheduled);
        let blobs = blobs.into_iter();
        self.blobs
            .extend(blobs.map(|(digest, bytes)| NewBlob { digest, bytes }));
    }
}

/// How a run ends.
pub(super) struct Ending {
    pub(super) status: Status,
    pub(super) output: Option<Payload>,
    pub(super) failure: Option<Failure>,
}

/// The rows that result from the commands of a step.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) triggers: Vec<NewTrigger>,
    removed: Vec<Removed>,
    /// With what each has got.
    cancelled: Vec<(Open, Option<Box<Got>>)>,
    journal: Vec<JournalRow>,
    dispatch: Vec<Seq>,
    /// Successors that begin before the commit is durable.
    ahead: Vec<Seq>,
    due_ms: Vec<i64>,
    burned: Vec<Seq>,
    cancels: Vec<RunId>,
    /// The row that waits for a bookmark or a child from now on.
    waits: Option<(TriggerNo, Seq)>,
    /// Whether the node run of the step continues in the same phase.
    same_phase: bool,
}

impl Rows {
    /// Whether no successor is claimed.
    fn has_no_successor(&self) -> bool {
        self.dispatch.is_empty() && self.ahead.is_empty()
    }
}

/// The trigger that a step uses up, and its node run.
struct Used {
    held: HeldTrigger,
    before: Option<Before>,
    now_ms: i64,
}

impl ShardState {
    /// Queues the commit of a step for the next batch. With much data, the step keeps its place among
    /// the evaluations aside until the commit is durable.
    pub(super) fn commit(
        &mut self,
        to: Address,
        step: Box<Step>,
        place: Option<Place>,
        shared: &Arc<RuntimeShared>,
    ) {
        windlass_model::failpoint::pass("before-commit");
        if !step.bookmarks.is_empty() {
            windlass_model::failpoint::pass("before-bookmark");
        }
        let Some(owned) = self.owned.get_mut(&to.run) else {
            return;
        };
        if shared.intake.states.is_full() {
            // A run that has grown in this step leaves with it.
            owned.weigh(&shared.base.metrics);
        }
        let Some((commit, then, ahead)) = owned.commit(to, step, shared) else {
            tracing::error!(run = %owned.id, "the numbers of this membership are used up");
            shared
                .intake
                .scheduler
                .send(crate::scheduler::core::Event::Lost);
            return;
        };
        owned.memory.count(&shared.base.metrics);
        owned.weigh(&shared.base.metrics);
        let bytes = self.push((to.run, to.epoch), then, commit);
        if bytes > LARGE_WRITE {
            self.keep_place(place);
        }
        if bytes > HEAVY_BYTES {
            self.becomes_heavy(to.run, shared);
        }
        for seq in ahead {
            self.start_ahead(to.run, seq, shared);
        }
    }
}

impl OwnedRun {
    fn commit(
        &mut self,
        to: Address,
        mut step: Box<Step>,
        shared: &Arc<RuntimeShared>,
    ) -> Option<(Commit, Then, Vec<Seq>)> {
        let now_ms = step.now_ms;
        let used = Used {
            held: self.held.remove(&to.seq)?,
            before: step.before,
            now_ms,
        };
        shared.intake.finished();
        self.new_place = None;
        self.burst
            .count(shared.bursts.bounds, shared.base.clock.monotonic());
        let mut rows = Rows::default();
        let troubles = self.troubles(to, &step);
        for command in std::mem::take(&mut step.commands) {
            self.carry_out(command, &used, &mut rows, shared)?;
        }
        self.go_on(to, &step, &used, &mut rows)?;
        let sends = self.sends(to, &step, &shared.base);
        let has_record = step.record.is_some();
        let mut runs = self.records(
            step.record.take(),
            std::mem::take(&mut rows.cancelled),
            now_ms,
            &mut step.blobs,
        )?;
        let (bookmarks, children) = self.waits(&mut step, &rows, shared);
        let fence = self.fence();
        self.version.0 += 1;
        if let Some(event) = step.event.take() {
            let event = event.after(&self.state);
            match runs.first_mut().filter(|_| has_record) {
                Some(row) => row.event = event.encode(self.version, row.started_ms),
                None => {
                    let event = event.encode(self.version, 0);
                    rows.journal.push(JournalRow::event(now_ms, &event));
                }
            }
        }
        self.unacknowledged += 1;
        self.memory.submits();
        let finish = step.finish.as_ref().map(|ending| Finish {
            output: ending.output.clone(),
            failure: ending.failure.clone(),
        });
        let ended = step.finish.take().map(|ending| self.ended(ending));
        let result = ended.as_ref().map(|end| &end.result);
        let spans = self.spans(&runs, &step.item, (result, now_ms), &shared.base);
        let release = ended.is_none() && self.is_to_go();
        self.leaving = release || ended.is_some();
        let metrics = &shared.base.metrics;
        for record in &runs {
            self.prepared.count_execution(record, metrics);
        }
        if release && self.state.status == Status::Suspended {
            self.prepared.count(RunEvent::Suspended, metrics);
        }
        if ended.is_some() {
            shared.listeners.waiters.ends(self.no, self.id);
        }
        if ended.is_some() {
            self.let_go(shared);
            let unheard = self.unwritten(&rows);
            let unheard = unheard.map(|dead| NewDeadLetter::stale(dead, now_ms));
            step.dead.extend(unheard);
        }
        rows.removed.extend(used.held.replaces);
        rows.removed.append(&mut step.removed);
        let then = Then::Committed {
            seq: to.seq,
            dispatch: rows.dispatch,
            due_ms: rows.due_ms,
            suspect: (used.held.suspicion != Suspicion::None).then_some(to.seq),
            ended,
            sent: !sends.is_empty(),
            given: Awaited::of_step(&mut self.awaited, &runs),
            troubles,
            spans,
        };
        let scopes = self.state.drain_scopes().into_iter();
        let commit = Commit {
            fence,
            trigger: used.held.fence(),
            status: self.state.status,
            state: Bytes::from(self.state.encode()),
            executions: runs,
            triggers: rows.triggers,
            removed: rows.removed,
            vars: step.vars,
            scopes: scopes
                .map(|(no, bytes)| (no, bytes.map(Bytes::from)))
                .collect(),
            items: step.items,
            lists_done: step.lists_done,
            burned: rows.burned,
            bookmarks,
            sends,
            children,
            tree: self.tree_bound(shared.bursts.max_descendants),
            cancels: rows.cancels,
            dead: step.dead,
            blobs: step.blobs,
            journal: rows.journal,
            finish,
            release,
            at_ms: now_ms,
        };
        Some((commit, then, rows.ahead))
    }

    /// The resumptions in rows that the step would have written if it had not ended the run. The
    /// rows are not written, so the store does not know these resumptions.
    fn unwritten(&self, rows: &Rows) -> impl Iterator<Item = DeadTrigger> {
        let run = self.no;
        let resumes = rows.triggers.iter().filter(|new| new.resumes());
        resumes.map(move |new| DeadTrigger {
            run,
            seq: new.seq,
            kind: new.kind,
            node: new.node,
            priority: new.priority,
            payload: new.payload.clone(),
            detail: new.detail.clone(),
        })
    }

    /// The end that the commit of this version makes.
    fn ended(&mut self, ending: Ending) -> End {
        self.state.status = ending.status;
        End {
            no: self.no,
            version: self.version,
            result: RunResult {
                id: self.id,
                status: ending.status,
                output: ending.output,
                failure: ending.failure,
            },
        }
    }

    /// Whether the run is given back with this step: nothing of it is left to run here, or no
    /// execution may begin and none is in progress.
    fn is_to_go(&self) -> bool {
        if self.is_halted() {
            !self.is_running()
        } else {
            !self.held.values().any(HeldTrigger::is_claimed)
        }
    }

    fn carry_out(
        &mut self,
        command: Command,
        used: &Used,
        rows: &mut Rows,
        shared: &Arc<RuntimeShared>,
    ) -> Option<()> {
        match command {
            Command::Run(open) | Command::Schedule(open) => {
                self.write_open(&open, used, rows, shared)?;
            }
            Command::Timeout { seq, due_ms } => {
                let trigger = NewTrigger {
                    no: TriggerNo(0),
                    seq,
                    kind: TriggerType::Timer,
                    node: None,
                    due_ms,
                    claimed: false,
                    attempt: 1,
                    detail: Bytes::new(),
                    payload: None,
                    priority: 0,
                };
                self.write_trigger(trigger, &used.held, rows)?;
            }
            Command::Cancel(open) => self.cancel(open, rows, shared),
            Command::Incident { seq, node, failure } => {
                let name = self
                    .prepared
                    .graph
                    .node(node)
                    .map_or("?", |plan| plan.name.as_str());
                let detail = serde_json::json!({ "seq": seq.0, "node": name, "failure": failure });
                let detail = Bytes::from(detail.to_string());
                rows.journal.push(JournalRow {
                    at_ms: used.now_ms,
                    kind: "incident".to_owned(),
                    detail,
                });
            }
            // The other commands were carried out before.
            Command::Skip(_)
            | Command::Refuted { .. }
            | Command::Finish { .. }
            | Command::OpenScope { .. }
            | Command::CloseScope(_)
            | Command::Emit { .. }
            | Command::DropList(_) => {}
        }
        Some(())
    }

    /// Cancels an open execution, and its wait.
    fn cancel(&mut self, open: Open, rows: &mut Rows, shared: &RuntimeShared) {
        let mut got = None;
        if let Some(mut held) = self.held.remove(&open.seq) {
            held.leaves(self.no, open.seq, shared);
            got = held.got.take();
            rows.removed.push(Removed::unused(held.no));
            rows.removed.extend(held.replaces);
        }
        match open.kind {
            TriggerType::Resume => rows.burned.push(open.first),
            TriggerType::Child => {
                let child = derived::child(self.id, open.first, open.phase);
                rows.cancels.push(child);
            }
            _ => {}
        }
        rows.cancelled.push((open, got));
    }

    /// Writes the trigger row of an open execution. If there is room here, the row is written as
    /// claimed, and dispatched as soon as the commit is durable.
    fn write_open(
        &mut self,
        open: &Open,
        used: &Used,
        rows: &mut Rows,
        shared: &Arc<RuntimeShared>,
    ) -> Option<()> {
        let run = used.before.filter(|before| before.first == open.first);
        let same_phase = run.is_some_and(|before| before.phase == open.phase);
        let mut payload = used.held.given.clone().filter(|_| same_phase);
        let mut due_ms = open.due_ms;
        if open.kind == TriggerType::Resume
            && !same_phase
            && let Some(given) = self.take_late(open.first, rows, shared)
        {
            // A resumption arrived while the node run was not waiting.
            (payload, due_ms) = (Some(given), None);
        }
        let begins = due_ms.is_none()
            && !self.is_halted()
            && !shared.intake.begins_nothing()
            && !self.memory.is_to_leave(&shared.intake.states);
        let flow = &shared.intake.flow;
        let has_place = begins && flow.try_take();
        let claimed = has_place || (begins && rows.has_no_successor() && flow.hand_on());
        let due_ms = due_ms.unwrap_or(used.now_ms);
        if has_place && self.runs_ahead(open, shared) {
            rows.ahead.push(open.seq);
        } else if claimed {
            rows.dispatch.push(open.seq);
        } else if due_ms != i64::MAX {
            rows.due_ms.push(due_ms);
        }
        let priority = self
            .prepared
            .graph
            .node(open.node)
            .map_or(0, |plan| plan.priority);
        // An external trigger that was postponed keeps its own row.
        let external = used
            .held
            .external
            .as_ref()
            .filter(|_| open.seq.is_external());
        let trigger = match external {
            Some(external) => external_row(external, open.seq, due_ms, payload),
            None => NewTrigger {
                no: TriggerNo(0),
                seq: open.seq,
                kind: open.kind,
                node: Some(open.node.0),
                due_ms,
                claimed,
                attempt: open.attempt,
                detail: Bytes::from(open.encode_detail()),
                payload,
                priority,
            },
        };
        rows.same_phase |= same_phase;
        let no = self.write_trigger(trigger, &used.held, rows)?;
        if let Some(held) = self.held.get_mut(&open.seq) {
            held.external = external.cloned();
        }
        if run.is_some() && matches!(open.kind, TriggerType::Resume | TriggerType::Child) {
            rows.waits = Some((no, open.seq));
        }
        Some(())
    }

    /// Whether an execution may begin before the commit that leads to it is durable. Commits become
    /// durable in their order, so every other successor begins only after all of them are durable.
    fn runs_ahead(&self, open: &Open, shared: &RuntimeShared) -> bool {
        let graph = &self.prepared.graph;
        if self.is_careful || graph.options().commit != CommitStrategy::Burst {
            return false;
        }
        let node = self.prepared.executor(open.node);
        let route = graph.node(open.node).and_then(|plan| plan.route.as_deref());
        let consumer = shared.base.plugins.registry().consumer(open.kind, route);
        node.is_some_and(|node| node.pure) && consumer.is_some_and(|plugin| is_pure(&plugin))
    }

    /// Takes a resumption that arrived while the node run was not waiting.
    fn take_late(&mut self, first: Seq, rows: &mut Rows, shared: &RuntimeShared) -> Option<Bytes> {
        let seq = self.late_for(first)?;
        let held = self.held.remove(&seq)?;
        held.leaves(self.no, seq, shared);
        self.gone.insert(seq);
        rows.removed.push(Removed::used(held.no));
        held.given
    }

    fn write_trigger(
        &mut self,
        mut trigger: NewTrigger,
        used: &HeldTrigger,
        rows: &mut Rows,
    ) -> Option<TriggerNo> {
        // The first successor replaces the row that is used up.
        let (no, token) = if rows.triggers.is_empty() {
            (used.no, used.token.0)
        } else {
            (self.numbers.trigger()?, 0)
        };
        // The token counts the claims of a row.
        let token = Token(token + i64::from(trigger.claimed));
        trigger.no = no;
        let stage = if trigger.claimed {
            Stage::Written
        } else {
            Stage::Waiting
        };
        let held = HeldTrigger {
            given: trigger.payload.clone(),
            detail: len_of(&trigger.detail),
            ..HeldTrigger::new(no, token, stage)
        };
        self.held.insert(trigger.seq, held);
        rows.triggers.push(trigger);
        Some(no)
    }

    /// Writes the other consequences of a step: triggers that a guest scheduled, an external
    /// trigger that is offered again, and the end of bookmarks.
    fn go_on(&mut self, to: Address, step: &Step, used: &Used, rows: &mut Rows) -> Option<()> {
        if let (Some(again_ms), Some(external)) = (step.again_ms, &used.held.external) {
            let trigger = external_row(external, to.seq, again_ms, used.held.given.clone());
            rows.due_ms.push(again_ms);
            self.write_trigger(trigger, &used.held, rows)?;
            if let Some(held) = self.held.get_mut(&to.seq) {
                held.external = Some(external.clone());
            }
        }
        if let Some(before) = used.before
            && before.phase > 0
            && matches!(before.kind, TriggerType::Resume | TriggerType::Retry)
            && !rows.same_phase
        {
            rows.burned.push(before.first);
        }
        if let Some(before) = used.before
            && before.kind == TriggerType::Child
            && used.held.given.is_none()
            && step.record.is_some()
        {
            // The child has not ended in time, and the node does not wait for it any more.
            let child = derived::child(self.id, before.first, before.phase);
            rows.cancels.push(child);
        }
        if step.finish.is_none() {
            self.schedule(step, used, rows)?;
        }
        Some(())
    }

    /// Writes the triggers that a guest scheduled for its own run.
    fn schedule(&mut self, step: &Step, used: &Used, rows: &mut Rows) -> Option<()> {
        for scheduled in &step.effects.scheduled {
            let no = self.numbers.trigger()?;
            let seq = Seq::external(no);
            let node = self.prepared.graph.find(&scheduled.node);
            let external = External {
                kind: TriggerType::Timer,
                node: node.map(|node| node.0),
                priority: 0,
                detail: Bytes::new(),
                due_ms: scheduled.at_ms,
            };
            let vars = scheduled.vars.as_ref();
            let given = vars.and_then(|vars| vars.inline().cloned());
            let mut trigger = external_row(&external, seq, scheduled.at_ms, given);
            trigger.no = no;
            let held = HeldTrigger {
                given: trigger.payload.clone(),
                external: Some(Box::new(external)),
                ..HeldTrigger::new(no, Token(0), Stage::Waiting)
            };
            if rows.triggers.is_empty() {
                // No other row replaces the row that is used up, so that row is turned into this
                // one, under the number of the used row.
                let (used_no, token) = (used.held.no, used.held.token);
                trigger.no = used_no;
                self.held.insert(
                    seq,
                    HeldTrigger {
                        no: used_no,
                        token,
                        ..held
                    },
                );
            } else {
                self.held.insert(seq, held);
            }
            rows.due_ms.push(scheduled.at_ms);
            rows.triggers.push(trigger);
        }
        Some(())
    }

    /// The bookmarks and the child for which a node run waits, tied to its row.
    fn waits(
        &self,
        step: &mut Step,
        rows: &Rows,
        shared: &RuntimeShared,
    ) -> (Vec<windlass_store::stimuli::NewBookmark>, Vec<NewRun>) {
        let (Some((no, seq)), Some(before)) = (rows.waits, step.before) else {
            return (Vec::new(), Vec::new());
        };
        let run = (before.first, before.phase);
        let bookmarks = std::mem::take(&mut step.bookmarks);
        let wait = (!bookmarks.is_empty()).then(|| before.wait(self));
        let bookmarks = wait.map_or_else(Vec::new, |wait| {
            self.bookmarks(&bookmarks, run, wait, no, step.now_ms)
        });
        let child = step.child.take().map(|child| self.tie(*child, no, seq));
        if let Some(child) = &child {
            shared.intake.claim_too(child.no);
        }
        (bookmarks, child.into_iter().collect())
    }

    /// The execution records of a step: of the execution, and of those that it cancelled.
    fn records(
        &mut self,
        record: Option<ExecutionRow>,
        cancelled: Vec<(Open, Option<Box<Got>>)>,
        now_ms: i64,
        blobs: &mut Vec<NewBlob>,
    ) -> Option<Vec<ExecutionRow>> {
        let mut runs = Vec::with_capacity(usize::from(record.is_some()) + cancelled.len());
        if let Some(record) = record {
            self.last_execution = Some(record.no);
            runs.push(record);
        }
        for (open, got) in cancelled {
            let no = self.numbers.execution()?;
            runs.push(ExecutionRow {
                inputs: self.inputs_of(&open, got, no, blobs),
                no,
                run: self.no,
                previous: self.last_execution.replace(no),
                seq: open.seq,
                first: open.first,
                node: open.node.0,
                kind: open.kind,
                attempt: open.attempt,
                status: ExecutionStatus::Cancelled,
                started_ms: now_ms,
                took_us: 0,
                output: None,
                failure: None,
                logs: Vec::new(),
                skipped: Vec::new(),
                event: ShortBytes::new(),
            });
        }
        Some(runs)
    }

    /// Drops all triggers of a run that has ended.
    fn let_go(&mut self, shared: &RuntimeShared) {
        for (seq, held) in std::mem::take(&mut self.held) {
            held.leaves(self.no, seq, shared);
        }
    }
}

/// The row of an external trigger.
fn external_row(external: &External, seq: Seq, due_ms: i64, payload: Option<Bytes>) -> NewTrigger {
    NewTrigger {
        no: TriggerNo(0),
        seq,
        kind: external.kind,
        node: external.node,
        due_ms,
        claimed: false,
        attempt: 1,
        detail: external.detail.clone(),
        payload,
        priority: external.priority,
    }
}
