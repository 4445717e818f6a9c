//! Runs that go from one store to another, or back to where they were.
//!
//! A run is taken out as one document (`document.rs`): all that it needs to go on, with the
//! definition and the names of the components that it runs on. Numbers belong to a store, so
//! whoever takes a document in gives everything new ones (`renumber.rs`), and checks what it says
//! before anything is written (`read.rs`): the bytes may come from anywhere.
//!
//! Bounds: a document holds at most [`DOCUMENT_BYTES`], and what one moment of a run may hold
//! is bounded, too: rows, records and bytes (`BOUNDS`).

mod document;
mod read;
mod renumber;
mod write;

use windlass_model::Digest;
use windlass_store::transfer::Bounds;

use crate::error::Error;

pub(crate) use self::read::Incoming;
pub use self::read::Place;
pub(crate) use self::write::{needed, written};

/// How long a document may be, in bytes.
pub const DOCUMENT_BYTES: usize = 128 * 1024 * 1024;

/// The version of the document that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// What is read of a run at most.
pub(crate) const BOUNDS: Bounds = Bounds {
    rows: 100_000,
    runs: 10_000,
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

/// A digest that does not belong to what it names.
fn other_digest(what: &str, said: Digest) -> Error {
    malformed(format!("its {what} is not what {said} names"))
}
