//! How values travel between a node and the host: as JSON through serde, or as
//! raw bytes.

use crate::bindings::node::windlass::types::types::{Body, Payload};
use crate::error::{Error, Result};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// A type that a node can take as configuration or input: every type with
/// `Deserialize` and [`JsonSchema`], and the types of this module.
pub trait Incoming: Sized {
    /// Whether the node accepts a reference to a large value instead of its
    /// bytes.
    const BY_REFERENCE: bool = false;

    /// The JSON Schema of the accepted values.
    fn schema() -> Value;

    /// Reads a payload; the error names the mistake and its place.
    fn decode(payload: Payload) -> Result<Self, String>;
}

/// A type that a node can return as output: every type with `Serialize` and
/// [`JsonSchema`], and [`Raw`].
pub trait Outgoing {
    /// The JSON Schema of the values.
    fn schema() -> Value;

    /// Writes a payload.
    fn encode(self) -> Result<Payload>;
}

impl<T: DeserializeOwned + JsonSchema> Incoming for T {
    fn schema() -> Value {
        schema_by::<T>(SchemaSettings::draft2020_12().for_deserialize())
    }

    fn decode(payload: Payload) -> Result<Self, String> {
        match &payload.body {
            Body::Inline(bytes) => serde_json::from_slice(bytes).map_err(|error| error.to_string()),
            Body::Text(text) => serde_json::from_str(text).map_err(|error| error.to_string()),
            Body::Blob(_) => Err("it is a reference, and this node takes the bytes".to_owned()),
        }
    }
}

impl<T: Serialize + JsonSchema> Outgoing for T {
    fn schema() -> Value {
        schema_by::<T>(SchemaSettings::draft2020_12().for_serialize())
    }

    fn encode(self) -> Result<Payload> {
        json_payload(&self)
    }
}

/// A payload in its original form, unparsed; passing it on costs no more than a
/// copy.
///
/// As the input of a node with [`crate::Node::BY_REFERENCE`] it may be a
/// reference to a large value instead of its bytes; [`crate::blobs`] reads
/// those.
#[derive(Debug, Clone, PartialEq)]
pub struct Raw(pub Payload);

impl Raw {
    /// JSON that is already text.
    pub fn json(bytes: impl Into<Vec<u8>>) -> Self {
        Self(Payload {
            content_type: None,
            body: Body::Inline(bytes.into()),
        })
    }

    /// Bytes of another media type.
    pub fn bytes(content_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self(Payload {
            content_type: Some(content_type.into()),
            body: Body::Inline(bytes.into()),
        })
    }

    /// The bytes, or an error if there is only a reference to them.
    pub fn inline(&self) -> Result<&[u8]> {
        match &self.0.body {
            Body::Inline(bytes) => Ok(bytes),
            Body::Text(text) => Ok(text.as_bytes()),
            Body::Blob(_) => Err(Error::invalid(
                "the value is too large to be given to this node at once",
            )),
        }
    }
}

impl Incoming for Raw {
    fn schema() -> Value {
        Value::Bool(true)
    }

    fn decode(payload: Payload) -> Result<Self, String> {
        Ok(Self(payload))
    }
}

impl Outgoing for Raw {
    fn schema() -> Value {
        Value::Bool(true)
    }

    fn encode(self) -> Result<Payload> {
        Ok(self.0)
    }
}

/// A configuration without members.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Nothing;

impl Incoming for Nothing {
    fn schema() -> Value {
        json!({ "type": ["object", "null"], "maxProperties": 0 })
    }

    fn decode(_: Payload) -> Result<Self, String> {
        Ok(Self)
    }
}

/// An input of any form that the node does not read.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Ignored;

impl Incoming for Ignored {
    const BY_REFERENCE: bool = true;

    fn schema() -> Value {
        Value::Bool(true)
    }

    fn decode(_: Payload) -> Result<Self, String> {
        Ok(Self)
    }
}

/// A payload of JSON.
pub(crate) fn json_payload(value: &impl Serialize) -> Result<Payload> {
    Ok(Payload {
        content_type: None,
        body: Body::Text(serde_json::to_string(value)?),
    })
}

/// Reads a payload of JSON that is not large.
pub(crate) fn from_json<T: DeserializeOwned>(payload: &Payload) -> Result<T> {
    match &payload.body {
        Body::Inline(bytes) => Ok(serde_json::from_slice(bytes)?),
        Body::Text(text) => Ok(serde_json::from_str(text)?),
        Body::Blob(reference) => Err(Error::other(format!(
            "the value is a reference ({reference}), and its bytes are needed"
        ))),
    }
}

fn schema_by<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("$schema");
    schema.remove("title");
    schema.to_value()
}
