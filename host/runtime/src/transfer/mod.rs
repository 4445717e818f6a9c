//! Runs that go from one store to another, or back to where they were.
//!
//! A run is taken out as one document (`document.rs`): all that it needs to go on, with the
//! definition and the names of the components that it runs on. The host that exports it signs the
//! document (`envelope.rs`), and an import that no known key has signed needs a permission of its
//! own and leaves a mark (`origin.rs`). Numbers belong to a store, so an import gives everything
//! new ones (`renumber.rs`), and checks what the document says before anything is written
//! (`read.rs`): the bytes may come from anywhere.
//!
//! Bounds: a document holds at most [`DOCUMENT_BYTES`], and what one moment of a run may hold
//! is bounded, too: rows, records and bytes (`BOUNDS`).

mod document;
mod envelope;
mod origin;
mod read;
mod renumber;
mod write;

use windlass_keys::export::ExportKeys;
use windlass_model::Digest;
use windlass_store::transfer::Bounds;

use crate::error::Error;

pub use self::envelope::Seal;
pub use self::origin::Origin;
pub(crate) use self::read::Incoming;
pub use self::read::{Accept, ImportTarget};
pub(crate) use self::write::{needed, written};

/// How long a document may be, in bytes.
pub const DOCUMENT_BYTES: usize = 128 * 1024 * 1024;

/// How long a file with a document and its signature may be, in bytes.
pub const FILE_BYTES: usize = DOCUMENT_BYTES + 2048;

/// The version of the document that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// The version of a document in an envelope with its signature.
pub const SIGNED: u32 = 2;

/// What is read of a run at most.
pub(crate) const BOUNDS: Bounds = Bounds {
    rows: 100_000,
    executions: 10_000,
    bytes: 64 * 1024 * 1024,
};

/// The kind of the entry in the journal of a run that was taken in.
pub(crate) const IMPORTED: &str = "imported";

/// The document is none, or says what cannot be.
pub(crate) fn malformed(reason: impl std::fmt::Display) -> Error {
    Error::Refused {
        code: crate::codes::BAD_EXPORT,
        message: format!("this is no run that can be imported: {reason}"),
        help: Some("export the run again, and do not edit what comes out".to_owned()),
    }
}

/// Reads a document without importing it, and says what vouches for it.
///
/// # Errors
///
/// It is no exported run, or the keyring cannot be read.
pub fn read(bytes: &[u8], keys: &ExportKeys) -> Result<Seal, Error> {
    Ok(Incoming::read(bytes, keys, Accept::Unsigned)?.seal())
}

/// A digest that does not belong to what it names.
fn other_digest(what: &str, said: Digest) -> Error {
    malformed(format!("its {what} is not what {said} names"))
}
