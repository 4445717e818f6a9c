//! The JSON of stored rows.

mod failure;
pub(crate) mod graph;
pub(crate) mod sections;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;
use windlass_model::{Body, Digest, Payload, RunNo, Seq, Tags, TriggerState};
use windlass_runtime::operations::{self, Given, Inputs};
use windlass_store::rows::{ExecutionRow, RunRow, TriggerRow};
use windlass_store::stimuli::Sent as Did;

use crate::app::AppInner;
use crate::count::Count;
use crate::named::{NodeStatus, RunStatus, Source, State, TriggerKind};
use crate::nodes::{Nodes, node_name};
use crate::problem::Problem;
use crate::raw::Raw;

pub use failure::{Failure, SourcePosition};

/// A moment, in one form for people and programs.
pub(crate) fn moment(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |at| at.to_string())
}

/// The value of a payload, inline or in a blob; a value that is not JSON becomes a text.
pub(crate) fn value(app: &AppInner, payload: &Payload) -> Result<Raw, Box<Problem>> {
    let bytes = match &payload.body {
        Body::Inline(bytes) => bytes.clone(),
        Body::Blob(blob) => app.store().blob(*blob)?.unwrap_or_default(),
    };
    Ok(if payload.is_json() {
        Raw::read(&bytes)
    } else {
        Raw::text(&bytes)
    })
}

/// The value of an optional payload.
pub(crate) fn optional(
    app: &AppInner,
    payload: Option<&Payload>,
) -> Result<Option<Raw>, Box<Problem>> {
    payload.map(|payload| value(app, payload)).transpose()
}

/// A run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Run {
    /// Its id.
    pub(crate) id: Uuid,
    /// The workflow.
    pub(crate) workflow: String,
    /// The definition that it runs, by its digest.
    definition: String,
    /// Its status.
    #[schema(value_type = RunStatus)]
    pub(crate) status: &'static str,
    /// Its subject.
    #[schema(required = true)]
    correlation: Option<String>,
    /// Its tags.
    #[schema(value_type = HashMap<String, String>)]
    tags: Tags,
    /// The time at which it was created.
    created: String,
    /// The time at which it ended.
    #[schema(required = true)]
    finished: Option<String>,
    /// The failure, if it faulted.
    #[schema(required = true)]
    failure: Option<Failure>,
    /// The run that called it.
    #[schema(required = true)]
    parent: Option<Uuid>,
}

/// Resolves names of workflows and nodes.
#[derive(Default)]
pub(crate) struct Names {
    workflows: HashMap<Digest, String>,
    runs: HashMap<RunNo, Option<(Uuid, Digest)>>,
}

impl Names {
    fn workflow(&mut self, app: &AppInner, digest: Digest) -> Result<String, Box<Problem>> {
        if let Entry::Vacant(entry) = self.workflows.entry(digest) {
            let stored = app.store().definition(digest)?;
            entry.insert(stored.map(|stored| stored.name).unwrap_or_default());
        }
        Ok(self.workflows.get(&digest).cloned().unwrap_or_default())
    }

    pub(crate) fn run(&mut self, app: &AppInner, row: &RunRow) -> Result<Run, Box<Problem>> {
        Ok(Run {
            id: row.id.0,
            workflow: self.workflow(app, row.definition)?,
            definition: row.definition.to_string(),
            status: row.status.name(),
            correlation: row.correlation.clone(),
            tags: row.tags.clone(),
            created: moment(row.created_ms),
            finished: row.finished_ms.map(moment),
            failure: row.failure.as_ref().map(Failure::from),
            parent: row.parent.as_ref().map(|parent| parent.id.0),
        })
    }

    pub(crate) fn trigger(
        &mut self,
        app: &AppInner,
        row: &TriggerRow,
    ) -> Result<Trigger, Box<Problem>> {
        if let Entry::Vacant(entry) = self.runs.entry(row.run) {
            let of = app.store().run_by_no(row.run)?;
            entry.insert(of.map(|of| (of.id.0, of.definition)));
        }
        let of = self.runs.get(&row.run).copied().flatten();
        let nodes = match of {
            Some((_, digest)) => app.nodes(digest)?,
            None => None,
        };
        let nodes = nodes.as_deref();
        let id = of.map(|(id, _)| id).unwrap_or_default();
        let reason = match row.state {
            TriggerState::Parked => app.store().park_reason(row.no)?,
            _ => None,
        };
        Ok(Trigger {
            reason,
            trigger: trigger_name(id, row.seq),
            run: id,
            workflow: nodes.map(|nodes| nodes.workflow.clone()),
            node: row.node.map(|node| node_name(nodes, node)),
            kind: row.kind.name(),
            state: row.state.name(),
            due: (row.due_ms < i64::MAX).then(|| moment(row.due_ms)),
            priority: row.priority,
            attempt: row.attempt,
            deliveries: row.deliveries,
            payload: row.payload.as_deref().map(Raw::read),
        })
    }
}

/// The name of a trigger: its run and its number there, with a plus sign for an external trigger.
pub(crate) fn trigger_name(run: Uuid, seq: Seq) -> String {
    format!("{run}:{}", seq_text(seq))
}

/// The number of a trigger in its run. It is a text, because most readers of JSON round numbers as
/// large as those of external triggers.
pub(crate) fn seq_text(seq: Seq) -> String {
    match seq.external_no() {
        Some(no) => format!("+{no}"),
        None => seq.to_string(),
    }
}

/// A line that a guest wrote.
#[derive(Serialize, ToSchema)]
struct LogLine {
    /// `trace`, `debug`, `info`, `warn` or `error`.
    level: String,
    /// The message; control characters are made visible.
    message: String,
    /// Pairs of a name and a value.
    fields: Vec<Vec<String>>,
}

/// A trigger that has not been executed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Trigger {
    /// Its name.
    trigger: String,
    /// Its run.
    run: Uuid,
    /// The workflow of its run.
    #[schema(required = true)]
    workflow: Option<String>,
    /// The node to execute.
    #[schema(required = true)]
    node: Option<String>,
    /// Its type.
    #[serde(rename = "type")]
    #[schema(value_type = TriggerKind)]
    kind: &'static str,
    /// Its state.
    #[schema(value_type = State)]
    state: &'static str,
    /// Why it is parked: like a plugin that is missing. Null if it is not parked, or its run is paused.
    #[schema(required = true)]
    reason: Option<String>,
    /// The due time, or, if the trigger waits for an event, the time at which the wait ends by
    /// itself; `null` if it never does.
    #[schema(required = true)]
    due: Option<String>,
    /// Among due triggers, higher priorities go first.
    priority: i32,
    /// Which attempt of the node it is, from 1.
    attempt: u32,
    /// How many hosts in a row have died while they had claimed it.
    deliveries: u32,
    /// Its payload.
    #[schema(value_type = Option<Value>, required = true)]
    payload: Option<Raw>,
}

/// One execution of a node.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Execution {
    /// Its number: a path names it by this, and it is the `id` of its event.
    no: String,
    /// The node.
    node: String,
    /// The type of its trigger.
    #[schema(value_type = TriggerKind)]
    trigger: &'static str,
    /// The number of its trigger in the run, as in the name of the trigger: with a plus sign for
    /// an external trigger.
    seq: String,
    /// The number of the first trigger of this visit of the node: all attempts of the visit have
    /// it, and so have the executions before and after its waits.
    first: String,
    /// The attempt, from 1.
    attempt: u32,
    /// Its status.
    #[schema(value_type = NodeStatus)]
    status: &'static str,
    /// The time at which it began.
    started: String,
    /// How long it took, in microseconds.
    took_us: Count,
    /// Its output.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>, nullable = false)]
    output: Option<Raw>,
    /// Its failure.
    #[schema(required = true)]
    failure: Option<Failure>,
    /// Its log lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<LogLine>)]
    logs: Vec<Value>,
    /// Nodes that were skipped because of its output.
    skipped: Vec<String>,
    /// The item of a for-each in whose body it ran; absent if it ran in no body.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    scope: Option<Scope>,
    /// The input that its node got; absent if that takes none. Lists leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    input: Option<Got>,
    /// The configuration that its node got, with secrets by name; absent if that has none. Lists
    /// leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    with: Option<Got>,
}

/// The item of a for-each, in whose body nodes run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Scope {
    /// The execution of the for-each, by its number: its output is the list.
    list: String,
    /// The positions of the items of all for-eaches around it, from 0, the outermost first.
    item: Vec<u32>,
}

impl From<operations::Within> for Scope {
    fn from(within: operations::Within) -> Self {
        Self {
            list: within.list.to_string(),
            item: within.item,
        }
    }
}

/// A value that a node got, or why it is not known.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct Got {
    /// The value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>, nullable = false)]
    value: Option<Raw>,
    /// Where the value comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Source>, nullable = false)]
    source: Option<&'static str>,
    /// Why there is no value, as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    missing: Option<String>,
}

impl Got {
    fn of(app: &AppInner, given: &Given) -> Result<Self, Box<Problem>> {
        let (payload, source) = match given {
            Given::Recorded(payload) => (payload, "recorded"),
            Given::Recomputed(payload) => (payload, "recomputed"),
            Given::Missing(why) => {
                return Ok(Self {
                    missing: Some(why.clone()),
                    ..Self::default()
                });
            }
        };
        Ok(Self {
            value: Some(value(app, payload)?),
            source: Some(source),
            missing: None,
        })
    }
}

impl Execution {
    /// Without its output and logs.
    pub(crate) fn brief(nodes: Option<&Nodes>, row: &ExecutionRow) -> Self {
        let skipped = row.skipped.iter();
        Self {
            no: row.no.to_string(),
            node: node_name(nodes, row.node),
            trigger: row.kind.name(),
            seq: seq_text(row.seq),
            first: seq_text(row.first),
            attempt: row.attempt,
            status: row.status.name(),
            started: moment(row.started_ms),
            took_us: Count(row.took_us),
            output: None,
            failure: row.failure.as_ref().map(Failure::from),
            logs: Vec::new(),
            skipped: skipped.map(|node| node_name(nodes, *node)).collect(),
            scope: operations::scope_of(row).map(Scope::from),
            input: None,
            with: None,
        }
    }

    /// With all members.
    pub(crate) fn whole(
        app: &AppInner,
        nodes: Option<&Nodes>,
        row: &ExecutionRow,
    ) -> Result<Self, Box<Problem>> {
        let logs = row.logs.iter();
        let logs = logs.filter_map(|line| serde_json::to_value(line).ok());
        Ok(Self {
            output: optional(app, row.output.as_ref())?,
            logs: logs.collect(),
            ..Self::brief(nodes, row)
        })
    }

    /// Adds what its node got.
    pub(crate) fn got(self, app: &AppInner, inputs: &Inputs) -> Result<Self, Box<Problem>> {
        let got = |given: &Option<_>| given.as_ref().map(|it| Got::of(app, it)).transpose();
        Ok(Self {
            input: got(&inputs.input)?,
            with: got(&inputs.with)?,
            ..self
        })
    }
}

/// The result of a stimulus, or of resuming by a token.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(crate) struct Sent {
    /// Runs that were started.
    pub(crate) started: Vec<Uuid>,
    /// Runs that were resumed.
    pub(crate) resumed: Vec<Uuid>,
    /// Runs that prevented others from starting: their workflows allow one at a time.
    pub(crate) reserved: Vec<Uuid>,
    /// The stimulus is buffered until a run waits for it.
    buffered: bool,
    /// No run waited for the stimulus, and it was dropped.
    dropped: bool,
    /// More runs will be resumed in the background.
    more: bool,
    /// The same delivery came before, and `started` contains the run that it started then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) existed: bool,
}

impl Sent {
    /// The result of no stimulus, to add others to.
    pub(crate) fn none() -> Self {
        Self {
            dropped: true,
            ..Self::default()
        }
    }

    /// Adds the result of a further stimulus.
    pub(crate) fn add(&mut self, other: Self) {
        self.dropped &= other.dropped;
        self.started.extend(other.started);
        self.resumed.extend(other.resumed);
        self.reserved.extend(other.reserved);
        self.more |= other.more;
    }
}

impl From<Did> for Sent {
    fn from(did: Did) -> Self {
        let ids = |ids: Vec<windlass_model::RunId>| ids.into_iter().map(|id| id.0).collect();
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
