//! Reads the values that guests hand over.

use windlass_model::{BlobRef, Body, Class, Digest, Failure, JsonText, Payload};

use super::guest::BlobWork;
use crate::bindings::node;
use crate::clean;
use crate::codes;
use crate::grant::secrets::Secrets;
use crate::grant::settings::Limits;

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
    /// A text of the guest, made safe to store and to show.
    pub(crate) fn message(&self, text: &str) -> String {
        clean::message(&self.secrets.redact(text))
    }

    pub(crate) fn optional(
        &self,
        payload: Option<node::Payload>,
    ) -> Result<Option<Payload>, Failure> {
        payload.map(|payload| self.payload(payload)).transpose()
    }

    pub(crate) fn payload(&self, payload: node::Payload) -> Result<Payload, Failure> {
        let content_type = payload.content_type;
        let (bytes, text) = match payload.body {
            node::Body::Inline(bytes) => (bytes, false),
            node::Body::Text(text) => (text.into_bytes().into(), true),
            node::Body::Blob(text) => {
                let body = Body::Blob(self.blob(&text)?);
                let payload = Payload { content_type, body };
                if let (true, Some(bytes)) = (payload.is_json(), self.written(&text)) {
                    check_json(bytes, false)?;
                }
                return Ok(payload);
            }
        };
        if bytes.len() > self.limits.payload_bytes {
            let (is, max) = (bytes.len(), self.limits.payload_bytes);
            let message = format!("a payload of {is} bytes came back, and {max} may");
            return Err(Failure::new(Class::Limit, codes::OUTPUT_SIZE, message));
        }
        let body = Body::Inline(bytes);
        let payload = Payload { content_type, body };
        match payload.inline() {
            // Later readers insert it into documents without checking it again.
            Some(bytes) if payload.is_json() => check_json(bytes, text)?,
            _ => {}
        }
        Ok(payload)
    }

    /// The content of a blob that the call has written.
    fn written(&self, text: &str) -> Option<&[u8]> {
        let digest: Digest = text.parse().ok()?;
        let mut written = self.blobs.finished.iter();
        let (_, bytes) = written.find(|(known, _)| *known == digest)?;
        Some(bytes)
    }

    /// Only a blob that the call was given or has written: a digest alone is no right to a blob.
    fn blob(&self, text: &str) -> Result<BlobRef, Failure> {
        let unknown = || nonsense("it refers to a blob that it was not given and has not written");
        let digest: Digest = text.parse().map_err(|_| unknown())?;
        if let Some(bytes) = self.written(text) {
            return Ok(BlobRef {
                digest,
                size: bytes.len() as u64,
            });
        }
        let given = self.blobs.given.iter().find(|blob| blob.digest == digest);
        given.copied().ok_or_else(unknown)
    }
}

/// `is_utf8`: the engine has checked that already.
fn check_json(bytes: &[u8], is_utf8: bool) -> Result<(), Failure> {
    if !is_utf8 && std::str::from_utf8(bytes).is_err() {
        return Err(nonsense("JSON that is not UTF-8"));
    }
    match JsonText::check(bytes) {
        Ok(()) => Ok(()),
        Err(error) => Err(nonsense(&format!("a payload that is not JSON: {error}"))),
    }
}

pub(crate) fn nonsense(message: &str) -> Failure {
    Failure::new(
        Class::Permanent,
        codes::RESULT,
        format!("the result of the guest cannot be read: {message}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_json_of_a_guest_is_refused() {
        let deep = |levels: usize| [vec![b'['; levels], vec![b']'; levels]].concat();
        for unreadable in [
            &deep(128)[..],
            &deep(1_000_000),
            br#""\ud800""#,
            br#"{"\udc00":1}"#,
            b"",
            b"1 2",
        ] {
            let failure = check_json(unreadable, false).unwrap_err();
            assert_eq!(failure.code, codes::RESULT);
        }
        for readable in [&deep(127)[..], br#"{"a":1,"a":"\ud83d\ude00"}"#, b"1e999"] {
            assert!(check_json(readable, true).is_ok());
            assert!(serde_json::from_slice::<serde_json::Value>(readable).is_ok());
        }
    }
}
