//! The values that expressions see.
//!
//! They are filled once per step with the values that the compiled expressions need
//! ([`super::Needs`]), and then used by all of them. Filling costs little more than parsing the
//! JSON.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, OnceLock};

use minijinja::Value;
use minijinja::value::{Enumerator, Object};
use windlass_model::Failure;

use super::machine::{Interrupt, StepBudget};
use super::names;
use super::needs::Cause;
use super::parse::{self, Unread};

/// The limit of all parsed values together, in bytes, unless the host is configured otherwise. JSON
/// takes much less than its parsed form: an empty map is two bytes of JSON, and more than a hundred in
/// memory.
pub const PARSED: usize = 256 * 1024 * 1024;

/// A value that expressions cannot see.
#[derive(Debug, thiserror::Error)]
pub enum InvalidJson {
    /// A value was not JSON.
    #[error("`{name}` is not JSON: {reason}")]
    Syntax {
        /// The name of the value.
        name: String,
        /// The message of the parser.
        reason: String,
    },
    /// The values together take too much memory.
    #[error("`{name}` and the values before it take more than {most} bytes of memory")]
    TooLarge {
        /// The name of the value that exceeded the limit.
        name: String,
        /// The limit, in bytes.
        most: usize,
    },
}

/// The values that expressions see.
#[derive(Clone, Debug, Default)]
pub struct Values {
    inner: Arc<ValuesInner>,
    /// Made at the first evaluation, unless the caller sets one.
    budget: OnceLock<StepBudget>,
    interrupt: Interrupt,
    parsed: usize,
}

#[derive(Clone, Debug, Default)]
struct ValuesInner {
    input: Option<Value>,
    item: Option<Value>,
    index: Option<u32>,
    vars: Table,
    nodes: Table,
    links: Table,
    run: Option<Fields<2>>,
    workflow: Option<Fields<1>>,
    trigger: Option<Fields<2>>,
    error: Option<Fields<4>>,
    cause: Option<(&'static str, Value)>,
}

impl Values {
    /// No values.
    pub fn new() -> Self {
        Self::default()
    }

    /// No values, and at most so much work for all evaluations together.
    pub(super) fn with_work(work: u64) -> Self {
        Self {
            budget: OnceLock::from(StepBudget::with_work(work)),
            ..Self::default()
        }
    }

    /// Sets the input of the run, as JSON.
    ///
    /// # Errors
    ///
    /// The bytes are not JSON.
    pub fn input(&mut self, json: &[u8]) -> Result<(), InvalidJson> {
        let value = self.parse(json, || "input".to_owned())?;
        self.inner().input = Some(value);
        Ok(())
    }

    /// Sets the current item of a for-each, as JSON.
    ///
    /// # Errors
    ///
    /// The bytes are not JSON.
    pub fn item(&mut self, json: &[u8]) -> Result<(), InvalidJson> {
        let value = self.parse(json, || "item".to_owned())?;
        self.inner().item = Some(value);
        Ok(())
    }

    /// Sets the position of that item in its list, from 0.
    pub fn index(&mut self, index: u32) {
        self.inner().index = Some(index);
    }

    /// Sets a variable, as JSON. Of several with one name the last counts.
    ///
    /// # Errors
    ///
    /// The bytes are not JSON.
    pub fn var(&mut self, name: &str, json: &[u8]) -> Result<(), InvalidJson> {
        let value = self.parse(json, || format!("vars.{name}"))?;
        self.inner().vars.set(name, value);
        Ok(())
    }

    /// Sets the output of a node, as JSON, seen as `nodes.<name>.output`. `None` stands for a node
    /// that was skipped or has not run: expressions see `none`.
    ///
    /// # Errors
    ///
    /// The bytes are not JSON.
    pub fn output(&mut self, node: &str, json: Option<&[u8]>) -> Result<(), InvalidJson> {
        let value = match json {
            Some(json) => self.parse(json, || format!("nodes.{node}.output"))?,
            None => Value::from(()),
        };
        self.inner().nodes.set(node, value);
        Ok(())
    }

    /// Sets the link that resumes a node, seen as `nodes.<name>.link`.
    pub fn link(&mut self, node: &str, link: &str) {
        self.inner().links.set(node, Value::from(link));
    }

    /// Sets the identity of the run, seen as `run.id` and `run.correlation`.
    pub fn run(&mut self, id: &str, correlation: Option<&str>) {
        let correlation = correlation.map_or(Value::from(()), Value::from);
        self.inner().run = Some(Fields([
            ("id", Value::from(id)),
            ("correlation", correlation),
        ]));
    }

    /// Sets the name of the workflow, seen as `workflow.name`.
    pub fn workflow(&mut self, name: &str) {
        self.inner().workflow = Some(Fields([("name", Value::from(name))]));
    }

    /// Sets the trigger of the step, seen as `trigger.type` and `trigger.attempt`.
    pub fn trigger(&mut self, kind: &str, attempt: u32) {
        self.inner().trigger = Some(Fields([
            ("type", Value::from(kind)),
            ("attempt", Value::from(attempt)),
        ]));
    }

    /// Sets the failure that a condition is about, seen as `error`.
    ///
    /// # Errors
    ///
    /// The details are not JSON.
    pub fn error(&mut self, failure: &Failure) -> Result<(), InvalidJson> {
        let details = match &failure.details {
            Some(details) => {
                self.parse(details.as_str().as_bytes(), || "error.details".to_owned())?
            }
            None => Value::from(()),
        };
        self.inner().error = Some(Fields([
            ("class", Value::from(failure.class.name())),
            ("code", Value::from(failure.code.as_str())),
            ("message", Value::from(failure.message.as_str())),
            ("details", details),
        ]));
        Ok(())
    }

    /// Sets what starts a run, as JSON.
    ///
    /// # Errors
    ///
    /// The bytes are not JSON.
    pub fn cause(&mut self, cause: Cause, json: &[u8]) -> Result<(), InvalidJson> {
        let name = cause.name();
        let value = self.parse(json, || name.to_owned())?;
        self.inner().cause = Some((name, value));
        Ok(())
    }

    /// The object in which MiniJinja looks up names.
    #[cfg(test)]
    pub(super) fn root(&self) -> Value {
        Value::from_dyn_object(Arc::clone(&self.inner))
    }

    /// These values with so much work left.
    #[cfg(test)]
    pub(super) fn limited(&self, work: u64) -> Self {
        let mut values = self.clone();
        values.within(&StepBudget::with_work(work));
        values
    }

    /// These values with an item, with a copy of it as a variable, and with a long text as another.
    #[cfg(test)]
    pub(super) fn with(&self, item: Value, copy: Value) -> Self {
        let mut values = self.clone();
        let inner = values.inner();
        inner.item = Some(item);
        inner.vars.set("copy", copy);
        inner.vars.set("text", Value::from("ab".repeat(500_000)));
        values
    }

    /// Sets the interrupt by which the caller cancels evaluations.
    pub fn interrupted_by(&mut self, interrupt: Interrupt) {
        self.interrupt = interrupt;
    }

    pub(super) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Sets the budget that evaluations share with others of the same step.
    pub fn within(&mut self, budget: &StepBudget) {
        self.budget = OnceLock::from(budget.clone());
    }

    /// Whether an evaluation was interrupted, of these values or of others with the same budget.
    pub fn was_interrupted(&self) -> bool {
        self.budget.get().is_some_and(StepBudget::is_interrupted)
    }

    pub(super) fn budget(&self) -> &StepBudget {
        self.budget.get_or_init(StepBudget::default)
    }

    /// Looks up a path without the interpreter. `None` if any name on the path is undefined.
    pub(super) fn lookup(&self, root: &str, path: &[Box<str>]) -> Option<Value> {
        let (value, rest) = match (root, path) {
            ("input", rest) => (self.inner.input.clone()?, rest),
            ("item", rest) => (self.inner.item.clone()?, rest),
            ("vars", [name, rest @ ..]) => (self.inner.vars.get(name)?.clone(), rest),
            ("nodes", [node, property, rest @ ..]) if **property == *names::OUTPUT => {
                (self.inner.nodes.get(node)?.clone(), rest)
            }
            ("nodes", [node, property, rest @ ..]) if **property == *names::LINK => {
                (self.inner.links.get(node)?.clone(), rest)
            }
            (root, rest) => (self.inner.get_value_by_str(root)?, rest),
        };
        rest.iter().try_fold(value, |value, name| {
            value
                .get_attr(name)
                .ok()
                .filter(|value| !value.is_undefined())
        })
    }

    fn parse(&mut self, json: &[u8], name: impl FnOnce() -> String) -> Result<Value, InvalidJson> {
        let bounds = self.budget.get().map(StepBudget::bounds);
        let most = bounds.map_or(PARSED, |bounds| bounds.parsed);
        let room = most.saturating_sub(self.parsed);
        let size = parsed_size(json, room);
        if size > room {
            return Err(InvalidJson::TooLarge { name: name(), most });
        }
        let mut left = room.saturating_sub(size);
        let value = parse::json(json, &mut left).map_err(|unread| match unread {
            Unread::TooLarge => InvalidJson::TooLarge { name: name(), most },
            Unread::Syntax(reason) => InvalidJson::Syntax {
                name: name(),
                reason,
            },
        })?;
        self.parsed = most.saturating_sub(left);
        Ok(value)
    }

    fn inner(&mut self) -> &mut ValuesInner {
        // No other clone exists: an evaluation drops its clone when it ends.
        Arc::make_mut(&mut self.inner)
    }
}

/// An upper bound of the bytes of parsed JSON text: each of these characters begins or separates
/// values. Characters in strings are counted too, unless the count would exceed `room`.
fn parsed_size(json: &[u8], room: usize) -> usize {
    let signs = |sign: u8| json.iter().filter(|byte| **byte == sign).count();
    let size = |[commas, colons, lists, maps, quotes]: [usize; 5]| {
        commas * 24 + colons * 56 + lists * 96 + maps * 160 + quotes * 16 + json.len() + 24
    };
    let most = size([b',', b':', b'[', b'{', b'"'].map(signs));
    if most <= room {
        return most;
    }
    let (mut counts, mut in_text, mut escaped) = ([0; 5], false, false);
    for byte in json {
        let [commas, colons, lists, maps, quotes] = &mut counts;
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => {
                in_text = !in_text;
                *quotes += 1;
            }
            _ if in_text => {}
            b',' => *commas += 1,
            b':' => *colons += 1,
            b'[' => *lists += 1,
            b'{' => *maps += 1,
            _ => {}
        }
    }
    size(counts)
}

impl Object for ValuesInner {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        match key {
            "input" => self.input.clone(),
            "item" => self.item.clone(),
            "index" => self.index.map(Value::from),
            "vars" => Some(Value::from_object(Vars(Arc::clone(self)))),
            "nodes" => Some(Value::from_object(Nodes(Arc::clone(self)))),
            names::RUN => self.run.clone().map(Value::from_object),
            "workflow" => self.workflow.clone().map(Value::from_object),
            "trigger" => self.trigger.clone().map(Value::from_object),
            "error" => self.error.clone().map(Value::from_object),
            key => {
                let cause = self.cause.as_ref().filter(|(name, _)| *name == key);
                cause.map(|(_, value)| value.clone())
            }
        }
    }
}

/// Values by name, sorted by name. Names of up to 22 bytes need no allocation. A tree, because names
/// come in any order: 60,000 insertions into a sorted list take seconds.
#[derive(Clone, Debug, Default)]
struct Table(BTreeMap<Name, Value>);

/// A name: a value that is a text, ordered as this text.
#[derive(Clone, Debug)]
struct Name(Value);

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self.0.as_str().unwrap_or_default()
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        let (name, other): (&str, &str) = (self.borrow(), other.borrow());
        name.cmp(other)
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Name {}

impl Table {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    fn set(&mut self, name: &str, value: Value) {
        self.0.insert(Name(Value::from(name)), value);
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    /// The first name after another one, or the first of all.
    fn after(&self, name: Option<&Value>) -> Option<Value> {
        let from = match name {
            Some(name) => Excluded(name.as_str().unwrap_or_default()),
            None => Unbounded,
        };
        let mut names = self.0.range::<str, _>((from, Unbounded));
        names.next().map(|(name, _)| name.0.clone())
    }
}

/// Enumerates the names of a table one by one: a copy of all names would cost as much as the table
/// is large, also for a filter that reads only the first.
fn names_of(of: &Arc<ValuesInner>, table: fn(&ValuesInner) -> &Table) -> Enumerator {
    let (of, mut last) = (Arc::clone(of), None);
    let names = std::iter::from_fn(move || {
        last = table(&of).after(last.as_ref());
        last.clone()
    });
    Enumerator::Iter(Box::new(names))
}

#[derive(Debug)]
struct Vars(Arc<ValuesInner>);

impl Object for Vars {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.0.vars.get(key).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        names_of(&self.0, |values| &values.vars)
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.0.vars.len())
    }
}

#[derive(Debug)]
struct Nodes(Arc<ValuesInner>);

impl Object for Nodes {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        let output = self.0.nodes.get(key).cloned();
        let link = self.0.links.get(key).cloned();
        let undefined = || Value::UNDEFINED;
        Some(match (output, link) {
            (None, None) => return None,
            (Some(output), None) => Value::from_object(Fields([(names::OUTPUT, output)])),
            (output, Some(link)) => Value::from_object(Fields([
                (names::OUTPUT, output.unwrap_or_else(undefined)),
                (names::LINK, link),
            ])),
        })
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        names_of(&self.0, |values| &values.nodes)
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.0.nodes.len())
    }
}

/// An object with fixed properties.
#[derive(Clone, Debug)]
struct Fields<const N: usize>([(&'static str, Value); N]);

impl<const N: usize> Object for Fields<N> {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.0
            .iter()
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value.clone())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.iter().map(|(name, _)| Value::from(*name)).collect())
    }
}
