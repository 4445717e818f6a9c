//! The one way in: how a run begins, by a call, an event, a schedule, a hook or a parent.
//!
//! A maker names the prepared definition, the input and the [`Cause`]. [`Start::accepted`] checks
//! the input, and the [`Accepted`] start becomes a row in one of two ways. [`here`] creates a run
//! that this process owns, in a transaction of its own. [`left`] makes a run without an owner: for
//! a transaction that writes more than the run, and for a process that has no room.

mod cause;
mod here;
mod left;
mod tags;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use windlass_engine::{Command, Recording, RunState};
use windlass_model::decimal::canonical;
use windlass_model::{
    Diagnostic, Digest, Incarnation, Numbers, Payload, RunId, RunNo, Tags, TraceContext, valid,
};
use windlass_store::Store;
use windlass_store::published::Edition;
use windlass_store::rows::{
    BORN_VERSION, Created, DefinitionRow, JournalRow, NewRun, NewTrigger, RunRow,
};
use windlass_store::write::OrFenced;

use crate::catalog::Prepared;
use crate::clock::new_run_id;
use crate::error::Error;
use crate::reserving;

pub(crate) use cause::{Begin, Cause};

/// A request for a run.
#[derive(Clone, Debug)]
pub struct StartRequest {
    /// The workflow.
    pub workflow: Workflow,
    /// The input: JSON.
    pub input: Payload,
    /// The id of the run. The same id with the same request is the same run.
    pub id: Option<RunId>,
    /// The correlation id of the run.
    pub correlation: Option<String>,
    /// The trace that the run continues.
    pub trace: Option<TraceContext>,
}

/// The workflow of a request.
#[derive(Clone, Debug)]
pub enum Workflow {
    /// The published version of the workflow with this name, as [`published_for`] finds it.
    Published(String),
    /// This definition. It is compiled and checked when the request is carried out.
    Given(DefinitionRow),
}

impl From<DefinitionRow> for Workflow {
    fn from(definition: DefinitionRow) -> Self {
        Self::Given(definition)
    }
}

/// The definition for a run of a published workflow: the published version; or, if the id names an
/// existing run of the workflow, the definition of that run, so that a repeated request gets the
/// same response although another version was published meanwhile.
///
/// # Errors
///
/// No version of the workflow is published, or the store fails.
pub fn published_for(store: &dyn Store, name: &str, id: Option<RunId>) -> Result<Digest, Error> {
    if let Some(id) = id
        && let Some(run) = store.run(id)?
        && let Some(row) = store.definition(run.definition)?
        && row.name == name
    {
        return Ok(row.digest);
    }
    let published = store.published(name)?;
    let published = published.ok_or_else(|| Error::no_workflow(store, name))?;
    Ok(published.definition)
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

/// A run that is about to begin.
pub(crate) struct Start {
    /// The definition, on the current plugins.
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) input: Payload,
    pub(crate) cause: Cause,
}

/// A start whose input fits its workflow.
pub(crate) struct Accepted {
    prepared: Arc<Prepared>,
    /// The input of the run: with the defaults of the schema for the members that it lacks.
    input: Payload,
    cause: Cause,
    id: RunId,
    tags: Tags,
    /// The identity of the start: equal starts have equal digests.
    request: Digest,
    /// The edition in which the definition was looked up, if the transaction has to check it.
    pub(crate) as_of: Option<Edition>,
}

impl Start {
    /// Checks the correlation id, and the input against the workflow's schema, and makes the tags.
    pub(crate) fn accepted(self) -> Result<Accepted, Error> {
        let Self {
            prepared,
            input,
            cause,
        } = self;
        valid::CORRELATION
            .check_optional(cause.correlation())
            .map_err(|wrong| Error::Refused {
                code: crate::codes::BAD_KEY,
                message: format!("the run cannot be started: {wrong}"),
                help: None,
            })?;
        let id = cause.id().unwrap_or_else(new_run_id);
        let is_request = matches!(cause, Cause::Delivery { .. });
        let (input, request) = match cause.identity(id) {
            // This process has written the input of a request: only a schema needs its value.
            Some(identity) if is_request && prepared.input.is_none() => (input, identity),
            identity => {
                let (input, value) = fitting(&prepared, &input)?;
                let of_input = || digest(&prepared, cause.correlation(), &value);
                (input, identity.unwrap_or_else(of_input))
            }
        };
        let tags = tags::of(&prepared, &input, id, cause.correlation())?;
        Ok(Accepted {
            tags,
            request,
            id,
            prepared,
            input,
            cause,
            as_of: None,
        })
    }
}

/// The input with the defaults of the workflow's schema, and its value.
pub(crate) fn fitting(prepared: &Prepared, input: &Payload) -> Result<(Payload, Value), Error> {
    let Some(json) = input.inline() else {
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
    let value = serde_json::from_slice(&json)
        .map_err(|error| input_error(&format!("it is not JSON: {error}")))?;
    let found = schema.map_or_else(Vec::new, |schema| schema.check(&value, ""));
    if !found.is_empty() {
        return Err(Error::Input(found.into_iter().map(wrong).collect()));
    }
    Ok((Payload::json(json), value))
}

/// The identity of a request. Inputs are equal if their values are, however they are written.
fn digest(prepared: &Prepared, correlation: Option<&str>, input: &Value) -> Digest {
    let mut bytes = prepared.definition.digest.0.to_vec();
    bytes.extend_from_slice(correlation.unwrap_or_default().as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(&canonical(input));
    Digest::of(&bytes)
}

impl Accepted {
    /// The id of the run.
    pub(crate) fn id(&self) -> RunId {
        self.id
    }

    /// The position of a node of its workflow.
    pub(crate) fn node(&self, name: &str) -> Option<u32> {
        self.prepared.graph.find(name).map(|node| node.0)
    }

    /// The new run, and the initial state from the engine.
    fn new_run(
        &self,
        numbers: &Numbers,
        owner: Option<Incarnation>,
        now_ms: i64,
    ) -> Result<(NewRun, RunState), Error> {
        let (prepared, begin_ms) = (&self.prepared, self.cause.begin_ms(now_ms));
        let (state, commands) = windlass_engine::begin(&prepared.graph, begin_ms);
        let other_time = begin_ms != now_ms
            && windlass_engine::begin(&prepared.graph, now_ms) != (state.clone(), commands.clone());
        let begun = other_time.then(|| {
            let event = Recording::begun(begin_ms).encode(BORN_VERSION, 0);
            JournalRow::event(now_ms, &event)
        });
        let mut triggers = Vec::with_capacity(commands.len());
        for command in commands {
            let Command::Run(open) = command else {
                continue;
            };
            triggers.push(NewTrigger {
                no: numbers.trigger().ok_or_else(Error::no_numbers)?,
                seq: open.seq,
                kind: self.cause.kind(),
                node: Some(open.node.0),
                due_ms: self.cause.due_ms(now_ms),
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
        let options = prepared.graph.options();
        let correlation = self.cause.correlation();
        let (reserves, exclusive) = reserving::of(options.activation, &prepared.name, correlation);
        let vars = prepared.vars.iter();
        let new = NewRun {
            no: numbers.run().ok_or_else(Error::no_numbers)?,
            id: self.id,
            definition: Arc::clone(&prepared.definition),
            pins: Arc::clone(&prepared.pins),
            correlation: correlation.map(str::to_owned),
            tags: self.tags.clone(),
            request: self.request,
            owner,
            state: Bytes::from(state.encode()),
            input: self.input.clone(),
            vars: vars
                .map(|(name, json)| (name.clone(), Payload::json(json.clone())))
                .collect(),
            triggers,
            parent: None,
            tree: None,
            keep_ms: options.retention_ms,
            journal: begun.into_iter().collect(),
            reserves,
            exclusive,
            blobs: Vec::new(),
            as_of: self.as_of,
            created_ms: now_ms,
            trace: self.cause.trace(),
        };
        Ok((new, state))
    }

    /// The result of a start after the store was asked to create this run. None: nothing was written,
    /// because the definition may not be the published one any more, or because the start may have
    /// been made before, with another version. The caller looks the definition up again.
    pub(crate) fn answered(
        &self,
        created: OrFenced<Created>,
        no: RunNo,
    ) -> Result<Option<Started>, Error> {
        let id = self.id;
        match created? {
            Created::New => Ok(Some(Started {
                id,
                no,
                existing: None,
            })),
            Created::Reserved { by } => Err(Error::Reserved { by }),
            Created::Moved => Ok(None),
            Created::Exists(_) | Created::Deleted if self.as_of.is_some() => Ok(None),
            Created::Exists(row) => self.cause.existing(self.request, row).map(Some),
            Created::Deleted => Err(Error::Deleted(id)),
        }
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
