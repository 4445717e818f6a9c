//! Converts the end of an execution to an event of the engine.

use std::sync::Arc;

use bytes::Bytes;
use windlass_engine::expr::Values;
use windlass_engine::{Event, NodeIx, Verdict, verdict};
use windlass_model::{
    Again, Bookmark, Digest, ExecutionStatus, Failure, LogLine, Payload, ScopeNo, Seq,
};
use windlass_plugins::call::Effects;
use windlass_store::rows::{ExecutionRow, NewRun};

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
    Listed {
        output: Payload,
        items: Arc<[Bytes]>,
    },
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
    pub(super) values: Values,
    pub(super) vars: Vec<(String, Payload)>,
}

impl Prepared {
    fn plain(event: Event) -> Self {
        Self {
            event,
            values: Values::new(),
            vars: Vec::new(),
        }
    }
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
                row.failure = Some(failure.clone());
                row.status = ExecutionStatus::Failed;
                let open = self.state.run_of(seq);
                match open.map(|open| verdict(&self.prepared.graph, open, &failure, now_ms, random))
                {
                    Some(Verdict::Retry { .. }) => row.status = ExecutionStatus::WaitingRetry,
                    Some(Verdict::Continue(_)) => row.output = Some(Payload::null()),
                    Some(Verdict::Route(failure)) => row.output = Some(failure_output(&failure)),
                    Some(Verdict::Fail(_)) | None => {}
                }
                Event::Failed { seq, run, failure }
            }
            Settled::Listed { output, items } => {
                row.status = ExecutionStatus::Suspended;
                row.output = Some(output);
                let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
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
        let mut values = self.values(store, scope, &plan.needs, &patch, &base.links)?;
        if plan.needs.all_nodes || plan.needs.nodes.contains(&plan.name) {
            let json = super::memory::json_of(store, output)?;
            values
                .output(&plan.name, Some(&json))
                .map_err(super::memory::unusable)?;
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

/// A failure in the form of an output, for the port `error`.
fn failure_output(failure: &Failure) -> Payload {
    Payload::of(&serde_json::json!({
        "error": {
            "class": failure.class.name(),
            "code": failure.code.as_str(),
            "message": failure.message,
        }
    }))
}
