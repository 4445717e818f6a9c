//! External triggers, which the engine did not make: control, late resumptions, and triggers that
//! people schedule.

use std::sync::Arc;

use bytes::Bytes;
use windlass_engine::{NodeIx, Open, Refused};
use windlass_model::resumption::About;
use windlass_model::{Class, Failure, Seq, TriggerType};
use windlass_store::letters::{DeadTrigger, LetterBody, NewDeadLetter};
use windlass_store::rows::Suspicion;
use windlass_store::write::Removed;

use super::commit::Step;
use super::outcome::{Ran, Settled};
use super::owned::{External, OwnedRun, Stage};
use super::shard_state::ShardState;
use super::work::{Address, Patch};
use crate::codes;
use crate::shared::RuntimeShared;

/// The delay before a trigger is offered again, in milliseconds: for a late resumption whose node
/// run is not suspended, and for a trigger whose critical section is held.
const AGAIN_MS: i64 = 1_000;

/// The end of an external trigger that runs no node.
pub(super) enum Fate {
    /// It is used up.
    Used,
    /// It is offered again at this time, in epoch milliseconds.
    Again(i64),
    /// It becomes a dead letter.
    Dead(&'static str, Option<Failure>),
}

impl ShardState {
    /// Carries out a trigger that needs no consumer. Returns false if the trigger needs one.
    pub(super) fn control(&mut self, to: Address, shared: &Arc<RuntimeShared>) -> bool {
        let Some(owned) = self.owned.get_mut(&to.run) else {
            return true;
        };
        let Some(external) = owned.external(to.seq) else {
            return false;
        };
        match external.kind {
            // A run to be deleted is cancelled first; the store remembers that it is to be deleted.
            TriggerType::Cancel | TriggerType::Delete => {
                self.settle(to, Settled::Cancel, Ran::default(), shared);
            }
            TriggerType::Pause => self.settle(to, Settled::Pause, Ran::default(), shared),
            TriggerType::Unpause => self.settle(to, Settled::Unpause, Ran::default(), shared),
            TriggerType::Alter => match About::decode(&external.detail) {
                Ok(About::Cancel { target }) => self.cancel_one(to, target, shared),
                _ => self.conclude(to, Fate::Dead("failed", Some(unknown())), shared),
            },
            TriggerType::Resume => self.late(to, &external.detail, shared),
            kind if kind.is_control() => {
                self.conclude(to, Fate::Dead("failed", Some(unknown())), shared);
            }
            _ => return false,
        }
        true
    }

    fn cancel_one(&mut self, to: Address, target: Seq, shared: &Arc<RuntimeShared>) {
        let Some(owned) = self.owned.get_mut(&to.run) else {
            return;
        };
        if owned.state.run_of(target).is_none() && target.is_external() {
            let mut step = Step::new(None, shared.base.clock.wall_ms());
            if let Some(held) = owned.held.remove(&target) {
                held.leaves(owned.no, target, shared);
                owned.gone.insert(target);
                step.removed.push(Removed::used(held.no));
            }
            return self.commit(to, step, None, shared);
        }
        self.settle(to, Settled::CancelNode(target), Ran::default(), shared);
    }

    /// Handles a resumption that arrived while its node run was not waiting.
    fn late(&mut self, to: Address, detail: &Bytes, shared: &Arc<RuntimeShared>) {
        let Ok(About::Resume { first }) = About::decode(detail) else {
            return self.conclude(to, Fate::Dead("failed", Some(unknown())), shared);
        };
        let Some(owned) = self.owned.get(&to.run) else {
            return;
        };
        let waits = owned.state.open.values().find(|open| open.first == first);
        match waits.map(|open| open.seq) {
            None => self.conclude(to, Fate::Dead("stale", None), shared),
            Some(seq) if owned.is_unresumed(seq) => self.deliver(to, seq, shared),
            Some(_) => {
                let again_ms = to.started_ms.saturating_add(AGAIN_MS);
                self.conclude(to, Fate::Again(again_ms), shared);
            }
        }
    }

    /// Resumes a node run with a late resumption: its row replaces the waiting row, which is
    /// removed with it.
    fn deliver(&mut self, to: Address, waiting: Seq, shared: &Arc<RuntimeShared>) {
        let Some(owned) = self.owned.get_mut(&to.run) else {
            return;
        };
        let (Some(mut late), Some(row)) = (owned.held.remove(&to.seq), owned.held.remove(&waiting))
        else {
            return;
        };
        owned.gone.insert(to.seq);
        late.external = None;
        late.replaces = Some(Removed::unused(row.no));
        late.stage = Stage::Ready;
        let suspicious = late.suspicion != Suspicion::None;
        owned.held.insert(waiting, late);
        self.make_ready(to.run, waiting, shared);
        if suspicious {
            // The trigger now waits under its new sequence number, so the old one has to leave its
            // group.
            shared.suspect_left(to.run, to.seq);
        }
    }

    /// Ends an external trigger without an execution.
    pub(super) fn conclude(&mut self, to: Address, fate: Fate, shared: &Arc<RuntimeShared>) {
        let Some(owned) = self.owned.get_mut(&to.run) else {
            return;
        };
        let now_ms = shared.base.clock.wall_ms();
        let mut step = Step::new(None, now_ms);
        let asked = owned.held.get_mut(&to.seq);
        if let Some(asked) = asked.and_then(|held| held.asked.take())
            && (matches!(fate, Fate::Used) || asked.rejects)
        {
            step.ask_first(*asked);
        }
        match fate {
            Fate::Used => {}
            Fate::Again(again_ms) => step.again_ms = Some(again_ms),
            Fate::Dead(reason, failure) => {
                step.dead
                    .extend(owned.letter(to.seq, reason, failure, now_ms));
            }
        }
        self.commit(to, step, None, shared);
    }

    /// Lets an external trigger run its node. If that is not possible, returns the fate of the
    /// trigger.
    pub(super) fn admit(&mut self, to: Address) -> Result<(), Fate> {
        let Some(owned) = self.owned.get_mut(&to.run) else {
            return Ok(());
        };
        let Some(external) = owned.external(to.seq) else {
            return Ok(());
        };
        let Some(node) = external.node.map(NodeIx) else {
            return Err(Fate::Dead("failed", Some(no_node())));
        };
        let open = Open::external(to.seq, node, external.kind);
        let prepared = Arc::clone(&owned.prepared);
        match owned.state.admit(&prepared.graph, open) {
            Ok(()) => {
                let admitted = (to.seq, node, external.kind);
                owned.beside.admitted.push(admitted);
                Ok(())
            }
            Err(Refused::Busy) => Err(Fate::Again(to.started_ms.saturating_add(AGAIN_MS))),
            Err(Refused::Closed) => Err(Fate::Dead("closed", None)),
            Err(Refused::NoNode) => Err(Fate::Dead("failed", Some(no_node()))),
        }
    }
}

impl OwnedRun {
    /// The content of an external trigger that is not being executed.
    pub(super) fn external(&self, seq: Seq) -> Option<External> {
        if self.state.run_of(seq).is_some() {
            return None;
        }
        let external = self.held.get(&seq)?.external.as_ref()?;
        Some(External::clone(external))
    }

    /// Whether a trigger changes the run without running a node.
    pub(super) fn is_control(&self, seq: Seq) -> bool {
        let external = self.held.get(&seq).and_then(|held| held.external.as_ref());
        external.is_some_and(|external| external.kind.is_control())
    }

    /// The variables of a trigger, if it runs its node for the first time.
    pub(super) fn brought(&self, seq: Seq) -> Result<Patch, Failure> {
        let phase = self.state.run_of(seq).map_or(0, |open| open.phase);
        let given = self.held.get(&seq).and_then(|held| held.given.as_ref());
        match given.filter(|_| phase == 0) {
            Some(json) => super::call::patch_of(json, "the payload of the trigger"),
            None => Ok(Patch::new()),
        }
    }

    /// Whether a node run is suspended and has not been resumed, as far as this shard knows.
    fn is_unresumed(&self, seq: Seq) -> bool {
        let suspended = self
            .state
            .open
            .get(&seq)
            .is_some_and(|open| open.kind == TriggerType::Resume);
        let row = self.held.get(&seq);
        suspended
            && row.is_some_and(|row| matches!(row.stage, Stage::Waiting) && row.given.is_none())
    }

    /// The oldest late resumption of a node run.
    pub(super) fn late_for(&self, first: Seq) -> Option<Seq> {
        let late = self.held.iter().filter(|(_, held)| {
            let external = held.external.as_ref();
            let about = external
                .filter(|external| external.kind == TriggerType::Resume)
                .and_then(|external| About::decode(&external.detail).ok());
            about == Some(About::Resume { first })
        });
        late.map(|(seq, _)| *seq).min()
    }

    fn letter(
        &self,
        seq: Seq,
        reason: &str,
        failure: Option<Failure>,
        at_ms: i64,
    ) -> Option<NewDeadLetter> {
        let held = self.held.get(&seq)?;
        let external = held.external.as_ref()?;
        let dead = DeadTrigger {
            run: self.no,
            seq,
            kind: external.kind,
            node: external.node,
            priority: external.priority,
            payload: held.given.clone(),
            detail: external.detail.clone(),
        };
        Some(NewDeadLetter {
            reason: reason.to_owned(),
            body: LetterBody::Trigger(dead),
            failure,
            at_ms,
        })
    }
}

fn unknown() -> Failure {
    let message = "this host does not know the kind of the trigger";
    Failure::new(Class::Invalid, codes::EXTERNAL, message)
}

fn no_node() -> Failure {
    let message = "the trigger names no node outside of every for-each";
    Failure::new(Class::Invalid, codes::EXTERNAL, message)
}
