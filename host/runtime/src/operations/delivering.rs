//! Runs started by a request to a trigger of a workflow: the server has found the trigger and
//! verified the request, and no stimulus is sent.
//!
//! The id of such a run follows from the workflow, the trigger and the delivery, so the run is the
//! record of the delivery. A repeated delivery finds the run while it is kept, and its tombstone
//! afterwards. No other record is stored.

use std::sync::Arc;

use windlass_model::http;
use windlass_model::{Digest, RunId, RunNo};

use super::reach::{Operations, OperationsInner};
use crate::derived;
use crate::error::Error;
use crate::starting::{Accepted, Cause, Start, Started};

/// A request that starts a run.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The published definition.
    pub definition: Digest,
    /// Its workflow.
    pub workflow: String,
    /// The key of the trigger.
    pub trigger: String,
    /// Identifies repeated deliveries; none: every request counts as a new delivery.
    pub delivery: Option<Digest>,
    /// The request. The trigger says how it becomes the input of the run.
    pub request: Arc<http::Request>,
    /// The parameters of its path.
    pub params: http::Parameters,
}

/// The run that a request has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The run.
    pub id: RunId,
    /// Its number, if it exists.
    pub no: Option<RunNo>,
    /// Whether an earlier request of the same delivery started the run.
    pub existed: bool,
}

impl Operations {
    /// Starts a run for a request, or finds the run of the same delivery.
    ///
    /// # Errors
    ///
    /// The request does not fit the trigger or the workflow, a run that excludes this one has not ended, another
    /// start has taken the id, or the store fails. Nothing has changed then.
    pub async fn deliver(&self, delivery: Delivery) -> Result<Delivered, Error> {
        let started = match self.ask(move |inner| inner.delivery(delivery)).await? {
            Found::Before(started) => Ok(started),
            Found::Start(start) => self.carry_out(start).await,
        };
        match started {
            Ok(Started { id, no, existing }) => Ok(Delivered {
                id,
                no: Some(no),
                existed: existing.is_some(),
            }),
            // The delivery was processed before, and its run has been deleted.
            Err(Error::Deleted(id)) => Ok(Delivered {
                id,
                no: None,
                existed: true,
            }),
            Err(error) => Err(error),
        }
    }

    /// Whether the run of this delivery exists.
    ///
    /// # Errors
    ///
    /// The store fails.
    pub async fn is_delivered(
        &self,
        workflow: &str,
        trigger: &str,
        delivery: Digest,
    ) -> Result<bool, Error> {
        let id = derived::delivery(workflow, trigger, delivery);
        self.exists(id).await
    }
}

/// A request, after the look for the run of its delivery.
enum Found {
    /// An earlier request has started it.
    Before(Started),
    Start(Accepted),
}

impl OperationsInner {
    fn delivery(&self, delivery: Delivery) -> Result<Found, Error> {
        let (workflow, trigger) = (&delivery.workflow, &delivery.trigger);
        let id = delivery
            .delivery
            .map(|delivery| derived::delivery(workflow, trigger, delivery));
        let cause = Cause::Delivery { id };
        // Looked up before anything is prepared, so that a duplicate costs one read.
        if let Some(started) = cause.started_before(self.store.as_ref())? {
            return Ok(Found::Before(started));
        }
        let prepared = self.stored(delivery.definition)?;
        let entry = prepared.entries.get(trigger).ok_or_else(|| {
            Error::Unreadable(format!(
                "the workflow {workflow} has no trigger `{trigger}`"
            ))
        })?;
        let input = entry.of_request(&delivery.request, &delivery.params)?;
        let start = Start {
            prepared,
            input,
            cause,
        };
        start.accepted().map(Found::Start)
    }
}
