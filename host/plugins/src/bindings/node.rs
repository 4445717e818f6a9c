//! `windlass:node/node@0.1.0`, which node executors export.

use std::sync::Arc;

use bytes::Bytes;
use wasmtime::component::{ComponentType, Lift, Lower};

use super::host::windlass::types::types;

/// The interface's name in components.
pub(crate) const INTERFACE: &str = "windlass:node/node@0.1.0";

/// `payload`.
#[derive(Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub(crate) struct Payload {
    #[component(name = "content-type")]
    pub(crate) content_type: Option<String>,
    pub(crate) body: Body,
}

/// `body`.
#[derive(Debug, ComponentType, Lift, Lower)]
#[component(variant)]
pub(crate) enum Body {
    #[component(name = "inline")]
    Inline(Bytes),
    #[component(name = "text")]
    Text(String),
    #[component(name = "blob")]
    Blob(String),
}

impl From<windlass_model::Payload> for Payload {
    /// JSON goes as a text: an interpreter parses one from bytes five times slower.
    fn from(payload: windlass_model::Payload) -> Self {
        let is_json = payload.is_json();
        let body = match payload.body {
            windlass_model::Body::Blob(blob) => Body::Blob(blob.digest.to_string()),
            windlass_model::Body::Inline(bytes) if is_json => {
                match String::from_utf8(bytes.into()) {
                    Ok(text) => Body::Text(text),
                    Err(wrong) => Body::Inline(wrong.into_bytes().into()),
                }
            }
            windlass_model::Body::Inline(bytes) => Body::Inline(bytes),
        };
        Self {
            content_type: payload.content_type,
            body,
        }
    }
}

impl Body {
    /// The bytes, if they are here. Takes no copy.
    pub(crate) fn into_bytes(self) -> Option<Bytes> {
        match self {
            Self::Inline(bytes) => Some(bytes),
            Self::Text(text) => Some(text.into_bytes().into()),
            Self::Blob(_) => None,
        }
    }
}

impl From<types::Payload> for Payload {
    fn from(payload: types::Payload) -> Self {
        let body = match payload.body {
            types::Body::Inline(bytes) => Body::Inline(bytes.into()),
            types::Body::Text(text) => Body::Text(text),
            types::Body::Blob(text) => Body::Blob(text),
        };
        Self {
            content_type: payload.content_type,
            body,
        }
    }
}

/// `failure`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) details: Option<Payload>,
    pub(crate) stack: Option<String>,
    pub(crate) position: Option<Position>,
}

/// `position`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct Position {
    pub(crate) source: Option<String>,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// `node-request`.
#[derive(Debug, ComponentType, Lower)]
#[component(record)]
pub(crate) struct NodeRequest {
    #[component(name = "node-type")]
    pub(crate) node_type: Arc<str>,
    pub(crate) config: Payload,
    pub(crate) input: Payload,
}

/// `done`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct Done {
    pub(crate) output: Payload,
    pub(crate) ports: Vec<String>,
}

/// `bookmark`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct Bookmark {
    pub(crate) name: String,
    #[component(name = "match")]
    pub(crate) matches: Option<Payload>,
    pub(crate) correlation: Option<String>,
    pub(crate) private: Option<bool>,
    #[component(name = "auto-burn")]
    pub(crate) auto_burn: Option<bool>,
    pub(crate) metadata: Option<Payload>,
    pub(crate) expires: Option<u64>,
}

/// `suspension`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct Suspension {
    pub(crate) bookmarks: Vec<Bookmark>,
    pub(crate) state: Option<Payload>,
}

/// `again`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct Again {
    pub(crate) after: u64,
    pub(crate) state: Option<Payload>,
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

/// `retryable`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct Retryable {
    pub(crate) failure: Failure,
    pub(crate) after: Option<u64>,
}

/// `node-error`.
#[derive(Debug, ComponentType, Lift)]
#[component(variant)]
pub(crate) enum NodeError {
    #[component(name = "invalid")]
    Invalid(Failure),
    #[component(name = "retryable")]
    Retryable(Retryable),
    #[component(name = "permanent")]
    Permanent(Failure),
    #[component(name = "cancelled")]
    Cancelled,
    #[component(name = "other")]
    Other(Failure),
}
