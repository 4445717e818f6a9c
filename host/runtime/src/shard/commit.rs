//! Lines up the commit of a step: one transaction with all that it did.

use std::sync::Arc;

use bytes::Bytes;
use windlass_engine::{Command, NodeIx, Open};
use windlass_model::{
    Failure, Payload, RunStatus, ScopeNo, Seq, Status, Token, TriggerNo, TriggerType,
};
use windlass_store::Write;
use windlass_store::rows::{JournalRow, NewBlob, NewTrigger, RunRow, Suspicion};
use windlass_store::write::{Commit, Finish};

use super::hot::{Held, Hot, Stage};
use super::state::{Pending, State, Then};
use super::work::Address;
use crate::shared::Shared;
use crate::wait::RunResult;

/// What a step did, ready to be committed.
pub(super) struct Step {
    pub(super) record: Option<RunRow>,
    pub(super) commands: Vec<Command>,
    pub(super) vars: Vec<(String, Payload)>,
    pub(super) blobs: Vec<NewBlob>,
    pub(super) now_ms: i64,
    /// How the run ends, if it does.
    pub(super) finish: Option<Ending>,
}

/// How a run ends.
pub(super) struct Ending {
    pub(super) status: Status,
    pub(super) output: Option<Payload>,
    pub(super) failure: Option<Failure>,
}

/// What the commands of a step come to.
#[derive(Default)]
struct Rows {
    triggers: Vec<NewTrigger>,
    removed: Vec<TriggerNo>,
    lists_done: Vec<Seq>,
    cancelled: Vec<Open>,
    journal: Vec<JournalRow>,
    dispatch: Vec<Seq>,
    due_ms: Vec<i64>,
}

impl State {
    /// Hands a step over with the next batch.
    pub(super) fn commit(&mut self, to: Address, step: Step, shared: &Arc<Shared>) {
        windlass_model::failpoint::pass("before-commit");
        let Some(hot) = self.hots.get_mut(&to.instance) else {
            return;
        };
        let Some((commit, then)) = hot.commit(to, step, shared) else {
            tracing::error!(instance = %hot.id, "the numbers of this membership are used up");
            shared.scheduler.send(crate::scheduler::core::Event::Lost);
            return;
        };
        let pending = Pending {
            instance: to.instance,
            epoch: to.epoch,
            then,
        };
        self.push(pending, Write::Commit(Box::new(commit)));
    }
}

impl Hot {
    fn commit(&mut self, to: Address, step: Step, shared: &Arc<Shared>) -> Option<(Commit, Then)> {
        let Step {
            record,
            commands,
            vars,
            blobs,
            now_ms,
            finish,
        } = step;
        let used = self.held.remove(&to.seq)?;
        shared.landed(1);
        self.burst.count(shared.burst, shared.clock.monotonic());
        let mut rows = Rows::default();
        for command in commands {
            self.carry_out(command, &used, now_ms, &mut rows, shared)?;
        }
        let runs = self.records(record, rows.cancelled, now_ms)?;
        let fence = self.fence();
        self.version.0 += 1;
        self.unacknowledged += 1;
        let ended = finish.map(
            |Ending {
                 status,
                 output,
                 failure,
             }| {
                self.state.status = status;
                RunResult {
                    id: self.id,
                    status,
                    output,
                    failure,
                }
            },
        );
        let release = ended.is_none() && self.is_to_go();
        self.leaving = release || ended.is_some();
        if ended.is_some() {
            self.let_go(shared);
        }
        let commit = Commit {
            fence,
            trigger: used.fence(),
            status: self.state.status,
            state: Bytes::from(self.state.encode()),
            runs,
            triggers: rows.triggers,
            removed: rows.removed,
            vars: vars
                .into_iter()
                .map(|(name, value)| (ScopeNo::ROOT, name, value))
                .collect(),
            scopes: self
                .state
                .drain_scopes()
                .into_iter()
                .map(|(no, bytes)| (no, bytes.map(Bytes::from)))
                .collect(),
            items: Vec::new(),
            lists_done: rows.lists_done,
            burned: Vec::new(),
            bookmarks: Vec::new(),
            sends: Vec::new(),
            children: Vec::new(),
            cancels: Vec::new(),
            dead: Vec::new(),
            blobs,
            journal: rows.journal,
            finish: ended.as_ref().map(|ended| Finish {
                output: ended.output.clone(),
                failure: ended.failure.clone(),
            }),
            release,
            at_ms: now_ms,
        };
        let suspect = (used.suspicion != Suspicion::None).then_some(to.seq);
        let then = Then::Committed {
            dispatch: rows.dispatch,
            due_ms: rows.due_ms,
            suspect,
            ended,
        };
        Some((commit, then))
    }

    /// Whether the instance is given back with the step that is being lined up: nothing of it
    /// is left to run here, or others are to get their turn and nothing of it runs now.
    fn is_to_go(&self) -> bool {
        if self.burst.is_over() {
            !self.is_running()
        } else {
            !self.held.values().any(Held::is_claimed)
        }
    }

    fn carry_out(
        &mut self,
        command: Command,
        used: &Held,
        now_ms: i64,
        rows: &mut Rows,
        shared: &Arc<Shared>,
    ) -> Option<()> {
        match command {
            Command::Run(open) => self.write_open(&open, used, now_ms, rows, shared),
            Command::Schedule(open) => self.write_open(&open, used, now_ms, rows, shared),
            Command::Timeout { seq, due_ms } => {
                let blank = Trigger {
                    seq,
                    kind: TriggerType::Timer,
                    node: None,
                    due_ms,
                    claimed: false,
                    attempt: 1,
                    detail: Bytes::new(),
                };
                self.write_trigger(blank, used, rows)
            }
            Command::Cancel(open) => {
                if let Some(held) = self.held.remove(&open.seq) {
                    held.interrupt();
                    shared.landed(u32::from(held.is_claimed()));
                    if held.suspicion != Suspicion::None {
                        shared.suspect_left(self.no, open.seq);
                    }
                    rows.removed.push(held.no);
                }
                rows.cancelled.push(open);
                Some(())
            }
            Command::Incident { seq, node, failure } => {
                let name = self
                    .prepared
                    .graph
                    .node(node)
                    .map_or("?", |plan| plan.name.as_str());
                let detail = serde_json::json!({ "seq": seq.0, "node": name, "failure": failure });
                let detail = Bytes::from(detail.to_string());
                rows.journal.push(JournalRow {
                    at_ms: now_ms,
                    kind: "incident".to_owned(),
                    detail,
                });
                Some(())
            }
            Command::DropList(list) => {
                rows.lists_done.push(list);
                Some(())
            }
            Command::OpenScope { .. }
            | Command::CloseScope(_)
            | Command::Emit { .. }
            | Command::Skip(_)
            | Command::Refuted { .. }
            | Command::Finish { .. } => Some(()),
        }
    }

    /// Writes the trigger row of something that is to be executed. It is written as claimed,
    /// and dispatched as soon as the commit is durable, if there is room for it here.
    fn write_open(
        &mut self,
        open: &Open,
        used: &Held,
        now_ms: i64,
        rows: &mut Rows,
        shared: &Arc<Shared>,
    ) -> Option<()> {
        let claimed = open.due_ms.is_none()
            && !self.burst.is_over()
            && !shared.is_draining()
            && shared.flow.try_take();
        let due_ms = open.due_ms.unwrap_or(now_ms);
        if claimed {
            rows.dispatch.push(open.seq);
        } else {
            rows.due_ms.push(due_ms);
        }
        let trigger = Trigger {
            seq: open.seq,
            kind: open.kind,
            node: Some(open.node),
            due_ms,
            claimed,
            attempt: open.attempt,
            detail: Bytes::from(open.encode_detail()),
        };
        self.write_trigger(trigger, used, rows)
    }

    fn write_trigger(&mut self, trigger: Trigger, used: &Held, rows: &mut Rows) -> Option<()> {
        // The first successor takes the place of the row that is used up.
        let (no, token) = if rows.triggers.is_empty() {
            (used.no, Token(used.token.0 + 1))
        } else {
            (self.numbers.trigger()?, Token(1))
        };
        let Trigger {
            seq,
            kind,
            node,
            due_ms,
            claimed,
            attempt,
            detail,
        } = trigger;
        let stage = if claimed {
            Stage::Written
        } else {
            Stage::Waiting
        };
        let held = Held {
            no,
            token,
            suspicion: Suspicion::None,
            deliveries: 0,
            noted: Vec::new(),
            stage,
        };
        self.held.insert(seq, held);
        let node = node.map(|node| node.0);
        rows.triggers.push(NewTrigger {
            no,
            seq,
            kind,
            node,
            due_ms,
            claimed,
            attempt,
            detail,
            payload: None,
            priority: 0,
        });
        Some(())
    }

    /// The records of a step: of what was executed, and of what it cancelled.
    fn records(
        &mut self,
        record: Option<RunRow>,
        cancelled: Vec<Open>,
        now_ms: i64,
    ) -> Option<Vec<RunRow>> {
        let mut runs = Vec::with_capacity(usize::from(record.is_some()) + cancelled.len());
        if let Some(record) = record {
            self.last_run = Some(record.no);
            runs.push(record);
        }
        for open in cancelled {
            let no = self.numbers.run()?;
            runs.push(RunRow {
                no,
                instance: self.no,
                previous: self.last_run.replace(no),
                seq: open.seq,
                first: open.first,
                node: open.node.0,
                kind: open.kind,
                attempt: open.attempt,
                status: RunStatus::Cancelled,
                started_ms: now_ms,
                took_us: 0,
                output: None,
                failure: None,
                logs: Vec::new(),
                skipped: Vec::new(),
            });
        }
        Some(runs)
    }

    /// The run has ended: whatever is left of it is not wanted any more.
    fn let_go(&mut self, shared: &Shared) {
        for (seq, held) in std::mem::take(&mut self.held) {
            held.interrupt();
            shared.landed(u32::from(held.is_claimed()));
            if held.suspicion != Suspicion::None {
                shared.suspect_left(self.no, seq);
            }
        }
    }
}

/// A trigger row before it has a number.
struct Trigger {
    seq: Seq,
    kind: TriggerType,
    node: Option<NodeIx>,
    due_ms: i64,
    claimed: bool,
    attempt: u32,
    detail: Bytes,
}
