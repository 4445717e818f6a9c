//! Decisions about the system as a whole: small, few, and opaque to the store.

use bytes::Bytes;
use windlass_model::limits::SETTING_BYTES;

use crate::codes;
use crate::error::{Error, Result};

/// Keeps a decision about the system as a whole.
#[derive(Clone, Debug)]
pub struct Setting {
    /// What is decided: like `pause`.
    pub name: String,
    /// How: opaque, versioned by the caller, of at most [`SETTING_BYTES`]; none forgets it.
    pub value: Option<Bytes>,
}

impl Setting {
    /// Refuses what is larger than a decision may be.
    pub(crate) fn check(&self) -> Result<()> {
        match self.value.as_ref().map_or(0, Bytes::len) {
            0..=SETTING_BYTES => Ok(()),
            bytes => {
                let name = &self.name;
                let text = format!(
                    "the setting {name} has {bytes} bytes, and at most {SETTING_BYTES} are kept"
                );
                Err(Error::new(codes::CONTRADICTION, text))
            }
        }
    }
}
