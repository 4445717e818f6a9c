//! Batches: one operation on many runs, carried out a few runs at a time.
//!
//! The store knows neither the operation nor its progress. It gives a batch a number, keeps both as
//! bytes, and lets one of several writers change the progress.

use bytes::Bytes;
use windlass_model::BatchNo;

use crate::codes;
use crate::error::{Error, Result};

/// The most batches that have not ended.
pub const WORKING: u32 = 16;

/// A batch that has ended is deleted when this many later ones were added.
pub const KEPT: i64 = 100;

/// The most bytes of the operation of a batch, and of its progress.
pub const BYTES: usize = 64 * 1024;

/// A batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRow {
    /// Its number: later ones are larger.
    pub no: BatchNo,
    /// The operation: opaque, versioned by the runtime.
    pub what: Bytes,
    /// How far it is: opaque, versioned by the runtime.
    pub progress: Bytes,
    /// How often the progress was changed.
    pub revision: u64,
    /// Epoch milliseconds.
    pub created_ms: i64,
    /// Epoch milliseconds; none: it goes on.
    pub ended_ms: Option<i64>,
}

/// Which batches to list.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchQuery {
    /// Only those that have not ended, the oldest first; otherwise all, the newest first.
    pub working: bool,
    /// Only with numbers below this one.
    pub before: Option<BatchNo>,
    /// At most this many.
    pub limit: u32,
}

/// Adds a batch. Fenced if [`WORKING`] batches have not ended.
#[derive(Clone, Debug)]
pub struct AddBatch {
    /// As in [`BatchRow`]. At most [`BYTES`].
    pub what: Bytes,
    /// As in [`BatchRow`]. At most [`BYTES`].
    pub progress: Bytes,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// Changes the progress of a batch that has not ended. Fenced if it is gone or has ended, or if its
/// progress was changed since that revision.
#[derive(Clone, Debug)]
pub struct MoveBatch {
    /// The batch.
    pub no: BatchNo,
    /// Its revision, which grows by one.
    pub revision: u64,
    /// As in [`BatchRow`]. At most [`BYTES`].
    pub progress: Bytes,
    /// Whether it ends with this.
    pub ends: bool,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

impl AddBatch {
    pub(crate) fn check(&self) -> Result<()> {
        check(&self.what)?;
        check(&self.progress)
    }
}

impl MoveBatch {
    pub(crate) fn check(&self) -> Result<()> {
        check(&self.progress)
    }
}

fn check(bytes: &Bytes) -> Result<()> {
    if bytes.len() <= BYTES {
        return Ok(());
    }
    let text = format!("a part of a batch has at most {BYTES} bytes");
    Err(Error::new(codes::CONTRADICTION, text))
}
