//! The encoding of single values in columns, the same in every database.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use windlass_model::{
    BlobRef, Body, Delivery, Digest, Payload, RunId, StimulusId, Tags, TraceContext,
};

use crate::rows::ExecutionRow;
use crate::stimuli::NewStimulus;

/// The columns of a payload beside its bytes. Absent for inline JSON, which is the common case, so
/// that such a payload costs one byte more than its text.
#[derive(Serialize, Deserialize)]
struct Meta {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blob: Option<BlobRef>,
}

/// The two columns of a payload.
pub(crate) fn payload(payload: Option<&Payload>) -> (Option<&[u8]>, Option<String>) {
    let Some(payload) = payload else {
        return (None, None);
    };
    let (body, blob) = match &payload.body {
        Body::Inline(bytes) => (Some(bytes.as_ref()), None),
        Body::Blob(blob) => (None, Some(*blob)),
    };
    if blob.is_none() && payload.content_type.is_none() {
        return (body, None);
    }
    (
        body,
        json(&Meta {
            content_type: payload.content_type.clone(),
            blob,
        }),
    )
}

/// The column of what the input of an execution was made of.
pub(crate) fn inputs(row: &ExecutionRow) -> Option<&[u8]> {
    (!row.inputs.is_empty()).then_some(&*row.inputs)
}

/// The column of the event that an execution has led to.
pub(crate) fn event(row: &ExecutionRow) -> Option<&[u8]> {
    (!row.event.is_empty()).then_some(&*row.event)
}

/// The payload that the two columns hold.
pub(crate) fn payload_of(
    body: Option<Bytes>,
    meta: Option<&[u8]>,
) -> Result<Option<Payload>, serde_json::Error> {
    let meta: Option<Meta> = meta.map(serde_json::from_slice).transpose()?;
    Ok(match (body, meta) {
        (None, None) => None,
        (Some(body), None) => Some(Payload::json(body)),
        (body, Some(meta)) => {
            let body = match meta.blob {
                Some(blob) => Body::Blob(blob),
                None => Body::Inline(body.unwrap_or_default()),
            };
            Some(Payload {
                content_type: meta.content_type,
                body,
            })
        }
    })
}

/// The JSON text of a small value.
pub(crate) fn json<T: Serialize>(value: &T) -> Option<String> {
    // No stored value has a map with keys other than text, so serialising cannot fail.
    serde_json::to_string(value).ok()
}

/// The JSON text of tags, or `None` if there are none.
pub(crate) fn json_tags(tags: &Tags) -> Option<String> {
    match tags.is_empty() {
        true => None,
        false => json(tags),
    }
}

/// The JSON text of a list, or `None` if the list is empty.
pub(crate) fn json_list<T: Serialize>(values: &[T]) -> Option<String> {
    if values.is_empty() {
        None
    } else {
        json(&values)
    }
}

/// A stimulus in a dead letter, besides its input.
#[derive(Serialize, Deserialize)]
pub(crate) struct StimulusWire {
    id: StimulusId,
    name: String,
    matches: String,
    hash: Digest,
    correlation: Option<String>,
    run: Option<RunId>,
    delivery: Delivery,
    ttl_ms: u64,
    at_ms: i64,
    /// As the header `traceparent` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    /// As the header `tracestate` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace_state: Option<String>,
}

impl StimulusWire {
    /// Restores the stimulus with its input.
    pub(crate) fn stimulus(self, input: Payload) -> NewStimulus {
        NewStimulus {
            id: self.id,
            name: self.name,
            matches: self.matches.into(),
            hash: self.hash,
            correlation: self.correlation,
            run: self.run,
            input,
            blobs: Vec::new(),
            delivery: self.delivery,
            ttl_ms: self.ttl_ms,
            at_ms: self.at_ms,
            tree: None,
            trace: self
                .trace
                .as_deref()
                .and_then(TraceContext::read)
                .map(|trace| trace.with_state(self.trace_state.as_deref())),
        }
    }
}

/// The JSON text of a stimulus, without its input.
pub(crate) fn stimulus_json(dead: &NewStimulus) -> Option<String> {
    json(&StimulusWire {
        id: dead.id,
        name: dead.name.clone(),
        matches: String::from_utf8_lossy(&dead.matches).into_owned(),
        hash: dead.hash,
        correlation: dead.correlation.clone(),
        run: dead.run,
        delivery: dead.delivery,
        ttl_ms: dead.ttl_ms,
        at_ms: dead.at_ms,
        trace: dead.trace.as_ref().map(ToString::to_string),
        trace_state: dead
            .trace
            .as_ref()
            .and_then(|trace| trace.state.as_ref())
            .map(|state| state.as_str().to_owned()),
    })
}
