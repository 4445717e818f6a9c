//! Rows, and the reading of single values.

use bytes::Bytes;
use rusqlite::types::ValueRef;
use serde::de::DeserializeOwned;
use uuid::Uuid;
use windlass_model::{Digest, Payload, RunId, ShortBytes, TraceContext};

use crate::columns::payload_of;
use crate::error::{Error, Result};
use crate::sums::{self, Key, Of};

/// The value of a column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'r> {
    Null,
    Int(i64),
    Text(&'r str),
    Bytes(&'r [u8]),
}

/// Computes a checksum; none for a row without content.
type Sum<'a> = &'a dyn Fn() -> Result<Option<u32>>;

/// A row that a statement returns.
pub(crate) trait Row {
    /// The value of a column. The first column is 0.
    fn value(&self, column: usize) -> Result<Value<'_>>;

    /// Whether the column has this checksum. Only SQLite's rows have checksums.
    fn has_sum(&self, _column: usize, _sum: Sum<'_>) -> Result<bool> {
        Ok(true)
    }
}

impl Row for rusqlite::Row<'_> {
    fn has_sum(&self, column: usize, sum: Sum<'_>) -> Result<bool> {
        Ok(int_if_any(self, column)? == sum()?.map(i64::from))
    }

    fn value(&self, column: usize) -> Result<Value<'_>> {
        let value = self.get_ref(column).map_err(|error| unreadable(&error))?;
        Ok(match value {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(value) => Value::Int(value),
            ValueRef::Text(value) => {
                Value::Text(std::str::from_utf8(value).map_err(|error| unreadable(&error))?)
            }
            ValueRef::Blob(value) => Value::Bytes(value),
            ValueRef::Real(value) => return Err(unreadable(&value)),
        })
    }
}

#[cfg(feature = "postgres")]
impl Row for tokio_postgres::Row {
    fn value(&self, column: usize) -> Result<Value<'_>> {
        use tokio_postgres::types::Type;

        fn get<'r, T: tokio_postgres::types::FromSql<'r>>(
            row: &'r tokio_postgres::Row,
            column: usize,
            of: fn(T) -> Value<'r>,
        ) -> Result<Value<'r>> {
            let value: Option<T> = row.try_get(column).map_err(|error| unreadable(&error))?;
            Ok(value.map_or(Value::Null, of))
        }

        let kind = self.columns().get(column).map(|column| column.type_());
        match kind {
            Some(&Type::INT2) => get::<i16>(self, column, |value| Value::Int(value.into())),
            Some(&Type::INT4) => get::<i32>(self, column, |value| Value::Int(value.into())),
            Some(&Type::BOOL) => get::<bool>(self, column, |value| Value::Int(value.into())),
            Some(&Type::BYTEA) => get(self, column, Value::Bytes),
            Some(&Type::TEXT) => get(self, column, Value::Text),
            _ => get(self, column, Value::Int),
        }
    }
}

fn unreadable(why: &dyn std::fmt::Display) -> Error {
    Error::corrupt(&format!("a value that cannot be read ({why})"))
}

fn unexpected(value: Value<'_>, wanted: &str) -> Error {
    let found = match value {
        Value::Null => "nothing",
        Value::Int(_) => "a number",
        Value::Text(_) => "a text",
        Value::Bytes(_) => "bytes",
    };
    unreadable(&format_args!("{found} in place of {wanted}"))
}

/// A number or null.
pub(crate) fn int_if_any(row: &(impl Row + ?Sized), column: usize) -> Result<Option<i64>> {
    match row.value(column)? {
        Value::Null => Ok(None),
        Value::Int(value) => Ok(Some(value)),
        other => Err(unexpected(other, "a number")),
    }
}

/// A number.
pub(crate) fn int(row: &(impl Row + ?Sized), column: usize) -> Result<i64> {
    let value = int_if_any(row, column)?;
    value.ok_or_else(|| unexpected(Value::Null, "a number"))
}

/// A number that is never negative, stored with the same bits.
pub(crate) fn unsigned(row: &(impl Row + ?Sized), column: usize) -> Result<u64> {
    int(row, column).map(i64::cast_unsigned)
}

/// A small number that is never negative, or null.
pub(crate) fn small_if_any(row: &(impl Row + ?Sized), column: usize) -> Result<Option<u32>> {
    let value = int_if_any(row, column)?.map(u32::try_from).transpose();
    value.map_err(|_| unreadable(&"a number out of its range"))
}

/// A small number that is never negative.
pub(crate) fn small(row: &(impl Row + ?Sized), column: usize) -> Result<u32> {
    let value = small_if_any(row, column)?;
    value.ok_or_else(|| unexpected(Value::Null, "a number"))
}

/// A text or null.
pub(crate) fn text_if_any(row: &(impl Row + ?Sized), column: usize) -> Result<Option<String>> {
    match row.value(column)? {
        Value::Null => Ok(None),
        Value::Text(value) => Ok(Some(value.to_owned())),
        other => Err(unexpected(other, "a text")),
    }
}

/// A text.
pub(crate) fn text(row: &(impl Row + ?Sized), column: usize) -> Result<String> {
    let value = text_if_any(row, column)?;
    value.ok_or_else(|| unexpected(Value::Null, "a text"))
}

fn raw_if_any(row: &(impl Row + ?Sized), column: usize) -> Result<Option<&[u8]>> {
    match row.value(column)? {
        Value::Null => Ok(None),
        Value::Bytes(value) => Ok(Some(value)),
        other => Err(unexpected(other, "bytes")),
    }
}

/// Bytes or null.
pub(crate) fn bytes_if_any(row: &(impl Row + ?Sized), column: usize) -> Result<Option<Bytes>> {
    Ok(raw_if_any(row, column)?.map(Bytes::copy_from_slice))
}

/// Bytes that are few; null reads as no bytes.
pub(crate) fn short_bytes(row: &(impl Row + ?Sized), column: usize) -> Result<ShortBytes> {
    let value = raw_if_any(row, column)?;
    Ok(ShortBytes::from_slice(value.unwrap_or_default()))
}

/// Bytes; null reads as no bytes.
pub(crate) fn bytes(row: &(impl Row + ?Sized), column: usize) -> Result<Bytes> {
    let value = raw_if_any(row, column)?;
    Ok(Bytes::copy_from_slice(value.unwrap_or_default()))
}

/// A trace context, or null.
pub(crate) fn trace_if_any(
    row: &(impl Row + ?Sized),
    column: usize,
) -> Result<Option<TraceContext>> {
    let Some(bytes) = raw_if_any(row, column)? else {
        return Ok(None);
    };
    let context = TraceContext::from_stored(bytes);
    let context = context.ok_or_else(|| Error::corrupt("a malformed trace context"))?;
    Ok(Some(context))
}

/// A digest.
pub(crate) fn digest(row: &(impl Row + ?Sized), column: usize) -> Result<Digest> {
    let value = raw_if_any(row, column)?.unwrap_or_default();
    let value = <[u8; 32]>::try_from(value);
    value
        .map(Digest)
        .map_err(|_| unreadable(&"a digest of another length"))
}

/// The id of a run, or null.
pub(crate) fn run_if_any(row: &(impl Row + ?Sized), column: usize) -> Result<Option<RunId>> {
    let Some(value) = raw_if_any(row, column)? else {
        return Ok(None);
    };
    let id = Uuid::from_slice(value).map_err(|_| unreadable(&"an id of another length"))?;
    Ok(Some(RunId(id)))
}

/// An id.
pub(crate) fn uuid(row: &(impl Row + ?Sized), column: usize) -> Result<Uuid> {
    let value = raw_if_any(row, column)?.unwrap_or_default();
    Uuid::from_slice(value).map_err(|_| unreadable(&"an id of another length"))
}

/// The id of a run; none if it is null, or if the run is being deleted.
pub(crate) fn run_unless_gone(row: &(impl Row + ?Sized), column: usize) -> Result<Option<RunId>> {
    let id = raw_if_any(row, column)?;
    let id = id.and_then(|value| Uuid::from_slice(value).ok());
    Ok(id.map(RunId))
}

/// A boolean.
pub(crate) fn flag(row: &(impl Row + ?Sized), column: usize) -> Result<bool> {
    Ok(int(row, column)? != 0)
}

/// A number of at most 32 bits.
pub(crate) fn short(row: &(impl Row + ?Sized), column: usize) -> Result<i32> {
    i32::try_from(int(row, column)?).map_err(|_| unreadable(&"a number out of its range"))
}

/// A number that stands for a variant.
pub(crate) fn variant<T>(
    row: &(impl Row + ?Sized),
    column: usize,
    of: impl FnOnce(u8) -> Option<T>,
) -> Result<T> {
    let number = int(row, column)?;
    let known = u8::try_from(number).ok().and_then(of);
    known.ok_or_else(|| unreadable(&format_args!("a variant that means nothing: {number}")))
}

/// The value of a JSON text, or null.
pub(crate) fn json_if_any<T: DeserializeOwned>(
    row: &(impl Row + ?Sized),
    column: usize,
) -> Result<Option<T>> {
    match row.value(column)? {
        Value::Text(text) => serde_json::from_str(text)
            .map(Some)
            .map_err(|error| unreadable(&error)),
        Value::Null => Ok(None),
        other => Err(unexpected(other, "a text")),
    }
}

/// The payload in the columns from `column` on, or null.
pub(crate) fn payload_if_any(row: &(impl Row + ?Sized), column: usize) -> Result<Option<Payload>> {
    let meta = text_if_any(row, column + 1)?;
    payload_of(
        bytes_if_any(row, column)?,
        meta.as_deref().map(str::as_bytes),
    )
    .map_err(|error| unreadable(&error))
}

/// Refuses a row whose columns from `column` on (body, metadata and checksum) are not those that
/// were written under its key.
pub(crate) fn check(
    row: &(impl Row + ?Sized),
    column: usize,
    of: Of,
    key: Key,
    name: &str,
) -> Result<()> {
    match holds(row, column, of, key, name)? {
        true => Ok(()),
        false => Err(sums::altered(of, key, name)),
    }
}

/// Whether the columns match their checksum.
pub(crate) fn holds(
    row: &(impl Row + ?Sized),
    column: usize,
    of: Of,
    key: Key,
    name: &str,
) -> Result<bool> {
    row.has_sum(column + 2, &|| {
        let (body, meta) = (content(row, column)?, content(row, column + 1)?);
        Ok((body.is_some() || meta.is_some()).then(|| sums::sum(of, key, name, body, meta)))
    })
}

fn content(row: &(impl Row + ?Sized), column: usize) -> Result<Option<&[u8]>> {
    Ok(match row.value(column)? {
        Value::Bytes(bytes) => Some(bytes),
        Value::Text(text) => Some(text.as_bytes()),
        Value::Null | Value::Int(_) => None,
    })
}

/// The payload in the columns from `column` on, or null, verified by the checksum in the column
/// after them.
pub(crate) fn summed(
    row: &(impl Row + ?Sized),
    column: usize,
    of: Of,
    key: Key,
    name: &str,
) -> Result<Option<Payload>> {
    check(row, column, of, key, name)?;
    payload_if_any(row, column)
}

/// The payload in the columns from `column` on.
pub(crate) fn payload(row: &(impl Row + ?Sized), column: usize) -> Result<Payload> {
    Ok(payload_if_any(row, column)?.unwrap_or_else(Payload::null))
}
