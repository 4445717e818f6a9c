//! The queue between the threads that run workflows and the task that sends spans.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;
use windlass_model::TraceContext;
use windlass_model::metrics::Metrics;
use windlass_model::span::{Span, SpanSink};

use crate::sampling::Sampler;

/// The entry of the queue. Spans without room are counted and dropped.
pub(crate) struct Spans {
    entry: mpsc::Sender<Span>,
    sampler: Sampler,
    /// Spans that are taken and neither sent nor dropped.
    pending: Arc<AtomicU64>,
    metrics: Arc<Metrics>,
}

impl Spans {
    /// A queue of so many spans.
    pub(crate) fn new(
        (most, sampler): (usize, Sampler),
        pending: Arc<AtomicU64>,
        metrics: Arc<Metrics>,
    ) -> (Self, mpsc::Receiver<Span>) {
        let (entry, exit) = mpsc::channel(most);
        let spans = Self {
            entry,
            sampler,
            pending,
            metrics,
        };
        (spans, exit)
    }
}

impl SpanSink for Spans {
    fn samples(&self, trace: &[u8; 16], parent: Option<&TraceContext>) -> bool {
        self.sampler.samples(trace, parent)
    }

    fn take(&self, span: Span) {
        self.pending.fetch_add(1, Ordering::Relaxed);
        // Full, or closed at the end of the process.
        if self.entry.try_send(span).is_err() {
            self.pending.fetch_sub(1, Ordering::Relaxed);
            self.metrics.spans_dropped.add(1);
        }
    }
}
