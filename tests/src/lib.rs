//! The shared code of the end-to-end tests and the benchmarks.

pub mod bench;
pub mod harness;
