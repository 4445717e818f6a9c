//! Runs the node of a trigger, or prepares the guest call for it.

use std::sync::Arc;
use std::time::Duration;

use windlass_engine::expr::Template;
use windlass_engine::{Open, PlanKind, waited_too_long};
use windlass_model::{
    Body, Bookmark, Class, Clock, Failure, Outcome, Payload, Resumption, TriggerType,
};
use windlass_plugins::Returned as Back;

use super::about::{TriggerContext, log_about};
use super::call::gone;
use super::evaluate::{Evaluations, Resume, bytes_of, bytes_of_patch};
use super::gather::ALONE;
use super::got::Got;
use super::memory::Unread;
use super::outcome::{Ran, Settled};
use super::owned::OwnedRun;
use super::shard_state::ShardState;
use super::suspend;
use super::work::{Address, Patch, Work};
use crate::observe::Observed;
use crate::shared::{Base, RuntimeShared};

/// The beginning of a node.
#[expect(
    clippy::large_enum_variant,
    reason = "it is passed on at once: a box would cost each call an allocation"
)]
pub(super) enum Begun {
    /// The node has ended already.
    Settled(Settled),
    /// A guest has to be called.
    Work(Option<Work>),
    /// A look-up is in progress on another thread, which sends its result.
    Elsewhere,
    /// The data of the call found no room for so many bytes. The node has to begin again.
    Full(u64),
}

impl ShardState {
    /// Runs the node, with the variables that a consumer assigned.
    pub(super) fn execute(
        &mut self,
        to: Address,
        patch: Patch,
        shared: &Arc<RuntimeShared>,
    ) -> Option<Work> {
        let owned = self.owned.get_mut(&to.run)?;
        let open = owned.state.run_of(to.seq)?;
        let plan = owned.prepared.graph.node(open.node)?;
        if let Some(observer) = &shared.listeners.observer {
            observer.observe(&Observed::Started {
                run: owned.id,
                node: &plan.name,
                attempt: open.attempt,
            });
        }
        windlass_model::failpoint::pass_for("execute", &plan.name);
        let evaluations = self.new_evaluations(None);
        self.begin_with(to, patch, evaluations, shared)
    }

    /// Begins the node, with the results of its expressions that there are already.
    pub(super) fn begin_with(
        &mut self,
        to: Address,
        patch: Patch,
        mut evaluations: Box<Evaluations>,
        shared: &Arc<RuntimeShared>,
    ) -> Option<Work> {
        let owned = self.owned.get_mut(&to.run)?;
        let open = owned.state.run_of(to.seq)?.clone();
        let prepared = Arc::clone(&owned.prepared);
        let plan = prepared.graph.node(open.node)?;
        owned.node = Some(open.node);
        evaluations.got.get_or_insert_default();
        std::mem::swap(&mut owned.evaluations, &mut evaluations);
        let begun = owned.begin_node(to, &open, &plan.kind, &patch, shared);
        std::mem::swap(&mut owned.evaluations, &mut evaluations);
        if evaluations.is_long() {
            self.evaluate_aside(to, Resume::Begin(patch), evaluations, shared);
            return None;
        }
        if let Some(held) = owned.held.get_mut(&to.seq) {
            held.got = evaluations.got.take().and_then(Got::kept);
        }
        let place = self.spare_evaluations(evaluations);
        match begun {
            Ok(Begun::Work(work)) => return work,
            Ok(Begun::Elsewhere) => {}
            Ok(Begun::Full(bytes)) => self.wait_for_room(to, patch, bytes, shared),
            Ok(Begun::Settled(settled)) => {
                let ran = Ran {
                    patch,
                    ..Ran::default()
                };
                self.settle_at(to, settled, ran, place, shared);
            }
            Err(Unread::Value(failure)) => {
                self.settle(to, Settled::Failed(failure), Ran::default(), shared);
            }
            Err(Unread::Store(error)) => self.unwritten(to, &error, shared),
            Err(Unread::Aside) => {}
        }
        None
    }

    /// Processes the return of a node.
    pub(super) fn executed(
        &mut self,
        to: Address,
        back: Back<Outcome>,
        patch: Patch,
        shared: &Arc<RuntimeShared>,
    ) {
        if let Some(after) = back.put_off {
            self.deferred_call(to, after, back.result.err(), shared);
            return;
        }
        let ran = Ran {
            took_us: u64::try_from(back.took.as_micros()).unwrap_or(u64::MAX),
            logs: back.logs,
            blobs: back.blobs,
            effects: back.effects,
            patch,
        };
        let settled = match back.result {
            Ok(Outcome::Done(done)) => Settled::Done {
                output: done.output,
                ports: done.ports,
                end: None,
            },
            Ok(Outcome::Again(again)) => Settled::Again(again),
            Ok(Outcome::Suspend(suspension)) => match suspend::refused(&suspension.bookmarks) {
                Some(failure) => Settled::Failed(failure),
                None => Settled::Suspended {
                    bookmarks: suspension.bookmarks,
                    left: suspension.state,
                },
            },
            Err(failure) if shared.intake.is_draining() && failure.class == Class::Cancelled => {
                // A shutdown never fails a run.
                self.interrupted(to, shared);
                return;
            }
            Err(failure) => Settled::Failed(failure),
        };
        self.settle(to, settled, ran, shared);
    }

    /// Postpones the trigger if the plugin takes no call of this workflow now. This counts neither
    /// as an attempt nor as an execution.
    fn deferred_call(
        &mut self,
        to: Address,
        after: Duration,
        why: Option<Failure>,
        shared: &Arc<RuntimeShared>,
    ) {
        if let Some(owned) = self.owned.get_mut(&to.run) {
            // When the trigger is due again, the consumer is called again and makes its requests
            // again.
            if let Some(held) = owned.held.get_mut(&to.seq) {
                held.asked = None;
            }
            log_put_off(&owned.about(to.seq), after, why.as_ref());
        }
        let until_ms = put_off_until(&*shared.base.clock, after);
        self.settle(to, Settled::Later { until_ms }, Ran::default(), shared);
    }
}

/// The due time of a trigger that is postponed by this duration, in epoch milliseconds.
pub(super) fn put_off_until(clock: &dyn Clock, after: Duration) -> i64 {
    let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
    // Rounded up by a millisecond, so that the trigger is never due too early.
    let after_ms = after_ms.saturating_add(1);
    clock.wall_ms().saturating_add_unsigned(after_ms)
}

/// The bytes of a payload, wherever it is.
pub(super) fn size_of_body(payload: &Payload) -> usize {
    match &payload.body {
        Body::Inline(bytes) => bytes.len(),
        Body::Blob(blob) => usize::try_from(blob.size).unwrap_or(usize::MAX),
    }
}

pub(super) fn log_put_off(about: &TriggerContext<'_>, after: Duration, why: Option<&Failure>) {
    if let Some(why) = why {
        let delay_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        log_about!(debug, about, code = %why.code, delay_ms, %why, "putting a trigger off");
    }
}

impl OwnedRun {
    fn begin_node(
        &mut self,
        to: Address,
        open: &Open,
        kind: &PlanKind,
        patch: &Patch,
        shared: &Arc<RuntimeShared>,
    ) -> Result<Begun, Unread> {
        let base = &shared.base;
        self.step = (open.kind, open.attempt);
        let settled = match kind {
            PlanKind::Use { with, .. } => {
                let prepared = Arc::clone(&self.prepared);
                let executor = prepared.executor(open.node).ok_or_else(gone)?;
                if let Some(failure) = &executor.refused {
                    return Ok(Begun::Settled(Settled::Failed(Failure::clone(failure))));
                }
                let mut call = self.call(to, open, with, executor, patch, base)?;
                // A constant is held by the definition.
                let config = with.constant().map_or(bytes_of(&call.config), |_| 0);
                let made = config + bytes_of(&call.input) + bytes_of_patch(patch);
                match self.room(made, shared) {
                    Ok(room) => {
                        self.evaluations.keeps(room.as_ref());
                        call.queued = room.map(|room| room as _);
                    }
                    Err(bytes) => return Ok(Begun::Full(bytes)),
                }
                return Ok(Begun::Work(self.work(to, executor, call, patch.clone())));
            }
            PlanKind::Workflow { name } => {
                return self.child(to, open, name, patch, shared);
            }
            PlanKind::ForEach { list, .. } => self.for_each(open, list, patch, base)?,
            PlanKind::Event {
                name,
                matches,
                correlation,
            } => {
                let templates = (name, matches, correlation.as_ref());
                self.event(open, templates, patch, base)?
            }
            PlanKind::Wait(_) if open.kind == TriggerType::Timer && open.phase > 0 => {
                Settled::done(Payload::null())
            }
            PlanKind::Wait(template) => self.wait_until(to, open, template, patch, base)?,
            PlanKind::Set(assignments) => self.assignments(open, assignments, patch, base)?,
            PlanKind::End { terminate, output } => {
                self.end(open, *terminate, output.as_ref(), patch, base)?
            }
            PlanKind::Fail { message, data } => {
                self.fail(open, message, data.as_ref(), patch, base)?
            }
        };
        Ok(Begun::Settled(settled))
    }

    /// An `event` node: it waits for a stimulus, and its output is the payload of the stimulus.
    fn event(
        &mut self,
        open: &Open,
        (name, matches, correlation): (&Template, &Template, Option<&Template>),
        patch: &Patch,
        base: &Base,
    ) -> Result<Settled, Unread> {
        match self.given(open)? {
            Some(Resumption::Resumed { input, .. }) => return Ok(Settled::done(input)),
            None if open.kind == TriggerType::Resume => {
                return Ok(Settled::Failed(waited_too_long()));
            }
            _ => {}
        }
        let scope = open.scope;
        let name = self.text(scope, name, "the name of the event", patch, base)?;
        let matches = self.render(scope, matches, patch, base)?;
        let correlation = correlation
            .map(|template| self.text(scope, template, "the correlation", patch, base))
            .transpose()?;
        let bookmarks = vec![Bookmark {
            name,
            matches: serde_json::from_slice(&matches).unwrap_or_default(),
            correlation,
            private: false,
            auto_burn: true,
            metadata: None,
            expires_ms: None,
        }];
        Ok(match suspend::refused(&bookmarks) {
            Some(failure) => Settled::Failed(failure),
            None => Settled::Suspended {
                bookmarks,
                left: None,
            },
        })
    }

    /// A template that results in text.
    fn text(
        &mut self,
        scope: windlass_model::ScopeNo,
        template: &Template,
        what: &str,
        patch: &Patch,
        base: &Base,
    ) -> Result<String, Unread> {
        let json = self.render(scope, template, patch, base)?;
        match serde_json::from_slice(&json) {
            Ok(serde_json::Value::String(text)) => Ok(text),
            _ => Err(Unread::Value(Failure::new(
                Class::Invalid,
                crate::codes::RENDER,
                format!("{what} is not a text"),
            ))),
        }
    }

    /// A for-each: first its list and, after the last item, the outputs of all items.
    fn for_each(
        &mut self,
        open: &Open,
        list: &Template,
        patch: &Patch,
        base: &Base,
    ) -> Result<Settled, Unread> {
        let store = base.store.as_ref();
        let Some(collect) = &open.collect else {
            let output = self.render_whole(open.scope, list, patch, base)?;
            let bytes = size_of_body(&output);
            if bytes > ALONE && !self.memory.has_list(&output) && !self.evaluations.has_place() {
                return Err(self.evaluations.ask_place(bytes));
            }
            let items = self
                .memory
                .list(store, &output, base.has_room())
                .map_err(|unread| match unread {
                    Unread::Value(mut failure) => {
                        if let Some(node) = self.prepared.graph.node(open.node) {
                            failure.message = format!("node `{}`: {}", node.name, failure.message);
                        }
                        Unread::Value(failure)
                    }
                    unread => unread,
                })?;
            return Ok(Settled::Listed { output, items });
        };
        if let Some(failure) = &collect.fault {
            return Ok(Settled::Failed(failure.clone()));
        }
        let (list, count) = (collect.list, collect.count);
        Ok(Settled::done(self.collect(list, count, base)?))
    }
}
