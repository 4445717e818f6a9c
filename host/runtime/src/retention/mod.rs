//! Keeps what has ended for a while, archives it, and forgets it.
//!
//! One process at a time does it for everybody on a store. It goes in slices, each a write of
//! its own that is bounded by a number of rows, so that work in between never waits long; and
//! whatever it is interrupted in, the next round goes on with.

mod archive;
mod line;
mod service;
mod sweeper;
#[cfg(test)]
mod tests;

pub(crate) use service::start;
pub use sweeper::{Round, Sweeper};

use std::path::PathBuf;

/// How long things are kept, and what becomes of them then.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a run is kept after it has ended, in milliseconds.
    pub keep_ms: u64,
    /// How often it is looked for what is over, in milliseconds. At least 1.
    pub every_ms: u64,
    /// How long a large value is kept that nothing refers to any more, in milliseconds: it may
    /// be on its way into another run.
    pub grace_ms: u64,
    /// Where runs are written down before they are forgotten, a file for each day on which
    /// they ended. None: nowhere.
    pub archive: Option<PathBuf>,
    /// Rows that are deleted by one write at most; fewer if they take long, so that no other
    /// write waits for long.
    pub slice_rows: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            keep_ms: 7 * 24 * 3_600_000,
            every_ms: 60_000,
            grace_ms: 3_600_000,
            archive: None,
            slice_rows: 1000,
        }
    }
}
