//! `windlass:consumer/consumer@0.1.0`, which trigger consumers export.

use std::sync::Arc;

use wasmtime::component::{ComponentType, Lift, Lower};

use super::node::{Failure, Payload};

/// The interface's name in components.
pub(crate) const INTERFACE: &str = "windlass:consumer/consumer@0.1.0";

/// `trigger`.
#[derive(Debug, ComponentType, Lower)]
#[component(record)]
pub(crate) struct Trigger {
    pub(crate) kind: &'static str,
    pub(crate) node: Option<Arc<str>>,
    pub(crate) payload: Option<Payload>,
}

/// `patch`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct Patch {
    pub(crate) vars: Option<Payload>,
}

/// `disposition`.
#[derive(Debug, ComponentType, Lift)]
#[component(variant)]
pub(crate) enum Disposition {
    #[component(name = "execute")]
    Execute(Patch),
    #[component(name = "handled")]
    Handled,
    #[component(name = "later")]
    Later(u64),
    #[component(name = "reject")]
    Reject(Failure),
}

/// `consumer-error`.
#[derive(Debug, ComponentType, Lift)]
#[component(variant)]
pub(crate) enum ConsumerError {
    #[component(name = "retryable")]
    Retryable(Failure),
    #[component(name = "other")]
    Other(Failure),
}
