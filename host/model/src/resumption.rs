//! The payload of a resumed trigger: why the node run continues, and its input.
//!
//! The store writes these documents in the transaction that resumes, and the runtime reads them
//! after the trigger has been claimed. They are JSON with a version.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{BlobRef, Body, Failure, JsonText, Payload, RunId, Seq};

/// The version that is written now.
const VERSION: u32 = 1;

/// Why a suspended node run continues.
#[derive(Clone, Debug, PartialEq)]
pub enum Resumption {
    /// A stimulus matched one of its bookmarks, or a client presented the token of one.
    Resumed {
        /// The bookmark's name.
        bookmark: String,
        /// The input.
        input: Payload,
        /// The bookmark's metadata.
        metadata: Option<JsonText>,
    },
    /// The child run for which it waited has ended.
    Child {
        /// The child run.
        run: RunId,
        /// Its final status, by name.
        status: String,
        /// Its output.
        output: Option<Payload>,
        /// Its failure.
        failure: Option<Failure>,
    },
}

/// The bytes are not a document of a known version.
#[derive(Debug, thiserror::Error)]
#[error("a stored document cannot be read: {0}")]
pub struct Unreadable(String);

#[derive(Serialize, Deserialize)]
struct Wire {
    v: u32,
    why: Why,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bookmark: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<JsonText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<Failure>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Why {
    Resumed,
    Child,
}

/// A payload inside a document. Text stays text and is returned byte for byte.
#[derive(Serialize, Deserialize)]
struct Reference {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blob: Option<BlobRef>,
}

impl Reference {
    fn of(payload: &Payload) -> Self {
        let (mut text, mut base64, mut blob) = (None, None, None);
        match &payload.body {
            Body::Blob(reference) => blob = Some(*reference),
            Body::Inline(bytes) => match std::str::from_utf8(bytes) {
                Ok(read) => text = Some(read.to_owned()),
                Err(_) => base64 = Some(STANDARD.encode(bytes)),
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

    fn read(self) -> Result<Payload, Unreadable> {
        let body = match (self.text, self.base64, self.blob) {
            (Some(text), None, None) => Body::Inline(text.into()),
            (None, Some(base64), None) => match STANDARD.decode(base64) {
                Ok(bytes) => Body::Inline(bytes.into()),
                Err(error) => return Err(Unreadable(error.to_string())),
            },
            (None, None, Some(blob)) => Body::Blob(blob),
            _ => return Err(Unreadable("a payload is one thing".to_owned())),
        };
        Ok(Payload {
            content_type: self.content_type,
            body,
        })
    }
}

impl Resumption {
    /// The document.
    pub fn encode(&self) -> Bytes {
        let blank = |why| Wire {
            v: VERSION,
            why,
            bookmark: None,
            input: None,
            metadata: None,
            run: None,
            status: None,
            output: None,
            failure: None,
        };
        let wire = match self {
            Self::Resumed {
                bookmark,
                input,
                metadata,
            } => Wire {
                bookmark: Some(bookmark.clone()),
                input: Some(Reference::of(input)),
                metadata: metadata.clone(),
                ..blank(Why::Resumed)
            },
            Self::Child {
                run,
                status,
                output,
                failure,
            } => Wire {
                run: Some(*run),
                status: Some(status.clone()),
                output: output.as_ref().map(Reference::of),
                failure: failure.clone(),
                ..blank(Why::Child)
            },
        };
        json(&wire)
    }

    /// Parses a document.
    ///
    /// # Errors
    ///
    /// The bytes are not a document, or a newer version has written them.
    pub fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let wire: Wire = versioned(bytes, |wire: &Wire| wire.v)?;
        let missing = |what: &str| Unreadable(format!("`{what}` is missing"));
        Ok(match wire.why {
            Why::Resumed => Self::Resumed {
                bookmark: wire.bookmark.ok_or_else(|| missing("bookmark"))?,
                input: wire.input.ok_or_else(|| missing("input"))?.read()?,
                metadata: wire.metadata,
            },
            Why::Child => Self::Child {
                run: wire.run.ok_or_else(|| missing("run"))?,
                status: wire.status.ok_or_else(|| missing("status"))?,
                output: wire.output.map(Reference::read).transpose()?,
                failure: wire.failure,
            },
        })
    }
}

/// The subject of an external trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "op")]
pub enum About {
    /// A resumption of a node run that is not waiting right now: its payload is a [`Resumption`],
    /// which is delivered when the node run is suspended again.
    Resume {
        /// The sequence number of the node run's first trigger.
        first: Seq,
    },
    /// An alteration: cancels a trigger of the same run.
    Cancel {
        /// The trigger's sequence number.
        target: Seq,
    },
}

#[derive(Serialize, Deserialize)]
struct AboutWire {
    v: u32,
    about: About,
}

impl About {
    /// The document.
    pub fn encode(self) -> Bytes {
        json(&AboutWire {
            v: VERSION,
            about: self,
        })
    }

    /// Parses a document.
    ///
    /// # Errors
    ///
    /// The bytes are not a document, or a newer version has written them.
    pub fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        versioned(bytes, |wire: &AboutWire| wire.v).map(|wire| wire.about)
    }
}

fn json(wire: &impl Serialize) -> Bytes {
    // These types have no maps with keys other than texts, so serialisation cannot fail.
    Bytes::from(serde_json::to_vec(wire).unwrap_or_default())
}

fn versioned<T: for<'de> Deserialize<'de>>(
    bytes: &[u8],
    version: fn(&T) -> u32,
) -> Result<T, Unreadable> {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    let read = serde_json::from_slice::<T>(bytes);
    let version = match &read {
        Ok(wire) => version(wire),
        // A newer version may have another form, so its version is checked first.
        Err(_) => match serde_json::from_slice::<Version>(bytes) {
            Ok(version) => version.v,
            Err(error) => return Err(Unreadable(error.to_string())),
        },
    };
    if version != VERSION {
        return Err(Unreadable(format!("its version is {version}")));
    }
    read.map_err(|error| Unreadable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{Class, Code, Digest};

    #[track_caller]
    fn check(resumption: &Resumption) {
        let bytes = resumption.encode();
        assert_eq!(Resumption::decode(&bytes).unwrap(), *resumption);
    }

    fn resumed(input: Payload) -> Resumption {
        Resumption::Resumed {
            bookmark: "approval".to_owned(),
            input,
            metadata: JsonText::of(&serde_json::json!({"who": "me"})).ok(),
        }
    }

    #[test]
    fn documents_are_read_back_byte_for_byte() {
        check(&resumed(Payload::json(
            "{\"b\": 1.0,  \"a\":12345678901234567890123}",
        )));
        check(&resumed(Payload {
            content_type: Some("image/png".to_owned()),
            body: Body::Inline(Bytes::from_static(&[0xff, 0, 0xfe])),
        }));
        check(&resumed(Payload {
            content_type: None,
            body: Body::Blob(BlobRef {
                digest: Digest::of(b"large"),
                size: 5,
            }),
        }));
        check(&Resumption::Child {
            run: RunId(Uuid::from_u128(7)),
            status: "faulted".to_owned(),
            output: None,
            failure: Some(Failure::new(
                Class::Permanent,
                Code::new("WL-R001"),
                "it failed",
            )),
        });
        for about in [
            About::Resume { first: Seq(3) },
            About::Cancel {
                target: Seq(u64::MAX),
            },
        ] {
            assert_eq!(About::decode(&about.encode()).unwrap(), about);
        }
    }

    #[test]
    fn malformed_documents_of_resumptions_are_refused() {
        for bytes in [
            &b""[..],
            b"{}",
            br#"{"v":2,"why":"resumed","bookmark":"a","input":{"text":"1"}}"#,
            br#"{"v":1,"why":"resumed","bookmark":"a"}"#,
            br#"{"v":1,"why":"resumed","bookmark":"a","input":{}}"#,
            br#"{"v":1,"why":"child"}"#,
        ] {
            assert!(Resumption::decode(bytes).is_err(), "{bytes:?}");
        }
        let text = String::from_utf8(resumed(Payload::null()).encode().to_vec()).unwrap();
        assert!(
            text.starts_with(r#"{"v":1,"why":"resumed","bookmark":"approval""#),
            "{text}"
        );
    }
}
