//! Time, passed in.

use std::time::Duration;

/// The only way by which anything here learns what time it is.
///
/// Production has one implementation, in the runtime; tests drive theirs by hand.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock: milliseconds since 1970-01-01T00:00:00Z. May jump either way.
    fn wall_ms(&self) -> i64;

    /// Time since some fixed moment. Never goes back, and knows nothing of the date.
    fn monotonic(&self) -> Duration;
}
