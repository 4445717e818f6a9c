//! The components that a run uses, in their stored form.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use windlass_model::Digest;
use windlass_store::rows::PinsRow;

/// The version of the document.
const VERSION: u32 = 1;

/// The components that a run uses, by the uses of its nodes (`package/name@requirement`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pins {
    windlass: u32,
    pub(crate) uses: BTreeMap<String, Digest>,
}

impl Pins {
    pub(crate) fn new(uses: BTreeMap<String, Digest>) -> Self {
        Self {
            windlass: VERSION,
            uses,
        }
    }

    pub(crate) fn to_row(&self) -> PinsRow {
        // Serialising a map with text keys cannot fail.
        let json = serde_json::to_vec(self).unwrap_or_default();
        PinsRow {
            digest: Digest::of(&json),
            json: json.into(),
        }
    }

    pub(crate) fn from_row(row: &PinsRow) -> Result<Self, String> {
        let pins: Self = serde_json::from_slice(&row.json).map_err(|error| error.to_string())?;
        if pins.windlass > VERSION {
            return Err(format!(
                "pins of version {} are newer than this host",
                pins.windlass
            ));
        }
        Ok(pins)
    }
}
