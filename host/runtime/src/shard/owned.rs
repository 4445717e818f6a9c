//! A run that this process owns, in memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustc_hash::FxHashSet;
use windlass_engine::{NodeIx, Open, OpenRow};
use windlass_model::metrics::Metrics;
use windlass_model::{
    Digest, Epoch, ExecutionNo, LogLine, Numbers, RunId, RunNo, Seq, Status, Token, TriggerNo,
    TriggerType, Version,
};
use windlass_plugins::Cancel;
use windlass_plugins::Effects;
use windlass_store::rows::{BORN_EPOCH, BORN_VERSION, NewRun, Parent, Suspicion, TriggerRow};
use windlass_store::write::{ClaimedRun, Fence, Removed, TriggerFence};

use super::burst::Burst;
use super::evaluate::Evaluations;
use super::got::Got;
use super::guard::Guard;
use super::halfway::Halfway;
use super::memory::Memory;
use super::spans::RunTrace;
use super::triggers::Triggers;
use crate::catalog::Prepared;
use crate::outputs::Awaited;
use crate::shared::{NewRunPlace, RuntimeShared};

/// An owned run.
pub(crate) struct OwnedRun {
    pub(crate) no: RunNo,
    pub(crate) id: RunId,
    /// The number of its parents.
    pub(crate) depth: u32,
    /// The run above all others: itself, if it has no parent.
    pub(crate) root: RunNo,
    /// The name of the root's workflow: the runs of a tree share the places of that workflow.
    pub(crate) flow: Arc<str>,
    pub(crate) epoch: Epoch,
    /// The version that the next commit expects, counting commits in progress.
    pub(crate) version: Version,
    pub(crate) correlation: Option<Arc<str>>,
    pub(super) trace: RunTrace,
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) numbers: Arc<Numbers>,
    pub(crate) state: windlass_engine::RunState,
    pub(crate) memory: Memory,
    pub(crate) last_execution: Option<ExecutionNo>,
    pub(crate) held: Triggers,
    /// External triggers that a commit in progress removes.
    pub(crate) gone: FxHashSet<Seq>,
    /// The type of the trigger of the current step, and the attempt: expressions see both.
    pub(crate) step: (TriggerType, u32),
    /// The node of the current step, before it begins.
    pub(crate) node: Option<NodeIx>,
    /// The evaluations of the current step, which the shard lends.
    pub(crate) evaluations: Box<Evaluations>,
    /// The step that is settled in part, and waits for an evaluation.
    pub(crate) halfway: Option<Box<Halfway>>,
    /// The number of commits in progress.
    pub(crate) unacknowledged: u32,
    pub(crate) burst: Burst,
    /// Whether the last commit in progress gives the run back or ends it.
    pub(crate) leaving: bool,
    /// The condition under which its executions may begin.
    pub(crate) guard: Guard,
    /// Whether a write of this burst was large.
    pub(crate) is_heavy: bool,
    /// Whether a host died while it had claimed a trigger of the run. Then each step waits for the
    /// commit in front of it, so that a further death falls on the step that has caused it.
    pub(crate) is_careful: bool,
    /// The output that the client which started the run waits for.
    pub(crate) awaited: Option<Awaited>,
    /// The place of a run that was created here, until its first step is written.
    pub(super) new_place: Option<NewRunPlace>,
    /// What the next event has to note.
    pub(super) beside: Beside,
}

/// What has changed since the last event of a run, beside its stored state.
#[derive(Default)]
pub(super) struct Beside {
    /// Whether the state was read from the store.
    pub(super) afresh: bool,
    /// The external triggers that were admitted.
    pub(super) admitted: Vec<(Seq, NodeIx, TriggerType)>,
}

/// The requests of a consumer besides its answer.
pub(crate) struct Extras {
    pub(crate) effects: Effects,
    pub(crate) blobs: Vec<(Digest, Bytes)>,
    /// Whether the requests are kept although the node fails: the consumer rejected the trigger.
    pub(crate) rejects: bool,
}

/// The trigger row of an outstanding execution.
pub(crate) struct HeldTrigger {
    pub(crate) no: TriggerNo,
    pub(crate) token: Token,
    pub(crate) suspicion: Suspicion,
    pub(crate) deliveries: u32,
    /// The log lines of its consumer, until they are stored with the execution record.
    pub(crate) noted: Vec<LogLine>,
    /// The requests of its consumer, until they are part of a commit.
    pub(crate) asked: Option<Box<Extras>>,
    pub(crate) stage: Stage,
    /// The payload from outside: a [`windlass_model::Resumption`] for a suspended node run,
    /// otherwise an object of variables.
    pub(crate) given: Option<Bytes>,
    /// What the node has got, from its beginning until its execution is recorded.
    pub(super) got: Option<Box<Got>>,
    /// The bytes of the row's detail.
    pub(crate) detail: u32,
    /// The bytes of data that count for it.
    pub(super) weight: usize,
    /// Another row that is removed with this one.
    pub(crate) replaces: Option<Removed>,
    /// Set for external triggers.
    pub(crate) external: Option<Box<External>>,
}

/// The content of an external trigger's row.
#[derive(Clone)]
pub(crate) struct External {
    pub(crate) kind: TriggerType,
    pub(crate) node: Option<u32>,
    pub(crate) priority: i32,
    pub(crate) detail: Bytes,
    /// Its due time when it was read or made, in epoch milliseconds.
    pub(crate) due_ms: i64,
}

/// The progress of an outstanding execution.
pub(crate) enum Stage {
    /// Pending in the store: the scheduler claims it when it comes due.
    Waiting,
    /// Claimed, but its commit is not durable yet.
    Written,
    /// A claimed suspect that waits for its group and does not count as in flight.
    Aside,
    /// Claimed and ready to begin.
    Ready,
    /// Executed by a guest.
    Running(Cancel),
}

impl HeldTrigger {
    /// A new row.
    pub(crate) fn new(no: TriggerNo, token: Token, stage: Stage) -> Self {
        Self {
            no,
            token,
            suspicion: Suspicion::None,
            deliveries: 0,
            noted: Vec::new(),
            asked: None,
            stage,
            given: None,
            got: None,
            detail: 0,
            weight: 0,
            replaces: None,
            external: None,
        }
    }

    /// A row from the store.
    pub(crate) fn of(row: &TriggerRow, stage: Stage) -> Self {
        let external = row.seq.is_external().then(|| {
            Box::new(External {
                kind: row.kind,
                node: row.node,
                priority: row.priority,
                detail: row.detail.clone(),
                due_ms: row.due_ms,
            })
        });
        Self {
            suspicion: row.suspicion,
            deliveries: row.deliveries,
            given: row.payload.clone(),
            detail: len_of(&row.detail),
            external,
            ..Self::new(row.no, row.token, stage)
        }
    }

    pub(crate) fn is_claimed(&self) -> bool {
        !matches!(self.stage, Stage::Waiting)
    }

    pub(crate) fn fence(&self) -> TriggerFence {
        TriggerFence {
            no: self.no,
            token: self.token,
        }
    }

    /// Removes the trigger: interrupts its guest, updates the in-flight count and the groups of
    /// suspects.
    pub(super) fn leaves(&self, no: RunNo, seq: Seq, shared: &RuntimeShared) {
        self.interrupt();
        match self.stage {
            Stage::Waiting => {}
            Stage::Aside => {
                shared.intake.take_back();
                shared.intake.release(1);
            }
            Stage::Written | Stage::Ready | Stage::Running(_) => shared.intake.release(1),
        }
        if self.suspicion != Suspicion::None {
            shared.suspect_left(no, seq);
        }
    }

    /// Interrupts the guest of the trigger, if there is one.
    pub(crate) fn interrupt(&self) {
        if let Stage::Running(cancel) = &self.stage {
            cancel.cancel();
        }
    }
}

/// The length of a row's detail.
pub(super) fn len_of(detail: &Bytes) -> u32 {
    u32::try_from(detail.len()).unwrap_or(u32::MAX)
}

/// The name of the workflow with which a run shares places.
fn flow(parent: Option<&Parent>, prepared: &Prepared) -> Arc<str> {
    Arc::clone(parent.map_or(&prepared.name, |parent| &parent.flow))
}

impl OwnedRun {
    /// A run that was just claimed.
    pub(crate) fn from_claim(
        claimed: &ClaimedRun,
        prepared: Arc<Prepared>,
        numbers: Arc<Numbers>,
        now: Duration,
    ) -> Result<Self, String> {
        let row = &claimed.row;
        if !row.sound {
            let code = windlass_store::codes::ALTERED;
            return Err(format!(
                "{code}: the checksum of its state in the store does not hold"
            ));
        }
        let graph = &prepared.graph;
        let scopes = claimed.scopes.iter().map(|(no, bytes)| (*no, &**bytes));
        let mut state = windlass_engine::RunState::decode(graph, &row.state, scopes)
            .map_err(|error| error.to_string())?;
        let mut held = Triggers::default();
        let claimed_rows = claimed.claimed.iter().map(|row| (row, Stage::Ready));
        let other_rows = claimed.others.iter().map(|row| (row, Stage::Waiting));
        for (trigger, stage) in claimed_rows.chain(other_rows) {
            if let Some(node) = trigger.node.filter(|_| !trigger.seq.is_external()) {
                let open = OpenRow {
                    seq: trigger.seq,
                    node,
                    kind: trigger.kind,
                    attempt: trigger.attempt,
                    due_ms: trigger.due_ms,
                };
                let open = Open::decode_detail(graph, open, &trigger.detail)
                    .map_err(|error| error.to_string())?;
                state.restore(graph, open);
            }
            held.insert(trigger.seq, HeldTrigger::of(trigger, stage));
        }
        let is_careful = claimed.claimed.iter().any(|row| row.deliveries > 0);
        Ok(Self {
            no: row.no,
            id: row.id,
            depth: row.parent.as_ref().map_or(0, |parent| parent.depth),
            root: row.root(),
            flow: flow(row.parent.as_ref(), &prepared),
            epoch: row.epoch,
            version: row.version,
            correlation: row.correlation.as_deref().map(Arc::from),
            trace: RunTrace::of_row(row),
            prepared,
            numbers,
            state,
            memory: Memory::default(),
            last_execution: row.last_execution,
            held,
            gone: FxHashSet::default(),
            step: (TriggerType::Start, 1),
            node: None,
            evaluations: Box::default(),
            halfway: None,
            unacknowledged: 0,
            burst: Burst::begin(now),
            leaving: false,
            guard: Guard::Open,
            is_heavy: false,
            is_careful,
            awaited: None,
            new_place: None,
            beside: Beside {
                afresh: true,
                admitted: Vec::new(),
            },
        })
    }

    /// A run that is created here.
    pub(crate) fn from_birth(
        new: &NewRun,
        state: windlass_engine::RunState,
        prepared: Arc<Prepared>,
        numbers: Arc<Numbers>,
        awaited: Option<Awaited>,
        now: Duration,
    ) -> Self {
        let mut held = Triggers::default();
        for trigger in &new.triggers {
            let row = HeldTrigger::new(trigger.no, Token(1), Stage::Ready);
            held.insert(trigger.seq, row);
        }
        Self {
            no: new.no,
            id: new.id,
            depth: new.parent.as_ref().map_or(0, |parent| parent.depth),
            root: new.root().unwrap_or(new.no),
            flow: flow(new.parent.as_ref(), &prepared),
            epoch: BORN_EPOCH,
            version: BORN_VERSION,
            correlation: new.correlation.as_deref().map(Arc::from),
            trace: RunTrace::of_new(new),
            prepared,
            numbers,
            state,
            memory: Memory::born(new.input.clone(), &new.vars),
            last_execution: None,
            held,
            gone: FxHashSet::default(),
            step: (TriggerType::Start, 1),
            node: None,
            evaluations: Box::default(),
            halfway: None,
            unacknowledged: 0,
            burst: Burst::begin(now),
            leaving: false,
            guard: Guard::Open,
            is_heavy: false,
            is_careful: false,
            awaited,
            new_place: None,
            beside: Beside::default(),
        }
    }

    /// Tells the metrics of the process what the run takes besides its data.
    pub(crate) fn weigh(&mut self, metrics: &Arc<Metrics>) {
        let bytes = size_of::<Self>() + self.state.bytes() + self.held.bytes();
        self.memory.count_state(bytes, metrics);
    }

    pub(crate) fn fence(&self) -> Fence {
        Fence {
            incarnation: self.numbers.incarnation(),
            run: self.no,
            epoch: self.epoch,
            version: self.version,
        }
    }

    /// Whether no execution of it may begin now: its burst is over, or it is paused.
    pub(crate) fn is_halted(&self) -> bool {
        self.burst.is_over() || self.state.status == Status::Paused
    }

    /// The number of its triggers that count as in flight.
    pub(crate) fn claimed(&self) -> u32 {
        let claimed = self.held.values().filter(|held| held.is_claimed()).count();
        u32::try_from(claimed).unwrap_or(u32::MAX)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.held
            .values()
            .any(|held| matches!(held.stage, Stage::Running(_)))
    }

    pub(crate) fn interrupt(&self) {
        self.held.values().for_each(HeldTrigger::interrupt);
    }
}
