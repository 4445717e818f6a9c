//! Column values as Rust types.

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::error::{Error, Result};

/// A column.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T> {
    row.try_get(column)
        .map_err(|error| Error::corrupt(&format!("a value that cannot be read ({error})")))
}
