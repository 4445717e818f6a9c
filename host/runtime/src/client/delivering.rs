//! Runs started by a request to a trigger of a workflow: the server has found the trigger and
//! verified the request, and no stimulus is sent.
//!
//! The id of such a run follows from the workflow, the trigger and the delivery, so the run is the
//! record of the delivery. A repeated delivery finds the run while it is kept, and its tombstone
//! afterwards. No other record is stored.

use std::sync::Arc;

use windlass_model::http;
use windlass_model::{Digest, RunId, TriggerType};
use windlass_store::Writer as _;
use windlass_store::rows::Created;

use super::workflow::{ClientInner, WorkflowClient};
use crate::derived;
use crate::error::Error;
use crate::request::StartRequest;

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
    /// Whether an earlier request of the same delivery started the run.
    pub existed: bool,
}

impl WorkflowClient {
    /// Starts a run for a request, or finds the run of the same delivery.
    ///
    /// # Errors
    ///
    /// The request does not fit the trigger or the workflow, a run that excludes this one has not ended, another
    /// start has taken the id, or the store fails. Nothing has changed then.
    pub async fn deliver(&self, delivery: Delivery) -> Result<Delivered, Error> {
        self.ask(move |inner| inner.deliver(delivery)).await
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

impl ClientInner {
    fn deliver(&self, delivery: Delivery) -> Result<Delivered, Error> {
        let Delivery {
            definition,
            workflow,
            trigger,
            delivery,
            request,
            params,
        } = delivery;
        let id = delivery.map(|delivery| derived::delivery(&workflow, &trigger, delivery));
        // Looked up before anything is prepared, so that a duplicate costs one read.
        if let Some(id) = id
            && let Some(row) = self.store.run(id)?
        {
            return found(id, row.request);
        }
        let definition = self.store.definition(definition)?.ok_or_else(|| {
            Error::Unreadable(format!(
                "the store has no definition {definition}, though it is published"
            ))
        })?;
        let prepared = self
            .catalog()
            .prepare(definition.clone(), &*self.resources().plugins()?)?;
        let entry = prepared.entries.get(&trigger).ok_or_else(|| {
            Error::Unreadable(format!(
                "the workflow {workflow} has no trigger `{trigger}`"
            ))
        })?;
        let input = entry.of_request(&request, &params)?;
        let request = StartRequest {
            definition,
            input,
            id,
            correlation: None,
        };
        let accepted = request.accepted(&prepared)?;
        self.numbered(|numbers| {
            let now_ms = self.clock.wall_ms();
            let (mut new, _) = accepted.new_run(&prepared, numbers, None, now_ms)?;
            for trigger in &mut new.triggers {
                trigger.kind = TriggerType::Event;
            }
            // Headers and times differ between two requests of one delivery, so their inputs cannot
            // tell whether they are the same.
            if let Some(id) = id {
                new.request = request_of(id);
            }
            let (id, no) = (new.id, new.no);
            match self.store.write(new)?? {
                Created::New => {
                    if let Some(runtime) = self.runtime() {
                        runtime.shared.intake.claim_too(no);
                    }
                    Ok(Delivered { id, existed: false })
                }
                Created::Exists(row) => found(id, row.request),
                // The delivery was processed before, and its run has been deleted.
                Created::Deleted => Ok(Delivered { id, existed: true }),
                Created::Reserved { by } => Err(Error::Reserved { by }),
            }
        })
    }
}

/// The stored request digest of a run that a delivery starts.
fn request_of(id: RunId) -> Digest {
    Digest::of(id.0.as_bytes())
}

fn found(id: RunId, request: Digest) -> Result<Delivered, Error> {
    if request == request_of(id) {
        return Ok(Delivered { id, existed: true });
    }
    Err(Error::Conflict {
        message: format!("run {id} was started by something other than this delivery"),
    })
}
