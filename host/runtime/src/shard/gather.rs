//! The values that expressions name, before they are parsed.

use std::sync::Arc;

use bytes::Bytes;
use windlass_engine::expr::{InvalidJson, Needs, Values};
use windlass_engine::{Graph, Open};
use windlass_keys::link::Target;
use windlass_model::stimulus::{BookmarkTag, WaitId};
use windlass_model::{Class, Failure, Payload, ScopeNo, TriggerType};
use windlass_store::Store;

use super::got::Got;
use super::memory::{Unread, json_of};
use super::owned::OwnedRun;
use super::work::Patch;
use crate::codes;
use crate::links::Links;
use crate::shared::Base;

/// The bytes of JSON that a step reads without a place among the evaluations aside.
pub(super) const ALONE: usize = 1024 * 1024;

/// What a named value takes beside its name and its JSON, about: thousands of small values cost what
/// their number says.
const ENTRY_BYTES: usize = 32;

/// The values that expressions name, as JSON.
#[derive(Default)]
pub(crate) struct Gathered {
    json: Vec<(Slot, Bytes)>,
    /// The bytes of the values and of their names.
    json_bytes: usize,
    /// The bound of these bytes.
    most: usize,
    /// Whether the step has to wait for its place before it gathers as much as `ALONE`.
    is_little: bool,
    /// The nodes without an output.
    pub(super) silent: Vec<String>,
    pub(super) index: Option<u32>,
    links: Vec<(String, String)>,
    pub(super) run: Option<(String, Option<Arc<str>>)>,
    pub(super) workflow: Option<Arc<str>>,
    pub(super) trigger: Option<(TriggerType, u32)>,
}

/// The place of a value.
pub(super) enum Slot {
    Input,
    Item,
    Var(String),
    Output(String),
}

impl Gathered {
    /// No values yet; those that are added have at most so many bytes.
    pub(super) fn within(most: usize) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }

    /// The bytes of JSON that are to be parsed, and of the names.
    pub(super) fn json_bytes(&self) -> usize {
        self.json_bytes
    }

    /// Parses the values and adds them.
    pub(super) fn parse(self, values: &mut Values) -> Result<(), Failure> {
        for name in &self.silent {
            values
                .output(name, None)
                .map_err(|error| unusable(&error))?;
        }
        // The text of a value is dropped when its parsed form is there, which takes more.
        for (slot, json) in self.json {
            let parsed = match slot {
                Slot::Input => values.input(&json),
                Slot::Item => values.item(&json),
                Slot::Var(name) => values.var(&name, &json),
                Slot::Output(name) => values.output(&name, Some(&json)),
            };
            parsed.map_err(|error| unusable(&error))?;
        }
        if let Some(index) = self.index {
            values.index(index);
        }
        for (name, link) in &self.links {
            values.link(name, link);
        }
        if let Some((id, correlation)) = &self.run {
            values.run(id, correlation.as_deref());
        }
        if let Some(workflow) = &self.workflow {
            values.workflow(workflow);
        }
        if let Some((kind, attempt)) = self.trigger {
            values.trigger(kind.name(), attempt);
        }
        Ok(())
    }

    /// Adds the output of a node. It replaces an earlier one.
    pub(super) fn output(&mut self, name: &str, json: Bytes) -> Result<(), Unread> {
        self.add(Slot::Output(name.to_owned()), json)
    }

    /// Adds JSON. Its parsed form takes at least as many bytes.
    pub(super) fn add(&mut self, slot: Slot, json: Bytes) -> Result<(), Unread> {
        let name = match &slot {
            Slot::Input | Slot::Item => 0,
            Slot::Var(name) | Slot::Output(name) => ENTRY_BYTES + name.len(),
        };
        self.json_bytes = self.json_bytes.saturating_add(name + json.len());
        if self.is_little && self.json_bytes > ALONE {
            return Err(Unread::Aside);
        }
        if self.json_bytes > self.most {
            let name = match slot {
                Slot::Input => "input".to_owned(),
                Slot::Item => "item".to_owned(),
                Slot::Var(name) => format!("vars.{name}"),
                Slot::Output(name) => format!("nodes.{name}.output"),
            };
            let most = self.most;
            return Err(Unread::Value(unusable(&InvalidJson::TooLarge {
                name,
                most,
            })));
        }
        self.json.push((slot, json));
        Ok(())
    }
}

impl OwnedRun {
    /// The values that expressions name, as seen from a scope; a consumer's patch replaces
    /// variables. A step that would gather much, and has no place among the evaluations aside, goes
    /// aside for it.
    pub(super) fn gather(
        &mut self,
        base: &Base,
        scope: ScopeNo,
        needs: &Needs,
        patch: &Patch,
    ) -> Result<Gathered, Unread> {
        let mut gathered = Gathered {
            most: base.evaluation.step.parsed,
            is_little: !self.evaluations.has_place(),
            ..Gathered::default()
        };
        if needs.is_empty() {
            return Ok(gathered);
        }
        let had = self.evaluations.got.as_ref().map(Got::len);
        match self.gather_all(base, scope, needs, patch, &mut gathered) {
            Ok(()) => Ok(gathered),
            Err(unread) => {
                // The values are gathered again, and may be others then.
                if let Some((got, had)) = self.evaluations.got.as_mut().zip(had) {
                    got.truncate(had);
                }
                Err(self.evaluations.with_place(unread, &gathered))
            }
        }
    }

    fn gather_all(
        &mut self,
        base: &Base,
        scope: ScopeNo,
        needs: &Needs,
        patch: &Patch,
        gathered: &mut Gathered,
    ) -> Result<(), Unread> {
        let store = base.store.as_ref();
        if needs.input {
            let input = self.memory.input(store, self.no)?;
            gathered.add(Slot::Input, json_of(store, &input)?)?;
        }
        if needs.item
            && let Some(item) = self.item(base, scope)?
        {
            gathered.add(Slot::Item, item)?;
        }
        if needs.index {
            gathered.index = self.state.scope(scope).map(|around| around.index);
        }
        if needs.all_vars || !needs.vars.is_empty() {
            self.gather_vars(store, scope, needs, patch, gathered)?;
        }
        let prepared = Arc::clone(&self.prepared);
        let graph = &prepared.graph;
        if needs.all_nodes {
            for (_, plan) in graph.nodes() {
                self.gather_output(store, graph, scope, &plan.name, gathered)?;
            }
        } else {
            for name in &needs.nodes {
                self.gather_output(store, graph, scope, name, gathered)?;
            }
        }
        for name in &needs.links {
            if let Some(link) = self.link_of(graph, scope, name, &base.links)? {
                gathered.links.push((name.clone(), link));
            }
        }
        if needs.run {
            gathered.run = Some((self.id.to_string(), self.correlation.clone()));
        }
        gathered.workflow = needs.workflow.then(|| Arc::clone(&self.prepared.name));
        gathered.trigger = needs.trigger.then_some(self.step);
        Ok(())
    }

    /// The link for the current or next wait of a node.
    fn link_of(
        &self,
        graph: &Graph,
        scope: ScopeNo,
        name: &str,
        links: &Links,
    ) -> Result<Option<String>, Unread> {
        let named = graph.nodes().find(|(_, plan)| plan.name == name);
        let is_called = |open: &Open| {
            let held = self.held.get(&open.seq);
            held.is_none_or(|held| held.given.is_some() || held.is_claimed())
        };
        let visit = named.and_then(|(node, _)| {
            let state = &self.state;
            state.next_visit(graph, scope, node, is_called)
        });
        let Some(visit) = visit else {
            return Ok(None);
        };
        let wait = WaitId::of_visit(self.id, visit.scope, name, visit.visit, visit.phase);
        let link = links.link(&Target::Wait(wait, BookmarkTag::ANY));
        link.map(Some).map_err(|error| {
            let text = format!("no link can be made: {error}");
            Unread::Value(Failure::new(Class::Retryable, codes::KEYRING, text))
        })
    }

    fn gather_vars(
        &mut self,
        store: &dyn Store,
        scope: ScopeNo,
        needs: &Needs,
        patch: &Patch,
        gathered: &mut Gathered,
    ) -> Result<(), Unread> {
        // Of several values with one name the last counts, so outer scopes come first.
        let around: Vec<ScopeNo> = self.state.around(scope).collect();
        for scope in around.into_iter().rev() {
            if needs.all_vars {
                for (name, made) in self.memory.vars(store, self.no, scope)? {
                    self.evaluations.reads_var(name, &made.data);
                    gathered.add(Slot::Var(name.clone()), json_of(store, &made.data)?)?;
                }
                continue;
            }
            for name in &needs.vars {
                if let Some(value) = self.memory.var(store, self.no, scope, name)? {
                    self.evaluations.reads_var(name, &value);
                    gathered.add(Slot::Var(name.clone()), json_of(store, &value)?)?;
                }
            }
        }
        for (name, json) in patch {
            if needs.all_vars || needs.vars.contains(name) {
                self.evaluations
                    .reads_var(name, &Payload::json(json.clone()));
                gathered.add(Slot::Var(name.clone()), json.clone())?;
            }
        }
        Ok(())
    }

    fn gather_output(
        &mut self,
        store: &dyn Store,
        graph: &Graph,
        scope: ScopeNo,
        name: &str,
        gathered: &mut Gathered,
    ) -> Result<(), Unread> {
        let node = graph.find(name);
        let latest = node.and_then(|node| Some((node, self.state.latest(graph, scope, node)?)));
        let Some((node, run)) = latest else {
            gathered.silent.push(name.to_owned());
            return Ok(());
        };
        self.evaluations.reads_output(node, run);
        let output = self.memory.output(store, run)?;
        gathered.output(name, json_of(store, &output)?)
    }
}

/// The failure of a value that expressions cannot see.
pub(super) fn unusable(error: &InvalidJson) -> Failure {
    let class = match error {
        InvalidJson::Syntax { .. } => Class::Invalid,
        InvalidJson::TooLarge { .. } => Class::Limit,
    };
    Failure::new(class, codes::RENDER, error.to_string())
}

impl OwnedRun {
    /// The item of a scope, as JSON; none outside of every for-each.
    pub(crate) fn item(&mut self, base: &Base, scope: ScopeNo) -> Result<Option<Bytes>, Unread> {
        let Some((list, index)) = self.state.scope(scope).map(|at| (at.run, at.index)) else {
            return Ok(None);
        };
        let (store, has_room) = (base.store.as_ref(), base.has_room());
        let item = self.memory.item(store, list, index, has_room)?;
        // The next run sees whether there is still room.
        self.memory.count(&base.metrics);
        Ok(Some(item))
    }

    /// A variable as seen from a scope: its own, or else that of the nearest scope around it.
    pub(crate) fn var(
        &mut self,
        store: &dyn Store,
        scope: ScopeNo,
        name: &str,
    ) -> Result<Option<Payload>, Unread> {
        for around in self.state.around(scope) {
            let found = self.memory.var(store, self.no, around, name)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}
