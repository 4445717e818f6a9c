//! Keeps ended runs for a while, archives them, and deletes them.
//!
//! One process at a time does this for all processes on a store. It works in slices: each is a
//! separate write with a limited number of rows, so that other writes never wait long. An
//! interrupted round is continued by the next round.

mod archive;
mod line;
mod service;
mod sweeper;
#[cfg(test)]
mod tests;

pub(crate) use service::start;
pub use sweeper::{Round, Sweeper};

use std::path::PathBuf;

/// The settings of retention.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a run is kept after it has ended, in milliseconds.
    pub keep_ms: u64,
    /// The interval between rounds, in milliseconds. At least 1.
    pub every_ms: u64,
    /// How long an unreferenced large value is kept, in milliseconds: a new run may be about to
    /// refer to it.
    pub grace_ms: u64,
    /// The directory in which runs are archived before they are deleted, a file for each day on
    /// which they ended. None: runs are not archived.
    pub archive: Option<PathBuf>,
    /// The limit of rows that one write deletes. Slow writes delete fewer, so that no other write
    /// waits long.
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
