//! How single values lie in the file.

use bytes::Bytes;
use rusqlite::types::{FromSqlError, Type, ValueRef};
use rusqlite::{Error as Fault, Row};
use serde::de::DeserializeOwned;
use windlass_model::{Digest, Payload};

use super::sums::{self, Key, Of};
use crate::columns::payload_of;
pub(super) use crate::columns::{json, json_list, payload};

/// The payload in the columns from `column` on.
pub(super) fn read_payload(row: &Row<'_>, column: usize) -> Result<Option<Payload>, Fault> {
    let ValueRef::Text(meta) = row.get_ref(column + 1)? else {
        return Ok(bytes(row, column)?.map(Payload::json));
    };
    payload_of(bytes(row, column)?, Some(meta))
        .map_err(|error| Fault::FromSqlConversionFailure(column + 1, Type::Text, Box::new(error)))
}

/// The same, with a checksum in the column behind them: what was written under this key, or
/// nothing.
pub(super) fn read_summed(
    row: &Row<'_>,
    column: usize,
    of: Of,
    key: Key,
    name: &str,
) -> Result<Option<Payload>, Fault> {
    sums::check(row, column, of, key, name)?;
    read_payload(row, column)
}

/// What a column of JSON text says.
pub(super) fn read_json<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> Result<Option<T>, Fault> {
    let ValueRef::Text(text) = row.get_ref(column)? else {
        return Ok(None);
    };
    serde_json::from_slice(text)
        .map(Some)
        .map_err(|error| Fault::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}

/// A column of bytes that may be absent.
pub(super) fn bytes(row: &Row<'_>, column: usize) -> Result<Option<Bytes>, Fault> {
    match row.get_ref(column)? {
        ValueRef::Blob(bytes) => Ok(Some(Bytes::copy_from_slice(bytes))),
        _ => Ok(None),
    }
}

/// A column of bytes.
pub(super) fn some_bytes(row: &Row<'_>, column: usize) -> Result<Bytes, Fault> {
    bytes(row, column).map(Option::unwrap_or_default)
}

/// A column with a digest.
pub(super) fn digest(row: &Row<'_>, column: usize) -> Result<Digest, Fault> {
    row.get(column).map(Digest)
}

/// A column with a number that stands for a variant.
pub(super) fn variant<T>(
    row: &Row<'_>,
    column: usize,
    of: impl FnOnce(u8) -> Option<T>,
) -> Result<T, Fault> {
    let number: i64 = row.get(column)?;
    u8::try_from(number).ok().and_then(of).ok_or_else(|| {
        let out_of_range = Box::new(FromSqlError::OutOfRange(number));
        Fault::FromSqlConversionFailure(column, Type::Integer, out_of_range)
    })
}

/// A column with a number that is never negative and was stored bit by bit.
pub(super) fn unsigned(row: &Row<'_>, column: usize) -> Result<u64, Fault> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}
