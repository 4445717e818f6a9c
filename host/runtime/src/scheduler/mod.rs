//! When something happens: a state machine without any I/O, and the thread that drives it.

pub mod core;
pub(crate) mod driver;
