//! From the result of an execution to the commit that records it.

use std::sync::Arc;

use windlass_engine::{
    Command, Event, Judged, NodeIx, Recording, Verdict, Visit, apply_judged, verdict,
};
use windlass_model::{
    Bookmark, ExecutionStatus, Failure, LogLine, Payload, ScopeNo, Seq, ShortBytes, TriggerType,
};
use windlass_store::rows::{ExecutionRow, NewBlob, NewRun};

use super::about::log_about;
use super::commit::Step;
use super::evaluate::{Answer, Evaluations};
use super::gather::Gathered;
use super::halfway::Cut;
use super::memory::Unread;
use super::outcome::{Question, Ran, Settled, with_notes};
use super::owned::{Extras, OwnedRun};
use super::shard_state::ShardState;
use super::work::Address;
use crate::evaluators::Place;
use crate::links::Wait;
use crate::observe::Observed;
use crate::shared::{Base, RuntimeShared};

/// A step that is being settled.
pub(crate) struct Settling {
    pub(super) to: Address,
    /// Why its expressions are not evaluated any more.
    pub(super) cut: Option<Cut>,
    /// The trigger of the run's `timeout`: a run whose output is being rendered has none any more.
    pub(super) timeout: Option<Seq>,
    ran: Ran,
    now_ms: i64,
    random: u64,
    before: Option<Before>,
    scope: ScopeNo,
    waits: Waits,
    is_control: bool,
    asked: Option<Box<Extras>>,
    record: Option<ExecutionRow>,
    /// The large values of its input.
    large: Vec<NewBlob>,
    /// Why the values for its conditions cannot be read.
    unread: Option<Failure>,
    /// The variables that it assigns.
    vars: Vec<(String, Payload)>,
    part: Part,
}

/// How far it is settled.
#[derive(Default)]
enum Part {
    /// It has ended, and nothing has changed.
    Ended(Settled),
    /// Its outcome is an event, and nothing has changed.
    Event(Event),
    /// Its event is applied to the state of the run.
    Applied(Box<Step>),
    #[default]
    Nothing,
}

impl Settling {
    /// Whether it has changed the state of its run.
    pub(super) fn is_applied(&self) -> bool {
        matches!(self.part, Part::Applied(_))
    }
}

impl ShardState {
    /// Applies the result to the run, and queues the commit.
    pub(super) fn settle(
        &mut self,
        to: Address,
        settled: Settled,
        ran: Ran,
        shared: &Arc<RuntimeShared>,
    ) {
        self.settle_at(to, settled, ran, None, shared);
    }

    /// Settles a step that may have its place among the evaluations aside.
    pub(super) fn settle_at(
        &mut self,
        to: Address,
        settled: Settled,
        ran: Ran,
        place: Option<Place>,
        shared: &Arc<RuntimeShared>,
    ) {
        let Some(owned) = self.owned.get_mut(&to.run) else {
            return;
        };
        let settling = owned.settling(to, settled, ran, shared);
        let evaluations = self.new_evaluations(place);
        self.settle_with(settling, evaluations, shared);
    }

    /// Settles a step as far as that is possible now.
    pub(super) fn settle_with(
        &mut self,
        mut settling: Settling,
        mut evaluations: Box<Evaluations>,
        shared: &Arc<RuntimeShared>,
    ) {
        let to = settling.to;
        let Some(owned) = self.owned.get_mut(&to.run) else {
            return;
        };
        std::mem::swap(&mut owned.evaluations, &mut evaluations);
        let step = owned.settle(&mut settling, shared);
        std::mem::swap(&mut owned.evaluations, &mut evaluations);
        if evaluations.is_long() {
            return self.wait_halfway(settling, evaluations, shared);
        }
        let place = self.spare_evaluations(evaluations);
        match step {
            Ok(Some(step)) => self.commit(to, step, place, shared),
            Ok(None) => {}
            Err(error) => self.unwritten(to, &error, shared),
        }
    }
}

/// The node run of an execution.
#[derive(Clone, Copy)]
pub(super) struct Before {
    pub(super) first: Seq,
    pub(super) phase: u32,
    pub(super) kind: TriggerType,
    node: NodeIx,
    visit: Option<Visit>,
}

impl Before {
    /// The wait that follows the execution, if it waits.
    pub(super) fn wait(&self, owned: &OwnedRun) -> Wait {
        let plan = owned.prepared.graph.node(self.node);
        let visit = plan
            .zip(self.visit)
            .map(|(plan, visit)| (&*plan.name, visit));
        Wait::of(owned.id, (self.first, self.phase), visit)
    }
}

impl OwnedRun {
    fn settling(
        &mut self,
        to: Address,
        settled: Settled,
        mut ran: Ran,
        shared: &RuntimeShared,
    ) -> Settling {
        let before = self.state.run_of(to.seq).map(|open| Before {
            first: open.first,
            phase: open.phase,
            kind: open.kind,
            node: open.node,
            visit: self.state.visit_of(open),
        });
        let (mut noted, asked) = match self.held.get_mut(&to.seq) {
            Some(held) => (std::mem::take(&mut held.noted), held.asked.take()),
            None => (Vec::new(), None),
        };
        noted.append(&mut ran.logs);
        let mut large = Vec::new();
        Settling {
            to,
            cut: None,
            timeout: self.state.timeout,
            now_ms: shared.base.clock.wall_ms(),
            random: self.spread(to),
            before,
            scope: self.scope_of(to.seq),
            waits: Waits::of(&settled),
            is_control: matches!(
                settled,
                Settled::Cancel
                    | Settled::CancelNode(_)
                    | Settled::Pause
                    | Settled::Unpause
                    | Settled::Broken(_)
            ),
            asked,
            record: self.record(to, ran.took_us, noted, &mut large),
            large,
            ran,
            unread: None,
            vars: Vec::new(),
            part: Part::Ended(settled),
        }
    }

    /// Settles a step. None: there is nothing to commit, or the step goes aside.
    fn settle(
        &mut self,
        settling: &mut Settling,
        shared: &RuntimeShared,
    ) -> windlass_store::Result<Option<Box<Step>>> {
        self.step = self.step_of(settling.to.seq);
        loop {
            let settled = match std::mem::take(&mut settling.part) {
                Part::Ended(settled) => self.event_of(settling, settled, &shared.base),
                Part::Event(event) => self.judged(settling, event, shared),
                Part::Applied(mut step) => {
                    match self.complete(&mut step, settling.cut.as_ref(), shared) {
                        Ok(()) => return Ok(Some(step)),
                        Err(unread) => {
                            settling.part = Part::Applied(step);
                            Err(unread)
                        }
                    }
                }
                Part::Nothing => return Ok(None),
            };
            match settled {
                Ok(()) => {}
                Err(Unread::Aside) => return Ok(None),
                Err(Unread::Store(error)) => return Err(error),
                Err(Unread::Value(failure)) => self.unreadable(settling, failure),
            }
        }
    }

    /// Makes an event of the outcome.
    fn event_of(
        &mut self,
        settling: &mut Settling,
        settled: Settled,
        base: &Base,
    ) -> Result<(), Unread> {
        let verdict = match (&settled, &settling.record) {
            (Settled::Failed(failure), Some(_)) => {
                let at = (settling.now_ms, settling.random);
                match self.verdict(settling.to.seq, settling.scope, failure, at, base) {
                    Ok(verdict) => Some(verdict),
                    Err(unread) => {
                        settling.part = Part::Ended(settled);
                        return Err(unread);
                    }
                }
            }
            _ => None,
        };
        let patch = std::mem::take(&mut settling.ran.patch);
        let record = &mut settling.record;
        let (event, vars) = self.recorded(settling.to, settled, verdict, patch, record);
        (settling.vars, settling.part) = (vars, Part::Event(event));
        Ok(())
    }

    /// Fails a node because the values for its conditions cannot be read.
    fn unreadable(&mut self, settling: &mut Settling, failure: Failure) {
        let Some(row) = &mut settling.record else {
            return;
        };
        let at = (settling.now_ms, settling.random);
        // The values for the conditions about the failure may be missing as well.
        let verdict = match self.state.run_of(settling.to.seq) {
            Some(open) => verdict(
                &self.prepared.graph,
                open,
                &failure,
                at.0,
                at.1,
                Err(&failure),
            ),
            None => Verdict::Fail(failure.clone()),
        };
        fail(row, &with_notes(failure.clone(), &verdict));
        settling.vars = Vec::new();
        settling.part = Part::Event(Event::Failed {
            seq: settling.to.seq,
            run: row.no,
            verdict,
        });
        settling.unread = Some(failure);
    }

    /// Evaluates the conditions, and applies the event to the state.
    fn judged(
        &mut self,
        settling: &mut Settling,
        event: Event,
        shared: &RuntimeShared,
    ) -> Result<(), Unread> {
        let judged = match self.judge(settling, &event, shared) {
            Ok(judged) => judged,
            Err(unread) => {
                settling.part = Part::Event(event);
                return Err(unread);
            }
        };
        let (to, now_ms) = (settling.to, settling.now_ms);
        let mut step = Step::new(settling.before, now_ms);
        let has_failed = matches!(event, Event::Failed { .. }) || judged.refutes();
        if has_failed || shared.base.spans.is_some() {
            // The item's scope may end with the step.
            step.item = self.position(settling.scope);
        }
        let graph = Arc::clone(&self.prepared);
        let at = (now_ms, shared.bursts.max_steps);
        let record = settling.record.as_ref();
        let failure = record.and_then(|record| record.failure.as_ref());
        let recording = Recording::of(&event, &judged, failure, at);
        match apply_judged(&graph.graph, &mut self.state, event, judged, at) {
            Ok(commands) => {
                step.commands = commands;
                step.event = recording.map(|event| self.noted(event));
            }
            // A control trigger whose target has ended is used up.
            Err(_) if settling.is_control => {
                settling.part = Part::Applied(step);
                return Ok(());
            }
            Err(_) => {
                log_about!(debug, self.about(to.seq), "a result came too late");
                return Ok(());
            }
        }
        let mut record = settling.record.take();
        if let Some(record) = &mut record {
            record.skipped = skipped(&step.commands);
            self.keep_or_refute(record, &step.commands);
            if let Some(failure) = &record.failure {
                log_about!(debug, self.about(to.seq), code = %failure.code, error = failure.message, "attempt failed");
            }
            self.observe(record, shared);
        }
        // A failed attempt leaves only its failure.
        let failed = record
            .as_ref()
            .is_some_and(|record| record.failure.is_some());
        if !failed {
            let (vars, scope) = (std::mem::take(&mut settling.vars), settling.scope);
            // The workflow's output may use variables that this step assigned.
            self.memory.assign(scope, &vars);
            step.vars = vars
                .into_iter()
                .map(|(name, value)| (scope, name, value))
                .collect();
            let blobs = std::mem::take(&mut settling.ran.blobs).into_iter();
            step.blobs = blobs
                .map(|(digest, bytes)| NewBlob { digest, bytes })
                .collect();
            step.effects = std::mem::take(&mut settling.ran.effects);
            step.bookmarks = std::mem::take(&mut settling.waits.bookmarks);
            step.child = settling.waits.child.take();
        }
        if record.is_some() {
            step.blobs.append(&mut settling.large);
        }
        let asked = settling.asked.take();
        if let Some(asked) = asked.filter(|asked| !failed || asked.rejects) {
            step.ask_first(*asked);
        }
        step.record = record;
        settling.part = Part::Applied(step);
        Ok(())
    }

    /// An event, with what has changed since the one before.
    fn noted(&mut self, mut event: Recording) -> Recording {
        let beside = std::mem::take(&mut self.beside);
        event.beside(beside.afresh, beside.admitted);
        event
    }

    /// What the conditions decide about an event.
    fn judge(
        &mut self,
        settling: &Settling,
        event: &Event,
        shared: &RuntimeShared,
    ) -> Result<Judged, Unread> {
        let base = &shared.base;
        if let Some(Answer::Judged(judged)) = self.evaluations.answer() {
            return judged.map_err(Unread::Value);
        }
        let (Some(row), Some(seq)) = (&settling.record, event.execution()) else {
            return Ok(Judged::default());
        };
        let (scope, node) = (settling.scope, NodeIx(row.node));
        let (after, failing) = match (&settling.unread, &row.output) {
            (Some(failure), _) => (None, Some(Err(failure.clone()))),
            (None, Some(output)) => {
                let after = self.after(scope, node, output, &settling.vars, base)?;
                (after, self.failing(scope, node, base)?)
            }
            (None, None) => (None, self.failing(scope, node, base)?),
        };
        let json_bytes = |gathered: &Gathered| gathered.json_bytes();
        let of_failing = failing.as_ref().and_then(|failing| failing.as_ref().ok());
        let bytes = after.as_ref().map_or(0, json_bytes) + of_failing.map_or(0, json_bytes);
        let evaluations = &mut self.evaluations;
        let is_inline = evaluations.is_inline(bytes, base);
        let mut question = Question {
            after: evaluations.sight(after, base),
            failing: failing.map(|known| known.map(|known| evaluations.sight(Some(known), base))),
            now_ms: settling.now_ms,
            random: settling.random,
        };
        let Some(open) = self.state.run_of(seq) else {
            return Ok(Judged::default());
        };
        if is_inline {
            let slice = evaluations.slice(base);
            if let Some(judged) = question.judged(&self.prepared.graph, open, event, slice) {
                return judged.map_err(Unread::Value);
            }
        }
        let (prepared, open, event) = (Arc::clone(&self.prepared), open.clone(), event.clone());
        Err(evaluations.ask_aside(move |interrupt| {
            let judged = question.judged(&prepared.graph, &open, &event, interrupt);
            judged.map(Answer::Judged)
        }))
    }

    /// A number that spreads retries: different for every trigger of every run, and the same
    /// when a step is repeated.
    pub(super) fn spread(&self, to: Address) -> u64 {
        use std::hash::{Hash as _, Hasher as _};
        let mut hasher = rustc_hash::FxHasher::default();
        (self.id.0.as_u128(), to.seq.0).hash(&mut hasher);
        // The lower bits of this hash are weak, so they are mixed as by splitmix64.
        let mixed = hasher.finish();
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 31)
    }

    /// The record of the execution, as far as it is known before the outcome.
    fn record(
        &mut self,
        to: Address,
        took_us: u64,
        logs: Vec<LogLine>,
        large: &mut Vec<NewBlob>,
    ) -> Option<ExecutionRow> {
        let got = self.held.get_mut(&to.seq).and_then(|held| held.got.take());
        let open = self.state.run_of(to.seq)?;
        let no = self.numbers.execution()?;
        Some(ExecutionRow {
            inputs: self.inputs_of(open, got, no, large),
            no,
            run: self.no,
            previous: self.last_execution,
            seq: to.seq,
            first: open.first,
            node: open.node.0,
            kind: open.kind,
            attempt: open.attempt,
            status: ExecutionStatus::Completed,
            started_ms: to.started_ms,
            took_us,
            output: None,
            failure: None,
            logs,
            skipped: Vec::new(),
            event: ShortBytes::new(),
        })
    }

    /// Keeps the output, unless a condition of an edge turned the result into a failure.
    fn keep_or_refute(&mut self, record: &mut ExecutionRow, commands: &[Command]) {
        let refuted = commands.iter().find_map(|command| match command {
            Command::Refuted { failure, .. } => Some(failure),
            _ => None,
        });
        if let Some(failure) = refuted {
            fail(record, failure);
            let again = commands.iter().any(|command| {
                matches!(command, Command::Run(open) | Command::Schedule(open)
                    if open.first == record.first && open.kind == TriggerType::Retry)
            });
            if again {
                record.status = ExecutionStatus::WaitingRetry;
            }
        }
        if let Some(output) = &record.output {
            self.memory.keep(record.no, output.clone());
        }
    }

    fn observe(&self, record: &ExecutionRow, shared: &RuntimeShared) {
        let Some(observer) = &shared.listeners.observer else {
            return;
        };
        let name = |node: u32| {
            self.prepared
                .graph
                .node(NodeIx(node))
                .map_or("?", |plan| plan.name.as_str())
        };
        let skipped: Vec<&str> = record.skipped.iter().map(|node| name(*node)).collect();
        observer.observe(&Observed::Executed {
            run: self.id,
            node: name(record.node),
            kind: record.kind,
            attempt: record.attempt,
            status: record.status,
            failure: record.failure.as_ref(),
            skipped: &skipped,
            took_us: record.took_us,
        });
    }
}

/// The ways in which a node run can be resumed.
#[derive(Default)]
struct Waits {
    bookmarks: Vec<Bookmark>,
    child: Option<Box<NewRun>>,
}

impl Waits {
    fn of(settled: &Settled) -> Self {
        match settled {
            Settled::Suspended { bookmarks, .. } => Self {
                bookmarks: bookmarks.clone(),
                child: None,
            },
            Settled::Child(child) => Self {
                bookmarks: Vec::new(),
                child: Some(child.clone()),
            },
            _ => Self::default(),
        }
    }
}

fn fail(row: &mut ExecutionRow, failure: &Failure) {
    row.status = ExecutionStatus::Failed;
    row.failure = Some(failure.clone());
    row.output = None;
}

fn skipped(commands: &[Command]) -> Vec<u32> {
    commands
        .iter()
        .filter_map(|command| match command {
            Command::Skip(node) => Some(node.0),
            _ => None,
        })
        .collect()
}
