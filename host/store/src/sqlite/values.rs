//! How single values lie in the file.

use bytes::Bytes;
use rusqlite::types::{FromSqlError, Type, ValueRef};
use rusqlite::{Error as Fault, Row};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use windlass_model::{BlobRef, Body, Digest, Payload};

/// What is said of a payload beside its bytes. Absent for inline JSON, which most are, so
/// that those cost one byte more than their text.
#[derive(Serialize, Deserialize)]
struct Meta {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blob: Option<BlobRef>,
}

/// The two columns of a payload.
pub(super) fn payload(payload: Option<&Payload>) -> (Option<&[u8]>, Option<String>) {
    let Some(payload) = payload else {
        return (None, None);
    };
    let (body, blob) = match &payload.body {
        Body::Inline(bytes) => (Some(bytes.as_ref()), None),
        Body::Blob(blob) => (None, Some(*blob)),
    };
    if blob.is_none() && payload.content_type.is_none() {
        return (body, None);
    }
    (
        body,
        json(&Meta {
            content_type: payload.content_type.clone(),
            blob,
        }),
    )
}

/// The payload in the columns from `column` on.
pub(super) fn read_payload(row: &Row<'_>, column: usize) -> Result<Option<Payload>, Fault> {
    let meta: Option<Meta> = read_json(row, column + 1)?;
    let body = bytes(row, column)?;
    Ok(match (body, meta) {
        (None, None) => None,
        (Some(body), None) => Some(Payload::json(body)),
        (body, Some(meta)) => {
            let body = match meta.blob {
                Some(blob) => Body::Blob(blob),
                None => Body::Inline(body.unwrap_or_default()),
            };
            Some(Payload {
                content_type: meta.content_type,
                body,
            })
        }
    })
}

/// JSON text of something small.
pub(super) fn json<T: Serialize>(value: &T) -> Option<String> {
    // Nothing that is stored so has a map with other keys than text, so it serialises.
    serde_json::to_string(value).ok()
}

/// JSON text of a list, unless it is empty.
pub(super) fn json_list<T: Serialize>(values: &[T]) -> Option<String> {
    if values.is_empty() {
        None
    } else {
        json(&values)
    }
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
