//! `windlass:check/check@0.1.0`, which node executors may export.

use std::sync::Arc;

use wasmtime::component::{ComponentType, Lift, Lower};

use super::node::{Payload, Position};

/// The interface's name in components.
pub(crate) const INTERFACE: &str = "windlass:check/check@0.1.0";

/// `check-request`.
#[derive(Debug, ComponentType, Lower)]
#[component(record)]
pub(crate) struct CheckRequest {
    #[component(name = "node-type")]
    pub(crate) node_type: Arc<str>,
    pub(crate) config: Payload,
    pub(crate) unknown: Vec<String>,
}

/// `finding`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct Finding {
    pub(crate) message: String,
    pub(crate) pointer: Option<String>,
    pub(crate) position: Option<Position>,
}

/// `finding-level`.
#[derive(Debug, ComponentType, Lift)]
#[component(variant)]
pub(crate) enum FindingLevel {
    #[component(name = "error")]
    Error(Finding),
    #[component(name = "warning")]
    Warning(Finding),
}
