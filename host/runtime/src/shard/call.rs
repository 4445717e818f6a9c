//! Assembles a guest call: its context, its configuration and its input.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use windlass_engine::expr::{Alias, Template};
use windlass_engine::{NodeIx, Open};
use windlass_model::{Class, Failure, Payload, ScopeNo, Seq, TriggerType, valid};
use windlass_plugins::{Call, CallContext, Cancel, Resumption, secret_handles};

use super::memory::{Unread, json_of};
use super::owned::{OwnedRun, Stage};
use super::work::{Address, Ask, Patch, Work};
use crate::catalog::Executor;
use crate::codes;
use crate::guest_view;
use crate::shared::Base;

/// The facts about an execution before it begins, for engine and external triggers.
pub(super) struct CallFacts {
    pub(super) node: Option<NodeIx>,
    pub(super) scope: ScopeNo,
    pub(super) first: Seq,
    pub(super) phase: u32,
    pub(super) attempt: u32,
}

impl OwnedRun {
    /// The facts about a trigger. None: it belongs to no execution.
    pub(super) fn asked(&self, seq: Seq) -> Option<CallFacts> {
        if let Some(open) = self.state.run_of(seq) {
            return Some(CallFacts {
                node: Some(open.node),
                scope: open.scope,
                first: open.first,
                phase: open.phase,
                attempt: open.attempt,
            });
        }
        let external = self.held.get(&seq)?.external.as_ref()?;
        Some(CallFacts {
            node: external.node.map(NodeIx),
            scope: ScopeNo::ROOT,
            first: seq,
            phase: 0,
            attempt: 1,
        })
    }

    /// The type of the trigger of a step, and the attempt.
    pub(super) fn step_of(&self, seq: Seq) -> (TriggerType, u32) {
        let open = self.state.run_of(seq);
        open.map_or_else(|| (self.kind(seq), 1), |open| (open.kind, open.attempt))
    }

    /// The context that a guest can read during the call.
    pub(super) fn context(
        &self,
        to: Address,
        cancel: Cancel,
        reads: bool,
        base: &Base,
    ) -> Result<CallContext, Unread> {
        let asked = self.asked(to.seq).ok_or_else(gone)?;
        let node = asked.node.and_then(|node| self.prepared.executor(node));
        let open = self.state.run_of(to.seq);
        let resumption = match open {
            Some(open) if open.phase > 0 => Some(Arc::new(Resumption {
                reason: self.reason(to.seq, base.store.as_ref())?,
                state: open.left.clone(),
            })),
            _ => None,
        };
        let visit = open.and_then(|open| self.state.visit_of(open));
        let visit = visit.map(|visit| (visit.scope, visit.visit));
        Ok(CallContext {
            run: self.id,
            workflow: Arc::clone(&self.prepared.name),
            flow: Arc::clone(&self.flow),
            node: node.map(|node| Arc::clone(&node.name)),
            priority: self.priority(to.seq),
            seq: to.seq,
            first: asked.first,
            phase: asked.phase,
            attempt: asked.attempt,
            correlation: self.correlation.clone(),
            trace: self.trace_at((to.seq, asked.attempt), base),
            resumption,
            memory: reads.then(|| guest_view::memory(self, asked.scope, &base.store)),
            blobs: reads.then(|| guest_view::blobs(&base.store)),
            tokens: Some(Arc::clone(&base.links) as _),
            visit,
            secrets: Arc::default(),
            cancel,
        })
    }

    /// The priority of a trigger: its own, or that of its node.
    pub(super) fn priority(&self, seq: Seq) -> i32 {
        let held = self.held.get(&seq);
        if let Some(external) = held.and_then(|held| held.external.as_deref()) {
            return external.priority;
        }
        let open = self.state.run_of(seq);
        let plan = open.and_then(|open| self.prepared.graph.node(open.node));
        plan.map_or(0, |plan| plan.priority)
    }

    /// The call that runs a node.
    pub(super) fn call(
        &mut self,
        to: Address,
        open: &Open,
        with: &Template,
        executor: &Executor,
        patch: &Patch,
        base: &Base,
    ) -> Result<Call, Unread> {
        let config = match with.constant() {
            Some(constant) => executor.completed.as_ref().unwrap_or(constant).clone(),
            None => {
                let rendered = self.render(open.scope, with, patch, base)?;
                executor.configured(rendered).map_err(Unread::Value)?
            }
        };
        self.gets_with(with, &executor.named(&config));
        let (config, secrets) =
            secret_handles(config, &executor.secrets).map_err(|failure| Unread::Value(*failure))?;
        let input = self.input(open, patch, base)?;
        let cancel = match self.held.get(&to.seq).map(|held| &held.stage) {
            Some(Stage::Running(cancel)) => cancel.clone(),
            _ => Cancel::default(),
        };
        let plan = self.prepared.graph.node(open.node);
        let timeout = time_left(open, to, plan.and_then(|plan| plan.timeout_ms));
        Ok(Call {
            node_type: Arc::clone(&executor.node_type),
            config: Payload::json(config),
            input,
            cx: CallContext {
                secrets,
                ..self.context(to, cancel, executor.reads, base)?
            },
            slot_key: self.no.0,
            timeout,
            queued: None,
        })
    }

    /// The input of a node.
    pub(super) fn input(
        &mut self,
        open: &Open,
        patch: &Patch,
        base: &Base,
    ) -> Result<Payload, Unread> {
        let prepared = Arc::clone(&self.prepared);
        let plan = prepared.graph.node(open.node);
        let template = plan.and_then(|plan| plan.input.as_ref());
        let input = match (&open.input, template) {
            (Some(edited), _) => edited.clone(),
            (None, Some(template)) => self.render_whole(open.scope, template, patch, base)?,
            (None, None) => {
                let gathers = plan.is_some_and(|plan| plan.gathers);
                self.default_input(open, gathers, base)?
            }
        };
        self.gets_input(open, template, &input);
        Ok(input)
    }

    pub(super) fn work(
        &self,
        to: Address,
        executor: &Executor,
        call: Call,
        patch: Patch,
    ) -> Option<Work> {
        let plugin = Arc::clone(executor.plugin.as_ref()?);
        Some(Work {
            to,
            plugin,
            ask: Ask::Execute(call, patch),
        })
    }

    /// The value that a template passes on unchanged, if that is possible without parsing.
    pub(super) fn aliased(
        &mut self,
        scope: ScopeNo,
        alias: &Alias,
        patch: &Patch,
        base: &Base,
    ) -> Result<Option<Payload>, Unread> {
        let store = base.store.as_ref();
        match alias {
            Alias::Input => self.memory.input(store, self.no).map(Some),
            Alias::Item => Ok(self.item(base, scope)?.map(Payload::json)),
            Alias::Output(name) => {
                let graph = &self.prepared.graph;
                let node = graph.find(name);
                match node.and_then(|node| Some((node, self.state.latest(graph, scope, node)?))) {
                    Some((node, run)) => {
                        self.evaluations.reads_output(node, run);
                        self.memory.output(store, run).map(Some)
                    }
                    None => Ok(None),
                }
            }
            // The patch may replace a variable for this attempt: the template is rendered then.
            Alias::Var(_) if !patch.is_empty() => Ok(None),
            Alias::Var(name) => {
                let value = self.var(store, scope, name)?;
                if let Some(value) = &value {
                    self.evaluations.reads_var(name, value);
                }
                Ok(value)
            }
        }
    }

    /// The output of the node before, byte for byte; several outputs as an object by node. An entry
    /// of the workflow gets the run's input, and an entry of a for-each gets the item.
    fn default_input(
        &mut self,
        open: &Open,
        gathers: bool,
        base: &Base,
    ) -> Result<Payload, Unread> {
        let store = base.store.as_ref();
        if !gathers {
            return match open.from.first() {
                Some((_, run)) => self.memory.output(store, *run),
                None => match self.item(base, open.scope)? {
                    Some(item) => Ok(Payload::json(item)),
                    None => self.memory.input(store, self.no),
                },
            };
        }
        let mut json = vec![b'{'];
        for (node, run) in &open.from {
            let executor = self.prepared.executor(*node);
            let Some(name) = executor.map(|node| Arc::clone(&node.name)) else {
                continue;
            };
            if json.len() > 1 {
                json.push(b',');
            }
            // Node names need no escaping.
            let key = format!("\"{name}\":");
            let output = self.memory.output(store, *run)?;
            let output = json_of(store, &output)?;
            self.evaluations.make(key.len() + output.len(), base)?;
            json.extend_from_slice(key.as_bytes());
            json.extend_from_slice(&output);
        }
        json.push(b'}');
        Ok(Payload::json(json))
    }
}

/// The time limit of this execution: at most the rest of the time for all attempts.
fn time_left(open: &Open, to: Address, timeout_ms: Option<u64>) -> Option<Duration> {
    let left_ms = open
        .give_up_ms
        .map(|give_up_ms| u64::try_from(give_up_ms.saturating_sub(to.started_ms)).unwrap_or(0));
    let ms = match (timeout_ms, left_ms) {
        (Some(timeout), Some(left)) => Some(timeout.min(left)),
        (timeout, left) => timeout.or(left),
    };
    ms.map(Duration::from_millis)
}

/// The error if the run or its execution is gone.
pub(super) fn gone() -> Unread {
    Unread::Value(Failure::new(Class::Cancelled, codes::RENDER, "it is gone"))
}

/// The members of a JSON object, to be assigned to variables.
pub(super) fn patch_of(json: &[u8], whose: &str) -> Result<Patch, Failure> {
    let invalid = |reason: String| {
        let message = format!("{whose} is not a JSON object: {reason}");
        Failure::new(Class::Invalid, codes::RENDER, message)
    };
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(json).map_err(|error| invalid(error.to_string()))?;
    valid::check_variables(object.keys()).map_err(|wrong| {
        let message = format!("{whose} cannot be assigned: {wrong}");
        Failure::new(Class::Invalid, codes::BAD_KEY, message)
    })?;
    Ok(object
        .into_iter()
        .map(|(name, value)| (name, Bytes::from(value.to_string())))
        .collect())
}
