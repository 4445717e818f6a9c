//! Renders what an execution got again, from the records and the marks that its own record names.
//!
//! Rendering is pure, so the same values give the same input. A value that cannot be found, or that
//! may be another one, is never guessed: the answer says why it is missing.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;
use windlass_engine::expr::{
    Alias, Bounds, ExprErrorKind, Interrupt, Needs, StepBudget, Template, Values,
};
use windlass_engine::{Inputs as MadeOf, Mark, NodeIx, Plan, PlanKind, check, mark};
use windlass_model::{Class, ExecutionNo, Failure, Payload, ScopeNo};
use windlass_store::rows::{ExecutionRow, RunRow};
use windlass_store::{Store, next_rows};

use super::evaluate::failure;
use super::gather::{Gathered, Slot};
use super::memory::{Memory, Unread, json_of};
use crate::catalog::Prepared;
use crate::codes;

/// The executions before an execution that are searched for the values of its variables.
const LOOKED_AT: usize = 2_000;

/// The number of records in one read.
const PAGE: u32 = 200;

/// A value that an execution got.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// As it was stored with the execution.
    Recorded(Payload),
    /// Rendered again.
    Recomputed(Payload),
    /// Not known any more, for this reason.
    Missing(String),
}

/// What an execution got.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inputs {
    /// The configuration, with the names of secrets in their places. None: a node without `with`.
    pub with: Option<Given>,
    /// The input. None: the node takes none.
    pub input: Option<Given>,
}

/// An execution whose input is rendered again.
pub(crate) struct Again<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) run: &'a RunRow,
    pub(crate) record: &'a ExecutionRow,
    pub(crate) made_of: MadeOf,
    /// The definition by which the execution began.
    pub(crate) prepared: &'a Prepared,
    pub(crate) bounds: Bounds,
    pub(crate) interrupt: Interrupt,
    /// Why the input of the run is not the one that the execution saw.
    pub(crate) other_input: Option<&'static str>,
    /// Why the id of the run is not the one that the execution saw.
    pub(crate) other_id: Option<&'static str>,
    /// The variables that it read, once one of them is needed.
    pub(crate) vars: OnceCell<BTreeMap<String, Option<Payload>>>,
}

/// What an execution got, as far as it can be told.
///
/// # Errors
///
/// The store fails.
pub(crate) fn inputs_again(again: &Again<'_>) -> windlass_store::Result<Inputs> {
    let made_of = &again.made_of;
    let node = NodeIx(again.record.node);
    let plan = again.prepared.graph.node(node);
    let with = match (&made_of.with, plan.map(|plan| &plan.kind)) {
        (Some(with), _) => Some(Given::Recorded(Payload::json(with.clone()))),
        (None, Some(PlanKind::Use { with, .. })) => Some(given(again.with(node, with))?),
        (None, _) => None,
    };
    let input = match (&made_of.input, plan) {
        (Some(input), _) => Given::Recorded(input.clone()),
        (None, _) if !made_of.rendered => Given::Missing(NOT_RENDERED.to_owned()),
        (None, Some(plan)) => given(again.input(plan))?,
        (None, None) => Given::Missing("its node is gone".to_owned()),
    };
    Ok(Inputs {
        with,
        input: Some(input),
    })
}

/// Why an execution that failed or was cancelled has no input.
pub(crate) const NOT_RENDERED: &str = "the execution ended before its input was rendered";

/// The positions of the items around an execution.
fn positions(made_of: &MadeOf) -> Vec<u32> {
    let item = made_of.item.as_ref();
    item.map(|(_, at)| at.clone()).unwrap_or_default()
}

/// A value, or why it is missing.
fn given(found: Result<Payload, Unread>) -> windlass_store::Result<Given> {
    match found {
        Ok(value) => Ok(Given::Recomputed(value)),
        Err(Unread::Value(failure)) => Ok(Given::Missing(failure.message)),
        Err(Unread::Store(error)) => Err(error),
        Err(Unread::Aside) => Ok(Given::Missing("it is not evaluated here".to_owned())),
    }
}

/// A result that is the one that the node got.
fn checked(json: Bytes, wanted: Option<[u8; 8]>) -> Result<Payload, Unread> {
    match wanted {
        Some(wanted) if check(&json) != Some(wanted) => Err(missing(
            "rendering it again gives another result than the node got",
        )),
        _ => Ok(Payload::json(json)),
    }
}

fn missing(why: impl Into<String>) -> Unread {
    Unread::Value(Failure::new(Class::Invalid, codes::RENDER, why))
}

impl Again<'_> {
    /// The configuration, completed by its defaults, with the names of secrets.
    fn with(&self, node: NodeIx, with: &Template) -> Result<Payload, Unread> {
        let executor = self.prepared.executor(node);
        let executor = executor.ok_or_else(|| missing("its node is gone"))?;
        if let Some(constant) = with.constant() {
            let completed = executor.completed.as_ref().unwrap_or(constant);
            return Ok(Payload::json(executor.named(completed)));
        }
        let rendered = self.rendered(with)?;
        let json = executor.configured(rendered).map_err(Unread::Value)?;
        checked(executor.named(&json), self.made_of.read.with)
    }

    fn input(&self, plan: &Plan) -> Result<Payload, Unread> {
        let Some(template) = &plan.input else {
            return self.default_input(plan.gathers);
        };
        if let Some(alias) = template.alias()
            && let Some(value) = self.aliased(&alias)?
        {
            return Ok(value);
        }
        checked(self.rendered(template)?, self.made_of.read.input)
    }

    /// As [`super::owned::OwnedRun::default_input`] makes it.
    fn default_input(&self, gathers: bool) -> Result<Payload, Unread> {
        if self.made_of.read.cut {
            return Err(missing(CUT));
        }
        if !gathers {
            return match (self.made_of.from.first(), &self.made_of.item) {
                (Some((_, run)), _) => self.output(*run),
                (None, Some(_)) => self.item().map(Payload::json),
                (None, None) => self.run_input(),
            };
        }
        let mut json = vec![b'{'];
        for (node, run) in &self.made_of.from {
            let plan = self.prepared.graph.node(*node);
            let name = plan.map(|plan| &plan.name);
            let name = name.ok_or_else(|| missing("a node before it is gone"))?;
            if json.len() > 1 {
                json.push(b',');
            }
            let output = json_of(self.store, &self.output(*run)?)?;
            if json.len() + name.len() + output.len() > self.bounds.made {
                return Err(missing("it is too large to be put together again"));
            }
            json.extend_from_slice(format!("\"{name}\":").as_bytes());
            json.extend_from_slice(&output);
        }
        json.push(b'}');
        Ok(Payload::json(json))
    }

    fn aliased(&self, alias: &Alias) -> Result<Option<Payload>, Unread> {
        match alias {
            Alias::Input => self.run_input().map(Some),
            Alias::Item if self.made_of.item.is_none() => Ok(None),
            Alias::Item => self.item().map(|item| Some(Payload::json(item))),
            Alias::Output(name) => match self.read_output(name)? {
                Some(run) => self.output(run).map(Some),
                None => Ok(None),
            },
            Alias::Var(name) => self.var(name),
        }
    }

    fn rendered(&self, template: &Template) -> Result<Bytes, Unread> {
        if let Some(constant) = template.constant() {
            return Ok(constant.clone());
        }
        let mut values = Values::new();
        let budget = StepBudget::new(self.bounds);
        values.within(&budget);
        self.gather(template.needs())?
            .parse(&mut values)
            .map_err(Unread::Value)?;
        values.interrupted_by(self.interrupt.clone());
        template.render(&values).map_err(|error| match error.kind {
            ExprErrorKind::Interrupted => missing("it takes too long to be rendered again"),
            _ => Unread::Value(failure(&error)),
        })
    }

    /// The values that the expressions read, as [`super::owned::OwnedRun::gather`] gathered them.
    fn gather(&self, needs: &Needs) -> Result<Gathered, Unread> {
        if !needs.links.is_empty() {
            return Err(missing(
                "it has a link that resumes a node, and such links are secrets",
            ));
        }
        let mut gathered = Gathered::within(self.bounds.parsed);
        let json = |value: Payload| json_of(self.store, &value);
        if needs.input {
            gathered.add(Slot::Input, json(self.run_input()?)?)?;
        }
        if needs.item && self.made_of.item.is_some() {
            gathered.add(Slot::Item, self.item()?)?;
        }
        if needs.index {
            gathered.index = positions(&self.made_of).last().copied();
        }
        if needs.all_vars {
            for name in self.vars()?.keys() {
                if let Some(value) = self.var(name)? {
                    gathered.add(Slot::Var(name.clone()), json(value)?)?;
                }
            }
        } else {
            for name in &needs.vars {
                if let Some(value) = self.var(name)? {
                    gathered.add(Slot::Var(name.clone()), json(value)?)?;
                }
            }
        }
        let graph = &self.prepared.graph;
        let all = graph.nodes().filter(|_| needs.all_nodes);
        let all = all.map(|(_, plan)| &plan.name);
        let named = needs.nodes.iter().filter(|_| !needs.all_nodes);
        for name in all.chain(named) {
            match self.read_output(name)? {
                Some(run) => gathered.output(name, json(self.output(run)?)?)?,
                None => gathered.silent.push(name.clone()),
            }
        }
        if needs.run {
            if let Some(why) = self.other_id {
                return Err(missing(why));
            }
            let correlation = self.run.correlation.as_deref().map(Arc::from);
            gathered.run = Some((self.run.id.to_string(), correlation));
        }
        let of_step = (self.record.kind, self.record.attempt);
        gathered.workflow = needs.workflow.then(|| Arc::clone(&self.prepared.name));
        gathered.trigger = needs.trigger.then_some(of_step);
        Ok(gathered)
    }

    fn run_input(&self) -> Result<Payload, Unread> {
        if let Some(why) = self.other_input {
            return Err(missing(why));
        }
        let input = self.store.input(self.run.no)?;
        Ok(input.unwrap_or_else(Payload::null))
    }

    /// The output of an execution of the run.
    fn output(&self, no: ExecutionNo) -> Result<Payload, Unread> {
        let found = self.store.execution(no)?;
        // An imported record may name one of another run.
        let found = found.filter(|found| found.run == self.run.no);
        let found = found.ok_or_else(|| missing("an execution that it read is gone"))?;
        Ok(found.output.unwrap_or_else(Payload::null))
    }

    fn item(&self) -> Result<Bytes, Unread> {
        let gone = || missing("the item is gone");
        let (list, at) = self.made_of.item.as_ref().ok_or_else(gone)?;
        let index = at.last().ok_or_else(gone)?;
        self.output(*list)?;
        let item = Memory::default().item(self.store, *list, *index, false)?;
        if item.is_empty() {
            Err(gone())
        } else {
            Ok(item)
        }
    }

    /// The execution whose output of a node was read; none if the node had none.
    fn read_output(&self, name: &str) -> Result<Option<ExecutionNo>, Unread> {
        let read = &self.made_of.read;
        if read.cut {
            return Err(missing(CUT));
        }
        let node = self.prepared.graph.find(name);
        let found = read.outputs.iter().rev().find(|(of, _)| Some(*of) == node);
        Ok(found.map(|(_, run)| *run))
    }

    /// A variable as it was; none if it was not assigned.
    fn var(&self, name: &str) -> Result<Option<Payload>, Unread> {
        match self.vars()?.get(name) {
            None => Ok(None),
            Some(Some(value)) => Ok(Some(value.clone())),
            Some(None) => Err(missing(format!(
                "the variable `{name}` had another value then, and it is not found any more"
            ))),
        }
    }

    /// The variables that were read; none for a value that is not found.
    fn vars(&self) -> Result<&BTreeMap<String, Option<Payload>>, Unread> {
        if self.made_of.read.cut {
            return Err(missing(CUT));
        }
        if let Some(known) = self.vars.get() {
            return Ok(known);
        }
        let found = self.find_vars()?;
        Ok(self.vars.get_or_init(|| found))
    }

    /// Looks for the values with the marks of the record: the current ones, those with which the run
    /// began, and those that earlier executions assigned.
    fn find_vars(&self) -> Result<BTreeMap<String, Option<Payload>>, Unread> {
        let marks: BTreeMap<&str, Mark> = {
            let vars = self.made_of.read.vars.iter();
            vars.map(|(name, mark)| (name.as_str(), *mark)).collect()
        };
        let mut found = BTreeMap::new();
        for (name, wanted) in &marks {
            let now = self.store.var(self.run.no, ScopeNo::ROOT, name)?;
            let first = self.prepared.vars.iter().find(|(var, _)| var == name);
            let first = first.map(|(_, json)| Payload::json(json.clone()));
            let mut known = now.into_iter().chain(first);
            let known = known.find(|value| mark(value) == *wanted);
            found.insert((*name).to_owned(), known);
        }
        let (mut before, mut seen) = (Some(self.record.no), 0);
        while found.values().any(Option::is_none) && seen < LOOKED_AT {
            let rows = next_rows(PAGE, |most| {
                self.store.executions(self.run.no, before, most)
            })?;
            let Some(last) = rows.last() else { break };
            (before, seen) = (Some(last.no), seen + rows.len());
            for row in rows {
                self.find_assigned(&row, &marks, &mut found)?;
            }
        }
        Ok(found)
    }

    /// Takes the values that a `set` node assigned and that have the right marks.
    fn find_assigned(
        &self,
        row: &ExecutionRow,
        marks: &BTreeMap<&str, Mark>,
        found: &mut BTreeMap<String, Option<Payload>>,
    ) -> Result<(), Unread> {
        let plan = self.prepared.graph.node(NodeIx(row.node));
        let (Some(PlanKind::Set(_)), Some(output)) = (plan.map(|plan| &plan.kind), &row.output)
        else {
            return Ok(());
        };
        let json = json_of(self.store, output)?;
        let Ok(members) = serde_json::from_slice::<BTreeMap<String, &RawValue>>(&json) else {
            return Ok(());
        };
        for (name, value) in members {
            let wanted = marks.get(name.as_str());
            let is_open = found.get(&name).is_some_and(Option::is_none);
            let value = Payload::json(json.slice_ref(value.get().as_bytes()));
            if is_open && wanted.is_some_and(|wanted| mark(&value) == *wanted) {
                found.insert(name, Some(value));
            }
        }
        Ok(())
    }
}

/// Why an execution that read very many values has no input.
const CUT: &str = "it read more values than a record names";
