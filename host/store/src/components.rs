//! Components of plugins, by which processes on several machines run the same code.
//!
//! A process that loads one from its folder puts it here, and one that needs it and has no such
//! file finds it by its digest. Its bytes are never changed, so its number says what is new. Its
//! signature can come later than it, and be replaced by whoever vouches for another one.
//!
//! What nobody has used for a while is forgotten. The newest stays, whether it is used or not:
//! its number is the last that was given out.

use bytes::Bytes;
use windlass_model::Digest;
use windlass_model::limits::{COMPONENT_BYTES, COMPONENTS, COMPONENTS_BYTES};

use crate::codes;
use crate::error::{Error, Result};

/// A component to be kept, unless it is there.
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
    /// A signature of `bytes`, as minisign writes it, if there is one. At most
    /// [`SIGNATURE_BYTES`]. The store does not verify it.
    pub signature: Option<String>,
    /// Whether the giver trusts the key that has made the signature. Such a signature takes the
    /// place of another one; any other only fills an empty place.
    pub vouched: bool,
}

/// Notes which components are used, and forgets some of those that were not named for a while and
/// that no pins name.
#[derive(Clone, Debug)]
pub struct SweepComponents {
    /// Those that are used.
    pub used: Vec<Digest>,
    /// A component that was named since then stays, in epoch milliseconds.
    pub before_ms: i64,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// What is kept of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// All of it.
    pub bytes: Bytes,
    /// The first signature that came with it, or the last that somebody vouched for.
    pub signature: Option<String>,
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
    /// SHA-256 of the signature that is kept with it, by which a changed one is known.
    pub signature: Option<Digest>,
    /// Grows with each component that is kept.
    pub generation: i64,
}

/// How long the signature of a component may be, in bytes.
pub const SIGNATURE_BYTES: usize = 4096;

/// Components that one write looks at whether they may be forgotten: each is looked for in all
/// pins.
pub(crate) const LOOKS: u32 = 8;

/// Refuses what has no room beside so many others, with so many bytes.
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

/// Refuses what is larger than a component may be.
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
