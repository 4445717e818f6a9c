//! The data of a run, read from the store only when an expression needs it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use windlass_model::{Body, Class, ExecutionNo, Failure, Payload, RunNo, ScopeNo, Seq};
use windlass_store::Store;

use super::owned::OwnedRun;
use crate::codes;

/// The limit of outputs kept in memory when no commit is in progress.
const KEPT_OUTPUTS: usize = 64;

/// The limit of lists kept in memory when no commit is in progress.
const KEPT_LISTS: usize = 16;

/// The number of items in one read.
const PAGE: u32 = 256;

/// The largest payload that an expression may read, in bytes.
const EXPRESSION_BYTES: u64 = 16 * 1024 * 1024;

/// The data of a run that is in memory.
#[derive(Default)]
pub(crate) struct Memory {
    input: Option<Payload>,
    vars: FxHashMap<ScopeNo, Vars>,
    /// Outputs by execution. Every output whose commit is in progress is here.
    outputs: FxHashMap<ExecutionNo, Payload>,
    /// The items of lists.
    lists: FxHashMap<ExecutionNo, Arc<[Bytes]>>,
    /// Outputs of items, by list and index. Every output whose commit is in progress is here.
    items: FxHashMap<Seq, BTreeMap<u32, Payload>>,
}

/// The variables of one scope.
#[derive(Default)]
struct Vars {
    /// Whether these are all variables; otherwise only those assigned since the store was read.
    all: bool,
    known: FxHashMap<String, Payload>,
}

/// Why data could not be read.
pub(crate) enum Unread {
    /// The store fails; the run is not at fault.
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
    /// The memory of a run that is being created.
    pub(crate) fn born(input: Payload, vars: &[(String, Payload)]) -> Self {
        let root = Vars {
            all: true,
            known: vars.iter().cloned().collect(),
        };
        Self {
            input: Some(input),
            vars: std::iter::once((ScopeNo::ROOT, root)).collect(),
            ..Self::default()
        }
    }

    /// Adds a scope without variables.
    pub(crate) fn open_scope(&mut self, scope: ScopeNo) {
        let vars = Vars {
            all: true,
            ..Vars::default()
        };
        self.vars.insert(scope, vars);
    }

    /// Removes a scope.
    pub(crate) fn close_scope(&mut self, scope: ScopeNo) {
        self.vars.remove(&scope);
    }

    /// The input of the run.
    pub(crate) fn input(&mut self, store: &dyn Store, no: RunNo) -> Result<Payload, Unread> {
        if let Some(input) = &self.input {
            return Ok(input.clone());
        }
        let input = store.input(no)?.unwrap_or_else(Payload::null);
        Ok(self.input.insert(input).clone())
    }

    /// The variables of one scope, without those of the scopes around it.
    pub(crate) fn vars(
        &mut self,
        store: &dyn Store,
        no: RunNo,
        scope: ScopeNo,
    ) -> Result<&FxHashMap<String, Payload>, Unread> {
        let vars = self.vars.entry(scope).or_default();
        if !vars.all {
            // The commit of an assignment may still be in progress.
            let mut all: FxHashMap<_, _> = store.vars(no, scope)?.into_iter().collect();
            all.extend(vars.known.drain());
            *vars = Vars {
                all: true,
                known: all,
            };
        }
        Ok(&vars.known)
    }

    /// Adds assigned variables whose commit is in progress.
    pub(crate) fn assign(&mut self, scope: ScopeNo, assigned: &[(String, Payload)]) {
        if !assigned.is_empty() {
            let vars = self.vars.entry(scope).or_default();
            vars.known.extend(assigned.iter().cloned());
        }
    }

    /// Adds an output whose commit is in progress.
    pub(crate) fn keep(&mut self, run: ExecutionNo, output: Payload) {
        self.outputs.insert(run, output);
    }

    /// The output of an execution.
    pub(crate) fn output(
        &mut self,
        store: &dyn Store,
        run: ExecutionNo,
    ) -> Result<Payload, Unread> {
        if let Some(output) = self.outputs.get(&run) {
            return Ok(output.clone());
        }
        let output = store.execution_output(run)?.unwrap_or_else(Payload::null);
        self.outputs.insert(run, output.clone());
        Ok(output)
    }

    /// One item of a list, as JSON.
    pub(crate) fn item(
        &mut self,
        store: &dyn Store,
        list: ExecutionNo,
        index: u32,
    ) -> Result<Bytes, Unread> {
        let items = match self.lists.get(&list) {
            Some(items) => Arc::clone(items),
            None => {
                let payload = self.output(store, list)?;
                let items = take_apart(&json_of(store, &payload)?).map_err(Unread::Value)?;
                self.outputs.remove(&list);
                self.lists.insert(list, Arc::clone(&items));
                items
            }
        };
        Ok(items.get(index as usize).cloned().unwrap_or_default())
    }

    /// Adds a list that was just made.
    pub(crate) fn keep_list(&mut self, list: ExecutionNo, items: Arc<[Bytes]>) {
        self.lists.insert(list, items);
    }

    /// Adds the output of an item, whose commit is in progress.
    pub(crate) fn keep_item(&mut self, list: Seq, index: u32, output: Payload) {
        self.items.entry(list).or_default().insert(index, output);
    }

    /// The outputs of the items of a list, as a JSON array with one value for each item.
    pub(crate) fn collect(
        &mut self,
        store: &dyn Store,
        no: RunNo,
        list: Seq,
        count: u32,
    ) -> Result<Bytes, Unread> {
        let mut json = vec![b'['];
        let mut page = Vec::new().into_iter().peekable();
        let mut read = 0;
        for index in 0..count {
            if index > 0 {
                json.push(b',');
            }
            if index >= read {
                page = store.items(no, list, index, PAGE)?.into_iter().peekable();
                read = index.saturating_add(PAGE);
            }
            // A page is in the order of the indexes and may have gaps.
            while page.next_if(|(at, _)| *at < index).is_some() {}
            let stored = page.next_if(|(at, _)| *at == index);
            let fresh = self.items.get(&list).and_then(|kept| kept.get(&index));
            match fresh.or(stored.as_ref().map(|(_, output)| output)) {
                Some(output) => json.extend_from_slice(&json_of(store, output)?),
                None => json.extend_from_slice(b"null"),
            }
            if json.len() as u64 > EXPRESSION_BYTES {
                return Err(Unread::Value(Failure::new(
                    Class::Limit,
                    codes::PAYLOAD_TOO_LARGE,
                    format!(
                        "what the items came to is larger together than {EXPRESSION_BYTES} bytes"
                    ),
                )));
            }
        }
        json.push(b']');
        Ok(json.into())
    }

    /// Removes the list of a for-each that has ended.
    pub(crate) fn forget_list(&mut self, list: Seq) {
        self.items.remove(&list);
    }

    /// Drops data that the store has. May be called only while no commit is in progress.
    pub(crate) fn shrink(&mut self) {
        if self.outputs.len() > KEPT_OUTPUTS {
            self.outputs.clear();
        }
        if self.lists.len() > KEPT_LISTS {
            self.lists.clear();
        }
        self.items.retain(|_, items| items.len() <= KEPT_OUTPUTS);
        self.vars.retain(|_, vars| vars.all);
    }
}

/// The items of a JSON array.
pub(crate) fn take_apart(json: &[u8]) -> Result<Arc<[Bytes]>, Failure> {
    let invalid = |what: String| Failure::new(Class::Invalid, codes::RENDER, what);
    match serde_json::from_slice(json) {
        Ok(serde_json::Value::Array(items)) => Ok(items
            .into_iter()
            .map(|item| Bytes::from(item.to_string()))
            .collect()),
        Ok(other) => Err(invalid(format!(
            "a for-each works on a list, and `for-each` has {}",
            kind_of(&other)
        ))),
        Err(error) => Err(invalid(format!(
            "the list of a for-each is not JSON: {error}"
        ))),
    }
}

/// The kind of a JSON value that is not a list.
fn kind_of(value: &serde_json::Value) -> &'static str {
    match value {
        serde_json::Value::Null => "the value null",
        serde_json::Value::Bool(_) => "a boolean",
        serde_json::Value::Number(_) => "a number",
        serde_json::Value::String(_) => "a text",
        serde_json::Value::Object(_) => "a map",
        serde_json::Value::Array(_) => "a list",
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

impl OwnedRun {
    /// The item of a scope, as JSON; none outside of every for-each.
    pub(crate) fn item(
        &mut self,
        store: &dyn Store,
        scope: ScopeNo,
    ) -> Result<Option<Bytes>, Unread> {
        let Some((list, index)) = self.state.scope(scope).map(|at| (at.run, at.index)) else {
            return Ok(None);
        };
        self.memory.item(store, list, index).map(Some)
    }

    /// A variable as seen from a scope: its own, or else that of the nearest scope around it.
    pub(crate) fn var(
        &mut self,
        store: &dyn Store,
        scope: ScopeNo,
        name: &str,
    ) -> Result<Option<Payload>, Unread> {
        for around in self.state.around(scope) {
            let vars = self.memory.vars(store, self.no, around)?;
            if let Some(found) = vars.get(name) {
                return Ok(Some(found.clone()));
            }
        }
        Ok(None)
    }
}
