//! The components that a run uses, for people.
//!
//! Bounds: the uses of one definition.

use windlass_model::Digest;
use windlass_store::Store;

use crate::catalog::Pins;
use crate::error::Error;

/// A component that a run uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// The node type, as the definition names it.
    pub node_type: String,
    /// The digest of the component.
    pub digest: Digest,
    /// The package and its version. None: the store has the component no more.
    pub package: Option<(String, String)>,
}

/// The components that runs with these pins use, by node type. None: the store has no such pins.
///
/// # Errors
///
/// The store fails, or has data that cannot be read.
pub fn pinned(store: &dyn Store, pins: Digest) -> Result<Option<Vec<Pinned>>, Error> {
    let Some(row) = store.pins(pins)? else {
        return Ok(None);
    };
    let read = Pins::from_row(&row).map_err(Error::Unreadable)?;
    let named = |(node_type, digest)| {
        let row = store.component_row(digest)?;
        Ok(Pinned {
            node_type,
            digest,
            package: row.map(|row| (row.name, row.version)),
        })
    };
    read.uses
        .into_iter()
        .map(named)
        .collect::<Result<_, _>>()
        .map(Some)
}
