//! What starts a run: the kind of its triggers, its identity and its times.

use windlass_model::{Digest, RunId, TraceContext, TriggerType};
use windlass_store::Store;
use windlass_store::rows::RunRow;

use super::Started;
use crate::error::Error;

/// What starts a run.
pub(crate) enum Cause {
    /// A request of a client.
    Call {
        /// Chosen by the client.
        id: Option<RunId>,
        correlation: Option<String>,
        /// The trace of the request.
        trace: Option<TraceContext>,
        begin: Begin,
    },
    /// A stimulus.
    Event {
        /// That of the stimulus.
        correlation: Option<String>,
        /// That of the stimulus.
        trace: Option<TraceContext>,
    },
    /// A planned time of a schedule, or a person who starts a run of it.
    Occurrence {
        id: RunId,
        /// `cron` or `timer`; `manual` for a person.
        kind: TriggerType,
        /// The planned time and the jitter, or the time of the request, in epoch milliseconds.
        due_ms: i64,
    },
    /// A request to a trigger of the workflow.
    Delivery {
        /// Of the workflow, the trigger and the delivery; none: every request is a new delivery.
        id: Option<RunId>,
        /// The trace of the request.
        trace: Option<TraceContext>,
    },
    /// A node of another run.
    Child {
        id: RunId,
        /// That of the parent.
        correlation: Option<String>,
        /// The trace of the parent, at the node.
        trace: Option<TraceContext>,
    },
}

/// When the run of a call begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    Now,
    /// At this instant, in epoch milliseconds.
    At(i64),
    WhenTold,
}

impl Cause {
    /// The type of the first triggers.
    pub(super) fn kind(&self) -> TriggerType {
        match self {
            Self::Call { .. } | Self::Child { .. } => TriggerType::Start,
            Self::Event { .. } | Self::Delivery { .. } => TriggerType::Event,
            Self::Occurrence { kind, .. } => *kind,
        }
    }

    pub(super) fn correlation(&self) -> Option<&str> {
        match self {
            Self::Call { correlation, .. }
            | Self::Event { correlation, .. }
            | Self::Child { correlation, .. } => correlation.as_deref(),
            Self::Occurrence { .. } | Self::Delivery { .. } => None,
        }
    }

    /// The trace that the run continues. It is no part of the identity of the start.
    pub(super) fn trace(&self) -> Option<TraceContext> {
        match self {
            Self::Call { trace, .. }
            | Self::Event { trace, .. }
            | Self::Delivery { trace, .. }
            | Self::Child { trace, .. } => trace.clone(),
            Self::Occurrence { .. } => None,
        }
    }

    /// The id of the run, if the cause names it.
    pub(super) fn id(&self) -> Option<RunId> {
        match self {
            Self::Call { id, .. } | Self::Delivery { id, .. } => *id,
            Self::Occurrence { id, .. } | Self::Child { id, .. } => Some(*id),
            Self::Event { .. } => None,
        }
    }

    /// The identity of the start of this run, if the run has an id that no client chooses. Headers and
    /// times differ between two requests of one delivery, so the id identifies it, and not the input.
    pub(super) fn identity(&self, run: RunId) -> Option<Digest> {
        match self {
            Self::Delivery { .. } | Self::Event { .. } => Some(Digest::of(run.0.as_bytes())),
            _ => None,
        }
    }

    /// When the time-outs of the run begin to count, in epoch milliseconds.
    pub(super) fn begin_ms(&self, now_ms: i64) -> i64 {
        match self {
            Self::Call {
                begin: Begin::At(at_ms),
                ..
            } => *at_ms,
            Self::Occurrence { due_ms, .. } => *due_ms,
            _ => now_ms,
        }
    }

    /// When the first triggers are due, in epoch milliseconds.
    pub(super) fn due_ms(&self, now_ms: i64) -> i64 {
        match self {
            Self::Call {
                begin: Begin::WhenTold,
                ..
            } => i64::MAX,
            _ => self.begin_ms(now_ms),
        }
    }

    /// Whether the first triggers are due at once.
    pub(super) fn is_now(&self) -> bool {
        match self {
            Self::Call { begin, .. } => *begin == Begin::Now,
            Self::Occurrence { .. } => false,
            Self::Event { .. } | Self::Delivery { .. } | Self::Child { .. } => true,
        }
    }

    /// The result of a start if a run with its id exists; `request` is the identity of the start.
    pub(super) fn existing(&self, request: Digest, row: Box<RunRow>) -> Result<Started, Error> {
        if row.request == request {
            return Ok(Started {
                id: row.id,
                no: row.no,
                existing: Some(row),
            });
        }
        let other = match self {
            Self::Delivery { .. } => "by something other than this delivery",
            _ => "with another workflow or input",
        };
        Err(Error::Conflict {
            message: format!("run {} was started {other}", row.id),
        })
    }

    /// The run that this cause has started before; none if there is none, or if only the input can
    /// tell.
    ///
    /// # Errors
    ///
    /// The id belongs to another start, or the store fails.
    pub(crate) fn started_before(&self, store: &dyn Store) -> Result<Option<Started>, Error> {
        let Some(id) = self.id() else {
            return Ok(None);
        };
        let Some(request) = self.identity(id) else {
            return Ok(None);
        };
        let row = store.run(id)?;
        row.map(|row| self.existing(request, Box::new(row)))
            .transpose()
    }
}
