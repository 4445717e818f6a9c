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
    #[cfg(test)]
    if let Some(id) = simulated::next() {
        return id;
    }
    RunId(Uuid::now_v7())
}

/// The ids of a simulation: they spread retries, so they come from its seed.
#[cfg(test)]
pub(crate) mod simulated {
    use std::cell::Cell;

    use windlass_model::RunId;

    thread_local! {
        static IDS: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
    }

    /// Takes the ids on this thread from a seed, from the first.
    pub(crate) fn begin(seed: u64) {
        IDS.set(Some((seed, 0)));
    }

    pub(super) fn next() -> Option<RunId> {
        let (seed, count) = IDS.get()?;
        IDS.set(Some((seed, count + 1)));
        let mut random = [0; 10];
        random[..8].copy_from_slice(&seed.to_be_bytes());
        let id = uuid::Builder::from_unix_timestamp_millis(count, &random);
        Some(RunId(id.into_uuid()))
    }
}
