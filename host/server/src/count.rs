//! Whole numbers that every reader of JSON keeps exactly.
//!
//! Many readers keep numbers as floating-point numbers of 64 bits, which are exact up to 2^53 - 1.
//! Amounts and counters end there; identifiers that can be larger are texts.

use serde::{Deserialize, Serialize, Serializer};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The largest number that every reader of JSON keeps exactly.
pub const LARGEST: u64 = (1 << 53) - 1;

/// An amount or a counter. A larger one is written as [`LARGEST`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Count(pub u64);

impl Count {
    /// The number of a row, which the store counts from 1.
    pub(crate) fn of_row(no: i64) -> Self {
        Self(no.unsigned_abs())
    }
}

impl From<usize> for Count {
    fn from(count: usize) -> Self {
        Self(count as u64)
    }
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0.min(LARGEST))
    }
}

impl PartialSchema for Count {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .description(Some(
                "A whole number that every reader of JSON keeps exactly.",
            ))
            .minimum(Some(0))
            .maximum(Some(LARGEST))
            .into()
    }
}

impl ToSchema for Count {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_a_reader_would_round_ends_at_the_largest_exact_one() {
        let text = |no| serde_json::to_string(&Count(no)).unwrap();
        assert_eq!(text(7), "7");
        assert_eq!(text(LARGEST), "9007199254740991");
        assert_eq!(text(u64::MAX), "9007199254740991");
    }
}
