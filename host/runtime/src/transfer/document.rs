//! The format of an exported run: JSON with a version, described in `docs/runs.md`.
//!
//! The engine's state is bytes with their own version, in Base64. Values that are text stay text,
//! byte for byte. The numbers of records and rows are those of the exporting store, and have a
//! meaning only inside the document.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use windlass_model::{
    BlobRef, Body, Digest, ExecutionNo, ExecutionStatus, Failure, LogLine, Payload, RunId, ScopeNo,
    Seq, Status, Tags, TriggerId, TriggerNo, TriggerType,
};

/// The type and the version of a document, readable even if the rest is not.
#[derive(Deserialize)]
pub(super) struct Kind {
    #[serde(rename = "windlass-export")]
    pub(super) version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Document {
    #[serde(rename = "windlass-export")]
    pub(super) version: u32,
    pub(super) exported_ms: i64,
    pub(super) run: Head,
    pub(super) definition: Named,
    pub(super) pins: Named,
    pub(super) state: Base64,
    pub(super) scopes: Vec<Scope>,
    pub(super) vars: Vec<Var>,
    pub(super) items: Vec<Item>,
    pub(super) triggers: Vec<Trigger>,
    pub(super) bookmarks: Vec<Bookmark>,
    pub(super) journal: Vec<Entry>,
    /// The events that no record has; none unless the document has all events of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) events: Option<Vec<Base64>>,
    /// Oldest first.
    pub(super) records: Vec<Record>,
    pub(super) blobs: Vec<Blob>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Head {
    pub(super) id: RunId,
    pub(super) workflow: String,
    pub(super) correlation: Option<String>,
    #[serde(default)]
    pub(super) tags: Tags,
    /// The trace that the run continues, as the header `traceparent` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) trace: Option<String>,
    /// Its state, as the header `tracestate` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) trace_state: Option<String>,
    pub(super) status: Status,
    pub(super) request: Digest,
    pub(super) epoch: i64,
    pub(super) version: i64,
    pub(super) created_ms: i64,
    pub(super) finished_ms: Option<i64>,
    pub(super) keep_ms: Option<u64>,
    pub(super) input: Value,
    pub(super) output: Option<Value>,
    pub(super) failure: Option<Failure>,
    /// The parent of the run.
    pub(super) parent: Option<RunId>,
}

/// A JSON document, byte for byte, with its digest.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Named {
    pub(super) digest: Digest,
    pub(super) json: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Scope {
    pub(super) scope: ScopeNo,
    pub(super) state: Base64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Var {
    pub(super) scope: ScopeNo,
    pub(super) name: String,
    pub(super) value: Value,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Item {
    pub(super) list: Seq,
    pub(super) place: u32,
    pub(super) output: Value,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Trigger {
    pub(super) no: TriggerNo,
    /// None for a trigger that has ended and left only its name.
    pub(super) row: Option<Row>,
    /// The name of an external trigger, if it has one.
    pub(super) name: Option<Name>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Row {
    pub(super) seq: Seq,
    #[serde(rename = "type")]
    pub(super) kind: TriggerType,
    pub(super) node: Option<u32>,
    pub(super) due_ms: i64,
    pub(super) attempt: u32,
    pub(super) priority: i32,
    pub(super) detail: Base64,
    pub(super) payload: Option<Base64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Name {
    pub(super) id: TriggerId,
    pub(super) request: Digest,
    pub(super) closed: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Bookmark {
    pub(super) name: String,
    /// Canonical JSON.
    #[serde(rename = "match")]
    pub(super) matches: String,
    pub(super) trigger: TriggerNo,
    pub(super) first: Seq,
    pub(super) phase: u32,
    pub(super) correlation: Option<String>,
    pub(super) private: bool,
    pub(super) auto_burn: bool,
    /// JSON.
    pub(super) metadata: Option<String>,
    pub(super) expires_ms: Option<i64>,
    pub(super) created_ms: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) at_ms: i64,
    pub(super) kind: String,
    /// JSON.
    pub(super) detail: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Record {
    pub(super) no: ExecutionNo,
    pub(super) seq: Seq,
    pub(super) first: Seq,
    pub(super) node: u32,
    #[serde(rename = "type")]
    pub(super) kind: TriggerType,
    pub(super) attempt: u32,
    pub(super) status: ExecutionStatus,
    pub(super) started_ms: i64,
    pub(super) took_us: u64,
    pub(super) output: Option<Value>,
    pub(super) failure: Option<Failure>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) logs: Vec<LogLine>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) skipped: Vec<u32>,
    /// What its input was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) inputs: Option<Base64>,
    /// Its event, if the document has all events of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) event: Option<Base64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Blob {
    pub(super) digest: Digest,
    pub(super) content: Base64,
}

/// A value: a text, bytes, or a blob of the document.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Value {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<Base64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blob: Option<BlobRef>,
}

impl Value {
    pub(super) fn of(payload: &Payload) -> Self {
        let (mut text, mut base64, mut blob) = (None, None, None);
        match &payload.body {
            Body::Blob(reference) => blob = Some(*reference),
            Body::Inline(bytes) => match std::str::from_utf8(bytes) {
                Ok(read) => text = Some(read.to_owned()),
                Err(_) => base64 = Some(Base64(bytes.clone())),
            },
        }
        let content_type = payload.content_type.clone();
        Self {
            content_type,
            text,
            base64,
            blob,
        }
    }

    /// The payload; none unless exactly one of them is set.
    pub(super) fn payload(self) -> Option<Payload> {
        let body = match (self.text, self.base64, self.blob) {
            (Some(text), None, None) => Body::Inline(text.into()),
            (None, Some(base64), None) => Body::Inline(base64.0),
            (None, None, Some(blob)) => Body::Blob(blob),
            _ => return None,
        };
        let content_type = self.content_type;
        Some(Payload { content_type, body })
    }
}

/// Bytes in Base64.
pub(super) struct Base64(pub(super) Bytes);

impl Serialize for Base64 {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text).map_err(serde::de::Error::custom)?;
        Ok(Self(bytes.into()))
    }
}
