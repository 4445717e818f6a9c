//! Converts the end of an execution to an event of the engine.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use windlass_engine::expr::Values;
use windlass_engine::{Event, Failing, NodeIx, Verdict, verdict};
use windlass_model::{
    Again, Bookmark, Digest, ExecutionStatus, Failure, LogLine, Payload, ScopeNo, Seq,
};
use windlass_plugins::call::Effects;
use windlass_store::rows::{ExecutionRow, NewRun};

use super::list::List;
use super::memory::Unread;
use super::owned::OwnedRun;
use super::suspend::expiry;
use super::work::{Address, Patch};
use crate::shared::Base;

/// How an execution or a control trigger ended.
pub(super) enum Settled {
    /// It succeeded.
    Done {
        output: Payload,
        ports: Vec<String>,
        /// Set if the node ends its branch: whether it ends the run.
        end: Option<bool>,
    },
    /// It succeeded and assigned variables.
    Set(Patch),
    /// It failed.
    Failed(Failure),
    /// It asks to be called again.
    Again(Again),
    /// It waits for an instant.
    Wait { until_ms: i64 },
    /// It waits for one of these bookmarks.
    Suspended {
        bookmarks: Vec<Bookmark>,
        left: Option<Payload>,
    },
    /// It waits for this child.
    Child(Box<NewRun>),
    /// It has made the list of a for-each.
    Listed { output: Payload, items: Arc<List> },
    /// It is postponed without an execution.
    Later { until_ms: i64 },
    /// The `timeout` of the run has passed.
    TimedOut,
    /// A user cancels the run.
    Cancel,
    /// A user cancels one trigger of the run.
    CancelNode(Seq),
    /// A user pauses the run.
    Pause,
    /// A user continues the run.
    Unpause,
    /// The store refuses every other outcome.
    Broken(Failure),
}

impl Settled {
    pub(super) fn done(output: Payload) -> Self {
        Self::Done {
            output,
            ports: Vec::new(),
            end: None,
        }
    }
}

/// Further facts about an execution.
#[derive(Default)]
pub(super) struct Ran {
    pub(super) took_us: u64,
    pub(super) logs: Vec<LogLine>,
    pub(super) blobs: Vec<(Digest, Bytes)>,
    pub(super) effects: Effects,
    pub(super) patch: Patch,
}

/// An event of the engine with the data that it needs.
pub(super) struct Prepared {
    pub(super) event: Event,
    /// The values for the conditions of edges.
    pub(super) values: Values,
    /// The values for the conditions about a failure, or why they cannot be read. None: no such
    /// condition names a value.
    pub(super) failing: Option<Result<Values, Failure>>,
    pub(super) vars: Vec<(String, Payload)>,
}

impl Prepared {
    fn plain(event: Event) -> Self {
        Self {
            event,
            values: Values::new(),
            failing: None,
            vars: Vec::new(),
        }
    }
}

/// The values for the conditions about a failure. Conditions that name no value take any.
pub(super) fn about_failure<'a>(
    failing: Option<&'a Result<Values, Failure>>,
    any: &'a Values,
) -> Failing<'a> {
    failing.map_or(Ok(any), Result::as_ref)
}

impl OwnedRun {
    /// Completes the record and makes an event of it. A control trigger has no record.
    pub(super) fn prepare(
        &mut self,
        to: Address,
        settled: Settled,
        patch: Patch,
        record: &mut Option<ExecutionRow>,
        (now_ms, random): (i64, u64),
        base: &Base,
    ) -> Result<Prepared, Unread> {
        let seq = to.seq;
        if let Some(event) = without_record(&settled, seq) {
            *record = None;
            return Ok(Prepared::plain(event));
        }
        let Some(row) = record else {
            return Ok(Prepared::plain(Event::TimedOut { seq }));
        };
        let (run, node) = (row.no, NodeIx(row.node));
        let scope = self.scope_of(seq);
        let mut prepared = Prepared::plain(Event::TimedOut { seq });
        prepared.failing = self.failing(scope, node, base)?;
        if !matches!(settled, Settled::Failed(_)) {
            prepared.vars = assigned(patch);
        }
        if let Settled::Set(assignments) = &settled {
            prepared.vars.extend(assigned(assignments.clone()));
        }
        prepared.event = match settled {
            Settled::Done { output, ports, end } => {
                row.output = Some(output);
                Event::Done {
                    seq,
                    run,
                    ports,
                    end,
                }
            }
            Settled::Set(assignments) => {
                row.output = Some(object_of(&assignments));
                Event::Done {
                    seq,
                    run,
                    ports: Vec::new(),
                    end: None,
                }
            }
            Settled::Failed(failure) => {
                row.status = ExecutionStatus::Failed;
                let values = about_failure(prepared.failing.as_ref(), &prepared.values);
                let verdict = self.verdict(seq, &failure, (now_ms, random), values);
                row.failure = Some(with_notes(failure, &verdict));
                match &verdict {
                    Verdict::Retry { .. } => row.status = ExecutionStatus::WaitingRetry,
                    Verdict::Continue(_) => row.output = Some(Payload::null()),
                    Verdict::Route(failure) => row.output = Some(failure_output(failure)),
                    Verdict::Fail(_) => {}
                }
                Event::Failed { seq, run, verdict }
            }
            Settled::Listed { output, items } => {
                row.status = ExecutionStatus::Suspended;
                row.output = Some(output);
                let count = items.len();
                self.memory.keep_list(run, items);
                Event::Listed { seq, run, count }
            }
            waits => {
                row.status = ExecutionStatus::Suspended;
                waiting(waits, to, run)
            }
        };
        // A for-each that has made its list has not ended: no edge of it is decided.
        if let (Some(output), false) = (&row.output, matches!(prepared.event, Event::Listed { .. }))
        {
            prepared.values = self.values_after(scope, node, output, &prepared.vars, base)?;
        }
        Ok(prepared)
    }

    /// How the engine treats a failure of an execution.
    pub(super) fn verdict(
        &self,
        seq: Seq,
        failure: &Failure,
        (now_ms, random): (i64, u64),
        values: Failing<'_>,
    ) -> Verdict {
        match self.state.run_of(seq) {
            Some(open) => {
                let graph = &self.prepared.graph;
                verdict(graph, open, failure, now_ms, random, values)
            }
            None => Verdict::Fail(failure.clone()),
        }
    }

    /// The values for the conditions about a failure of a node: they are those from before its
    /// execution. A value that cannot be read does not fail an execution that succeeded.
    fn failing(
        &mut self,
        scope: ScopeNo,
        node: NodeIx,
        base: &Base,
    ) -> windlass_store::Result<Option<Result<Values, Failure>>> {
        let prepared = Arc::clone(&self.prepared);
        let needs = prepared.graph.node(node).map(|plan| &plan.failing);
        let Some(needs) = needs.filter(|needs| !needs.is_empty()) else {
            return Ok(None);
        };
        match self.values(base, scope, needs, &Patch::new()) {
            Ok(values) => Ok(Some(Ok(values))),
            Err(Unread::Value(failure)) => Ok(Some(Err(failure))),
            Err(Unread::Store(error)) => Err(error),
        }
    }

    pub(super) fn scope_of(&self, seq: Seq) -> ScopeNo {
        self.state
            .run_of(seq)
            .map_or(ScopeNo::ROOT, |open| open.scope)
    }

    /// The values that the conditions of a node's edges see: its new output, and the variables that
    /// its execution assigned.
    fn values_after(
        &mut self,
        scope: ScopeNo,
        node: NodeIx,
        output: &Payload,
        vars: &[(String, Payload)],
        base: &Base,
    ) -> Result<Values, Unread> {
        let prepared = Arc::clone(&self.prepared);
        let Some(plan) = prepared.graph.node(node) else {
            return Ok(Values::new());
        };
        if plan.needs.is_empty() {
            return Ok(Values::new());
        }
        let patch: Patch = vars
            .iter()
            .filter_map(|(name, payload)| Some((name.clone(), payload.inline()?.clone())))
            .collect();
        let store = base.store.as_ref();
        let mut values = self.values(base, scope, &plan.needs, &patch)?;
        if plan.needs.all_nodes || plan.needs.nodes.contains(&plan.name) {
            let json = super::memory::json_of(store, output)?;
            values
                .output(&plan.name, Some(&json))
                .map_err(|error| Unread::Value(super::gather::unusable(&error)))?;
        }
        Ok(values)
    }
}

/// The event of a control trigger.
fn without_record(settled: &Settled, seq: Seq) -> Option<Event> {
    Some(match settled {
        Settled::TimedOut => Event::TimedOut { seq },
        Settled::Cancel => Event::Cancel,
        Settled::Pause => Event::Pause,
        Settled::Unpause => Event::Unpause,
        Settled::Broken(failure) => Event::Broken {
            failure: failure.clone(),
        },
        Settled::CancelNode(target) => Event::CancelNode { seq: *target },
        Settled::Later { until_ms } => Event::Later {
            seq,
            until_ms: *until_ms,
        },
        _ => return None,
    })
}

/// The event of an execution whose node run continues.
fn waiting(settled: Settled, to: Address, run: windlass_model::ExecutionNo) -> Event {
    let seq = to.seq;
    match settled {
        Settled::Again(again) => Event::Again {
            seq,
            run,
            after_ms: again.after_ms,
            left: again.state,
        },
        Settled::Wait { until_ms } => Event::Wait { seq, run, until_ms },
        Settled::Suspended { bookmarks, left } => Event::Suspended {
            seq,
            run,
            until_ms: expiry(&bookmarks),
            left,
        },
        Settled::Child(_) => Event::Child { seq, run },
        _ => Event::TimedOut { seq },
    }
}

pub(super) fn assigned(patch: Patch) -> Vec<(String, Payload)> {
    patch
        .into_iter()
        .map(|(name, json)| (name, Payload::json(json)))
        .collect()
}

/// The JSON object of these members.
fn object_of(members: &Patch) -> Payload {
    let mut json = vec![b'{'];
    for (name, value) in members {
        if json.len() > 1 {
            json.push(b',');
        }
        // Variable names need no escaping.
        json.extend_from_slice(format!("\"{name}\":").as_bytes());
        json.extend_from_slice(value);
    }
    json.push(b'}');
    Payload::json(json)
}

/// The failure for the record of an execution: with the notes about conditions that could not be
/// evaluated, but not replaced by a failure of the node run, such as that of its `total-timeout`.
pub(super) fn with_notes(failure: Failure, verdict: &Verdict) -> Failure {
    match verdict {
        Verdict::Fail(noted) | Verdict::Continue(noted) | Verdict::Route(noted)
            if noted.code == failure.code =>
        {
            noted.clone()
        }
        _ => failure,
    }
}

/// A failure in the form of an output, for the port `error`.
fn failure_output(failure: &Failure) -> Payload {
    Payload::of(&json!({ "error": described(failure) }))
}

/// A failure as data for workflows. The stack is for people and is left out.
pub(super) fn described(failure: &Failure) -> Value {
    let mut described = json!({
        "class": failure.class.name(),
        "code": failure.code.as_str(),
        "message": failure.message,
        // There even if it is null, so that a condition can look into it.
        "details": failure.details,
    });
    let origin = failure.origin.as_deref();
    let position = origin.and_then(|origin| origin.position.as_ref());
    if let (Some(position), Some(members)) = (position, described.as_object_mut()) {
        members.insert("position".to_owned(), json!(position));
    }
    described
}
