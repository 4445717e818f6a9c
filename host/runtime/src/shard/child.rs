//! Sub-workflows: a node run that waits for a run of its own.

use std::sync::Arc;

use windlass_engine::{Open, waited_too_long};
use windlass_model::{Class, Failure, Payload, Resumption, Status, TriggerNo, TriggerType};
use windlass_store::rows::{NewRun, Parent, SenderTree, TreeBound};

use super::Message;
use super::evaluate::{bytes_of, bytes_of_patch};
use super::execute::Begun;
use super::halfway::Behind;
use super::memory::Unread;
use super::outcome::{Ran, Settled};
use super::owned::OwnedRun;
use super::shard_state::ShardState;
use super::work::{Address, Patch};
use crate::call_data::Room;
use crate::catalog::Prepared;
use crate::codes;
use crate::derived;
use crate::error::Error;
use crate::shared::{Base, RuntimeShared, Work};
use crate::starting::{Cause, Start};

/// The limit of parents above a run.
const DEPTH: u32 = 32;

/// The prepared workflow of a child, after its look-up.
pub(crate) struct Resolved {
    to: Address,
    input: Payload,
    patch: Patch,
    found: Result<Arc<Prepared>, Error>,
    /// The room for the input.
    _room: Option<Arc<Room>>,
}

impl OwnedRun {
    /// Begins a node that runs a workflow, or ends the node once that run has ended.
    pub(super) fn child(
        &mut self,
        to: Address,
        open: &Open,
        name: &str,
        patch: &Patch,
        shared: &Arc<RuntimeShared>,
    ) -> Result<Begun, Unread> {
        let again = open.kind == TriggerType::Retry;
        match self.given(open)? {
            // A retry starts a new child, unless the child completed.
            Some(Resumption::Child { status, .. })
                if again && status != Status::Completed.name() => {}
            Some(Resumption::Child {
                status,
                output,
                failure,
                ..
            }) => return Ok(Begun::Settled(reported(&status, output, failure))),
            None if open.kind == TriggerType::Child => {
                return Ok(Begun::Settled(Settled::Failed(waited_too_long())));
            }
            _ => {}
        }
        if self.depth >= DEPTH {
            let message = format!("workflows call each other more than {DEPTH} deep");
            let failure = Failure::new(Class::Limit, codes::CHILD, message);
            return Ok(Begun::Settled(Settled::Failed(failure)));
        }
        let input = self.input(open, patch, &shared.base)?;
        let room = match self.room(bytes_of(&input) + bytes_of_patch(patch), shared) {
            Ok(room) => room,
            Err(bytes) => return Ok(Begun::Full(bytes)),
        };
        self.evaluations.keeps(room.as_ref());
        let (patch, name) = (patch.clone(), name.to_owned());
        let all = Arc::clone(shared);
        // Looking up a workflow reads the store, and preparing it may compile.
        let look = move || {
            let found = all.resolve(&name);
            if let Some(shard) = all.shard(to.run) {
                shard.send(Message::Resolved(Box::new(Resolved {
                    to,
                    input,
                    patch,
                    found,
                    _room: room,
                })));
            }
        };
        (shared.bursts.aside)(&shared.base.io, Work::Reads(Box::new(look)));
        Ok(Begun::Elsewhere)
    }

    /// The child, except for the row that waits for it.
    fn new_child(
        &self,
        to: Address,
        input: Payload,
        prepared: Arc<Prepared>,
        base: &Base,
    ) -> Result<NewRun, Error> {
        let open = self.state.run_of(to.seq);
        let (first, phase) = open.map_or((to.seq, 0), |open| (open.first, open.phase));
        let attempt = open.map_or(1, |open| open.attempt);
        let start = Start {
            prepared,
            input,
            cause: Cause::Child {
                // The id contains the phase in which the node waits for the child.
                id: derived::child(self.id, first, phase.saturating_add(1)),
                correlation: self.correlation.as_deref().map(str::to_owned),
                trace: self.trace_at((to.seq, attempt), base),
            },
        };
        start.accepted()?.left(&self.numbers, base.clock.wall_ms())
    }

    /// Ties a child to the row that waits for it.
    pub(super) fn tie(
        &self,
        mut child: NewRun,
        trigger: TriggerNo,
        seq: windlass_model::Seq,
    ) -> NewRun {
        child.parent = Some(Parent {
            run: self.no,
            id: self.id,
            trigger,
            seq,
            depth: self.depth.saturating_add(1),
            root: self.root,
            flow: Arc::clone(&self.flow),
            undoes: self.state.is_undoing(),
        });
        child
    }

    /// How many descendants the root of this run may have. The workflow of the root decides when
    /// the first descendant of the root is created.
    pub(super) fn tree_bound(&self, host: u32) -> TreeBound {
        let workflow = self.sender_tree().workflow;
        TreeBound { workflow, host }
    }

    /// The tree to which the runs belong that the stimuli of this run start.
    pub(super) fn sender_tree(&self) -> SenderTree {
        let own = self.prepared.graph.options().descendants;
        let own = own.filter(|_| self.root == self.no);
        SenderTree {
            root: self.root,
            workflow: own.unwrap_or(u32::MAX),
        }
    }
}

impl ShardState {
    /// Continues a node run after the look-up of its child's workflow.
    pub(super) fn resolved(&mut self, resolved: Resolved, shared: &Arc<RuntimeShared>) {
        let Some(owned) = self.running(resolved.to) else {
            return;
        };
        let Some(resolved) = owned.waits_behind(resolved, Behind::Resolved) else {
            return;
        };
        let Resolved {
            to,
            input,
            patch,
            found,
            _room,
        } = resolved;
        if shared.intake.is_draining() {
            return self.interrupted(to, shared);
        }
        let base = &shared.base;
        let child = found.and_then(|prepared| owned.new_child(to, input, prepared, base));
        let settled = match child {
            Ok(child) => Settled::Child(Box::new(child)),
            Err(Error::Store(error)) => {
                return self.unwritten(to, &error, shared);
            }
            Err(error) if error.is_compiling() => return self.park(to, error.to_string()),
            Err(error) => Settled::Failed(unstartable(&error)),
        };
        let ran = Ran {
            patch,
            ..Ran::default()
        };
        self.settle(to, settled, ran, shared);
    }
}

impl RuntimeShared {
    /// The workflow with this name: the published version, or else a file beside the one that is
    /// run.
    fn resolve(&self, name: &str) -> Result<Arc<Prepared>, Error> {
        if let Some(published) = self.base.store.published(name)? {
            return self.base.stored(published.definition);
        }
        let beside = self.bursts.beside.as_ref();
        let found = beside.map_or(Ok(None), |beside| beside(name))?;
        let row = found.ok_or_else(|| Error::no_workflow(self.base.store.as_ref(), name))?;
        self.base.catalog.prepare(row, &self.base.plugins)
    }
}

/// The end of a node run whose child has ended.
fn reported(status: &str, output: Option<Payload>, failure: Option<Failure>) -> Settled {
    if status == Status::Completed.name() {
        return Settled::done(output.unwrap_or_else(Payload::null));
    }
    let failure = failure.unwrap_or_else(|| {
        let class = if status == Status::Cancelled.name() {
            Class::Cancelled
        } else {
            Class::Permanent
        };
        Failure::new(class, codes::CHILD, format!("the sub-workflow is {status}"))
    });
    Settled::Failed(failure)
}

fn unstartable(error: &Error) -> Failure {
    let mut message = error.to_string();
    if let Error::Definition(wrong) | Error::Input(wrong) = error {
        for diagnostic in wrong {
            message = format!("{message}; {}", diagnostic.message);
        }
    }
    Failure::new(Class::Invalid, error.code(), message)
}
