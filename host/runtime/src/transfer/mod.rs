//! Moves runs from one store to another, or back to the same store.
//!
//! A run is exported as one document (`document.rs`): everything that it needs to continue, with
//! its definition and the names of its components. The exporting host signs the document
//! (`envelope.rs`). An import without the signature of a known key needs a separate permission and
//! leaves a mark (`origin.rs`). Numbers belong to a store, so an import assigns new ones
//! (`renumber.rs`), and checks the whole document before it writes anything (`import.rs`), because
//! the bytes may come from any source.
//!
//! Bounds: a document has at most [`DOCUMENT_BYTES`], and the snapshot of a run is bounded, too:
//! rows, records and bytes (`BOUNDS`).

mod document;
mod envelope;
mod import;
mod origin;
mod renumber;
mod write;

use windlass_keys::export::ExportKeys;
use windlass_model::Digest;
use windlass_store::transfer::Bounds;

use crate::error::Error;

pub use self::envelope::Seal;
pub(crate) use self::import::Incoming;
pub use self::import::{Accept, ImportTarget};
pub use self::origin::Origin;
pub(crate) use self::write::{needed, written};

/// The limit of a document, in bytes.
pub const DOCUMENT_BYTES: usize = 128 * 1024 * 1024;

/// The limit of a file with a document and its signature, in bytes.
pub const FILE_BYTES: usize = DOCUMENT_BYTES + 2048;

/// The version of a document.
pub const VERSION: u32 = 1;

/// The version of a document in an envelope with its signature.
pub const SIGNED: u32 = 2;

/// The limits of the snapshot of a run.
pub(crate) const BOUNDS: Bounds = Bounds {
    rows: 100_000,
    executions: 10_000,
    bytes: 64 * 1024 * 1024,
};

/// The kind of the journal entry of an imported run.
pub const IMPORTED: &str = "imported";

/// Reads a document without importing it, and returns the result of its verification.
///
/// # Errors
///
/// It is no exported run, or the keyring cannot be read.
pub fn read(bytes: &[u8], keys: &ExportKeys) -> Result<Seal, Error> {
    Ok(Incoming::read(bytes, keys, Accept::Unsigned)?.seal())
}

/// The error for a digest that does not match its content.
fn other_digest(what: &str, said: Digest) -> Error {
    Error::bad_export(format!("its {what} is not what {said} names"))
}
