//! Version 0.1 of the exports, and their conversion to and from the newest version.
//!
//! A payload of this version has no text; a failure is its message alone.

use std::sync::Arc;

use bytes::Bytes;
use wasmtime::component::{ComponentType, Lift, Lower};

use super::{consumer, node};
use crate::question::{Decide, Execute};

/// The names of the interfaces in components.
pub(crate) const NODE: &str = "windlass:node/node@0.1.0";
pub(crate) const CONSUMER: &str = "windlass:consumer/consumer@0.1.0";

/// `payload`.
#[derive(Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub(crate) struct Payload {
    #[component(name = "content-type")]
    content_type: Option<String>,
    body: Body,
}

/// `body`.
#[derive(Debug, ComponentType, Lift, Lower)]
#[component(variant)]
pub(crate) enum Body {
    #[component(name = "inline")]
    Inline(Bytes),
    #[component(name = "blob")]
    Blob(String),
}

impl From<windlass_model::Payload> for Payload {
    fn from(payload: windlass_model::Payload) -> Self {
        let body = match payload.body {
            windlass_model::Body::Inline(bytes) => Body::Inline(bytes),
            windlass_model::Body::Blob(blob) => Body::Blob(blob.digest.to_string()),
        };
        Self {
            content_type: payload.content_type,
            body,
        }
    }
}

impl From<Payload> for node::Payload {
    fn from(payload: Payload) -> Self {
        let body = match payload.body {
            Body::Inline(bytes) => node::Body::Inline(bytes),
            Body::Blob(text) => node::Body::Blob(text),
        };
        Self {
            content_type: payload.content_type,
            body,
        }
    }
}

/// `node-request`.
#[derive(Debug, ComponentType, Lower)]
#[component(record)]
pub(crate) struct NodeRequest {
    #[component(name = "node-type")]
    node_type: Arc<str>,
    config: Payload,
    input: Payload,
}

impl From<Execute> for NodeRequest {
    fn from(request: Execute) -> Self {
        Self {
            node_type: request.node_type,
            config: request.config.into(),
            input: request.input.into(),
        }
    }
}

/// `done`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct Done {
    output: Payload,
    ports: Vec<String>,
}

/// `bookmark`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct Bookmark {
    name: String,
    #[component(name = "match")]
    matches: Payload,
    correlation: Option<String>,
    private: bool,
    #[component(name = "auto-burn")]
    auto_burn: bool,
    metadata: Option<Payload>,
    expires: Option<u64>,
}

/// `suspension`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct Suspension {
    bookmarks: Vec<Bookmark>,
    state: Option<Payload>,
}

/// `again`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct Again {
    after: u64,
    state: Option<Payload>,
}

/// `outcome`.
#[derive(Debug, ComponentType, Lift)]
#[component(variant)]
pub(crate) enum Outcome {
    #[component(name = "done")]
    Done(Done),
    #[component(name = "suspend")]
    Suspend(Suspension),
    #[component(name = "again")]
    Again(Again),
}

impl From<Outcome> for node::Outcome {
    fn from(outcome: Outcome) -> Self {
        let state = |state: Option<Payload>| state.map(node::Payload::from);
        match outcome {
            Outcome::Done(done) => Self::Done(node::Done {
                output: done.output.into(),
                ports: done.ports,
            }),
            Outcome::Again(again) => Self::Again(node::Again {
                after: again.after,
                state: state(again.state),
            }),
            Outcome::Suspend(suspension) => Self::Suspend(node::Suspension {
                bookmarks: suspension.bookmarks.into_iter().map(Into::into).collect(),
                state: state(suspension.state),
            }),
        }
    }
}

impl From<Bookmark> for node::Bookmark {
    fn from(bookmark: Bookmark) -> Self {
        Self {
            name: bookmark.name,
            matches: Some(bookmark.matches.into()),
            correlation: bookmark.correlation,
            private: Some(bookmark.private),
            auto_burn: Some(bookmark.auto_burn),
            metadata: bookmark.metadata.map(Into::into),
            expires: bookmark.expires,
        }
    }
}

/// `retry-hint`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct RetryHint {
    message: String,
    after: Option<u64>,
}

/// `node-error`.
#[derive(Debug, ComponentType, Lift)]
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

impl From<String> for node::Failure {
    fn from(message: String) -> Self {
        Self {
            message,
            details: None,
            stack: None,
            position: None,
        }
    }
}

impl From<NodeError> for node::NodeError {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::Invalid(text) => Self::Invalid(text.into()),
            NodeError::Retryable(hint) => Self::Retryable(node::Retryable {
                failure: hint.message.into(),
                after: hint.after,
            }),
            NodeError::Permanent(text) => Self::Permanent(text.into()),
            NodeError::Cancelled => Self::Cancelled,
            NodeError::Other(text) => Self::Other(text.into()),
        }
    }
}

/// `trigger`.
#[derive(Debug, ComponentType, Lower)]
#[component(record)]
pub(crate) struct Trigger {
    kind: &'static str,
    node: Option<Arc<str>>,
    payload: Option<Payload>,
}

impl From<Decide> for Trigger {
    fn from(trigger: Decide) -> Self {
        Self {
            kind: trigger.kind,
            node: trigger.node,
            payload: trigger.payload.map(Into::into),
        }
    }
}

/// `patch`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct Patch {
    vars: Option<Payload>,
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
    Reject(String),
}

impl From<Disposition> for consumer::Disposition {
    fn from(disposition: Disposition) -> Self {
        match disposition {
            Disposition::Execute(patch) => Self::Execute(consumer::Patch {
                vars: patch.vars.map(Into::into),
            }),
            Disposition::Handled => Self::Handled,
            Disposition::Later(after_ms) => Self::Later(after_ms),
            Disposition::Reject(reason) => Self::Reject(reason.into()),
        }
    }
}

/// `consumer-error`.
#[derive(Debug, ComponentType, Lift)]
#[component(variant)]
pub(crate) enum ConsumerError {
    #[component(name = "retryable")]
    Retryable(String),
    #[component(name = "other")]
    Other(String),
}

impl From<ConsumerError> for consumer::ConsumerError {
    fn from(error: ConsumerError) -> Self {
        match error {
            ConsumerError::Retryable(text) => Self::Retryable(text.into()),
            ConsumerError::Other(text) => Self::Other(text.into()),
        }
    }
}
