//! A request for a run, and how it becomes a stored run.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use windlass_engine::Command;
use windlass_model::decimal::canonical;
use windlass_model::{Diagnostic, Digest, Incarnation, Numbers, Payload, RunId, RunNo, valid};
use windlass_store::rows::{Created, DefinitionRow, NewRun, NewTrigger, RunRow};
use windlass_store::write::OrFenced;

use crate::catalog::Prepared;
use crate::client::used_up;
use crate::clock::new_run_id;
use crate::error::Error;
use crate::reserving;

/// A request for a run.
#[derive(Clone, Debug)]
pub struct StartRequest {
    /// The definition. It is compiled and checked when the request is carried out.
    pub definition: DefinitionRow,
    /// The input: JSON.
    pub input: Payload,
    /// The id of the run. The same id with the same request is the same run.
    pub id: Option<RunId>,
    /// The correlation id of the run.
    pub correlation: Option<String>,
}

/// The result of a request.
#[derive(Clone, Debug)]
pub struct Started {
    /// The run.
    pub id: RunId,
    /// Its number in the store.
    pub no: RunNo,
    /// The existing run, if the same request had been made before.
    pub existing: Option<Box<RunRow>>,
}

/// A request whose input fits its workflow.
pub(crate) struct Accepted<'r> {
    request: &'r StartRequest,
    /// The input of the run: with the defaults of the schema for the members that it lacks.
    input: Payload,
    /// The identity of the request: equal requests have equal digests. Inputs are equal if their
    /// values are, however they are written.
    digest: Digest,
}

impl StartRequest {
    /// Checks the correlation id, and the input against the workflow's schema.
    pub(crate) fn accepted(&self, prepared: &Prepared) -> Result<Accepted<'_>, Error> {
        valid::CORRELATION
            .check_optional(self.correlation.as_deref())
            .map_err(|wrong| Error::Refused {
                code: crate::codes::BAD_KEY,
                message: format!("the run cannot be started: {wrong}"),
                help: None,
            })?;
        let Some(json) = self.input.inline() else {
            return Err(input_error("it is a reference to a blob"));
        };
        let schema = match &prepared.input {
            Some(Ok(schema)) => Some(schema),
            Some(Err(refused)) => {
                let reason = format!("the schema of the input cannot be used: {refused}");
                return Err(input_error(&reason));
            }
            None => None,
        };
        let wrong = |mut diagnostic: Diagnostic| {
            diagnostic.code = crate::codes::INPUT_INVALID;
            diagnostic
        };
        let completed = schema.map(|schema| schema.complete(json, "")).transpose();
        let completed = completed.map_err(|found| Error::Input(vec![wrong(*found)]))?;
        let json = completed
            .flatten()
            .map_or_else(|| json.clone(), Bytes::from);
        // The only time that the input is parsed before a node reads it.
        let value = serde_json::from_slice(&json)
            .map_err(|error| input_error(&format!("it is not JSON: {error}")))?;
        let found = schema.map_or_else(Vec::new, |schema| schema.check(&value, ""));
        if !found.is_empty() {
            return Err(Error::Input(found.into_iter().map(wrong).collect()));
        }
        Ok(Accepted {
            request: self,
            input: Payload::json(json),
            digest: self.digest(&value),
        })
    }

    fn digest(&self, input: &Value) -> Digest {
        let mut bytes = self.definition.digest.0.to_vec();
        bytes.extend_from_slice(self.correlation.as_deref().unwrap_or_default().as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(&canonical(input));
        Digest::of(&bytes)
    }
}

impl Accepted<'_> {
    /// The new run, and the initial state from the engine.
    pub(crate) fn new_run(
        &self,
        prepared: &Prepared,
        numbers: &Numbers,
        owner: Option<Incarnation>,
        now_ms: i64,
    ) -> Result<(NewRun, windlass_engine::RunState), Error> {
        let (state, commands) = windlass_engine::begin(&prepared.graph, now_ms);
        let mut triggers = Vec::with_capacity(commands.len());
        for command in commands {
            let Command::Run(open) = command else {
                continue;
            };
            triggers.push(NewTrigger {
                no: numbers.trigger().ok_or_else(used_up)?,
                seq: open.seq,
                kind: open.kind,
                node: Some(open.node.0),
                due_ms: now_ms,
                claimed: owner.is_some(),
                attempt: open.attempt,
                detail: Bytes::from(open.encode_detail()),
                payload: None,
                priority: prepared
                    .graph
                    .node(open.node)
                    .map_or(0, |plan| plan.priority),
            });
        }
        let vars = prepared.vars.iter();
        let activation = prepared.graph.options().activation;
        let correlation = self.request.correlation.as_deref();
        let (reserves, exclusive) = reserving::of(activation, &prepared.name, correlation);
        let new = NewRun {
            no: numbers.run().ok_or_else(used_up)?,
            id: self.request.id.unwrap_or_else(new_run_id),
            definition: Arc::clone(&prepared.definition),
            pins: Arc::clone(&prepared.pins),
            correlation: self.request.correlation.clone(),
            request: self.digest,
            owner,
            state: Bytes::from(state.encode()),
            input: self.input.clone(),
            vars: vars
                .map(|(name, json)| (name.clone(), Payload::json(json.clone())))
                .collect(),
            triggers,
            parent: None,
            keep_ms: prepared.graph.options().retention_ms,
            reserves,
            exclusive,
            blobs: Vec::new(),
            created_ms: now_ms,
        };
        Ok((new, state))
    }

    /// The result of a request after the store was asked to create this run.
    pub(crate) fn answered(
        &self,
        created: OrFenced<Created>,
        (id, no): (RunId, RunNo),
    ) -> Result<Started, Error> {
        match created? {
            Created::New => Ok(Started {
                id,
                no,
                existing: None,
            }),
            Created::Exists(row) => self.existing(row),
            Created::Deleted => Err(Error::Deleted(id)),
            Created::Reserved { by } => Err(Error::Reserved { by }),
        }
    }

    /// The result of a request if a run with its id exists.
    fn existing(&self, row: Box<RunRow>) -> Result<Started, Error> {
        if row.request != self.digest {
            return Err(Error::Conflict {
                message: format!("run {} was started with another workflow or input", row.id),
            });
        }
        Ok(Started {
            id: row.id,
            no: row.no,
            existing: Some(row),
        })
    }
}

fn input_error(reason: &str) -> Error {
    let place = windlass_model::Place::at("");
    Error::Input(vec![windlass_model::Diagnostic::new(
        crate::codes::INPUT_INVALID,
        format!("the input cannot be used: {reason}"),
        place,
    )])
}
