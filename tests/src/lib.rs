//! What the end-to-end tests and the benchmarks share.

pub mod bench;
pub mod harness;
