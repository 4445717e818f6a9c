//! From a claimed trigger to its guest call.

use std::sync::Arc;
use std::time::Duration;

use windlass_engine::waited_too_long;
use windlass_model::limits::REASON_BYTES;
use windlass_model::valid::plain;
use windlass_model::{Class, Failure, Payload, RunNo, Seq, TriggerType};
use windlass_plugins::{Accept, Cancel, Disposition, Host, Returned as Back};
use windlass_store::rows::Suspicion;
use windlass_store::write::Park;

use super::Elsewhere;
use super::about::log_about;
use super::call::patch_of;
use super::execute::{log_put_off, put_off_until};
use super::external::Fate;
use super::halfway::Behind;
use super::memory::Unread;
use super::outcome::{Ran, Settled};
use super::owned::{Extras, OwnedRun, Stage};
use super::ready::Entry;
use super::shard_state::{ShardState, Then};
use super::states::Next;
use super::work::{Address, Answer, Ask, Patch, Returned, Work};
use crate::codes;
use crate::shared::RuntimeShared;

/// How long a trigger waits whose consumer could not be asked, as the host had no room for the call.
const CROWDED: Duration = Duration::from_secs(1);

impl ShardState {
    /// The next guest call. All work before it that needs no guest is done here, unless so many
    /// commits have gathered that they are submitted first, or too much data is not durable yet.
    pub(crate) fn next(&mut self, shared: &Arc<RuntimeShared>) -> Option<Work> {
        loop {
            let work = match self.next_of_all(shared)? {
                Next::Begin(entry) => self.begin_ready(entry, shared),
                Next::Take(Elsewhere::Returned(returned)) => self.returned(*returned, shared),
                Next::Take(Elsewhere::Evaluated(evaluated)) => self.evaluated(*evaluated, shared),
            };
            if work.is_some() || self.is_full() {
                return work;
            }
        }
    }

    /// Begins an execution that is ready, as far as its guest call.
    fn begin_ready(
        &mut self,
        (no, epoch, seq): Entry,
        shared: &Arc<RuntimeShared>,
    ) -> Option<Work> {
        if self.owned.get(&no).is_none_or(|owned| owned.epoch != epoch) {
            return None;
        }
        if shared.intake.begins_nothing() {
            self.give_back_if_idle(no, shared);
            return None;
        }
        let mut behind = Vec::new();
        if self.is_halfway(no) {
            match self.cut_short((no, epoch, seq), shared) {
                Some(follows) => behind = follows,
                None => return None,
            }
        }
        let work = self.begin(no, seq, shared);
        self.follow((no, epoch), behind, shared);
        work
    }

    /// Processes a guest call that has returned. Returns the call that follows from it.
    pub(crate) fn returned(
        &mut self,
        returned: Returned,
        shared: &Arc<RuntimeShared>,
    ) -> Option<Work> {
        let owned = self.running(returned.to)?;
        let Returned { to, answer } = owned.waits_behind(returned, Behind::Returned)?;
        match answer {
            Answer::Accepted(back) => self.accepted(to, back, shared),
            Answer::Executed(back, patch) => {
                windlass_model::failpoint::pass("after-return");
                self.executed(to, back, patch, shared);
                None
            }
        }
    }

    /// The run of an execution in progress, unless the execution or the burst is gone.
    pub(super) fn running(&mut self, to: Address) -> Option<&mut OwnedRun> {
        let owned = self.owned.get_mut(&to.run);
        let owned = owned.filter(|owned| owned.epoch == to.epoch)?;
        let held = owned.held.get(&to.seq)?;
        matches!(held.stage, Stage::Running(_)).then_some(owned)
    }

    /// Offers a claimed trigger to its consumer.
    fn begin(&mut self, no: RunNo, seq: Seq, shared: &Arc<RuntimeShared>) -> Option<Work> {
        let owned = self.owned.get_mut(&no)?;
        // No execution begins after the end of a burst: the trigger is given back with the
        // run. Control triggers are carried out all the same, as in a paused run.
        if owned.leaving || (owned.is_halted() && !owned.is_control(seq)) {
            return None;
        }
        let held = owned
            .held
            .get_mut(&seq)
            .filter(|held| matches!(held.stage, Stage::Ready))?;
        let to = Address {
            run: no,
            epoch: owned.epoch,
            seq,
            started_ms: shared.base.clock.wall_ms(),
        };
        let is_external = held.external.is_some();
        if self.remedied(to, shared) {
            return None;
        }
        let owned = self.owned.get_mut(&no)?;
        if owned.state.timeout == Some(seq) {
            self.settle(to, Settled::TimedOut, Ran::default(), shared);
            return None;
        }
        if is_external && self.control(to, shared) {
            return None;
        }
        let owned = self.owned.get_mut(&no)?;
        let Some(asked) = owned.asked(seq) else {
            // The state does not know this row. A trigger without an open execution is never run.
            log_about!(error, owned.about(seq), "a trigger belongs to nothing");
            return None;
        };
        if let Some(failure) = owned.too_late(to) {
            self.give_up(to, failure, shared);
            return None;
        }
        let plan = asked.node.and_then(|node| owned.prepared.graph.node(node));
        let route = plan.and_then(|plan| plan.route.as_deref());
        let kind = owned.kind(seq);
        // A consumer that may be meant for this trigger is not passed by.
        if let Some(why) = shared.base.plugins.awaited_consumer() {
            self.park(to, format!("a consumer of triggers is not ready: {why}"));
            return None;
        }
        let Some(consumer) = shared.base.plugins.registry().consumer(kind, route) else {
            let reason = unconsumed(kind, route, &shared.base.plugins);
            self.park(to, reason);
            return None;
        };
        let node = asked
            .node
            .and_then(|node| owned.prepared.executor(node))
            .map(|node| Arc::clone(&node.name));
        let cancel = Cancel::default();
        let cx = match owned.context(to, cancel.clone(), consumer.reads, &shared.base) {
            Ok(cx) => cx,
            Err(Unread::Value(failure)) => {
                self.give_up(to, failure, shared);
                return None;
            }
            Err(Unread::Store(error)) => {
                self.unwritten(to, &error, shared);
                return None;
            }
            Err(Unread::Aside) => return None,
        };
        let held = owned.held.get_mut(&seq)?;
        held.stage = Stage::Running(cancel);
        // Only the node sees the payload of its resumption.
        let payload = held.given.clone().filter(|_| asked.phase == 0);
        let accept = Accept {
            kind,
            node,
            payload: payload.map(Payload::json),
            cx,
            slot_key: no.0,
            timeout: None,
        };
        Some(Work {
            to,
            plugin: consumer,
            ask: Ask::Accept(accept),
        })
    }

    /// Ends an execution before it has begun.
    pub(super) fn give_up(&mut self, to: Address, failure: Failure, shared: &Arc<RuntimeShared>) {
        let is_external = self
            .owned
            .get(&to.run)
            .is_some_and(|owned| owned.external(to.seq).is_some());
        if is_external {
            self.conclude(to, Fate::Dead("failed", Some(failure)), shared);
        } else {
            self.settle(to, Settled::Failed(failure), Ran::default(), shared);
        }
    }

    /// Processes the decision of the consumer.
    fn accepted(
        &mut self,
        to: Address,
        back: Back<Disposition>,
        shared: &Arc<RuntimeShared>,
    ) -> Option<Work> {
        let owned = self.owned.get_mut(&to.run)?;
        if let Some(held) = owned.held.get_mut(&to.seq) {
            held.noted = back.logs;
            // If the consumer postponed the trigger or failed, it is called again, and makes its
            // requests again.
            let decided = match &back.result {
                Ok(Disposition::Execute { .. } | Disposition::Handled) => Some(false),
                Ok(Disposition::Reject { .. }) => Some(true),
                Ok(Disposition::Later { .. }) | Err(_) => None,
            };
            held.asked = decided.filter(|_| !back.effects.is_empty()).map(|rejects| {
                Box::new(Extras {
                    effects: back.effects,
                    blobs: back.blobs,
                    rejects,
                })
            });
        }
        let external = owned.external(to.seq).is_some();
        if let Some(after) = back.put_off {
            log_put_off(&owned.about(to.seq), after, back.result.as_ref().err());
            self.put_off(to, put_off_until(&*shared.base.clock, after), shared);
            return None;
        }
        if back.result.is_ok()
            && let Some(failures) = self.failing.over((to.run, owned.first(to.seq)))
        {
            let about = owned.about(to.seq);
            log_about!(
                info,
                about,
                failures,
                "the consumer takes a trigger that it failed to take"
            );
        }
        match back.result {
            Ok(Disposition::Execute { vars }) => self.admitted(to, vars, shared),
            Ok(Disposition::Handled) if external => {
                self.conclude(to, Fate::Used, shared);
                None
            }
            Ok(Disposition::Handled) => {
                let settled = Settled::done(Payload::null());
                self.settle(to, settled, Ran::default(), shared);
                None
            }
            Ok(Disposition::Later { after_ms }) => {
                self.put_off(to, to.started_ms.saturating_add_unsigned(after_ms), shared);
                None
            }
            Ok(Disposition::Reject(reason)) => {
                let failure = Failure {
                    class: Class::Rejected,
                    code: codes::REJECTED,
                    ..reason
                };
                if external {
                    self.conclude(to, Fate::Dead("rejected", Some(failure)), shared);
                } else {
                    self.settle(to, Settled::Failed(failure), Ran::default(), shared);
                }
                None
            }
            Err(failure) if shared.intake.is_draining() && failure.class == Class::Cancelled => {
                self.interrupted(to, shared);
                None
            }
            // The consumer was not asked, so it has not failed.
            Err(failure) if windlass_plugins::is_crowded(&failure) => {
                let owned = self.owned.get(&to.run)?;
                log_put_off(&owned.about(to.seq), CROWDED, Some(&failure));
                let until_ms = put_off_until(&*shared.base.clock, CROWDED);
                self.put_off(to, until_ms, shared);
                None
            }
            Err(failure) => {
                // The trigger is kept: a failing consumer loses no trigger.
                let owned = self.owned.get(&to.run)?;
                let random = owned.spread(to);
                let first = (to.run, owned.first(to.seq));
                let due_ms = |wait| put_off_until(&*shared.base.clock, wait);
                let offer = self.failing.note(first, random, due_ms);
                let (failures, again_in_ms) = (offer.failures, offer.wait_ms);
                // With each doubling of the number, the log has one more line.
                if failures.is_power_of_two() {
                    let about = owned.about(to.seq);
                    log_about!(warn, about, code = %failure.code, %failure, failures, again_in_ms, "a consumer failed; offering the trigger again");
                }
                self.put_off(to, offer.due_ms, shared);
                let open = self
                    .owned
                    .get(&to.run)
                    .map(|owned| owned.state.open.values());
                let mut open = open.into_iter().flatten();
                if let Some(open) = open.find(|open| open.first == first.1) {
                    self.failing.goes_on(first, open.seq);
                }
                None
            }
        }
    }

    /// Begins the execution that a consumer has admitted.
    fn admitted(
        &mut self,
        to: Address,
        vars: Option<Payload>,
        shared: &Arc<RuntimeShared>,
    ) -> Option<Work> {
        if let Err(fate) = self.admit(to) {
            self.conclude(to, fate, shared);
            return None;
        }
        let patch = self.owned.get(&to.run)?.patch(to.seq, vars.as_ref());
        match patch {
            Ok(patch) => self.execute(to, patch, shared),
            Err(failure) => {
                self.settle(to, Settled::Failed(failure), Ran::default(), shared);
                None
            }
        }
    }

    /// Postpones a trigger until this time.
    fn put_off(&mut self, to: Address, until_ms: i64, shared: &Arc<RuntimeShared>) {
        let external = self
            .owned
            .get(&to.run)
            .is_some_and(|owned| owned.external(to.seq).is_some());
        if external {
            self.conclude(to, Fate::Again(until_ms), shared);
        } else {
            self.settle(to, Settled::Later { until_ms }, Ran::default(), shared);
        }
    }

    /// Handles a guest that a shutdown interrupted: the trigger is unchanged and is given back with
    /// its run.
    pub(super) fn interrupted(&mut self, to: Address, shared: &RuntimeShared) {
        if let Some(owned) = self.owned.get_mut(&to.run)
            && let Some(held) = owned.held.get_mut(&to.seq)
        {
            held.stage = Stage::Ready;
        }
        self.give_back_if_idle(to.run, shared);
    }

    /// Parks a trigger that cannot run here now.
    pub(super) fn park(&mut self, to: Address, reason: String) {
        let reason = plain(&reason, REASON_BYTES);
        let Some(owned) = self.owned.get(&to.run) else {
            return;
        };
        let Some(held) = owned.held.get(&to.seq) else {
            return;
        };
        log_about!(warn, owned.about(to.seq), reason, "trigger parked");
        let park = Park {
            fence: owned.fence(),
            trigger: held.fence(),
            reason,
        };
        self.push((to.run, to.epoch), Then::Parked(to.seq), park);
    }
}

impl OwnedRun {
    /// The first number of a trigger: one of the engine has another each time that it is put off.
    fn first(&self, seq: Seq) -> Seq {
        self.state.run_of(seq).map_or(seq, |open| open.first)
    }

    /// The type of a trigger.
    pub(super) fn kind(&self, seq: Seq) -> TriggerType {
        if let Some(open) = self.state.run_of(seq) {
            return open.kind;
        }
        let external = self.held.get(&seq).and_then(|held| held.external.as_ref());
        external.map_or(TriggerType::Next, |external| external.kind)
    }

    /// The failure of an execution that is too late to begin.
    fn too_late(&self, to: Address) -> Option<Failure> {
        let held = self.held.get(&to.seq)?;
        if held.suspicion == Suspicion::Guilty {
            let message = format!(
                "{} hosts in a row died while this ran, the last one while no other suspect ran",
                held.deliveries
            );
            return Some(Failure::new(Class::Lost, codes::LOST, message));
        }
        let open = self.state.run_of(to.seq)?;
        let past = |at_ms: Option<i64>| at_ms.is_some_and(|at_ms| at_ms <= to.started_ms);
        if past(open.give_up_ms) {
            let message = "it was not finished within the node's `total-timeout`";
            let code = windlass_engine::codes::TOTAL_TIMEOUT;
            return Some(Failure::new(Class::Deadline, code, message));
        }
        let waits = matches!(open.kind, TriggerType::Resume | TriggerType::Child);
        (waits && held.given.is_none() && past(open.give_up_wait_ms)).then(waited_too_long)
    }

    /// The variables of a trigger; those that its consumer assigns replace them.
    fn patch(&self, seq: Seq, vars: Option<&Payload>) -> Result<Patch, Failure> {
        let mut patch = self.brought(seq)?;
        let Some(vars) = vars else {
            return Ok(patch);
        };
        let bytes = vars.inline().map(|bytes| &**bytes).unwrap_or_default();
        patch.extend(patch_of(bytes, "the consumer's patch")?);
        Ok(patch)
    }
}

/// Why a trigger has no consumer.
fn unconsumed(kind: TriggerType, route: Option<&str>, plugins: &Host) -> String {
    let of = match route {
        Some(route) => format!("`{}` on the route `{route}`", kind.name()),
        None => format!("`{}`", kind.name()),
    };
    match plugins.registry().kept_out(kind, route) {
        None if !plugins.awaited().is_empty() => {
            format!("no plugin consumes triggers of type {of}, and plugins are being compiled")
        }
        None => format!("no plugin consumes triggers of type {of}"),
        Some(plugin) => format!(
            "{} would consume triggers of type {of}, and is not granted to [{}]",
            plugin.name(),
            windlass_plugins::codes::NO_CONSUMER
        ),
    }
}
