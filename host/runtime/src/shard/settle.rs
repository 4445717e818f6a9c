//! From the result of an execution to the commit that records it.

use std::sync::Arc;

use windlass_engine::{Command, Cx, Event, NodeIx, Visit, apply};
use windlass_model::{Bookmark, ExecutionStatus, Failure, LogLine, Seq, TriggerType};
use windlass_store::rows::{ExecutionRow, NewBlob, NewRun};

use super::about::log_about;
use super::commit::Step;
use super::memory::Unread;
use super::outcome::{Prepared, Ran, Settled, about_failure, with_notes};
use super::owned::OwnedRun;
use super::shard_state::ShardState;
use super::work::Address;
use crate::links::Wait;
use crate::observe::Observed;
use crate::shared::RuntimeShared;

impl ShardState {
    /// Applies the result to the run, and queues the commit.
    pub(super) fn settle(
        &mut self,
        to: Address,
        settled: Settled,
        ran: Ran,
        shared: &Arc<RuntimeShared>,
    ) {
        let step = match self.owned.get_mut(&to.run) {
            Some(owned) => owned.settle(to, settled, ran, shared),
            None => return,
        };
        match step {
            Ok(Some(step)) => self.commit(to, step, shared),
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
    fn settle(
        &mut self,
        to: Address,
        settled: Settled,
        ran: Ran,
        shared: &RuntimeShared,
    ) -> windlass_store::Result<Option<Step>> {
        self.after = None;
        let now_ms = shared.base.clock.wall_ms();
        let random = self.spread(to);
        let before = self.state.run_of(to.seq).map(|open| Before {
            first: open.first,
            phase: open.phase,
            kind: open.kind,
            node: open.node,
            visit: self.state.visit_of(open),
        });
        self.step = self.step_of(to.seq);
        let scope = self.scope_of(to.seq);
        let waits = Waits::of(&settled);
        let control = matches!(
            settled,
            Settled::Cancel
                | Settled::CancelNode(_)
                | Settled::Pause
                | Settled::Unpause
                | Settled::Broken(_)
        );
        let (mut noted, asked) = match self.held.get_mut(&to.seq) {
            Some(held) => (std::mem::take(&mut held.noted), held.asked.take()),
            None => (Vec::new(), None),
        };
        noted.extend(ran.logs);
        let mut record = self.record(to, ran.took_us, noted);
        let prepared = self.prepare(
            to,
            settled,
            ran.patch,
            &mut record,
            (now_ms, random),
            &shared.base,
        );
        let Prepared {
            event,
            values,
            failing,
            vars,
        } = match prepared {
            Ok(prepared) => prepared,
            Err(Unread::Store(error)) => return Err(error),
            Err(Unread::Value(failure)) => {
                // The values for the conditions cannot be read, so the node has failed.
                let Some(row) = &mut record else {
                    return Ok(None);
                };
                // The values for the conditions about the failure may be missing as well.
                let failing = Err(&failure);
                let verdict = self.verdict(to.seq, &failure, (now_ms, random), failing);
                fail(row, &with_notes(failure.clone(), &verdict));
                Prepared {
                    event: Event::Failed {
                        seq: to.seq,
                        run: row.no,
                        verdict,
                    },
                    values: windlass_engine::expr::Values::new(),
                    failing: Some(Err(failure)),
                    vars: Vec::new(),
                }
            }
        };
        let cx = Cx {
            now_ms,
            random,
            values: &values,
            failing: about_failure(failing.as_ref(), &values),
            max_steps: shared.bursts.max_steps,
        };
        let mut step = Step::new(before, now_ms);
        let graph = Arc::clone(&self.prepared);
        match apply(&graph.graph, &mut self.state, event, &cx) {
            Ok(commands) => step.commands = commands,
            // A control trigger whose target has ended is used up.
            Err(_) if control => return Ok(Some(step)),
            Err(_) => {
                log_about!(debug, self.about(to.seq), "a result came too late");
                return Ok(None);
            }
        }
        if let Some(record) = &mut record {
            record.skipped = skipped(&step.commands);
            self.keep_or_refute(record, &step.commands);
            self.observe(record, shared);
            let executor = graph.executor(NodeIx(record.node));
            let times = executor.and_then(|it| it.times(record.kind, &shared.base.metrics));
            if let Some(times) = times {
                times.record(record.took_us);
            }
        }
        // A failed attempt leaves only its failure.
        let failed = record
            .as_ref()
            .is_some_and(|record| record.failure.is_some());
        if !failed {
            // The workflow's output may use variables that this step assigned.
            self.memory.assign(scope, &vars);
            step.vars = vars
                .into_iter()
                .map(|(name, value)| (scope, name, value))
                .collect();
            step.blobs = ran
                .blobs
                .into_iter()
                .map(|(digest, bytes)| NewBlob { digest, bytes })
                .collect();
            step.effects = ran.effects;
            step.bookmarks = waits.bookmarks;
            step.child = waits.child;
        }
        if let Some(asked) = asked.filter(|asked| !failed || asked.rejects) {
            step.ask_first(*asked);
        }
        step.record = record;
        self.emit(&mut step, &shared.base, &shared.bursts)?;
        step.finish = self.finish(&mut step, &shared.base, &shared.bursts)?;
        Ok(Some(step))
    }

    /// A number that spreads retries: different for every trigger of every run, and the same
    /// when a step is repeated.
    fn spread(&self, to: Address) -> u64 {
        use std::hash::{Hash as _, Hasher as _};
        let mut hasher = rustc_hash::FxHasher::default();
        (self.id.0.as_u128(), to.seq.0).hash(&mut hasher);
        // The lower bits of this hash are weak, so they are mixed as by splitmix64.
        let mixed = hasher.finish();
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 31)
    }

    /// The record of the execution, as far as it is known before the outcome.
    fn record(&self, to: Address, took_us: u64, logs: Vec<LogLine>) -> Option<ExecutionRow> {
        let open = self.state.run_of(to.seq)?;
        Some(ExecutionRow {
            no: self.numbers.execution()?,
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
