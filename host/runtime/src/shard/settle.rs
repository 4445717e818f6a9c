//! From what came out of an execution to the commit that records it.

use std::sync::Arc;

use bytes::Bytes;
use windlass_engine::expr::Values;
use windlass_engine::{Command, Cx, Event, NodeIx, Verdict, apply, fail_output, verdict};
use windlass_model::{Again, Class, Digest, Failure, LogLine, Payload, RunNo, RunStatus, Status};
use windlass_store::rows::{NewBlob, RunRow};

use super::commit::{Ending, Step};
use super::hot::Hot;
use super::memory::Unread;
use super::state::State;
use super::work::{Address, Patch};
use crate::codes;
use crate::observe::Observed;
use crate::shared::Shared;

/// How an execution, or what stands for one, ended.
pub(super) enum Settled {
    /// Well.
    Done {
        output: Payload,
        ports: Vec<String>,
        /// Set if the node ends its branch: whether it ends the run.
        end: Option<bool>,
    },
    /// Well, with variables assigned.
    Set(Patch),
    /// It failed.
    Failed(Failure),
    /// It wants to be called again.
    Again(Again),
    /// It waits for an instant.
    Wait { until_ms: i64 },
    /// It is put off without having been executed.
    Later { until_ms: i64 },
    /// The run has taken too long.
    TimedOut,
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

/// What else is known of an execution.
pub(super) struct Ran {
    pub(super) took_us: u64,
    pub(super) logs: Vec<LogLine>,
    pub(super) blobs: Vec<(Digest, Bytes)>,
    pub(super) patch: Patch,
}

impl Ran {
    pub(super) fn none() -> Self {
        Self {
            took_us: 0,
            logs: Vec::new(),
            blobs: Vec::new(),
            patch: Patch::new(),
        }
    }
}

impl State {
    /// Applies what came out to the run, and lines up the commit.
    pub(super) fn settle(&mut self, to: Address, settled: Settled, ran: Ran, shared: &Arc<Shared>) {
        let step = match self.hots.get_mut(&to.instance) {
            Some(hot) => hot.settle(to, settled, ran, shared),
            None => return,
        };
        match step {
            Ok(Some(step)) => self.commit(to, step, shared),
            Ok(None) => {}
            Err(error) => self.failed(to.instance, to.epoch, &error, shared),
        }
    }
}

/// What an event of the engine needs besides the event.
struct Prepared {
    event: Event,
    values: Values,
    vars: Vec<(String, Payload)>,
}

impl Hot {
    fn settle(
        &mut self,
        to: Address,
        settled: Settled,
        ran: Ran,
        shared: &Shared,
    ) -> windlass_store::Result<Option<Step>> {
        let now_ms = shared.clock.wall_ms();
        let random = self.spread(to);
        let Ran {
            took_us,
            logs,
            blobs,
            patch,
        } = ran;
        let mut noted = match self.held.get_mut(&to.seq) {
            Some(held) => std::mem::take(&mut held.noted),
            None => Vec::new(),
        };
        noted.extend(logs);
        let mut record = self.record(to, took_us, noted);
        let prepared = self.prepare(to, settled, patch, &mut record, (now_ms, random), shared);
        let Prepared {
            event,
            values,
            mut vars,
        } = match prepared {
            Ok(prepared) => prepared,
            Err(Unread::Store(error)) => return Err(error),
            Err(Unread::Value(failure)) => {
                // The values that the conditions need cannot be had: so the node has failed.
                let Some(row) = &mut record else {
                    return Ok(None);
                };
                row.status = RunStatus::Failed;
                row.failure = Some(failure.clone());
                row.output = None;
                let event = Event::Failed {
                    seq: to.seq,
                    run: row.no,
                    failure,
                };
                Prepared {
                    event,
                    values: Values::new(),
                    vars: Vec::new(),
                }
            }
        };
        let cx = Cx {
            now_ms,
            random,
            values: &values,
            max_steps: shared.max_steps,
        };
        let graph = Arc::clone(&self.prepared);
        let Ok(mut commands) = apply(&graph.graph, &mut self.state, event, &cx) else {
            tracing::debug!(instance = %self.id, seq = %to.seq, "a result came too late");
            return Ok(None);
        };
        if let Some(record) = &mut record {
            record.skipped = skipped(&commands);
            self.keep_or_refute(record, &commands);
            self.observe(record, shared);
            let executor = graph.nodes.get(NodeIx(record.node).at());
            let times = executor.and_then(|it| it.times(record.kind, &shared.metrics));
            if let Some(times) = times {
                times.record(record.took_us);
            }
        }
        let mut blobs: Vec<NewBlob> = blobs
            .into_iter()
            .map(|(digest, bytes)| NewBlob { digest, bytes })
            .collect();
        if record
            .as_ref()
            .is_some_and(|record| record.failure.is_some())
        {
            // Nothing that a failed attempt did is kept, but that it failed.
            vars.clear();
            blobs.clear();
        }
        // The workflow's output may name what this very step assigned.
        self.memory.assign(&vars);
        let finish = self.finish(&mut commands, &cx, shared)?;
        Ok(Some(Step {
            record,
            commands,
            vars,
            blobs,
            now_ms,
            finish,
        }))
    }

    /// A number that spreads retries out: another one for every trigger of every instance, and
    /// the same one when a step is done again.
    fn spread(&self, to: Address) -> u64 {
        use std::hash::{Hash as _, Hasher as _};
        let mut hasher = rustc_hash::FxHasher::default();
        (self.id.0.as_u128(), to.seq.0).hash(&mut hasher);
        // The lower bits of this hash are weak: mixed as by splitmix64.
        let mixed = hasher.finish();
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 31)
    }

    /// The record of the execution, as far as it is known before the outcome is.
    fn record(&self, to: Address, took_us: u64, logs: Vec<LogLine>) -> Option<RunRow> {
        let open = self.state.open.get(&to.seq)?;
        Some(RunRow {
            no: self.numbers.run()?,
            instance: self.no,
            previous: self.last_run,
            seq: to.seq,
            first: open.first,
            node: open.node.0,
            kind: open.kind,
            attempt: open.attempt,
            status: RunStatus::Completed,
            started_ms: to.started_ms,
            took_us,
            output: None,
            failure: None,
            logs,
            skipped: Vec::new(),
        })
    }

    /// Completes the record, and makes an event of it. What is not an execution has no record.
    fn prepare(
        &mut self,
        to: Address,
        settled: Settled,
        patch: Patch,
        record: &mut Option<RunRow>,
        (now_ms, random): (i64, u64),
        shared: &Shared,
    ) -> Result<Prepared, Unread> {
        let seq = to.seq;
        let plain = |event| Prepared {
            event,
            values: Values::new(),
            vars: Vec::new(),
        };
        if let Settled::TimedOut | Settled::Later { .. } = settled {
            *record = None;
        }
        let row = match (&settled, record) {
            (Settled::Later { until_ms }, _) => {
                let until_ms = *until_ms;
                return Ok(plain(Event::Later { seq, until_ms }));
            }
            (Settled::TimedOut, _) | (_, None) => return Ok(plain(Event::TimedOut { seq })),
            (_, Some(row)) => row,
        };
        let (run, node) = (row.no, NodeIx(row.node));
        let mut values = Values::new();
        let mut vars = Vec::new();
        let event = match settled {
            Settled::Done { output, ports, end } => {
                vars = assigned(patch);
                let output = row.output.insert(output);
                values = self.values_after(node, output, &vars, shared)?;
                Event::Done {
                    seq,
                    run,
                    ports,
                    end,
                }
            }
            Settled::Set(assignments) => {
                let output = object_of(&assignments);
                vars = assigned(patch);
                vars.extend(assigned(assignments));
                let output = row.output.insert(output);
                values = self.values_after(node, output, &vars, shared)?;
                Event::Done {
                    seq,
                    run,
                    ports: Vec::new(),
                    end: None,
                }
            }
            Settled::Failed(failure) => {
                row.failure = Some(failure.clone());
                row.status = RunStatus::Failed;
                let open = self.state.open.get(&seq);
                match open.map(|open| verdict(&self.prepared.graph, open, &failure, now_ms, random))
                {
                    Some(Verdict::Retry { .. }) => row.status = RunStatus::WaitingRetry,
                    Some(Verdict::Continue(_)) => row.output = Some(Payload::null()),
                    Some(Verdict::Route(failure)) => row.output = Some(failure_output(&failure)),
                    Some(Verdict::Fail(_)) | None => {}
                }
                if let Some(output) = &row.output {
                    values = self.values_after(node, output, &vars, shared)?;
                }
                Event::Failed { seq, run, failure }
            }
            Settled::Again(again) => {
                row.status = RunStatus::Suspended;
                vars = assigned(patch);
                Event::Again {
                    seq,
                    run,
                    after_ms: again.after_ms,
                    left: again.state,
                }
            }
            Settled::Wait { until_ms } => {
                row.status = RunStatus::Suspended;
                vars = assigned(patch);
                Event::Wait { seq, run, until_ms }
            }
            Settled::Later { .. } | Settled::TimedOut => Event::TimedOut { seq },
        };
        Ok(Prepared {
            event,
            values,
            vars,
        })
    }

    /// What the conditions behind a node see: its own output as it is now, and the variables
    /// that its execution assigned.
    fn values_after(
        &mut self,
        node: NodeIx,
        output: &Payload,
        vars: &[(String, Payload)],
        shared: &Shared,
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
        let store = shared.store.as_ref();
        let mut values = self.values(store, &plan.needs, &patch)?;
        if plan.needs.all_nodes || plan.needs.nodes.contains(&plan.name) {
            let json = super::memory::json_of(store, output)?;
            values.output(&plan.name, Some(&json)).map_err(|error| {
                Unread::Value(Failure::new(
                    Class::Invalid,
                    codes::RENDER,
                    error.to_string(),
                ))
            })?;
        }
        Ok(values)
    }

    /// Remembers the output, unless a condition behind the node made a failure of it.
    fn keep_or_refute(&mut self, record: &mut RunRow, commands: &[Command]) {
        let refuted = commands.iter().find_map(|command| match command {
            Command::Refuted { failure, .. } => Some(failure),
            _ => None,
        });
        if let Some(failure) = refuted {
            record.status = RunStatus::Failed;
            record.failure = Some(failure.clone());
            record.output = None;
        }
        if let Some(output) = &record.output {
            self.memory.keep(record.no, output.clone());
        }
    }

    fn observe(&self, record: &RunRow, shared: &Shared) {
        let Some(observer) = &shared.observer else {
            return;
        };
        let name = |node: u32| {
            self.prepared
                .graph
                .node(NodeIx(node))
                .map_or("?", |plan| plan.name.as_str())
        };
        let skipped: Vec<&str> = record.skipped.iter().map(|node| name(*node)).collect();
        observer.observe(&Observed::Executed {
            instance: self.id,
            node: name(record.node),
            kind: record.kind,
            attempt: record.attempt,
            status: record.status,
            failure: record.failure.as_ref(),
            skipped: &skipped,
            took_us: record.took_us,
        });
    }

    /// How the run ends, if these commands end it. Renders the workflow's output.
    fn finish(
        &mut self,
        commands: &mut Vec<Command>,
        cx: &Cx<'_>,
        shared: &Shared,
    ) -> windlass_store::Result<Option<Ending>> {
        let Some(Command::Finish { status, output, .. }) = commands.last() else {
            return Ok(None);
        };
        if *status != Status::Completed {
            return Ok(ending(commands));
        }
        match self.final_output(*output, shared) {
            Ok(output) => {
                let output = Some(output);
                Ok(Some(Ending {
                    status: Status::Completed,
                    output,
                    failure: None,
                }))
            }
            Err(Unread::Store(error)) => Err(error),
            Err(Unread::Value(mut failure)) => {
                failure.code = codes::OUTPUT;
                failure.message = format!("the workflow's output: {}", failure.message);
                // What the run did may have to be undone first.
                commands.pop();
                let graph = &self.prepared.graph;
                commands.extend(fail_output(graph, &mut self.state, failure, cx));
                Ok(ending(commands))
            }
        }
    }

    fn final_output(&mut self, from: Option<RunNo>, shared: &Shared) -> Result<Payload, Unread> {
        if let Some(run) = from {
            return self.memory.output(shared.store.as_ref(), run);
        }
        let prepared = Arc::clone(&self.prepared);
        let Some(template) = prepared.graph.output() else {
            return Ok(Payload::null());
        };
        let patch = Patch::new();
        if let Some(alias) = template.alias()
            && let Some(payload) = self.aliased(&alias, &patch, shared)?
        {
            return Ok(payload);
        }
        self.render(template, &patch, shared).map(Payload::json)
    }
}

/// How these commands end the run, if they do and there is no output.
fn ending(commands: &[Command]) -> Option<Ending> {
    match commands.last() {
        Some(Command::Finish {
            status, failure, ..
        }) => Some(Ending {
            status: *status,
            output: None,
            failure: failure.clone(),
        }),
        _ => None,
    }
}

fn skipped(commands: &[Command]) -> Vec<u32> {
    commands
        .iter()
        .filter_map(|command| match command {
            Command::Skip(node) => Some(node.0),
            _ => None,
        })
        .collect()
}

fn assigned(patch: Patch) -> Vec<(String, Payload)> {
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
        // Names of variables need no escaping.
        json.extend_from_slice(format!("\"{name}\":").as_bytes());
        json.extend_from_slice(value);
    }
    json.push(b'}');
    Payload::json(json)
}

/// A failure as the output that the port `error` hands on.
fn failure_output(failure: &Failure) -> Payload {
    Payload::of(&serde_json::json!({
        "error": {
            "class": failure.class.name(),
            "code": failure.code.as_str(),
            "message": failure.message,
        }
    }))
}
