//! The only module that reads the real time and real randomness.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use uuid::Uuid;
use windlass_model::{Clock, RunId};

/// The clock of the machine.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time begins now.
    #[expect(clippy::disallowed_methods, reason = "this is the module that may")]
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the module that may")]
    fn wall_ms(&self) -> i64 {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let wall_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        wall_ms.saturating_add(windlass_model::failpoint::wall_offset_ms())
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A new id for a run: ordered by time, so that the index over ids grows at its end.
#[expect(clippy::disallowed_methods, reason = "this is the module that may")]
pub fn new_run_id() -> RunId {
    RunId(Uuid::now_v7())
}
