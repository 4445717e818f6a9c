//! When work happens: a state machine without I/O, and the thread that drives it.

pub mod core;
pub(crate) mod driver;
