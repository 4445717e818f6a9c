//! Converts the end of an execution to an event of the engine.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use windlass_engine::expr::{Interrupt, Values};
use windlass_engine::{Cx, Event, Graph, Judged, NodeIx, Open, Verdict, judge, verdict};
use windlass_model::{
    Again, Bookmark, Digest, ExecutionStatus, Failure, LogLine, Payload, ScopeNo, Seq,
};
use windlass_plugins::Effects;
use windlass_store::rows::{ExecutionRow, NewRun};

use super::evaluate::{Answer, Sight};
use super::gather::Gathered;
use super::memory::{Items, Unread, json_of};
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
    Listed { output: Payload, items: Items },
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

/// The question to the conditions of a node, with the values that they see.
pub(super) struct Question {
    /// The values for the conditions of edges.
    pub(super) after: Sight,
    /// The values for the conditions about a failure, or why they cannot be read. None: no such
    /// condition names a value.
    pub(super) failing: Option<Result<Sight, Failure>>,
    pub(super) now_ms: i64,
    pub(super) random: u64,
}

impl Question {
    /// The decision about an event, or why the values for it cannot be read. None: the evaluation was
    /// interrupted.
    pub(super) fn judged(
        &mut self,
        graph: &Graph,
        open: &Open,
        event: &Event,
        interrupt: Interrupt,
    ) -> Option<Result<Judged, Failure>> {
        let values = match self.after.open(interrupt.clone()) {
            Ok(values) => values,
            Err(failure) => return Some(Err(failure)),
        };
        let opened;
        let failing = match &mut self.failing {
            // Conditions that name no value take any.
            None => Ok(values),
            // A value that cannot be read does not fail an execution that succeeded.
            Some(Ok(sight)) => {
                opened = sight.open(interrupt);
                opened.as_ref().map(|values| *values)
            }
            Some(Err(failure)) => Err(&*failure),
        };
        let cx = Cx {
            now_ms: self.now_ms,
            random: self.random,
            values,
            failing,
            // No condition sees it.
            max_steps: u64::MAX,
        };
        judge(graph, open, event, &cx).ok().map(Ok)
    }
}

impl OwnedRun {
    /// Completes the record of an execution and makes an event of its outcome, with the variables that
    /// it assigns. A control trigger has no record.
    pub(super) fn recorded(
        &mut self,
        to: Address,
        settled: Settled,
        verdict: Option<Verdict>,
        patch: Patch,
        record: &mut Option<ExecutionRow>,
    ) -> (Event, Vec<(String, Payload)>) {
        let seq = to.seq;
        if let Some(event) = without_record(&settled, seq) {
            *record = None;
            return (event, Vec::new());
        }
        let Some(row) = record else {
            return (Event::TimedOut { seq }, Vec::new());
        };
        let run = row.no;
        let mut vars = match &settled {
            Settled::Failed(_) => Vec::new(),
            _ => assigned(patch),
        };
        if let Settled::Set(assignments) = &settled {
            vars.extend(assigned(assignments.clone()));
        }
        let event = match settled {
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
                let verdict = verdict.unwrap_or_else(|| Verdict::Fail(failure.clone()));
                row.status = ExecutionStatus::Failed;
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
        (event, vars)
    }

    /// How the engine treats a failure of an execution.
    pub(super) fn verdict(
        &mut self,
        seq: Seq,
        scope: ScopeNo,
        failure: &Failure,
        (now_ms, random): (i64, u64),
        base: &Base,
    ) -> Result<Verdict, Unread> {
        if let Some(Answer::Verdict(verdict)) = self.evaluations.answer() {
            return Ok(verdict);
        }
        let Some(node) = self.state.run_of(seq).map(|open| open.node) else {
            return Ok(Verdict::Fail(failure.clone()));
        };
        let failing = self.failing(scope, node, base)?.transpose();
        let evaluations = &mut self.evaluations;
        let bytes = failing.as_ref().ok().and_then(Option::as_ref);
        let is_inline = evaluations.is_inline(bytes.map_or(0, Gathered::json_bytes), base);
        let mut failing = failing.map(|known| evaluations.sight(known, base));
        let mut ask = move |graph: &Graph, open: &Open, failure: &Failure, interrupt| {
            let values = match &mut failing {
                Ok(sight) => sight.open(interrupt),
                Err(failure) => Err(failure.clone()),
            };
            let found = verdict(
                graph,
                open,
                failure,
                now_ms,
                random,
                values.as_ref().map(|v| *v),
            );
            let was_interrupted = values.is_ok_and(Values::was_interrupted);
            (!was_interrupted).then_some(found)
        };
        let Some(open) = self.state.run_of(seq) else {
            return Ok(Verdict::Fail(failure.clone()));
        };
        if is_inline {
            let slice = evaluations.slice(base);
            if let Some(verdict) = ask(&self.prepared.graph, open, failure, slice) {
                return Ok(verdict);
            }
        }
        let (prepared, open, failure) = (Arc::clone(&self.prepared), open.clone(), failure.clone());
        Err(evaluations.ask_aside(move |interrupt| {
            ask(&prepared.graph, &open, &failure, interrupt).map(Answer::Verdict)
        }))
    }

    /// The values for the conditions about a failure of a node: they are those from before its
    /// execution. None: no such condition names a value.
    pub(super) fn failing(
        &mut self,
        scope: ScopeNo,
        node: NodeIx,
        base: &Base,
    ) -> Result<Option<Result<Gathered, Failure>>, Unread> {
        let prepared = Arc::clone(&self.prepared);
        let needs = prepared.graph.node(node).map(|plan| &plan.failing);
        let Some(needs) = needs.filter(|needs| !needs.is_empty()) else {
            return Ok(None);
        };
        match self.gather(base, scope, needs, &Patch::new()) {
            Ok(values) => Ok(Some(Ok(values))),
            Err(Unread::Value(failure)) => Ok(Some(Err(failure))),
            Err(unread) => Err(unread),
        }
    }

    pub(super) fn scope_of(&self, seq: Seq) -> ScopeNo {
        self.state
            .run_of(seq)
            .map_or(ScopeNo::ROOT, |open| open.scope)
    }

    /// The values that the conditions of a node's edges see: its new output, and the variables that
    /// its execution assigned. None: they name no value.
    pub(super) fn after(
        &mut self,
        scope: ScopeNo,
        node: NodeIx,
        output: &Payload,
        vars: &[(String, Payload)],
        base: &Base,
    ) -> Result<Option<Gathered>, Unread> {
        let prepared = Arc::clone(&self.prepared);
        let plan = prepared.graph.node(node);
        let Some(plan) = plan.filter(|plan| !plan.needs.is_empty()) else {
            return Ok(None);
        };
        let patch: Patch = vars
            .iter()
            .filter_map(|(name, payload)| Some((name.clone(), payload.inline()?.clone())))
            .collect();
        let mut gathered = self.gather(base, scope, &plan.needs, &patch)?;
        if plan.needs.all_nodes || plan.needs.nodes.contains(&plan.name) {
            let json = json_of(base.store.as_ref(), output)?;
            gathered
                .output(&plan.name, json)
                .map_err(|unread| self.evaluations.with_place(unread, &gathered))?;
        }
        Ok(Some(gathered))
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
    // Exactly as long: a buffer that grows leaves copies behind, which are as long together.
    let of_members = members.iter().map(|(name, value)| name.len() + value.len());
    let signs = 2 + (members.len() * 4).saturating_sub(1);
    let mut json = Vec::with_capacity(of_members.sum::<usize>() + signs);
    json.push(b'{');
    for (name, value) in members {
        if json.len() > 1 {
            json.push(b',');
        }
        // Variable names need no escaping.
        json.push(b'"');
        json.extend_from_slice(name.as_bytes());
        json.extend_from_slice(b"\":");
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
