//! The one place where real time and real randomness enter.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use uuid::Uuid;
use windlass_model::{Clock, InstanceId};

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

/// A new name for an instance: time-ordered, so that the index over names grows at its end.
#[expect(clippy::disallowed_methods, reason = "this is the module that may")]
pub fn new_instance_id() -> InstanceId {
    InstanceId(Uuid::now_v7())
}
