//! Time, passed in.

use std::time::Duration;

/// The only source of time in this crate.
///
/// Production has one implementation, in the runtime; tests set theirs by hand.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock: milliseconds since 1970-01-01T00:00:00Z. May jump either way.
    fn wall_ms(&self) -> i64;

    /// Time since a fixed moment. Never goes back, and is independent of the date.
    fn monotonic(&self) -> Duration;
}
