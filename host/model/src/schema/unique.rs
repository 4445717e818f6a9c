//! `uniqueItems` in time linear in the list.
//!
//! The library's own check compares pairs of items whose hashes are equal, and lists that differ
//! only in brackets have equal ones. Here items are compared by a text that is equal only for equal
//! items.

use std::collections::HashMap;

use jsonschema::{Keyword, ValidationError};
use serde_json::Value;

use crate::decimal::canonical;

/// Whether a list must not contain an item twice.
pub(super) struct UniqueItems(pub(super) bool);

impl<'i> Keyword<'i> for UniqueItems {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        match self.twice(instance) {
            Some((first, second)) => {
                let message = format!("items {first} and {second} of the list are the same");
                Err(ValidationError::custom(message))
            }
            None => Ok(()),
        }
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        self.twice(instance).is_none()
    }
}

impl UniqueItems {
    /// Two indices of the same item.
    fn twice(&self, list: &Value) -> Option<(usize, usize)> {
        let items = list.as_array().filter(|_| self.0)?;
        let mut known = HashMap::with_capacity(items.len());
        items.iter().enumerate().find_map(|(index, item)| {
            let first = known.insert(canonical(item), index)?;
            Some((first, index))
        })
    }
}
