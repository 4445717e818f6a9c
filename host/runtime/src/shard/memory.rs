//! What an instance knows, read from the store only where an expression looks.

use bytes::Bytes;
use rustc_hash::FxHashMap;
use windlass_engine::Graph;
use windlass_engine::expr::{Needs, Values};
use windlass_model::{Body, Class, Failure, InstanceNo, Payload, RunNo, ScopeNo};
use windlass_store::Store;

use super::hot::Hot;
use super::work::Patch;
use crate::codes;

/// Outputs that are kept in memory at most once nothing is on its way to the store.
const KEPT_OUTPUTS: usize = 64;

/// The largest payload that an expression may look into, in bytes.
const EXPRESSION_BYTES: u64 = 16 * 1024 * 1024;

/// The part of what an instance knows that is in memory.
#[derive(Default)]
pub(crate) struct Memory {
    input: Option<Payload>,
    vars: Option<FxHashMap<String, Payload>>,
    /// What was assigned while the others had not been read: the store may not have it yet.
    assigned: FxHashMap<String, Payload>,
    /// Every output whose commit is on its way is here.
    outputs: FxHashMap<RunNo, Payload>,
}

/// Why something could not be read.
pub(crate) enum Unread {
    /// The store is in trouble; it is not the run's fault.
    Store(windlass_store::Error),
    /// The value cannot be used.
    Value(Failure),
}

impl From<windlass_store::Error> for Unread {
    fn from(error: windlass_store::Error) -> Self {
        Self::Store(error)
    }
}

impl Memory {
    /// The memory of an instance that is being created.
    pub(crate) fn born(input: Payload, vars: &[(String, Payload)]) -> Self {
        Self {
            input: Some(input),
            vars: Some(vars.iter().cloned().collect()),
            assigned: FxHashMap::default(),
            outputs: FxHashMap::default(),
        }
    }

    /// What the run works on.
    pub(crate) fn input(&mut self, store: &dyn Store, no: InstanceNo) -> Result<Payload, Unread> {
        if let Some(input) = &self.input {
            return Ok(input.clone());
        }
        let input = store.input(no)?.unwrap_or_else(Payload::null);
        Ok(self.input.insert(input).clone())
    }

    fn vars(
        &mut self,
        store: &dyn Store,
        no: InstanceNo,
    ) -> Result<&mut FxHashMap<String, Payload>, Unread> {
        if self.vars.is_none() {
            let mut vars: FxHashMap<_, _> = store.vars(no, ScopeNo::ROOT)?.into_iter().collect();
            vars.extend(self.assigned.drain());
            self.vars = Some(vars);
        }
        Ok(self.vars.get_or_insert_default())
    }

    /// One variable.
    pub(crate) fn var(
        &mut self,
        store: &dyn Store,
        no: InstanceNo,
        name: &str,
    ) -> Result<Option<Payload>, Unread> {
        Ok(self.vars(store, no)?.get(name).cloned())
    }

    /// Notes variables whose assignment is on its way to the store.
    pub(crate) fn assign(&mut self, assigned: &[(String, Payload)]) {
        let known = self.vars.as_mut().unwrap_or(&mut self.assigned);
        known.extend(assigned.iter().cloned());
    }

    /// Notes an output whose record is on its way to the store.
    pub(crate) fn keep(&mut self, run: RunNo, output: Payload) {
        self.outputs.insert(run, output);
    }

    /// The output of an execution.
    pub(crate) fn output(&mut self, store: &dyn Store, run: RunNo) -> Result<Payload, Unread> {
        if let Some(output) = self.outputs.get(&run) {
            return Ok(output.clone());
        }
        let output = store.run_output(run)?.unwrap_or_else(Payload::null);
        self.outputs.insert(run, output.clone());
        Ok(output)
    }

    /// Lets go of what the store has. Only to be called while nothing is on its way there.
    pub(crate) fn shrink(&mut self) {
        self.assigned.clear();
        if self.outputs.len() > KEPT_OUTPUTS {
            self.outputs.clear();
        }
    }
}

/// The JSON text of a payload. Text that is not JSON becomes a JSON string.
pub(crate) fn json_of(store: &dyn Store, payload: &Payload) -> Result<Bytes, Unread> {
    let bytes = match &payload.body {
        Body::Inline(bytes) => bytes.clone(),
        Body::Blob(blob) if blob.size > EXPRESSION_BYTES => {
            return Err(Unread::Value(Failure::new(
                Class::Limit,
                codes::PAYLOAD_TOO_LARGE,
                format!(
                    "a payload of {} bytes is too large to be looked into: the bound is {EXPRESSION_BYTES}",
                    blob.size
                ),
            )));
        }
        Body::Blob(blob) => store.blob(*blob)?.unwrap_or_default(),
    };
    if payload.is_json() {
        return Ok(bytes);
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(serde_json::to_vec(&text).unwrap_or_default().into())
}

impl Hot {
    /// The values that compiled expressions name, with a consumer's patch laid over them.
    pub(crate) fn values(
        &mut self,
        store: &dyn Store,
        needs: &Needs,
        patch: &Patch,
    ) -> Result<Values, Unread> {
        let mut values = Values::new();
        if needs.is_empty() {
            return Ok(values);
        }
        if needs.input {
            let input = self.memory.input(store, self.no)?;
            values.input(&json_of(store, &input)?).map_err(unusable)?;
        }
        if needs.all_vars || !needs.vars.is_empty() {
            self.fill_vars(store, needs, patch, &mut values)?;
        }
        if needs.all_nodes {
            let prepared = std::sync::Arc::clone(&self.prepared);
            for (_, plan) in prepared.graph.nodes() {
                self.fill_output(store, &prepared.graph, &plan.name, &mut values)?;
            }
        } else {
            let prepared = std::sync::Arc::clone(&self.prepared);
            for name in &needs.nodes {
                self.fill_output(store, &prepared.graph, name, &mut values)?;
            }
        }
        if needs.instance {
            values.instance(&self.id.to_string(), self.correlation.as_deref());
        }
        if needs.workflow {
            values.workflow(&self.prepared.name);
        }
        Ok(values)
    }

    fn fill_vars(
        &mut self,
        store: &dyn Store,
        needs: &Needs,
        patch: &Patch,
        values: &mut Values,
    ) -> Result<(), Unread> {
        let vars = self.memory.vars(store, self.no)?;
        for (name, payload) in vars.iter() {
            if needs.all_vars || needs.vars.contains(name) {
                values
                    .var(name, &json_of(store, payload)?)
                    .map_err(unusable)?;
            }
        }
        for (name, json) in patch {
            if needs.all_vars || needs.vars.contains(name) {
                values.var(name, json).map_err(unusable)?;
            }
        }
        Ok(())
    }

    fn fill_output(
        &mut self,
        store: &dyn Store,
        graph: &Graph,
        name: &str,
        values: &mut Values,
    ) -> Result<(), Unread> {
        let latest = graph
            .find(name)
            .and_then(|node| self.state.latest(graph, ScopeNo::ROOT, node));
        let json = match latest {
            Some(run) => {
                let output = self.memory.output(store, run)?;
                Some(json_of(store, &output)?)
            }
            None => None,
        };
        values.output(name, json.as_deref()).map_err(unusable)
    }
}

fn unusable(error: windlass_engine::expr::InvalidJson) -> Unread {
    Unread::Value(Failure::new(
        Class::Invalid,
        codes::RENDER,
        error.to_string(),
    ))
}
