//! Bounds how long one process keeps a run.
//!
//! A run is owned for a burst: until nothing of it is left to run here, or until the burst
//! has used up its share of steps or time. After that, its successors are written as pending, no
//! further execution begins, and the commit after which none is in progress gives the run
//! back. Then any process may claim it, this one included.

use std::time::Duration;

/// The limits of a burst. Every field is in the configuration reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstBounds {
    /// Commits of one run in a row. At least 1.
    pub steps: u32,
    /// Milliseconds since the run was claimed. At least 1.
    pub time_ms: u64,
}

impl Default for BurstBounds {
    fn default() -> Self {
        Self {
            steps: 10_000,
            time_ms: 5_000,
        }
    }
}

/// The current burst of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst {
    steps: u32,
    began: Duration,
    over: bool,
}

impl Burst {
    /// A burst that begins at this monotonic time.
    pub(crate) fn begin(now: Duration) -> Self {
        Self {
            steps: 0,
            began: now,
            over: false,
        }
    }

    /// Counts a commit. A burst that is over stays over.
    pub(crate) fn count(&mut self, bounds: BurstBounds, now: Duration) {
        self.steps = self.steps.saturating_add(1);
        let lasted = now.saturating_sub(self.began);
        self.over |= self.steps >= bounds.steps || lasted >= Duration::from_millis(bounds.time_ms);
    }

    /// Whether the burst has used up its share.
    pub(crate) fn is_over(self) -> bool {
        self.over
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Burst, BurstBounds};

    const BOUNDS: BurstBounds = BurstBounds {
        steps: 3,
        time_ms: 100,
    };

    /// `expected` says after which of the commits at these milliseconds a burst that began at 1,000
    /// is over.
    fn check(commits_ms: &[u64], expected: &[bool]) {
        let mut burst = Burst::begin(Duration::from_secs(1));
        let over = commits_ms.iter().map(|ms| {
            burst.count(BOUNDS, Duration::from_millis(*ms));
            burst.is_over()
        });
        assert_eq!(over.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_burst_ends_with_its_steps() {
        check(&[1_000, 1_001, 1_002, 1_003], &[false, false, true, true]);
    }

    #[test]
    fn a_burst_ends_with_its_time() {
        check(&[1_050, 1_100], &[false, true]);
    }

    #[test]
    fn an_ended_burst_stays_ended() {
        check(&[1_100, 1_001], &[true, true]);
    }
}
