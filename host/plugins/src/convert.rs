//! Conversion between the types of the model and those of the contract.

use windlass_model::{
    Again, BlobRef, Body, Bookmark, Class, Digest, Done, Failure, JsonText, Outcome, Payload,
    Suspension,
};

use crate::bindings::host::windlass::types::types;
use crate::bindings::{consumer, node};
use crate::call::Disposition;
use crate::classify;
use crate::codes;
use crate::guest::BlobWork;
use crate::options::{Limits, Secrets};

/// Bookmarks of one suspension.
const MAX_BOOKMARKS: usize = 256;
/// Ports taken by one outcome.
const MAX_PORTS: usize = 256;

/// The port of an outcome that names none.
const DONE: &str = "done";

/// A payload for a guest.
pub(crate) fn payload_in(payload: Payload) -> node::Payload {
    let body = match payload.body {
        Body::Inline(bytes) => node::Body::Inline(bytes),
        Body::Blob(blob) => node::Body::Blob(blob.digest.to_string()),
    };
    node::Payload {
        content_type: payload.content_type,
        body,
    }
}

impl From<types::Payload> for node::Payload {
    fn from(payload: types::Payload) -> Self {
        let body = match payload.body {
            types::Body::Inline(bytes) => node::Body::Inline(bytes.into()),
            types::Body::Blob(text) => node::Body::Blob(text),
        };
        Self {
            content_type: payload.content_type,
            body,
        }
    }
}

/// Reads the results of guests, which are untrusted data.
pub(crate) struct Reader<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) blobs: &'a BlobWork,
    /// The ports that the node declares. None: the result is not a node's.
    pub(crate) ports: Option<&'a [String]>,
    /// The secrets to remove before texts are cut: a part of a secret would not be found.
    pub(crate) secrets: &'a Secrets,
}

impl Reader<'_> {
    pub(crate) fn outcome(&self, outcome: node::Outcome) -> Result<Outcome, Failure> {
        Ok(match outcome {
            node::Outcome::Done(done) => {
                if done.ports.len() > MAX_PORTS {
                    return Err(nonsense("it took more ports than there can be"));
                }
                self.check_ports(&done.ports)?;
                Outcome::Done(Done {
                    output: self.payload(done.output)?,
                    ports: done.ports,
                })
            }
            node::Outcome::Suspend(suspension) => Outcome::Suspend(self.suspension(suspension)?),
            node::Outcome::Again(again) => Outcome::Again(Again {
                after_ms: again.after,
                state: self.optional(again.state)?,
            }),
        })
    }

    /// The graph was checked against the declared ports, so an undeclared port would lead nowhere
    /// and end the run as if it had succeeded.
    fn check_ports(&self, taken: &[String]) -> Result<(), Failure> {
        let Some(declared) = self.ports else {
            return Ok(());
        };
        let is_declared = |port: &str| declared.iter().any(|known| known == port);
        let taken = taken.iter().map(String::as_str);
        let Some(port) = taken.clone().find(|port| !is_declared(port)).or_else(|| {
            let none_taken = taken.len() == 0;
            (none_taken && !is_declared(DONE)).then_some(DONE)
        }) else {
            return Ok(());
        };
        let message = format!(
            "the node took the port `{}`, and declares {}",
            self.message(port),
            declared.join(", ")
        );
        Err(Failure::new(Class::Invalid, codes::PORT, message))
    }

    pub(crate) fn disposition(
        &self,
        disposition: consumer::Disposition,
    ) -> Result<Disposition, Failure> {
        Ok(match disposition {
            consumer::Disposition::Execute(patch) => Disposition::Execute {
                vars: self.optional(patch.vars)?,
            },
            consumer::Disposition::Handled => Disposition::Handled,
            consumer::Disposition::Later(after_ms) => Disposition::Later { after_ms },
            consumer::Disposition::Reject(reason) => Disposition::Reject {
                reason: self.message(&reason),
            },
        })
    }

    /// A text of the guest, made safe to store and to show.
    fn message(&self, text: &str) -> String {
        classify::message(&self.secrets.redact(text))
    }

    fn suspension(&self, suspension: node::Suspension) -> Result<Suspension, Failure> {
        if suspension.bookmarks.is_empty() || suspension.bookmarks.len() > MAX_BOOKMARKS {
            return Err(nonsense("it suspended with no bookmark, or with too many"));
        }
        let bookmarks = suspension
            .bookmarks
            .into_iter()
            .map(|bookmark| self.bookmark(bookmark));
        Ok(Suspension {
            bookmarks: bookmarks.collect::<Result<_, _>>()?,
            state: self.optional(suspension.state)?,
        })
    }

    fn bookmark(&self, bookmark: node::Bookmark) -> Result<Bookmark, Failure> {
        Ok(Bookmark {
            name: bookmark.name,
            matches: json(&bookmark.matches)?,
            correlation: bookmark.correlation,
            private: bookmark.private,
            auto_burn: bookmark.auto_burn,
            metadata: bookmark.metadata.as_ref().map(json_text).transpose()?,
            expires_ms: match bookmark.expires {
                Some(at) => Some(i64::try_from(at).map_err(|_| nonsense("it expires too late"))?),
                None => None,
            },
        })
    }

    fn optional(&self, payload: Option<node::Payload>) -> Result<Option<Payload>, Failure> {
        payload.map(|payload| self.payload(payload)).transpose()
    }

    pub(crate) fn payload(&self, payload: node::Payload) -> Result<Payload, Failure> {
        let body = match payload.body {
            node::Body::Inline(bytes) if bytes.len() > self.limits.payload_bytes => {
                let (is, max) = (bytes.len(), self.limits.payload_bytes);
                let message = format!("a payload of {is} bytes came back, and {max} may");
                return Err(Failure::new(Class::Limit, codes::OUTPUT_SIZE, message));
            }
            node::Body::Inline(bytes) => Body::Inline(bytes),
            node::Body::Blob(text) => Body::Blob(self.blob(&text)?),
        };
        let payload = Payload {
            content_type: payload.content_type,
            body,
        };
        match payload.inline() {
            // Later readers insert it into documents without checking it again.
            Some(bytes) if payload.is_json() => check_json(bytes)?,
            _ => {}
        }
        Ok(payload)
    }

    /// Only a blob that the call was given or has written: a digest alone is no right to a blob.
    fn blob(&self, text: &str) -> Result<BlobRef, Failure> {
        let unknown = || nonsense("it refers to a blob that it was not given and has not written");
        let digest: Digest = text.parse().map_err(|_| unknown())?;
        let written = self
            .blobs
            .finished
            .iter()
            .find(|(known, _)| *known == digest);
        if let Some((_, bytes)) = written {
            return Ok(BlobRef {
                digest,
                size: bytes.len() as u64,
            });
        }
        let given = self.blobs.given.iter().find(|blob| blob.digest == digest);
        given.copied().ok_or_else(unknown)
    }
}

fn check_json(bytes: &[u8]) -> Result<(), Failure> {
    let text = std::str::from_utf8(bytes).map_err(|_| nonsense("JSON that is not UTF-8"))?;
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(nonsense(&format!("a payload that is not JSON: {error}"))),
    }
}

fn json(payload: &node::Payload) -> Result<serde_json::Value, Failure> {
    inline_json(payload, |bytes| serde_json::from_slice(bytes))
}

fn json_text(payload: &node::Payload) -> Result<JsonText, Failure> {
    inline_json(payload, JsonText::checked)
}

fn inline_json<T>(
    payload: &node::Payload,
    read: impl FnOnce(&[u8]) -> serde_json::Result<T>,
) -> Result<T, Failure> {
    match &payload.body {
        node::Body::Inline(bytes) => {
            read(bytes).map_err(|error| nonsense(&format!("a bookmark holds no JSON: {error}")))
        }
        node::Body::Blob(_) => Err(nonsense("a bookmark cannot hold a blob")),
    }
}

fn nonsense(message: &str) -> Failure {
    Failure::new(
        Class::Permanent,
        codes::RESULT,
        format!("what it returned: {message}"),
    )
}

impl From<node::NodeError> for Failure {
    fn from(error: node::NodeError) -> Self {
        let (class, code, text) = match error {
            node::NodeError::Invalid(text) => (Class::Invalid, codes::INVALID, text),
            node::NodeError::Retryable(hint) => {
                let text = classify::message(&hint.message);
                let mut failure = Self::new(Class::Retryable, codes::RETRYABLE, text);
                failure.retry_after_ms = hint.after;
                return failure;
            }
            node::NodeError::Permanent(text) => (Class::Permanent, codes::PERMANENT, text),
            node::NodeError::Cancelled => (
                Class::Cancelled,
                codes::CANCELLED,
                "the node noticed that it was cancelled".into(),
            ),
            node::NodeError::Other(text) => (Class::Permanent, codes::OTHER, text),
        };
        Self::new(class, code, classify::message(&text))
    }
}

impl From<consumer::ConsumerError> for Failure {
    fn from(error: consumer::ConsumerError) -> Self {
        let (class, code, text) = match error {
            consumer::ConsumerError::Retryable(text) => (Class::Retryable, codes::RETRYABLE, text),
            consumer::ConsumerError::Other(text) => (Class::Permanent, codes::OTHER, text),
        };
        Self::new(class, code, classify::message(&text))
    }
}
