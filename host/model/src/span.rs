//! Spans of OpenTelemetry, as plain data: one for each execution of a node, and one for each run.

use std::sync::Arc;

use crate::trace::TraceContext;
use crate::{Class, Code, Digest, Failure, RunId, TriggerType};

/// The longest message of a failure in a span, in bytes.
pub const MESSAGE_BYTES: usize = 1_024;

/// Takes the spans of a process.
pub trait SpanSink: Send + Sync {
    /// Whether the spans of this trace are taken; `parent` is the trace that the run continues.
    fn samples(&self, trace: &[u8; 16], parent: Option<&TraceContext>) -> bool;

    /// Takes a span whose execution or run is durable. Called on the threads of shards, so it never
    /// waits: a sink without room counts the span and drops it.
    fn take(&self, span: Span);
}

/// An execution of a node, or a run as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The trace, and the id of the span.
    pub at: TraceContext,
    /// The id of the span above.
    pub parent: Option<[u8; 8]>,
    /// A span of another trace. For the first span after a long wait the last one before it, and for
    /// a run the trace in which it has ended.
    pub link: Option<TraceContext>,
    /// The beginning, in microseconds since the epoch.
    pub start_us: u64,
    /// The end, in microseconds since the epoch.
    pub end_us: u64,
    /// The run.
    pub run: RunId,
    /// The name of its workflow.
    pub workflow: Arc<str>,
    /// Its definition.
    pub definition: Digest,
    /// The execution; none: the span is that of the run.
    pub execution: Option<ExecutionSpan>,
    /// How the execution or the run ended: the name of its status.
    pub status: &'static str,
    /// Why it failed.
    pub failure: Option<FailureSpan>,
}

/// The parts of a span that only executions have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionSpan {
    /// The name of the node.
    pub node: Arc<str>,
    /// The positions in the lists around the node, the outermost first.
    pub item: Vec<u32>,
    /// From 1.
    pub attempt: u32,
    /// The type of the trigger.
    pub kind: TriggerType,
    /// The plugin, unless the host runs the node itself.
    pub plugin: Option<PluginSpan>,
}

/// The plugin of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSpan {
    /// The node type, like `http/request`.
    pub node_type: String,
    /// The version of the package.
    pub version: String,
    /// The component.
    pub digest: Digest,
}

/// A failure, without its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureSpan {
    /// Its class.
    pub class: Class,
    /// Its code.
    pub code: Code,
    /// Its message, of at most [`MESSAGE_BYTES`].
    pub message: String,
}

impl FailureSpan {
    /// The parts of a failure that a span has.
    pub fn of(failure: &Failure) -> Self {
        let end = failure.message.floor_char_boundary(MESSAGE_BYTES);
        Self {
            class: failure.class,
            code: failure.code.clone(),
            message: failure.message.get(..end).unwrap_or_default().to_owned(),
        }
    }
}

/// Microseconds since the epoch, of a time in milliseconds; 0 for times before the epoch.
pub fn microseconds(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0).saturating_mul(1_000)
}
