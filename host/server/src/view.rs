//! How stored things look from outside.

pub(crate) mod sections;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;
use windlass_model::{Body, Definition, Digest, Failure as Failed, InstanceNo, Payload, Seq};
use windlass_store::rows::{ExecutionRow, InstanceRow, TriggerRow};
use windlass_store::stimuli::Sent as Did;

use crate::app::AppInner;
use crate::problem::Problem;

/// A moment, for people and for programs alike.
pub(crate) fn moment(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |at| at.to_string())
}

/// The value of a payload, wherever its bytes are; what is not JSON is shown as text.
pub(crate) fn value(app: &AppInner, payload: &Payload) -> Result<Value, Box<Problem>> {
    let bytes = match &payload.body {
        Body::Inline(bytes) => bytes.clone(),
        Body::Blob(blob) => app.store().blob(*blob)?.unwrap_or_default(),
    };
    Ok(if payload.is_json() {
        read(&bytes)
    } else {
        text(&bytes)
    })
}

/// A value that may not be there.
pub(crate) fn optional(
    app: &AppInner,
    payload: Option<&Payload>,
) -> Result<Option<Value>, Box<Problem>> {
    payload.map(|payload| value(app, payload)).transpose()
}

/// JSON, or else text.
pub(crate) fn read(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|_| text(bytes))
}

fn text(bytes: &[u8]) -> Value {
    Value::String(String::from_utf8_lossy(bytes).into_owned())
}

/// Why something failed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Failure {
    /// What kind of failure it is: like `retryable`.
    class: &'static str,
    /// The page that explains it, like `WL-R073`.
    code: String,
    /// What happened.
    message: String,
    /// After how long the node wants to be tried again, in milliseconds.
    retry_after_ms: Option<u64>,
}

impl From<&Failed> for Failure {
    fn from(failed: &Failed) -> Self {
        Self {
            class: failed.class.name(),
            code: failed.code.to_string(),
            message: failed.message.clone(),
            retry_after_ms: failed.retry_after_ms,
        }
    }
}

/// A run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Instance {
    /// Its id.
    pub(crate) id: Uuid,
    /// The workflow.
    pub(crate) workflow: String,
    /// The definition that it runs, by its digest.
    definition: String,
    /// Like `running`; `completed`, `faulted` and `cancelled` are final.
    pub(crate) status: &'static str,
    /// What it is about.
    correlation: Option<String>,
    /// When it was written down.
    created: String,
    /// When it ended.
    finished: Option<String>,
    /// Why it faulted.
    failure: Option<Failure>,
    /// The run that has called it.
    parent: Option<Uuid>,
}

/// Finds names of workflows and nodes, each definition once.
#[derive(Default)]
pub(crate) struct Names {
    definitions: HashMap<Digest, Option<Definition>>,
    /// Names that are known without reading the definition.
    workflows: HashMap<Digest, String>,
    instances: HashMap<InstanceNo, Option<(Uuid, Digest)>>,
}

impl Names {
    pub(crate) fn definition(
        &mut self,
        app: &AppInner,
        digest: Digest,
    ) -> Result<Option<&Definition>, Box<Problem>> {
        if let Entry::Vacant(entry) = self.definitions.entry(digest) {
            entry.insert(app.definition(digest)?);
        }
        Ok(self.definitions.get(&digest).and_then(Option::as_ref))
    }

    fn workflow(&mut self, app: &AppInner, digest: Digest) -> Result<String, Box<Problem>> {
        if let Some(Some(definition)) = self.definitions.get(&digest) {
            return Ok(definition.name.clone());
        }
        if let Entry::Vacant(entry) = self.workflows.entry(digest) {
            let stored = app.store().definition(digest)?;
            entry.insert(stored.map(|stored| stored.name).unwrap_or_default());
        }
        Ok(self.workflows.get(&digest).cloned().unwrap_or_default())
    }

    pub(crate) fn instance(
        &mut self,
        app: &AppInner,
        row: &InstanceRow,
    ) -> Result<Instance, Box<Problem>> {
        Ok(Instance {
            id: row.id.0,
            workflow: self.workflow(app, row.definition)?,
            definition: row.definition.to_string(),
            status: row.status.name(),
            correlation: row.correlation.clone(),
            created: moment(row.created_ms),
            finished: row.finished_ms.map(moment),
            failure: row.failure.as_ref().map(Failure::from),
            parent: row.parent.map(|parent| parent.id.0),
        })
    }

    pub(crate) fn trigger(
        &mut self,
        app: &AppInner,
        row: &TriggerRow,
    ) -> Result<Trigger, Box<Problem>> {
        if let Entry::Vacant(entry) = self.instances.entry(row.instance) {
            let of = app.store().instance_by_no(row.instance)?;
            entry.insert(of.map(|of| (of.id.0, of.definition)));
        }
        let of = self.instances.get(&row.instance).copied().flatten();
        let definition = match of {
            Some((_, digest)) => self.definition(app, digest)?,
            None => None,
        };
        let id = of.map(|(id, _)| id).unwrap_or_default();
        Ok(Trigger {
            trigger: trigger_name(id, row.seq),
            instance: id,
            workflow: definition.map(|definition| definition.name.clone()),
            node: row.node.map(|node| node_name(definition, node)),
            kind: row.kind.name(),
            state: row.state.name(),
            due: (row.due_ms < i64::MAX).then(|| moment(row.due_ms)),
            priority: row.priority,
            attempt: row.attempt,
            deliveries: row.deliveries,
            payload: row.payload.as_deref().map(read),
        })
    }
}

/// The name of a node by its position.
pub(crate) fn node_name(definition: Option<&Definition>, position: u32) -> String {
    let name = definition
        .and_then(|definition| definition.node_names().get(position as usize).copied())
        .map(str::to_owned);
    name.unwrap_or_else(|| format!("#{position}"))
}

/// How a trigger is named by its run and its place there: those from outside have a plus.
pub(crate) fn trigger_name(run: Uuid, seq: Seq) -> String {
    match seq.outside_no() {
        Some(no) => format!("{run}:+{no}"),
        None => format!("{run}:{seq}"),
    }
}

/// A trigger that has not been executed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Trigger {
    /// How it is named.
    trigger: String,
    /// Its run.
    instance: Uuid,
    /// The workflow of its run.
    workflow: Option<String>,
    /// The node that it executes.
    node: Option<String>,
    /// What brought it about: like `timer`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Like `pending`.
    state: &'static str,
    /// When it is due; what waits for something else than time has no such moment.
    due: Option<String>,
    /// Higher first among the due.
    priority: i32,
    /// Which attempt of the node it is, from 1.
    attempt: u32,
    /// How often a host died with it.
    deliveries: u32,
    /// What it was given.
    payload: Option<Value>,
}

/// One execution of a node.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Run {
    /// The node.
    node: String,
    /// What triggered it.
    trigger: &'static str,
    /// Its place in the run.
    seq: u64,
    /// From 1.
    attempt: u32,
    /// How it ended: like `completed`.
    status: &'static str,
    /// When it began.
    started: String,
    /// How long it took, in microseconds.
    took_us: u64,
    /// What came out.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    /// Why it failed.
    failure: Option<Failure>,
    /// What it logged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    logs: Vec<Value>,
    /// Nodes that were skipped because of what came out.
    skipped: Vec<String>,
}

impl Run {
    /// Without its output and logs.
    pub(crate) fn brief(definition: Option<&Definition>, row: &ExecutionRow) -> Self {
        let skipped = row.skipped.iter();
        Self {
            node: node_name(definition, row.node),
            trigger: row.kind.name(),
            seq: row.seq.0,
            attempt: row.attempt,
            status: row.status.name(),
            started: moment(row.started_ms),
            took_us: row.took_us,
            output: None,
            failure: row.failure.as_ref().map(Failure::from),
            logs: Vec::new(),
            skipped: skipped.map(|node| node_name(definition, *node)).collect(),
        }
    }

    /// With everything.
    pub(crate) fn whole(
        app: &AppInner,
        definition: Option<&Definition>,
        row: &ExecutionRow,
    ) -> Result<Self, Box<Problem>> {
        let logs = row.logs.iter();
        let logs = logs.filter_map(|line| serde_json::to_value(line).ok());
        Ok(Self {
            output: optional(app, row.output.as_ref())?,
            logs: logs.collect(),
            ..Self::brief(definition, row)
        })
    }
}

/// What a stimulus, or a token, did.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct Sent {
    /// Runs that it started.
    pub(crate) started: Vec<Uuid>,
    /// Runs that go on.
    pub(crate) resumed: Vec<Uuid>,
    /// Runs because of which others did not start: their workflows allow one at a time.
    pub(crate) reserved: Vec<Uuid>,
    /// It is kept for who comes later.
    buffered: bool,
    /// There was nobody, and it is gone.
    dropped: bool,
    /// There is more to resume, which goes on in the background.
    more: bool,
    /// The same delivery came before, and `started` names the run that it started then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) existed: bool,
}

impl Sent {
    /// Adds what a further stimulus did.
    pub(crate) fn add(&mut self, other: Self) {
        self.started.extend(other.started);
        self.resumed.extend(other.resumed);
        self.reserved.extend(other.reserved);
        self.more |= other.more;
    }
}

impl From<Did> for Sent {
    fn from(did: Did) -> Self {
        let ids = |ids: Vec<windlass_model::InstanceId>| ids.into_iter().map(|id| id.0).collect();
        Self {
            started: ids(did.started),
            resumed: ids(did.resumed),
            reserved: ids(did.reserved),
            buffered: did.buffered,
            dropped: did.dropped,
            more: did.more,
            existed: false,
        }
    }
}
