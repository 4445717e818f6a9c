//! How single values lie in the file.

use bytes::Bytes;
use rusqlite::types::{FromSqlError, Type, ValueRef};
use rusqlite::{Error as Fault, Row};
use windlass_model::Payload;

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

/// A column of bytes that may be absent.
pub(super) fn bytes(row: &Row<'_>, column: usize) -> Result<Option<Bytes>, Fault> {
    match row.get_ref(column)? {
        ValueRef::Blob(bytes) => Ok(Some(Bytes::copy_from_slice(bytes))),
        _ => Ok(None),
    }
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
