//! The engine, seen from outside.

mod graphs;
mod hostile;
mod kit;
mod properties;
mod runs;
mod wild;
