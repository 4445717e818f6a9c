//! Steps that wait for an evaluation while they are settled.
//!
//! The state of the run may be ahead of its commits meanwhile, so the run's other steps wait. A
//! cancellation and the deadline of the run do not: they end the step.

use std::sync::Arc;

use windlass_engine::timed_out;
use windlass_model::{Class, Epoch, Failure, RunNo, Seq, TriggerType};

use super::Elsewhere;
use super::child::Resolved;
use super::evaluate::{Evaluated, Evaluations, Resume};
use super::owned::{OwnedRun, Stage};
use super::settle::Settling;
use super::shard_state::ShardState;
use super::work::{Address, Returned};
use crate::codes;
use crate::shared::RuntimeShared;

/// A step that is settled in part, and what waits behind it.
pub(crate) struct Halfway {
    pub(super) settling: Settling,
    behind: Vec<Behind>,
}

/// Part of another step of the same run.
pub(super) enum Behind {
    /// It begins.
    Ready(Seq),
    /// Its guest has returned.
    Returned(Box<Returned>),
    /// The workflow of its child is found.
    Resolved(Box<Resolved>),
    /// Its expression is evaluated.
    Evaluated(Box<Evaluated>),
}

/// Why no more expressions of a step are evaluated.
pub(super) enum Cut {
    /// The run is cancelled.
    Cancelled,
    /// The `timeout` of the run has passed.
    TimedOut,
}

impl Cut {
    /// The failure of the run; none if it is cancelled.
    pub(super) fn of_run(&self) -> Option<Failure> {
        match self {
            Self::Cancelled => None,
            Self::TimedOut => Some(timed_out()),
        }
    }

    /// The failure of an item.
    pub(super) fn of_item(&self) -> Failure {
        self.of_run().unwrap_or_else(|| {
            let message = "the run was cancelled before the output of the item was rendered";
            Failure::new(Class::Cancelled, codes::RENDER, message)
        })
    }
}

impl ShardState {
    /// Lets a step wait for its evaluation.
    pub(super) fn wait_halfway(
        &mut self,
        settling: Settling,
        evaluations: Box<Evaluations>,
        shared: &Arc<RuntimeShared>,
    ) {
        let to = settling.to;
        if let Some(owned) = self.owned.get_mut(&to.run) {
            let behind = Vec::new();
            owned.halfway = Some(Box::new(Halfway { settling, behind }));
            self.evaluate_aside(to, Resume::Settle, evaluations, shared);
        }
    }

    /// Settles a step further, with the result of its evaluation.
    pub(super) fn settle_further(
        &mut self,
        to: Address,
        evaluations: Box<Evaluations>,
        shared: &Arc<RuntimeShared>,
    ) {
        if let Some(halfway) = self.halfway_of(to) {
            self.go_on(*halfway, evaluations, shared);
        }
    }

    /// Gives up a step whose evaluation was interrupted: a drain is over. Nothing of it is durable,
    /// so its trigger is executed again, as if the process had ended.
    pub(super) fn leave_halfway(&mut self, to: Address, shared: &RuntimeShared) {
        if self.halfway_of(to).is_some() {
            self.shut_out(to.run, to.epoch, shared);
        }
    }

    fn halfway_of(&mut self, to: Address) -> Option<Box<Halfway>> {
        let owned = self.owned.get_mut(&to.run)?;
        owned.halfway.take_if(|halfway| halfway.settling.to == to)
    }

    fn go_on(
        &mut self,
        halfway: Halfway,
        evaluations: Box<Evaluations>,
        shared: &Arc<RuntimeShared>,
    ) {
        let Halfway { settling, behind } = halfway;
        let to = settling.to;
        self.settle_with(settling, evaluations, shared);
        self.follow((to.run, to.epoch), behind, shared);
    }

    /// Continues with what has waited behind a step.
    pub(super) fn follow(
        &mut self,
        (no, epoch): (RunNo, Epoch),
        behind: Vec<Behind>,
        shared: &Arc<RuntimeShared>,
    ) {
        for behind in behind {
            let owned = self.owned.get_mut(&no);
            let Some(owned) = owned.filter(|owned| owned.epoch == epoch) else {
                return;
            };
            if let Some(halfway) = &mut owned.halfway {
                halfway.behind.push(behind);
                continue;
            }
            match behind {
                Behind::Ready(seq) => {
                    let now_ms = || shared.base.now().monotonic_ms;
                    self.ready.push(owned, seq, now_ms);
                }
                Behind::Returned(returned) => self.keep(Elsewhere::Returned(returned)),
                Behind::Resolved(resolved) => self.resolved(*resolved, shared),
                Behind::Evaluated(evaluated) => self.keep(Elsewhere::Evaluated(evaluated)),
            }
        }
    }

    /// Whether a step of the run waits for its evaluation.
    pub(super) fn is_halfway(&self, no: RunNo) -> bool {
        self.owned
            .get(&no)
            .is_some_and(|owned| owned.halfway.is_some())
    }

    /// Ends the step for which a run waits, if this trigger ends the run. Returns what follows the
    /// trigger; none if the trigger does not begin now.
    pub(super) fn cut_short(
        &mut self,
        (no, epoch, seq): (RunNo, Epoch, Seq),
        shared: &Arc<RuntimeShared>,
    ) -> Option<Vec<Behind>> {
        let owned = self.owned.get_mut(&no);
        let owned = owned.filter(|owned| owned.epoch == epoch)?;
        let Some(cut) = owned.cut(seq) else {
            let halfway = owned.halfway.as_mut()?;
            halfway.behind.push(Behind::Ready(seq));
            return None;
        };
        let mut halfway = owned.halfway.take()?;
        let waits = halfway.settling.to.seq;
        let held = owned.held.get_mut(&waits);
        if let Some(held) = &held {
            held.interrupt();
        }
        if halfway.settling.is_applied() {
            halfway.settling.cut = Some(cut);
            halfway.behind.insert(0, Behind::Ready(seq));
            let evaluations = self.new_evaluations(None);
            self.go_on(*halfway, evaluations, shared);
            return None;
        }
        // Nothing has changed: the trigger ends the step as one that has not begun.
        if let Some(held) = held {
            held.stage = Stage::Ready;
        }
        halfway.behind.push(Behind::Ready(waits));
        Some(halfway.behind)
    }
}

impl OwnedRun {
    /// Keeps part of another step for later, if a step waits for an evaluation.
    pub(super) fn waits_behind<T>(
        &mut self,
        part: T,
        as_behind: fn(Box<T>) -> Behind,
    ) -> Option<T> {
        match &mut self.halfway {
            None => Some(part),
            Some(halfway) => {
                halfway.behind.push(as_behind(Box::new(part)));
                None
            }
        }
    }

    /// How a trigger ends the run. Compensations are neither cancelled nor timed out.
    fn cut(&self, seq: Seq) -> Option<Cut> {
        if self.state.is_undoing() {
            return None;
        }
        if self.halfway.as_ref()?.settling.timeout == Some(seq) {
            return Some(Cut::TimedOut);
        }
        let external = self.held.get(&seq)?.external.as_ref()?;
        matches!(external.kind, TriggerType::Cancel | TriggerType::Delete).then_some(Cut::Cancelled)
    }
}
