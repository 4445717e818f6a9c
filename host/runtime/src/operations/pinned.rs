//! The components that a run uses, for people.
//!
//! Bounds: the uses of one definition.

use windlass_model::Digest;
use windlass_store::rows::RunRow;

use super::reach::Operations;
use crate::catalog::Pins;
use crate::error::Error;

/// A component that a run uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// The node type, as the definition names it.
    pub node_type: String,
    /// The digest of the component.
    pub digest: Digest,
    /// The package and its version. None: neither the store nor this machine knows the component.
    pub package: Option<(String, String)>,
}

impl Operations {
    /// The components that a run uses, by node type. None: the store has its pins no more. Blocks.
    ///
    /// # Errors
    ///
    /// The store fails, or has data that cannot be read.
    pub fn pinned(&self, run: &RunRow) -> Result<Option<Vec<Pinned>>, Error> {
        let store = self.inner.store.as_ref();
        let Some(row) = store.pins(run.pins)? else {
            return Ok(None);
        };
        let read = Pins::from_row(&row).map_err(Error::Unreadable)?;
        let host = self.inner.resources().host().ok();
        let named = |(node_type, digest)| {
            // Only a store that several machines share has components.
            let package = match store.component_row(digest)? {
                Some(row) => Some((row.name, row.version)),
                None => host
                    .as_ref()
                    .and_then(|host| host.name_of(&digest))
                    .map(|(package, version)| (package, version.to_string())),
            };
            Ok(Pinned {
                node_type,
                digest,
                package,
            })
        };
        let uses = read.uses.into_iter().map(named);
        uses.collect::<Result<_, _>>().map(Some)
    }
}
