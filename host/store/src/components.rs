//! Components of plugins, by which processes on several machines run the same code.
//!
//! A process that loads one from its folder puts it here, and one that needs it and has no such
//! file finds it by its digest. What is kept is never changed, so its number says what is new.

use bytes::Bytes;
use windlass_model::Digest;
use windlass_model::limits::COMPONENT_BYTES;

use crate::codes;
use crate::error::{Error, Result};

/// A component to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewComponent {
    /// SHA-256 of `bytes`.
    pub digest: Digest,
    /// The package, for people.
    pub name: String,
    /// Its version, for people.
    pub version: String,
    /// All of it. At most [`COMPONENT_BYTES`].
    pub bytes: Bytes,
}

/// A component that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentRow {
    /// SHA-256 of its bytes.
    pub digest: Digest,
    /// The package.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Grows with each component that is kept.
    pub generation: i64,
}

/// Refuses what is larger than a component may be.
pub(crate) fn check(new: &NewComponent) -> Result<()> {
    if new.bytes.len() <= COMPONENT_BYTES {
        return Ok(());
    }
    let text = format!(
        "the component {} has {} bytes, and at most {COMPONENT_BYTES} are kept for others",
        new.name,
        new.bytes.len()
    );
    Err(Error::new(codes::CONTRADICTION, text))
}
