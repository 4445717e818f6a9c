//! A bound of the data that readers bring into memory.
//!
//! Rows have sizes that data from outside decide. A caller that has charged so many bytes reads
//! [`within`] them: a reader that finds more fails before it keeps them.

use std::cell::Cell;

use crate::codes;
use crate::error::{Error, Result};
use crate::sql::Row;
use crate::sql::row::Value;

/// The memory of a row beside its texts and bytes.
const ROW_BYTES: u64 = 128;

thread_local! {
    /// The bytes that readers of this thread may still return; none: no bound.
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Restores the allowance of the caller.
struct Outer {
    left: Option<u64>,
    given: u64,
}

impl Outer {
    /// The bytes that were read.
    fn used(&self) -> u64 {
        self.given.saturating_sub(LEFT.get().unwrap_or(0))
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        LEFT.set(self.left);
    }
}

/// Reads at most so many bytes of rows on this thread. Calls nest: an inner one reads at most what
/// the outer one has left, and what a failed inner one has read does not count.
///
/// The memory store is not bounded: it has its rows in memory already, and readers share them.
///
/// # Errors
///
/// Those of `read`. A reader that exceeds the bound returns [`Error::exceeds_allowance`].
pub fn within<T, E>(bytes: u64, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let (mut outer, found) = bounded(bytes, read);
    if found.is_ok() {
        outer.left = outer.left.map(|left| left.saturating_sub(outer.used()));
    }
    found
}

/// As [`within`], for rows that the caller drops before it reads others: they do not count in an
/// outer call.
///
/// # Errors
///
/// As [`within`].
pub fn passing<T, E>(bytes: u64, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    bounded(bytes, read).1
}

fn bounded<T>(bytes: u64, read: impl FnOnce() -> T) -> (Outer, T) {
    let left = LEFT.get();
    let given = left.map_or(bytes, |left| left.min(bytes));
    let outer = Outer { left, given };
    LEFT.set(Some(given));
    let found = read();
    (outer, found)
}

/// The bytes that readers of this thread may return; none: no bound.
#[cfg(feature = "postgres")]
pub(crate) fn left() -> Option<u64> {
    LEFT.get()
}

/// Takes the size of a row from the allowance of this thread, before the row is copied.
pub(crate) fn take(row: &dyn Row, columns: usize) -> Result<()> {
    let Some(left) = LEFT.get() else {
        return Ok(());
    };
    let size = size(row, columns)?;
    let left = left.checked_sub(size).ok_or_else(exceeded)?;
    LEFT.set(Some(left));
    Ok(())
}

/// The memory of a row, in bytes.
pub(crate) fn size(row: &dyn Row, columns: usize) -> Result<u64> {
    let mut size = ROW_BYTES;
    for column in 0..columns {
        size += match row.value(column)? {
            Value::Null | Value::Int(_) => 0,
            Value::Text(text) => text.len() as u64,
            Value::Bytes(bytes) => bytes.len() as u64,
        };
    }
    Ok(size)
}

pub(crate) fn exceeded() -> Error {
    Error::new(
        codes::ALLOWANCE,
        "the rows have more bytes than may be read at once",
    )
    .help("Read fewer of them at once.")
}

/// An error that may be of a reader beyond its bound.
pub trait Exceeding {
    /// Whether a reader has exceeded the bound of [`within`].
    fn exceeds(&self) -> bool;
}

impl Exceeding for Error {
    fn exceeds(&self) -> bool {
        self.exceeds_allowance()
    }
}

/// Reads a part of a list: `most` rows, or fewer if they have more than so many bytes, but at least
/// one. The second value is true if there may be more because of that.
///
/// # Errors
///
/// Those of `read`. One row may exceed the bound, but not that of an outer [`within`].
pub fn fewer<R, E: Exceeding>(
    bytes: u64,
    most: u32,
    read: impl Fn(u32) -> Result<Vec<R>, E>,
) -> Result<(Vec<R>, bool), E> {
    let mut limit = most;
    loop {
        let rows = match limit {
            ..=1 => read(limit),
            _ => within(bytes, || read(limit)),
        };
        match rows {
            Err(error) if limit > 1 && error.exceeds() => limit = (limit / 4).max(1),
            rows => {
                let rows = rows?;
                let cut = limit < most && rows.len() >= limit as usize;
                return Ok((rows, cut));
            }
        }
    }
}

/// The bytes of the rows that [`next_rows`] returns, unless it is one row.
const SOME_BYTES: u64 = 2 * 1024 * 1024;

/// Reads the next rows of a list for a caller that drops them before it reads others: at most so
/// many, of 2 MiB or one row. The list continues until there are no rows.
///
/// # Errors
///
/// As [`fewer`].
pub fn next_rows<R, E: Exceeding>(
    most: u32,
    read: impl Fn(u32) -> Result<Vec<R>, E>,
) -> Result<Vec<R>, E> {
    let (rows, _) = passing(u64::MAX, || fewer(SOME_BYTES, most, read))?;
    Ok(rows)
}

impl Error {
    /// Whether a reader has exceeded the bound of [`within`].
    pub fn exceeds_allowance(&self) -> bool {
        self.code == codes::ALLOWANCE
    }
}
