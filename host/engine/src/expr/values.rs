//! What expressions see.
//!
//! Filled once per step with what the compiled expressions name ([`super::Needs`]), and then
//! used for all of them. Filling it costs the parsing of the JSON put in and little else.

use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Enumerator, Object};

/// A value was not JSON.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` is not JSON: {reason}")]
pub struct InvalidJson {
    /// What it was to be.
    pub name: String,
    /// Why not.
    pub reason: String,
}

/// What expressions see.
#[derive(Clone, Debug, Default)]
pub struct Values(Arc<Inner>);

#[derive(Clone, Debug, Default)]
struct Inner {
    input: Option<Value>,
    item: Option<Value>,
    index: Option<u32>,
    vars: Table,
    nodes: Table,
    instance: Option<Fields<2>>,
    workflow: Option<Fields<1>>,
    trigger: Option<Fields<2>>,
}

impl Values {
    /// Nothing at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the run was given, as JSON.
    ///
    /// # Errors
    ///
    /// The bytes are not JSON.
    pub fn input(&mut self, json: &[u8]) -> Result<(), InvalidJson> {
        self.inner().input = Some(parse(json, || "input".to_owned())?);
        Ok(())
    }

    /// The item of a for-each that is being worked on, as JSON.
    ///
    /// # Errors
    ///
    /// The bytes are not JSON.
    pub fn item(&mut self, json: &[u8]) -> Result<(), InvalidJson> {
        self.inner().item = Some(parse(json, || "item".to_owned())?);
        Ok(())
    }

    /// The position of that item in its list, from 0.
    pub fn index(&mut self, index: u32) {
        self.inner().index = Some(index);
    }

    /// A variable, as JSON. The last of several with one name counts.
    ///
    /// # Errors
    ///
    /// The bytes are not JSON.
    pub fn var(&mut self, name: &str, json: &[u8]) -> Result<(), InvalidJson> {
        let value = parse(json, || format!("vars.{name}"))?;
        self.inner().vars.set(name, value);
        Ok(())
    }

    /// The output of a node, as JSON: seen as `nodes.<name>.output`. None is for a node that
    /// was skipped or has not run, whose output is seen as `none`.
    ///
    /// # Errors
    ///
    /// The bytes are not JSON.
    pub fn output(&mut self, node: &str, json: Option<&[u8]>) -> Result<(), InvalidJson> {
        let value = match json {
            Some(json) => parse(json, || format!("nodes.{node}.output"))?,
            None => Value::from(()),
        };
        self.inner().nodes.set(node, value);
        Ok(())
    }

    /// Which run it is: seen as `instance.id` and `instance.correlation`.
    pub fn instance(&mut self, id: &str, correlation: Option<&str>) {
        let correlation = correlation.map_or(Value::from(()), Value::from);
        self.inner().instance = Some(Fields([
            ("id", Value::from(id)),
            ("correlation", correlation),
        ]));
    }

    /// The name of the workflow: seen as `workflow.name`.
    pub fn workflow(&mut self, name: &str) {
        self.inner().workflow = Some(Fields([("name", Value::from(name))]));
    }

    /// What brought the step about: seen as `trigger.type` and `trigger.attempt`.
    pub fn trigger(&mut self, kind: &str, attempt: u32) {
        self.inner().trigger = Some(Fields([
            ("type", Value::from(kind)),
            ("attempt", Value::from(attempt)),
        ]));
    }

    /// The object that the interpreter looks names up in.
    pub(super) fn root(&self) -> Value {
        Value::from_dyn_object(Arc::clone(&self.0))
    }

    /// Looks a path up without the interpreter. None if anything on the way is undefined.
    pub(super) fn lookup(&self, root: &str, path: &[Box<str>]) -> Option<Value> {
        let (value, rest) = match (root, path) {
            ("input", rest) => (self.0.input.clone()?, rest),
            ("item", rest) => (self.0.item.clone()?, rest),
            ("vars", [name, rest @ ..]) => (self.0.vars.get(name)?.clone(), rest),
            ("nodes", [node, property, rest @ ..])
                if **property == *super::names::NODE_PROPERTY =>
            {
                (self.0.nodes.get(node)?.clone(), rest)
            }
            (root, rest) => (self.0.get_value_by_str(root)?, rest),
        };
        rest.iter().try_fold(value, |value, name| {
            value
                .get_attr(name)
                .ok()
                .filter(|value| !value.is_undefined())
        })
    }

    fn inner(&mut self) -> &mut Inner {
        // Nothing else holds it: evaluation gives its copy back when it ends.
        Arc::make_mut(&mut self.0)
    }
}

fn parse(json: &[u8], name: impl FnOnce() -> String) -> Result<Value, InvalidJson> {
    serde_json::from_slice(json).map_err(|error| InvalidJson {
        name: name(),
        reason: error.to_string(),
    })
}

impl Object for Inner {
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
            "instance" => self.instance.clone().map(Value::from_object),
            "workflow" => self.workflow.clone().map(Value::from_object),
            "trigger" => self.trigger.clone().map(Value::from_object),
            _ => None,
        }
    }
}

/// Names and values, sorted by name. Names of up to 22 bytes take no allocation.
#[derive(Clone, Debug, Default)]
struct Table(Vec<(Value, Value)>);

impl Table {
    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0
            .binary_search_by(|(key, _)| key.as_str().unwrap_or_default().cmp(name))
    }

    fn get(&self, name: &str) -> Option<&Value> {
        let index = self.find(name).ok()?;
        self.0.get(index).map(|(_, value)| value)
    }

    fn set(&mut self, name: &str, value: Value) {
        match self.find(name) {
            Ok(index) => {
                if let Some(entry) = self.0.get_mut(index) {
                    entry.1 = value;
                }
            }
            Err(index) => self.0.insert(index, (Value::from(name), value)),
        }
    }

    fn names(&self) -> Enumerator {
        Enumerator::Values(self.0.iter().map(|(name, _)| name.clone()).collect())
    }
}

#[derive(Debug)]
struct Vars(Arc<Inner>);

impl Object for Vars {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.0.vars.get(key).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.0.vars.names()
    }
}

#[derive(Debug)]
struct Nodes(Arc<Inner>);

impl Object for Nodes {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        let output = self.0.nodes.get(key)?.clone();
        Some(Value::from_object(Fields([(
            super::names::NODE_PROPERTY,
            output,
        )])))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.0.nodes.names()
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
