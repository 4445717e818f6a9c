//! Settings of the whole system by operators: small, few, and opaque to the store.

use bytes::Bytes;
use windlass_model::limits::SETTING_BYTES;

use crate::codes;
use crate::error::{Error, Result};

/// Stores a setting of the whole system.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The name of the setting, like `pause`.
    pub name: String,
    /// The value: opaque, versioned by the caller, at most [`SETTING_BYTES`]; none deletes the
    /// setting.
    pub value: Option<Bytes>,
}

impl Setting {
    /// Refuses a value that is larger than the limit.
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
