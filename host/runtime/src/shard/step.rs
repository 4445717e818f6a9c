//! From a claimed trigger to the guest call that it asks for.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use windlass_engine::expr::Template;
use windlass_engine::{NodeIx, PlanKind};
use windlass_model::{Class, Failure, InstanceNo, Outcome, Payload, Seq, TriggerType};
use windlass_plugins::{
    Accept, Call, CallContext, Cancel, Disposition, Reason, Resumption, Returned as Back,
};
use windlass_store::Write;

use super::hot::{Hot, Stage};
use super::memory::{Unread, json_of};
use super::settle::{Ran, Settled};
use super::state::{Pending, State, Then};
use super::work::{Address, Answer, Ask, Patch, Returned, Work};
use crate::catalog::Executor;
use crate::codes;
use crate::guest_view;
use crate::observe::Observed;
use crate::shared::Shared;

/// How often a host may die with one trigger.
const DELIVERIES: u32 = 3;

/// How long a trigger waits whose consumer failed.
const CONSUMER_BACKOFF_MS: i64 = 1_000;

impl State {
    /// The next guest call that is to be made. Everything on the way to it that needs no
    /// guest is done here.
    pub(crate) fn next(&mut self, shared: &Arc<Shared>) -> Option<Work> {
        while let Some((no, seq)) = self.ready.pop_front() {
            if shared.is_draining() {
                self.give_back_if_idle(no, shared);
                continue;
            }
            let work = self.begin(no, seq, shared);
            if work.is_some() {
                return work;
            }
        }
        None
    }

    /// Takes in a guest call that has returned. Answers the call that follows from it.
    pub(crate) fn returned(&mut self, returned: Returned, shared: &Arc<Shared>) -> Option<Work> {
        let Returned { to, answer } = returned;
        let hot = self
            .hots
            .get_mut(&to.instance)
            .filter(|hot| hot.epoch == to.epoch)?;
        let held = hot.held.get_mut(&to.seq)?;
        if !matches!(held.stage, Stage::Running(_)) {
            return None;
        }
        match answer {
            Answer::Accepted(back) => self.accepted(to, back, shared),
            Answer::Executed(back, patch) => {
                windlass_model::failpoint::pass("after-return");
                self.executed(to, back, patch, shared);
                None
            }
        }
    }

    /// Offers a claimed trigger to its consumer.
    fn begin(&mut self, no: InstanceNo, seq: Seq, shared: &Arc<Shared>) -> Option<Work> {
        let hot = self.hots.get_mut(&no)?;
        // Of a burst that is over nothing is begun: it goes back with what still runs.
        if hot.leaving || hot.burst.is_over() {
            return None;
        }
        let held = hot
            .held
            .get_mut(&seq)
            .filter(|held| matches!(held.stage, Stage::Ready))?;
        let to = Address {
            instance: no,
            epoch: hot.epoch,
            seq,
            started_ms: shared.clock.wall_ms(),
        };
        if hot.state.timeout == Some(seq) {
            self.settle(to, Settled::TimedOut, Ran::none(), shared);
            return None;
        }
        let Some(open) = hot.state.open.get(&seq) else {
            // A row that the state knows nothing of: never run what cannot be accounted for.
            tracing::error!(instance = %hot.id, %seq, "a trigger belongs to nothing");
            return None;
        };
        if held.deliveries >= DELIVERIES {
            let message = format!("the host died {} times while this ran", held.deliveries);
            let failure = Failure::new(Class::Lost, codes::LOST, message);
            self.settle(to, Settled::Failed(failure), Ran::none(), shared);
            return None;
        }
        if open
            .give_up_ms
            .is_some_and(|give_up_ms| give_up_ms <= to.started_ms)
        {
            let message = "it was not finished within the node's `total-timeout`";
            let failure = Failure::new(
                Class::Deadline,
                windlass_engine::codes::TOTAL_TIMEOUT,
                message,
            );
            self.settle(to, Settled::Failed(failure), Ran::none(), shared);
            return None;
        }
        let (kind, node) = (open.kind, open.node);
        let Some(consumer) = shared.plugins.registry().consumer(kind, None) else {
            self.park(
                to,
                format!("no plugin consumes triggers of type `{}`", kind.name()),
                shared,
            );
            return None;
        };
        let hot = self.hots.get_mut(&no)?;
        let cancel = Cancel::default();
        let cx = hot.context(to, cancel.clone(), consumer.reads, shared)?;
        let node = hot
            .prepared
            .nodes
            .get(node.at())
            .map(|node| Arc::clone(&node.name));
        hot.held.get_mut(&seq)?.stage = Stage::Running(cancel);
        let accept = Accept {
            kind,
            node,
            payload: None,
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

    /// The consumer has decided.
    fn accepted(
        &mut self,
        to: Address,
        back: Back<Disposition>,
        shared: &Arc<Shared>,
    ) -> Option<Work> {
        if let Some(hot) = self.hots.get_mut(&to.instance)
            && let Some(held) = hot.held.get_mut(&to.seq)
        {
            held.noted = back.logs;
        }
        match back.result {
            Ok(Disposition::Execute { vars }) => match patch_of(vars) {
                Ok(patch) => self.execute(to, patch, shared),
                Err(failure) => {
                    self.settle(to, Settled::Failed(failure), Ran::none(), shared);
                    None
                }
            },
            Ok(Disposition::Handled) => {
                let settled = Settled::done(Payload::null());
                self.settle(to, settled, Ran::none(), shared);
                None
            }
            Ok(Disposition::Later { after_ms }) => {
                let until_ms = to.started_ms.saturating_add_unsigned(after_ms);
                self.settle(to, Settled::Later { until_ms }, Ran::none(), shared);
                None
            }
            Ok(Disposition::Reject { reason }) => {
                let failure = Failure::new(Class::Rejected, codes::REJECTED, reason);
                self.settle(to, Settled::Failed(failure), Ran::none(), shared);
                None
            }
            Err(failure) if shared.is_draining() && failure.class == Class::Cancelled => {
                self.interrupted(to, shared);
                None
            }
            Err(failure) => {
                // The trigger is kept: a consumer that fails loses nothing.
                tracing::warn!(code = %failure.code, %failure, "a consumer failed; offering the trigger again");
                let until_ms = to.started_ms.saturating_add(CONSUMER_BACKOFF_MS);
                self.settle(to, Settled::Later { until_ms }, Ran::none(), shared);
                None
            }
        }
    }

    /// Runs the node that the trigger is aimed at, or asks a guest to.
    fn execute(&mut self, to: Address, patch: Patch, shared: &Arc<Shared>) -> Option<Work> {
        let hot = self.hots.get_mut(&to.instance)?;
        let open = hot.state.open.get(&to.seq)?;
        let (node, attempt) = (open.node, open.attempt);
        // A schedule starts with a trigger of this type, too, but then nothing has been waited
        // for yet.
        let waited = open.kind == TriggerType::Timer && open.phase > 0;
        let prepared = Arc::clone(&hot.prepared);
        let (plan, executor) = (prepared.graph.node(node)?, prepared.nodes.get(node.at())?);
        if let Some(observer) = &shared.observer {
            observer.observe(&Observed::Started {
                instance: hot.id,
                node: &plan.name,
                attempt,
            });
        }
        windlass_model::failpoint::pass_for("execute", &plan.name);
        let settled = match &plan.kind {
            PlanKind::Use { with, .. } => {
                match hot.call(to, node, with, executor, &patch, shared) {
                    Ok(call) => return hot.work(to, executor, call, patch),
                    Err(unread) => Err(unread),
                }
            }
            PlanKind::Wait(_) if waited => Ok(Settled::done(Payload::null())),
            PlanKind::Wait(template) => hot.wait_until(to, template, &patch, shared),
            PlanKind::ForEach { .. } | PlanKind::Workflow { .. } | PlanKind::Event { .. } => {
                // Refused before a run could begin.
                let message = "this host cannot run such a node";
                let failure = Failure::new(Class::Permanent, codes::RENDER, message);
                Ok(Settled::Failed(failure))
            }
            PlanKind::Set(assignments) => hot.assignments(assignments, &patch, shared),
            PlanKind::End { terminate, output } => {
                hot.end(*terminate, output.as_ref(), &patch, shared)
            }
            PlanKind::Fail(template) => hot.fail(template, &patch, shared),
        };
        match settled {
            Ok(settled) => {
                let ran = Ran {
                    patch,
                    ..Ran::none()
                };
                self.settle(to, settled, ran, shared);
            }
            Err(Unread::Value(failure)) => {
                self.settle(to, Settled::Failed(failure), Ran::none(), shared);
            }
            Err(Unread::Store(error)) => self.failed(to.instance, to.epoch, &error, shared),
        }
        None
    }

    /// The node has returned.
    fn executed(&mut self, to: Address, back: Back<Outcome>, patch: Patch, shared: &Arc<Shared>) {
        let ran = Ran {
            took_us: u64::try_from(back.took.as_micros()).unwrap_or(u64::MAX),
            logs: back.logs,
            blobs: back.blobs,
            patch,
        };
        let settled = match back.result {
            Ok(Outcome::Done(done)) => Settled::Done {
                output: done.output,
                ports: done.ports,
                end: None,
            },
            Ok(Outcome::Again(again)) => Settled::Again(again),
            Ok(Outcome::Suspend(suspension)) => Settled::Failed(suspended(&suspension)),
            Err(failure) if shared.is_draining() && failure.class == Class::Cancelled => {
                // A shutdown is never a failure of the run.
                self.interrupted(to, shared);
                return;
            }
            Err(failure) => Settled::Failed(failure),
        };
        self.settle(to, settled, ran, shared);
    }

    /// A guest was interrupted because the process shuts down: the trigger stays as it is and
    /// is given back with its instance.
    fn interrupted(&mut self, to: Address, shared: &Shared) {
        if let Some(hot) = self.hots.get_mut(&to.instance)
            && let Some(held) = hot.held.get_mut(&to.seq)
        {
            held.stage = Stage::Ready;
        }
        self.give_back_if_idle(to.instance, shared);
    }

    /// Puts a trigger aside that cannot run here now.
    fn park(&mut self, to: Address, reason: String, shared: &Shared) {
        let Some(hot) = self.hots.get(&to.instance) else {
            return;
        };
        let Some(held) = hot.held.get(&to.seq) else {
            return;
        };
        tracing::warn!(instance = %hot.id, reason, "parking a trigger");
        let write = Write::Park {
            fence: hot.fence(),
            trigger: held.fence(),
            reason,
        };
        let then = Then::Parked(to.seq);
        self.push(
            Pending {
                instance: to.instance,
                epoch: to.epoch,
                then,
            },
            write,
        );
        let _ = shared;
    }
}

impl Hot {
    /// What a guest can ask about the call.
    fn context(
        &self,
        to: Address,
        cancel: Cancel,
        reads: bool,
        shared: &Arc<Shared>,
    ) -> Option<CallContext> {
        let open = self.state.open.get(&to.seq)?;
        let node = self.prepared.nodes.get(open.node.at());
        let resumption = (open.phase > 0).then(|| {
            Arc::new(Resumption {
                reason: Reason::Again,
                state: open.left.clone(),
            })
        });
        Some(CallContext {
            instance: self.id,
            workflow: Arc::clone(&self.prepared.name),
            node: node.map(|node| Arc::clone(&node.name)),
            seq: to.seq,
            first: open.first,
            phase: open.phase,
            attempt: open.attempt,
            correlation: self.correlation.clone(),
            trace_parent: None,
            resumption,
            memory: reads.then(|| guest_view::memory(self, shared)),
            blobs: reads.then(|| guest_view::blobs(shared)),
            tokens: None,
            cancel,
        })
    }

    /// The call that runs a node.
    fn call(
        &mut self,
        to: Address,
        node: NodeIx,
        with: &Template,
        executor: &Executor,
        patch: &Patch,
        shared: &Arc<Shared>,
    ) -> Result<Call, Unread> {
        let store = shared.store.as_ref();
        let config = match with.constant() {
            Some(constant) => constant.clone(),
            None => {
                let rendered = self.render(with, patch, shared)?;
                executor.check_config(&rendered).map_err(Unread::Value)?;
                rendered
            }
        };
        let prepared = Arc::clone(&self.prepared);
        let plan = prepared.graph.node(node);
        let input = match plan.and_then(|plan| plan.input.as_ref()) {
            Some(template) => self.render_input(template, patch, shared)?,
            None => self.default_input(to.seq, plan.is_some_and(|plan| plan.gathers), store)?,
        };
        let cancel = match self.held.get(&to.seq).map(|held| &held.stage) {
            Some(Stage::Running(cancel)) => cancel.clone(),
            _ => Cancel::default(),
        };
        let Some(cx) = self.context(to, cancel, executor.reads, shared) else {
            return Err(Unread::Value(Failure::new(
                Class::Cancelled,
                codes::RENDER,
                "it is gone",
            )));
        };
        Ok(Call {
            node_type: Arc::clone(&executor.node_type),
            config: Payload::json(config),
            input,
            cx,
            slot_key: self.no.0,
            timeout: self.time_left(to, plan.and_then(|plan| plan.timeout_ms)),
        })
    }

    /// How long this execution may take: what is left of all attempts bounds it.
    fn time_left(&self, to: Address, timeout_ms: Option<u64>) -> Option<Duration> {
        let give_up_ms = self
            .state
            .open
            .get(&to.seq)
            .and_then(|open| open.give_up_ms);
        let left_ms = give_up_ms
            .map(|give_up_ms| u64::try_from(give_up_ms.saturating_sub(to.started_ms)).unwrap_or(0));
        let ms = match (timeout_ms, left_ms) {
            (Some(timeout), Some(left)) => Some(timeout.min(left)),
            (timeout, left) => timeout.or(left),
        };
        ms.map(Duration::from_millis)
    }

    fn work(&self, to: Address, executor: &Executor, call: Call, patch: Patch) -> Option<Work> {
        let plugin = Arc::clone(executor.plugin.as_ref()?);
        Some(Work {
            to,
            plugin,
            ask: Ask::Execute(call, patch),
        })
    }

    /// Renders a template with what it names.
    pub(super) fn render(
        &mut self,
        template: &Template,
        patch: &Patch,
        shared: &Shared,
    ) -> Result<Bytes, Unread> {
        if let Some(constant) = template.constant() {
            return Ok(constant.clone());
        }
        let values = self.values(shared.store.as_ref(), template.needs(), patch)?;
        template.render(&values).map_err(|error| {
            Unread::Value(Failure::new(
                Class::Invalid,
                codes::RENDER,
                error.to_string(),
            ))
        })
    }

    /// Renders an input; one that is passed on whole is never parsed.
    fn render_input(
        &mut self,
        template: &Template,
        patch: &Patch,
        shared: &Shared,
    ) -> Result<Payload, Unread> {
        if let Some(alias) = template.alias()
            && let Some(payload) = self.aliased(&alias, patch, shared)?
        {
            return Ok(payload);
        }
        self.render(template, patch, shared).map(Payload::json)
    }

    /// The output of what came before, byte for byte; several as an object by node.
    fn default_input(
        &mut self,
        seq: Seq,
        gathers: bool,
        store: &dyn windlass_store::Store,
    ) -> Result<Payload, Unread> {
        let from = self
            .state
            .open
            .get(&seq)
            .map(|open| open.from.clone())
            .unwrap_or_default();
        if !gathers {
            return match from.first() {
                Some((_, run)) => self.memory.output(store, *run),
                None => self.memory.input(store, self.no),
            };
        }
        let mut json = vec![b'{'];
        for (node, run) in from {
            let Some(name) = self
                .prepared
                .nodes
                .get(node.at())
                .map(|node| Arc::clone(&node.name))
            else {
                continue;
            };
            if json.len() > 1 {
                json.push(b',');
            }
            // Names of nodes need no escaping.
            json.extend_from_slice(format!("\"{name}\":").as_bytes());
            let output = self.memory.output(store, run)?;
            json.extend_from_slice(&json_of(store, &output)?);
        }
        json.push(b'}');
        Ok(Payload::json(json))
    }
}

/// The variables that a consumer assigns.
fn patch_of(vars: Option<Payload>) -> Result<Patch, Failure> {
    let Some(vars) = vars else {
        return Ok(Patch::new());
    };
    let invalid = |reason: String| {
        let message = format!("the consumer's patch is not a JSON object: {reason}");
        Failure::new(Class::Invalid, codes::RENDER, message)
    };
    let bytes = vars
        .inline()
        .ok_or_else(|| invalid("it is a blob".to_owned()))?;
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(bytes).map_err(|error| invalid(error.to_string()))?;
    Ok(object
        .into_iter()
        .map(|(name, value)| (name, Bytes::from(value.to_string())))
        .collect())
}

fn suspended(suspension: &windlass_model::Suspension) -> Failure {
    let names: Vec<&str> = suspension
        .bookmarks
        .iter()
        .map(|mark| mark.name.as_str())
        .collect();
    let message = format!(
        "the node wants to wait for {}, but this host cannot keep bookmarks",
        names.join(", ")
    );
    Failure::new(Class::Permanent, codes::SUSPENDED, message)
}
