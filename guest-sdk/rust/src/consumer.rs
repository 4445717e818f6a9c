//! Trigger consumers: what becomes of a trigger that has come due.

use crate::bindings::consumer::exports::windlass::consumer::consumer as wit;
use crate::bookmark::whole_ms;
use crate::context::Context;
use crate::data::{from_json, json_payload};
use crate::error::{Error, Result};
use crate::host::log_panics;
use serde_json::{Map, Value};
use std::time::Duration;

/// Decides about triggers.
pub trait Consumer {
    /// The kinds of triggers that it takes; `*` is every kind.
    const TYPES: &'static [&'static str] = &["*"];
    /// The names of the routes that it takes.
    const ROUTES: &'static [&'static str] = &[];

    /// Decides about one trigger. Any error keeps the trigger, to be offered again.
    fn accept(trigger: Trigger, cx: &Context) -> Result<Disposition>;
}

/// A trigger that has come due and is claimed.
#[derive(Debug, Clone, PartialEq)]
pub struct Trigger {
    /// `start`, `next`, `retry`, `loop`, `timer`, `cron`, `manual`, `event`, `resume` or `child`.
    pub kind: String,
    /// The node that it is aimed at; none starts the workflow.
    pub node: Option<String>,
    /// The data that came with it; empty if none came.
    pub payload: Map<String, Value>,
}

/// What becomes of a trigger.
#[derive(Debug, Clone, PartialEq)]
pub enum Disposition {
    /// Go on: assign these members to `vars`, then run the node, or start the workflow.
    Execute(Map<String, Value>),
    /// The consumer did all there was to do.
    Handled,
    /// Offer it again after this long.
    Later(Duration),
    /// It must not run, for this reason: make it a dead letter.
    Reject(String),
}

/// Lets the consumer of a plugin decide.
pub fn accept<C: Consumer>(trigger: wit::Trigger) -> Result<wit::Disposition, wit::ConsumerError> {
    log_panics();
    decide::<C>(trigger).map_err(|error| match error {
        Error::Retryable { message, .. } => wit::ConsumerError::Retryable(message),
        other => wit::ConsumerError::Other(other.message().to_owned()),
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
        Disposition::Reject(reason) => wit::Disposition::Reject(reason),
    })
}
