//! `windlass:node/node@0.1.0`, which node executors export.

use std::sync::Arc;

use bytes::Bytes;
use wasmtime::component::{ComponentType, Lift, Lower};

/// The interface's name in components.
pub(crate) const INTERFACE: &str = "windlass:node/node@0.1.0";

/// `payload`.
#[derive(Clone, Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub(crate) struct Payload {
    #[component(name = "content-type")]
    pub(crate) content_type: Option<String>,
    pub(crate) body: Body,
}

/// `body`.
#[derive(Clone, Debug, ComponentType, Lift, Lower)]
#[component(variant)]
pub(crate) enum Body {
    #[component(name = "inline")]
    Inline(Bytes),
    #[component(name = "blob")]
    Blob(String),
}

/// `node-request`.
#[derive(Clone, Debug, ComponentType, Lower)]
#[component(record)]
pub(crate) struct NodeRequest {
    #[component(name = "node-type")]
    pub(crate) node_type: Arc<str>,
    pub(crate) config: Payload,
    pub(crate) input: Payload,
}

/// `done`.
#[derive(Clone, Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct Done {
    pub(crate) output: Payload,
    pub(crate) ports: Vec<String>,
}

/// `bookmark`.
#[derive(Clone, Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct Bookmark {
    pub(crate) name: String,
    #[component(name = "match")]
    pub(crate) matches: Payload,
    pub(crate) correlation: Option<String>,
    pub(crate) private: bool,
    #[component(name = "auto-burn")]
    pub(crate) auto_burn: bool,
    pub(crate) metadata: Option<Payload>,
    pub(crate) expires: Option<u64>,
}

/// `suspension`.
#[derive(Clone, Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct Suspension {
    pub(crate) bookmarks: Vec<Bookmark>,
    pub(crate) state: Option<Payload>,
}

/// `again`.
#[derive(Clone, Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct Again {
    pub(crate) after: u64,
    pub(crate) state: Option<Payload>,
}

/// `outcome`.
#[derive(Clone, Debug, ComponentType, Lift)]
#[component(variant)]
pub(crate) enum Outcome {
    #[component(name = "done")]
    Done(Done),
    #[component(name = "suspend")]
    Suspend(Suspension),
    #[component(name = "again")]
    Again(Again),
}

/// `retry-hint`.
#[derive(Clone, Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct RetryHint {
    pub(crate) message: String,
    pub(crate) after: Option<u64>,
}

/// `node-error`.
#[derive(Clone, Debug, ComponentType, Lift)]
#[component(variant)]
pub(crate) enum NodeError {
    #[component(name = "invalid")]
    Invalid(String),
    #[component(name = "retryable")]
    Retryable(RetryHint),
    #[component(name = "permanent")]
    Permanent(String),
    #[component(name = "cancelled")]
    Cancelled,
    #[component(name = "other")]
    Other(String),
}
