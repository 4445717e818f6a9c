//! Decisions about the system as a whole: small, few, and opaque to the store.

use windlass_model::limits::SETTING_BYTES;

use crate::codes;
use crate::error::{Error, Result};

/// Refuses what is larger than a decision may be.
pub(crate) fn check(name: &str, value: Option<&[u8]>) -> Result<()> {
    match value.map_or(0, <[u8]>::len) {
        0..=SETTING_BYTES => Ok(()),
        bytes => {
            let text = format!(
                "the setting {name} has {bytes} bytes, and at most {SETTING_BYTES} are kept"
            );
            Err(Error::new(codes::CONTRADICTION, text))
        }
    }
}
