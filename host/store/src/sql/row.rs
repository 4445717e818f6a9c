//! Rows, and how single values lie in them.

use bytes::Bytes;
use rusqlite::types::ValueRef;
use uuid::Uuid;
use windlass_model::{Digest, InstanceId};

use crate::error::{Error, Result};

/// What a column holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'r> {
    Null,
    Int(i64),
    Text(&'r str),
    Bytes(&'r [u8]),
}

/// A row that a statement has found.
pub(crate) trait Row {
    /// What a column holds. The first one is 0.
    fn value(&self, column: usize) -> Result<Value<'_>>;
}

impl Row for rusqlite::Row<'_> {
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

/// A number, or none.
pub(crate) fn int_if_any(row: &dyn Row, column: usize) -> Result<Option<i64>> {
    match row.value(column)? {
        Value::Null => Ok(None),
        Value::Int(value) => Ok(Some(value)),
        other => Err(unexpected(other, "a number")),
    }
}

/// A number.
pub(crate) fn int(row: &dyn Row, column: usize) -> Result<i64> {
    let value = int_if_any(row, column)?;
    value.ok_or_else(|| unexpected(Value::Null, "a number"))
}

/// A number that is never negative and was stored bit by bit.
pub(crate) fn unsigned(row: &dyn Row, column: usize) -> Result<u64> {
    int(row, column).map(i64::cast_unsigned)
}

/// A number that is never negative and small, or none.
pub(crate) fn small_if_any(row: &dyn Row, column: usize) -> Result<Option<u32>> {
    let value = int_if_any(row, column)?.map(u32::try_from).transpose();
    value.map_err(|_| unreadable(&"a number out of its range"))
}

/// A number that is never negative and small.
pub(crate) fn small(row: &dyn Row, column: usize) -> Result<u32> {
    let value = small_if_any(row, column)?;
    value.ok_or_else(|| unexpected(Value::Null, "a number"))
}

/// A text, or none.
pub(crate) fn text_if_any(row: &dyn Row, column: usize) -> Result<Option<String>> {
    match row.value(column)? {
        Value::Null => Ok(None),
        Value::Text(value) => Ok(Some(value.to_owned())),
        other => Err(unexpected(other, "a text")),
    }
}

/// A text.
pub(crate) fn text(row: &dyn Row, column: usize) -> Result<String> {
    let value = text_if_any(row, column)?;
    value.ok_or_else(|| unexpected(Value::Null, "a text"))
}

fn raw_if_any(row: &dyn Row, column: usize) -> Result<Option<&[u8]>> {
    match row.value(column)? {
        Value::Null => Ok(None),
        Value::Bytes(value) => Ok(Some(value)),
        other => Err(unexpected(other, "bytes")),
    }
}

/// Bytes; none are as good as absent ones.
pub(crate) fn bytes(row: &dyn Row, column: usize) -> Result<Bytes> {
    let value = raw_if_any(row, column)?;
    Ok(Bytes::copy_from_slice(value.unwrap_or_default()))
}

/// A digest.
pub(crate) fn digest(row: &dyn Row, column: usize) -> Result<Digest> {
    let value = raw_if_any(row, column)?.unwrap_or_default();
    let value = <[u8; 32]>::try_from(value);
    value
        .map(Digest)
        .map_err(|_| unreadable(&"a digest of another length"))
}

/// The id of a run, or none.
pub(crate) fn instance_if_any(row: &dyn Row, column: usize) -> Result<Option<InstanceId>> {
    let Some(value) = raw_if_any(row, column)? else {
        return Ok(None);
    };
    let id = Uuid::from_slice(value).map_err(|_| unreadable(&"an id of another length"))?;
    Ok(Some(InstanceId(id)))
}
