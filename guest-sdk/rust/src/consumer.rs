//! Trigger consumers: decisions about due triggers.

use crate::bindings::consumer::exports::windlass::consumer::consumer as wit;
use crate::bookmark::whole_ms;
use crate::context::Context;
use crate::data::{from_json, json_payload};
use crate::error::{Error, Failure, Result};
use crate::host::log_panics;
use serde_json::{Map, Value};
use std::time::Duration;

/// Decides about triggers.
pub trait Consumer {
    /// The types of triggers that it takes; `*` is every type.
    const TYPES: &'static [&'static str] = &["*"];
    /// The names of the routes that it takes.
    const ROUTES: &'static [&'static str] = &[];

    /// Decides about one trigger. After an error, the trigger is kept and
    /// offered again.
    fn accept(trigger: Trigger, cx: &Context) -> Result<Disposition>;
}

/// A due trigger that is claimed.
#[derive(Debug, Clone, PartialEq)]
pub struct Trigger {
    /// `start`, `next`, `retry`, `loop`, `timer`, `cron`, `manual`, `event`, `resume` or `child`.
    pub kind: String,
    /// The node of the trigger; none for one that starts the workflow.
    pub node: Option<String>,
    /// The payload; empty if there is none.
    pub payload: Map<String, Value>,
}

/// A decision about a trigger.
#[derive(Debug, Clone, PartialEq)]
pub enum Disposition {
    /// Execute: assign these members to `vars`, then run the node, or start the
    /// workflow.
    Execute(Map<String, Value>),
    /// The trigger is finished: the consumer has handled it.
    Handled,
    /// Offer it again after this long.
    Later(Duration),
    /// It must not run, for this reason: dead-letter it.
    Reject(Failure),
}

/// Calls the consumer of a plugin.
pub fn accept<C: Consumer>(trigger: wit::Trigger) -> Result<wit::Disposition, wit::ConsumerError> {
    log_panics();
    decide::<C>(trigger).map_err(|error| match error {
        Error::Retryable { failure, .. } => wit::ConsumerError::Retryable(failure.into()),
        other => wit::ConsumerError::Other(other.into_failure().into()),
    })
}

fn decide<C: Consumer>(trigger: wit::Trigger) -> Result<wit::Disposition> {
    let payload = trigger.payload.as_ref().map(from_json).transpose()?;
    let trigger = Trigger {
        kind: trigger.kind,
        node: trigger.node,
        payload: payload.unwrap_or_default(),
    };
    Ok(match C::accept(trigger, &Context::new())? {
        Disposition::Execute(vars) => wit::Disposition::Execute(wit::Patch {
            vars: (!vars.is_empty())
                .then(|| json_payload(&vars))
                .transpose()?,
        }),
        Disposition::Handled => wit::Disposition::Handled,
        Disposition::Later(delay) => wit::Disposition::Later(whole_ms(delay)),
        Disposition::Reject(failure) => wit::Disposition::Reject(failure.into()),
    })
}
