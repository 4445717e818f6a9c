//! Runs started by a request to a trigger of a workflow: the server has found the trigger and
//! verified the request, and no stimulus is sent.
//!
//! The id of such a run follows from the workflow, the trigger and the delivery, so the run is the
//! record of the delivery. A repeated delivery finds the run while it is kept, and its tombstone
//! afterwards. No other record is stored.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use windlass_model::http;
use windlass_model::{Digest, Payload, RunId, RunNo, TraceContext};
use windlass_store::published::Edition;

use super::reach::{Operations, OperationsInner};
use super::starting::{HERE_BYTES, moved};
use crate::derived;
use crate::error::Error;
use crate::outputs::{Awaited, Output};
use crate::shared::RuntimeShared;
use crate::starting::{Accepted, Cause, Start, Started};
use crate::wait::Waiter;

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
    /// The trace that the run continues.
    pub trace: Option<TraceContext>,
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

/// What the sender of a request waits for.
#[derive(Clone, Copy, Debug)]
pub enum Expects<'a> {
    /// That the run is stored.
    Nothing,
    /// The end of the run.
    End,
    /// The output of this node.
    Output(&'a str),
}

/// A wait for a run that began before the run was written, so that it misses nothing. Empty if another
/// process may carry the run out.
#[derive(Default)]
pub struct Expected {
    pub(super) end: Option<Waiter>,
    output: Option<oneshot::Receiver<Output>>,
}

impl Expected {
    /// Waits for the output of the awaited node. None: it did not come in this time, or the store has to
    /// be read to know more about the run.
    pub async fn output(self, patience: Duration) -> Option<Option<Payload>> {
        tokio::time::timeout(patience, self.output?)
            .await
            .ok()?
            .ok()
    }
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
            Found::Start(start) => {
                let started = self.carry_out(*start, Expects::Nothing).await;
                started.and_then(|started| Ok(started.ok_or_else(moved)?.0))
            }
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

    /// As [`Self::deliver`], for a new delivery of a little request to a trigger that was looked up in
    /// this edition. Reads nothing before the run is written. None: nothing has changed, and the caller
    /// looks the trigger up again and delivers the request by [`Self::deliver`].
    ///
    /// # Errors
    ///
    /// A run that excludes this one has not ended, or the store fails.
    pub async fn deliver_known(
        &self,
        delivery: &Delivery,
        edition: Edition,
        expects: Expects<'_>,
    ) -> Result<Option<(Delivered, Expected)>, Error> {
        let Some(mut start) = self.inner.warm_delivery(delivery) else {
            return Ok(None);
        };
        start.as_of = Some(edition);
        let started = self.carry_out(start, expects).await?;
        Ok(started.map(|(Started { id, no, .. }, expected)| {
            let delivered = Delivered {
                id,
                no: Some(no),
                existed: false,
            };
            (delivered, expected)
        }))
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
    Start(Box<Accepted>),
}

impl Delivery {
    fn cause(&self) -> Cause {
        let id = self
            .delivery
            .map(|delivery| derived::delivery(&self.workflow, &self.trigger, delivery));
        let trace = self.trace.clone();
        Cause::Delivery { id, trace }
    }
}

impl RuntimeShared {
    /// The wait for a run that this process is about to create, and its counterpart in the run.
    pub(super) fn expected(
        &self,
        start: &Accepted,
        expects: Expects<'_>,
    ) -> (Expected, Option<Awaited>) {
        let mut expected = Expected::default();
        match expects {
            Expects::Nothing => (expected, None),
            Expects::End => {
                expected.end = Some(self.listeners.waiters.add(start.id()));
                (expected, None)
            }
            Expects::Output(node) => {
                let (awaited, output) = start.node(node).map(Awaited::new).unzip();
                expected.output = output;
                (expected, awaited)
            }
        }
    }
}

impl OperationsInner {
    /// The start of a delivery, if its definition is prepared, so that nothing has to be read, and
    /// little is to do. None as well if the request does not fit: another version may take it.
    fn warm_delivery(&self, delivery: &Delivery) -> Option<Accepted> {
        if delivery.request.body.sent.len() as u64 > HERE_BYTES {
            return None;
        }
        let prepared = self.current(delivery.definition)?;
        let entry = prepared.entries.get(&delivery.trigger)?;
        // An expression may take its time.
        if entry.has_template() {
            return None;
        }
        let input = entry.of_request(&delivery.request, &delivery.params);
        let start = Start {
            input: input.ok()?,
            cause: delivery.cause(),
            prepared,
        };
        start.accepted().ok()
    }

    fn delivery(&self, delivery: Delivery) -> Result<Found, Error> {
        let (workflow, trigger) = (&delivery.workflow, &delivery.trigger);
        let cause = delivery.cause();
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
        start.accepted().map(|start| Found::Start(Box::new(start)))
    }
}
