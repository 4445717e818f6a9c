//! Values that travel between nodes: bytes, parsed only when an expression needs them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::Digest;

/// A value with its media type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// None means `application/json`.
    pub content_type: Option<String>,
    /// The bytes, or a reference to them.
    pub body: Body,
}

/// The bytes of a payload, or a reference to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The bytes themselves.
    Inline(Bytes),
    /// A blob in the store, by the digest of its content.
    Blob(BlobRef),
}

/// A content-addressed blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BlobRef {
    /// SHA-256 of the content.
    pub digest: Digest,
    /// Length in bytes.
    pub size: u64,
}

impl Payload {
    /// JSON text that is already serialised.
    pub fn json(bytes: impl Into<Bytes>) -> Self {
        Self {
            content_type: None,
            body: Body::Inline(bytes.into()),
        }
    }

    /// JSON `null`.
    pub fn null() -> Self {
        Self::json(Bytes::from_static(b"null"))
    }

    /// A JSON value.
    pub fn of(value: &serde_json::Value) -> Self {
        // `Value` always serialises: its maps have string keys.
        Self::json(serde_json::to_vec(value).unwrap_or_default())
    }

    /// Whether the body is JSON.
    pub fn is_json(&self) -> bool {
        match self.content_type.as_deref() {
            None => true,
            Some(text) => {
                let essence = text.split(';').next().unwrap_or_default().trim();
                essence.eq_ignore_ascii_case("application/json") || essence.ends_with("+json")
            }
        }
    }

    /// The length of the body in bytes, inline or in a blob.
    pub fn len(&self) -> u64 {
        match &self.body {
            Body::Inline(bytes) => bytes.len() as u64,
            Body::Blob(blob) => blob.size,
        }
    }

    /// Whether the body is empty, which no JSON is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, if they are inline.
    pub fn inline(&self) -> Option<&Bytes> {
        match &self.body {
            Body::Inline(bytes) => Some(bytes),
            Body::Blob(_) => None,
        }
    }
}
