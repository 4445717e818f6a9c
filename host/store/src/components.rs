//! Components of plugins, which let processes on several machines run the same code.
//!
//! A process that loads a component from its folder puts it here. A process that needs the
//! component and has no such file reads it by its digest. The bytes never change, so the generation
//! number tells which components are new. A signature may be added later, and a process that trusts
//! the key replaces it.
//!
//! Components that no process used for some time are deleted. The newest component always stays,
//! because its generation is the last number that was assigned.

use bytes::Bytes;
use windlass_model::Digest;
use windlass_model::limits::{COMPONENT_BYTES, COMPONENTS, COMPONENTS_BYTES};

use crate::codes;
use crate::error::{Error, Result};

/// A component to be kept, unless the store already has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewComponent {
    /// SHA-256 of `bytes`.
    pub digest: Digest,
    /// The package, for display.
    pub name: String,
    /// Its version, for display.
    pub version: String,
    /// The complete bytes. At most [`COMPONENT_BYTES`].
    pub bytes: Bytes,
    /// A signature of `bytes`, as minisign writes it, if there is one. At most
    /// [`SIGNATURE_BYTES`]. The store does not verify it.
    pub signature: Option<String>,
    /// Whether the writing process trusts the key that made the signature. Such a signature
    /// replaces another one; an untrusted signature is stored only where there is none.
    pub vouched: bool,
}

/// Records which components are used, and deletes components that were not named for some time and
/// that no pins name. Deletes only some of them in one call.
#[derive(Clone, Debug)]
pub struct SweepComponents {
    /// The components that are used.
    pub used: Vec<Digest>,
    /// A component that was named at or after this time stays, in epoch milliseconds.
    pub before_ms: i64,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// The stored bytes and signature of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The complete bytes.
    pub bytes: Bytes,
    /// The first signature that was written, or the last one from a trusted key.
    pub signature: Option<String>,
}

/// A stored component, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentRow {
    /// SHA-256 of its bytes.
    pub digest: Digest,
    /// The package.
    pub name: String,
    /// Its version.
    pub version: String,
    /// SHA-256 of the stored signature: it changes when the signature is replaced.
    pub signature: Option<Digest>,
    /// Grows with each stored component.
    pub generation: i64,
}

/// The maximum length of a component's signature, in bytes.
pub const SIGNATURE_BYTES: usize = 4096;

/// Components that one sweep examines. Each is searched for in all pins, which bounds the work.
pub(crate) const LOOKS: u32 = 8;

/// Refuses a component that exceeds the bounds on number and bytes, given the other stored
/// components.
pub(crate) fn check_room(new: &NewComponent, others: u64, bytes: u64) -> Result<()> {
    if others < COMPONENTS && bytes + new.bytes.len() as u64 <= COMPONENTS_BYTES {
        return Ok(());
    }
    let text = format!(
        "the component {} has no room beside {others} others of {bytes} bytes: at most \
         {COMPONENTS} are kept, of {COMPONENTS_BYTES} bytes in all",
        new.name
    );
    Err(Error::new(codes::TOO_MANY_COMPONENTS, text)
        .help("Those that nothing uses are forgotten after a week; deploy fewer versions."))
}

/// Refuses a component that is larger than the limit.
pub(crate) fn check(new: &NewComponent) -> Result<()> {
    let signature = new.signature.as_ref().map_or(0, String::len);
    if signature > SIGNATURE_BYTES {
        let text = format!(
            "the signature of the component {} has {signature} bytes, and may have {SIGNATURE_BYTES}",
            new.name
        );
        return Err(Error::new(codes::CONTRADICTION, text));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(others: u64, bytes: u64, fits: bool) {
        let new = NewComponent {
            digest: Digest::of(b"new"),
            name: "new".to_owned(),
            version: "1.0.0".to_owned(),
            bytes: "12345".into(),
            signature: None,
            vouched: false,
        };
        let room = check_room(&new, others, bytes);
        assert_eq!(room.is_ok(), fits, "{others} {bytes}");
        if let Err(error) = room {
            assert_eq!(error.code, codes::TOO_MANY_COMPONENTS);
        }
    }

    #[test]
    fn number_and_size_are_bounded() {
        check(0, 0, true);
        check(COMPONENTS - 1, COMPONENTS_BYTES - 5, true);
        check(COMPONENTS, 0, false);
        check(1, COMPONENTS_BYTES - 4, false);
    }
}
