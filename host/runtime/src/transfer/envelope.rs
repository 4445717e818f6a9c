//! The signature around an exported run.
//!
//! ```json
//! {"windlass-export": 2, "document": {…}, "signature": "untrusted comment: …"}
//! ```
//!
//! The signature has the format of minisign. It covers the bytes of `document` exactly as they are
//! in the file, so they are verified without being rewritten. The document alone is version 1,
//! which has no signature.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_keys::export::ExportKeys;
use windlass_keys::minisign::{Name, Signature};
use windlass_model::RunId;

use super::document::{Document, Kind};
use super::{DOCUMENT_BYTES, FILE_BYTES, SIGNED, VERSION};
use crate::codes;
use crate::error::Error;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(rename = "windlass-export")]
    _version: u32,
    #[serde(borrow)]
    document: &'a RawValue,
    #[serde(borrow)]
    signature: Cow<'a, str>,
}

/// The result of verifying an exported run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// A known key has signed the run.
    Signed(Name),
    /// The run has no signature.
    Absent,
    /// The signature names a key that this host does not know.
    UnknownKey(Name),
    /// The signature names a known key, and does not match the document.
    Broken(Name),
}

impl Seal {
    /// The known key that has signed the run.
    pub fn signer(self) -> Option<Name> {
        match self {
            Self::Signed(name) => Some(name),
            Self::Absent | Self::UnknownKey(_) | Self::Broken(_) => None,
        }
    }

    /// Refuses a run that no known key has signed.
    pub(crate) fn check(self) -> Result<(), Error> {
        let reason = match self {
            Self::Signed(_) => return Ok(()),
            Self::Absent => "it has no signature".to_owned(),
            Self::UnknownKey(name) => format!("the key {name} that signed it is not known here"),
            Self::Broken(name) => format!(
                "its signature by the key {name} does not fit, so it was changed after it was \
                 signed"
            ),
        };
        Err(Error::Refused {
            code: codes::UNSIGNED,
            message: format!("no known key has signed the run: {reason}"),
            help: Some(
                "add the public key of the host that exported it to `trusted` in the section \
                 [keys] (`windlass keys show` prints it there), or import it with `--unsigned` \
                 (over HTTP `?unsigned=true`), which marks the run for good"
                    .to_owned(),
            ),
        })
    }
}

/// A document, and the result of its verification.
pub(super) struct Opened<'a> {
    pub(super) document: &'a [u8],
    pub(super) seal: Seal,
}

/// Takes the document out of its envelope, if it has one, and verifies the signature.
pub(super) fn open<'a>(bytes: &'a [u8], keys: &ExportKeys) -> Result<Opened<'a>, Error> {
    if bytes.len() > FILE_BYTES {
        return Err(too_long());
    }
    let kind: Kind = serde_json::from_slice(bytes).map_err(Error::bad_export)?;
    let opened = match kind.version {
        VERSION => Opened {
            document: bytes,
            seal: Seal::Absent,
        },
        SIGNED => {
            let envelope: Envelope<'_> =
                serde_json::from_slice(bytes).map_err(Error::bad_export)?;
            let document = envelope.document.get().as_bytes();
            let signature = envelope.signature.parse().map_err(Error::bad_export)?;
            let seal = seal(document, &signature, keys)?;
            let inner: Kind = serde_json::from_slice(document).map_err(Error::bad_export)?;
            if inner.version != VERSION {
                return Err(other_version(inner.version));
            }
            Opened { document, seal }
        }
        other => return Err(other_version(other)),
    };
    if opened.document.len() > DOCUMENT_BYTES {
        return Err(too_long());
    }
    Ok(opened)
}

fn seal(document: &[u8], signature: &Signature, keys: &ExportKeys) -> Result<Seal, Error> {
    let name = signature.name();
    Ok(match keys.signed_by(document, signature)? {
        Some(name) => Seal::Signed(name),
        None if keys.knows(name)? => Seal::Broken(name),
        None => Seal::UnknownKey(name),
    })
}

/// Writes a document in its envelope, in one buffer.
pub(super) fn sealed(document: &Document, id: RunId, keys: &ExportKeys) -> Result<Bytes, Error> {
    let unwritten =
        |error: serde_json::Error| Error::Unreadable(format!("a run cannot be written: {error}"));
    // The buffer has the size of the document: one that grows takes up to three times as much.
    let mut size = Size(0);
    serde_json::to_writer(&mut size, document).map_err(unwritten)?;
    if size.0 > DOCUMENT_BYTES {
        return Err(Error::NotNow {
            code: windlass_store::codes::TOO_LARGE,
            message: format!(
                "the run is too large to be taken out as a whole: its document has {} bytes, and \
                 at most {DOCUMENT_BYTES} can be imported",
                size.0
            ),
            help: Some("let it come to its end, or to a place where less of it waits".to_owned()),
        });
    }
    let mut bytes = Vec::with_capacity(size.0 + (FILE_BYTES - DOCUMENT_BYTES));
    bytes.extend_from_slice(format!("{{\"windlass-export\":{SIGNED},\"document\":").as_bytes());
    let begin = bytes.len();
    serde_json::to_writer(&mut bytes, document).map_err(unwritten)?;
    let written = bytes.get(begin..).unwrap_or_default();
    let signature = keys.sign(written, &format!("windlass run {id}"))?;
    bytes.extend_from_slice(b",\"signature\":");
    serde_json::to_writer(&mut bytes, &signature.to_string()).map_err(unwritten)?;
    bytes.push(b'}');
    Ok(bytes.into())
}

/// Counts the bytes that are written.
struct Size(usize);

impl std::io::Write for Size {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn too_long() -> Error {
    Error::bad_export(format!("it is over {DOCUMENT_BYTES} bytes long"))
}

fn other_version(version: u32) -> Error {
    Error::Refused {
        code: codes::EXPORT_VERSION,
        message: format!(
            "the run was exported as version {version}, and this host reads the versions \
             {VERSION} and {SIGNED}"
        ),
        help: Some("import it on a host of the version that exported it, or newer".into()),
    }
}
