//! The trace of a run, and the spans of its steps.
//!
//! A run that continues no trace is a trace of its own, whose id is that of the run; the id of a span
//! follows from its execution. So all processes that execute a run make the same ids, and nothing about
//! them is stored. Spans are made by the commit of a step and handed over when it is durable: a step
//! that is repeated after a crash has one span.
//!
//! An execution that begins over an hour after the previous one has ended begins a new trace, which is
//! linked to the old one: tracers keep a trace for minutes. A process finds that out when it claims the
//! run, from the last [`LOOKS`] records, and only if the run is older than an hour and spans are
//! exported.
//!
//! The engine knows nothing of traces.

use windlass_model::span::{ExecutionSpan, FailureSpan, PluginSpan, Span, microseconds};
use windlass_model::trace::{span_of, span_of_run, trace_after, trace_of};
use windlass_model::{RunId, Seq, TraceContext};
use windlass_store::rows::{ExecutionRow, NewRun, RunRow};
use windlass_store::{Result, Store};

use super::owned::OwnedRun;
use crate::shared::Base;
use crate::wait::RunResult;

/// The wait after which another trace begins, in milliseconds.
const LONG_MS: i64 = 60 * 60 * 1_000;

/// How many records of a run are read to find its last long wait.
const LOOKS: usize = 256;

/// How many records of a run are read at a time.
const PAGE: u32 = 16;

/// What a run in memory knows about its trace.
#[derive(Clone, Debug)]
pub(crate) struct RunTrace {
    run: RunId,
    /// The trace that the run continues.
    pub(super) parent: Option<TraceContext>,
    /// When the run was created, in epoch milliseconds.
    created_ms: i64,
    /// The trace since the last long wait.
    since: Option<Since>,
}

/// A trace that began after a long wait.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Since {
    trace: [u8; 16],
    /// Its first span, which is above the others; none: it is still to come.
    first: Option<[u8; 8]>,
    /// The last span before the wait.
    before: TraceContext,
}

impl RunTrace {
    pub(super) fn of_row(row: &RunRow) -> Self {
        Self {
            run: row.id,
            parent: row.trace.clone(),
            created_ms: row.created_ms,
            since: None,
        }
    }

    pub(super) fn of_new(new: &NewRun) -> Self {
        Self {
            run: new.id,
            parent: new.trace.clone(),
            created_ms: new.created_ms,
            since: None,
        }
    }

    /// The trace before any long wait.
    fn main(&self) -> [u8; 16] {
        self.parent
            .as_ref()
            .map_or_else(|| trace_of(self.run), |parent| parent.trace)
    }

    /// A span in the trace before any long wait. The state is that of the caller.
    fn in_main(&self, span: [u8; 8]) -> TraceContext {
        TraceContext {
            state: self.parent.as_ref().and_then(|parent| parent.state.clone()),
            ..TraceContext::sampled(self.main(), span)
        }
    }

    /// A span in the trace since the last long wait.
    fn within(&self, span: [u8; 8]) -> TraceContext {
        match &self.since {
            Some(since) => TraceContext::sampled(since.trace, span),
            None => self.in_main(span),
        }
    }

    /// The position of an execution. None: the run is in no trace.
    fn at(&self, (seq, attempt): (Seq, u32), base: &Base) -> Option<TraceContext> {
        let Some(sink) = &base.spans else {
            return self.parent.clone();
        };
        let position = self.within(span_of(self.run, seq, attempt));
        match sink.samples(&self.main(), self.parent.as_ref()) {
            true => Some(position),
            // The caller's span stays the parent of what follows.
            false => self.parent.clone().or(Some(TraceContext {
                flags: 0,
                ..position
            })),
        }
    }

    /// Looks for the last long wait of a run that was claimed.
    ///
    /// # Errors
    ///
    /// The store fails.
    pub(super) fn look_back(&mut self, row: &RunRow, base: &Base) -> Result<()> {
        let now_ms = base.clock.wall_ms();
        if base.spans.is_some() && now_ms.saturating_sub(self.created_ms) > LONG_MS {
            self.since = self.last_wait(row, base.store.as_ref(), now_ms)?;
        }
        Ok(())
    }

    fn last_wait(&self, row: &RunRow, store: &dyn Store, now_ms: i64) -> Result<Option<Since>> {
        let mut found: Option<Since> = None;
        let (mut next_ms, mut next) = (now_ms, None);
        let (mut before, mut looked) = (None, 0);
        while looked < LOOKS {
            let records = store.executions(row.no, before, PAGE)?;
            for record in &records {
                let span = span_of(self.run, record.seq, record.attempt);
                if next_ms.saturating_sub(ended_ms(record)) > LONG_MS {
                    let trace = trace_after(self.run, record.seq);
                    if let Some(found) = &mut found {
                        // The trace before the last wait began after another one.
                        found.before.trace = trace;
                        return Ok(Some(found.clone()));
                    }
                    found = Some(Since {
                        trace,
                        first: next,
                        before: self.in_main(span),
                    });
                }
                (next_ms, next) = (record.started_ms, Some(span));
            }
            looked += records.len();
            before = records.last().map(|record| record.no);
            if records.len() < PAGE as usize {
                break;
            }
        }
        Ok(found)
    }

    /// The span above an execution, and the link of the first one after a long wait.
    fn above(&mut self, own: [u8; 8]) -> (Option<[u8; 8]>, Option<TraceContext>) {
        let Some(since) = &mut self.since else {
            return (Some(span_of_run(self.run)), None);
        };
        match *since.first.get_or_insert(own) {
            first if first == own => (None, Some(since.before.clone())),
            first => (Some(first), None),
        }
    }
}

fn ended_ms(record: &ExecutionRow) -> i64 {
    let took_ms = i64::try_from(record.took_us / 1_000).unwrap_or(i64::MAX);
    record.started_ms.saturating_add(took_ms)
}

impl OwnedRun {
    /// The trace in which an execution runs. None: its run is in no trace.
    pub(super) fn trace_at(&self, execution: (Seq, u32), base: &Base) -> Option<TraceContext> {
        self.trace.at(execution, base)
    }

    /// The spans of a step: those of its records, of which the first one may have an item, and that of
    /// the run, if the step ends it.
    pub(super) fn spans(
        &mut self,
        records: &[ExecutionRow],
        item: &[u32],
        (ended, now_ms): (Option<&RunResult>, i64),
        base: &Base,
    ) -> Box<[Span]> {
        let Some(sink) = &base.spans else {
            return Box::default();
        };
        if !sink.samples(&self.trace.main(), self.trace.parent.as_ref()) {
            return Box::default();
        }
        let mut spans = Vec::with_capacity(records.len() + usize::from(ended.is_some()));
        for (place, record) in records.iter().enumerate() {
            let item = if place == 0 { item } else { &[] };
            spans.extend(self.of_record(record, item));
        }
        if let Some(ended) = ended {
            spans.push(Span {
                at: self.trace.in_main(span_of_run(self.id)),
                parent: self.trace.parent.as_ref().map(|parent| parent.span),
                link: self.trace.since.as_ref().and_then(|since| {
                    let first = since.first?;
                    Some(TraceContext::sampled(since.trace, first))
                }),
                start_us: microseconds(self.trace.created_ms),
                end_us: microseconds(now_ms.max(self.trace.created_ms)),
                run: self.id,
                workflow: self.prepared.name.clone(),
                definition: self.prepared.definition.digest,
                execution: None,
                status: ended.status.name(),
                failure: ended.failure.as_ref().map(FailureSpan::of),
            });
        }
        spans.into_boxed_slice()
    }

    fn of_record(&mut self, record: &ExecutionRow, item: &[u32]) -> Option<Span> {
        let executor = self
            .prepared
            .executor(windlass_engine::NodeIx(record.node))?;
        let plugin = executor.plugin.as_ref().map(|plugin| PluginSpan {
            node_type: executor.node_type.to_string(),
            version: plugin.description.version.to_string(),
            digest: plugin.digest,
        });
        let execution = ExecutionSpan {
            node: executor.name.clone(),
            item: item.to_vec(),
            attempt: record.attempt,
            kind: record.kind,
            plugin,
        };
        let own = span_of(self.id, record.seq, record.attempt);
        let (parent, link) = self.trace.above(own);
        let start_us = microseconds(record.started_ms);
        Some(Span {
            at: self.trace.within(own),
            parent,
            link,
            start_us,
            end_us: start_us.saturating_add(record.took_us),
            run: self.id,
            workflow: self.prepared.name.clone(),
            definition: self.prepared.definition.digest,
            execution: Some(execution),
            status: record.status.name(),
            failure: record.failure.as_ref().map(FailureSpan::of),
        })
    }
}
