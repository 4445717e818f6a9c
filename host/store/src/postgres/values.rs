//! How single values lie in the tables.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;
use windlass_model::{Digest, Payload};

use crate::columns::payload_of;
use crate::error::{Error, Result};

/// A parameter that may go to another thread: readers run on the store's own.
pub(super) type Param = Box<dyn tokio_postgres::types::ToSql + Sync + Send>;

/// The parameters of a reader's statement, each moved in.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        vec![$(Box::new($value) as $crate::postgres::values::Param),*]
    };
}
pub(super) use params;

/// A column.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T> {
    row.try_get(column)
        .map_err(|error| Error::corrupt(&format!("a value that cannot be read ({error})")))
}

/// The payload in the columns from `column` on.
pub(super) fn read_payload(row: &Row, column: usize) -> Result<Option<Payload>> {
    let meta: Option<&str> = get(row, column + 1)?;
    payload_of(bytes(row, column)?, meta.map(str::as_bytes))
        .map_err(|error| Error::corrupt(&format!("a payload that cannot be read ({error})")))
}

/// The payload in the columns from `column` on, where there always is one.
pub(super) fn some_payload(row: &Row, column: usize) -> Result<Payload> {
    Ok(read_payload(row, column)?.unwrap_or_else(Payload::null))
}

/// What a column of JSON text says.
pub(super) fn read_json<T: DeserializeOwned>(row: &Row, column: usize) -> Result<Option<T>> {
    let text: Option<&str> = get(row, column)?;
    text.map(serde_json::from_str)
        .transpose()
        .map_err(|error| Error::corrupt(&format!("a document that cannot be read ({error})")))
}

/// A column of bytes that may be absent.
pub(super) fn bytes(row: &Row, column: usize) -> Result<Option<Bytes>> {
    Ok(get::<Option<&[u8]>>(row, column)?.map(Bytes::copy_from_slice))
}

/// A column of bytes.
pub(super) fn some_bytes(row: &Row, column: usize) -> Result<Bytes> {
    bytes(row, column).map(Option::unwrap_or_default)
}

/// A column with a digest.
pub(super) fn digest(row: &Row, column: usize) -> Result<Digest> {
    <[u8; 32]>::try_from(get::<&[u8]>(row, column)?)
        .map(Digest)
        .map_err(|_| Error::corrupt("a digest of another length"))
}

/// A column with a UUID.
pub(super) fn uuid(row: &Row, column: usize) -> Result<Uuid> {
    Uuid::from_slice(get(row, column)?).map_err(|_| Error::corrupt("an id of another length"))
}

/// A SMALLINT that stands for a variant.
pub(super) fn variant<T>(row: &Row, column: usize, of: impl FnOnce(u8) -> Option<T>) -> Result<T> {
    let number: i16 = get(row, column)?;
    u8::try_from(number)
        .ok()
        .and_then(of)
        .ok_or_else(|| Error::corrupt(&format!("a variant that means nothing ({number})")))
}

/// A number that is never negative and was stored bit by bit.
pub(super) fn unsigned(row: &Row, column: usize) -> Result<u64> {
    get::<i64>(row, column).map(i64::cast_unsigned)
}

/// A number that is never negative and small.
pub(super) fn small(row: &Row, column: usize) -> Result<u32> {
    let number: i64 = get(row, column)?;
    u32::try_from(number)
        .map_err(|_| Error::corrupt(&format!("a number that is too large ({number})")))
}
